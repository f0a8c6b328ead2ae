"""The words behind a number: units that measure, words that change the number, and words that say what it counts."""

import re

# Every spelling beside the unit that it names; two answers in different units are different answers.
UNITS = {
    word: names.split()[0]
    for names in (
        "mm millimeter millimetre; cm centimeter centimetre; dm decimeter decimetre; m meter metre; km kilometer"
        " kilometre; in inch inches; ft foot feet; yd yard; mi mile; mg milligram; g gram; kg kilogram; lb pound;"
        " oz ounce; t ton tonne; ms millisecond; s sec second; min minute; h hr hour; d day; week; month; yr year;"
        " mL ml milliliter millilitre; L l liter litre; gal gallon; dollar; cent; euro; mph; kph kmph; N newton;"
        " J joule; W watt; V volt; Hz hertz; K kelvin; rad radian; deg degree"
    ).split(";")
    for word in names.split()
}
_POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
# With these words it is another number, or none: 5 thousand, 5 or more, 5 modulo 7, about 5.
_CHANGING = frozenset(
    "or and not to of by in if when unless for mod modulo base over plus minus times point pi factorial squared cubed"
    " more less least most otherwise half halves third thirds quarter quarters dozen dozens hundred hundreds thousand"
    " thousands million millions billion billions about approximately approx roughly nearly almost around".split()
)


def unit_of(words: str, power: str = "") -> str | None:
    """The unit that `words` (and a `power` like ^2 behind them) name, as "cm^2" or "km/h"; "" when they only say what
    is counted, as "ways" does; None when they change the number."""
    said = re.findall(r"[A-Za-z]+|/|\^\{?[23]", words + power)
    units: list[str] = []
    before = ""  # a power that stands before its unit
    for index, word in enumerate(said):
        names = (word, word.lower(), word.lower().removesuffix("s"))
        known = next((UNITS[name] for name in names if name in UNITS), None)
        raised = _POWERS.get(word.lower()) or (word[0] == "^" and word[-1])
        if raised and units and (word[0] == "^" or word.endswith("d")):
            units[-1] += f"^{raised}"
        elif raised and len(said) > 1:
            before = f"^{raised}"
        elif word.lower() in _CHANGING and not (word == "in" and set(said[:index]) <= set(_POWERS)):
            return None
        elif word in ("/", "per"):
            units.append("/")
        else:
            if not known:  # it measures nothing, so that all the words count: square units, ways
                return "" if _CHANGING.isdisjoint(map(str.lower, said)) else None
            units.append(known + before)
            before = ""
    return "".join(units)
