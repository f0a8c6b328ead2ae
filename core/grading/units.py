"""Read the words after a number: units of measure, words that change the number, and nouns that are counted."""

import re
from dataclasses import dataclass
from itertools import takewhile

# The name of a unit for each of its spellings. Answers in different units are different answers.
UNITS = {
    word: names.split()[0]
    for names in (
        "mm millimeter millimetre|cm centimeter centimetre|dm decimeter decimetre|m meter metre|km kilometer"
        " kilometre|in inch inches|ft foot feet|yd yard|mi mile|mg milligram|g gram|kg kilogram|pound lb|"
        " oz ounce|t ton tonne|ms millisecond|s sec second|minute min|h hr hour|d day|week|month|yr year"
        "|mL ml milliliter millilitre|cL cl centiliter centilitre|L l liter litre|gal gallon|dollar USD|cent|euro|yen"
        "|rupee|mi/h mph|km/h kph kmph|N newton|J joule|W watt|V volt|Hz hertz|K kelvin|rad radian|deg degree"
    ).split("|")
    for word in names.split()
}
_POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
# Words that change the number or withdraw it: 5 thousand, 5 or more, 5 modulo 7, about 5, 5 is wrong.
CHANGING = frozenset(
    "or and not to by in if when unless for mod modulo base over plus minus times point pi factorial squared cubed"
    " less fewer least most otherwise out percent above below under increase decrease loss negative negatives half"
    " halves third thirds quarter quarters fifth fifths sixth sixths seventh sevenths eighth eighths ninth ninths tenth"
    " tenths hundredth hundredths thousandth thousandths millionth millionths tens couple couples pair pairs score"
    " scores dozen dozens hundred hundreds thousand thousands lakh lakhs million millions crore crores billion billions"
    " trillion trillions that which it about approximately approx roughly nearly almost around no never"
    " without except is are was were be has have does can may must should would could seems looks works fails always"
    " perhaps sometimes this thus yes wrong incorrect false".split()
)
# Words that do not change the number: 5 units, 5 altogether.
_EMPTY = frozenset("unit units exactly precisely total altogether each apiece".split())
# Words that may follow a number without a noun: 5 left.
_TAIL = frozenset("left remaining away old ago sold more".split())
_PLURALS = frozenset("people children men women mice geese teeth dice fish sheep deer pence yen".split())


@dataclass(frozen=True)
class Unit:
    """A number's unit: `measured` ("cm^2", "km/h"), words of `counted` things ("boy"), both (kg of rice) or neither."""

    measured: str = ""
    counted: frozenset[str] = frozenset()

    def agrees(self, other: "Unit") -> bool:
        """Return whether numbers with these two units can be equal. One unit may be missing, or lack some words."""
        agree = self.counted <= other.counted or other.counted <= self.counted
        return NO_UNIT in (self, other) or (agree and self.measured == other.measured)


NO_UNIT = Unit()


def unit_of(words: str, power: str = "", is_one: bool = False) -> Unit | None:
    """Return the unit that `words` name, with an optional `power` such as ^2. Returns None if the words change the
    number (5 thousand, 7 wrong) or have digits. Nouns must be plural (7 boys) unless the number is one (`is_one`)."""
    if re.search(r"(?<!\^)(?<!\^\{)[0-9]", words):
        return None
    words = re.sub(r" in (?:total|all) *\Z", "", words)
    parts = re.findall(r"[A-Za-z]+|/|\^\{?[23]", words + power)
    while parts and parts[-1].lower() in _EMPTY:
        parts.pop()
    if {word.lower() for word in parts} <= _TAIL:
        return NO_UNIT
    units: list[str] = []
    before = ""  # a power that precedes its unit
    for index, word in enumerate(parts):
        names = (word, word.lower(), word.lower().removesuffix("s"))
        known = next((UNITS[name] for name in names if name in UNITS), None)
        raised = _POWERS.get(word.lower()) or (word[0] == "^" and word[-1])
        if raised and units and (word[0] == "^" or word.endswith("d")):
            units[-1] += f"^{raised}"
        elif raised and len(parts) > 1:
            before = f"^{raised}"
        elif word.lower() in CHANGING and not (word == "in" and set(parts[:index]) <= set(_POWERS)):
            return None
        elif word in ("/", "per"):
            units.append("/")
        elif known:
            units.append(known + before)
            before = ""
        else:  # 5 kg of rice, 5 years old (in 5 day passes, passes are counted)
            rest = [each.lower() for each in parts[index:]]
            if not units or (word != "of" and any(map(_is_plural, rest))):
                return _counted(parts, is_one)
            return Unit("".join(units), frozenset(rest)) if CHANGING.isdisjoint(rest) else None
    return Unit("".join(units))


def _counted(parts: list[str], is_one: bool) -> Unit | None:
    """Return the unit of counted things, or None without a noun before "per" or "of", or if words change the number."""
    words = [word.lower() for word in parts if word[0] != "^" and word.lower() not in _EMPTY | _POWERS.keys()]
    if not CHANGING.isdisjoint(words):
        return None
    if not words:
        return NO_UNIT
    nouns = list(takewhile(lambda word: word not in ("/", "per", "of"), words))
    if not (any(map(_is_plural, nouns)) or (is_one and nouns)):
        return None
    return Unit(counted=frozenset(word.removesuffix("s") for word in words))


def _is_plural(word: str) -> bool:
    return word in _PLURALS or re.search(r"[^ius]s\Z", word) is not None
