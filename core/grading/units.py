"""Read the words after a number: units of measure, words that change the number, and nouns that are
counted."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import takewhile

# The name of a unit for each of its spellings. Answers in different units are different answers.
UNITS = {
    word: names.split()[0]
    for names in (
        "mm millimeter millimetre|cm centimeter centimetre|dm decimeter decimetre|m meter "
        "metre|km kilometer kilometre|in inch inches|ft foot feet|yd yard|mi mile|mg milligram|g "
        "gram|kg kilogram|pound lb| oz ounce|t ton tonne|ms millisecond|s sec second|minute min|h "
        "hr hour|d day|week|month|yr year|mL ml milliliter millilitre|cL cl centiliter "
        "centilitre|L l liter litre|gal gallon|dollar USD|cent|euro|yen|rupee|mi/h mph|km/h kph "
        "kmph|N newton|J joule|W watt|V volt|Hz hertz|K kelvin|rad radian|deg degree"
    ).split("|")
    for word in names.split()
}
# The size of each unit in a basic unit. Only exact sizes are listed: a month has no exact number of
# days, and there are several tons.
_SIZES = {
    name: (Fraction(size), basic)
    for name, size, basic in (
        row.split()
        for row in (
            "mm 1/1000 m|cm 1/100 m|dm 1/10 m|m 1 m|km 1000 m|in 127/5000 m|ft 381/1250 m|yd "
            "1143/1250 m|mi 201168/125 m|mg 1/1000000 kg|g 1/1000 kg|kg 1 kg|pound "
            "45359237/100000000 kg|oz 45359237/1600000000 kg|ms 1/1000 s|s 1 s|minute 60 s|h 3600 "
            "s|d 86400 s|week 604800 s|month 1 month|yr 12 month|mL 1/1000000 m^3|cL 1/100000 "
            "m^3|L 1/1000 m^3|gal 473176473/125000000000 m^3|cent 1/100 dollar|dollar 1 "
            "dollar|euro 1 euro|yen 1 yen|rupee 1 rupee"
        ).split("|")
    )
}
_FACTOR = re.compile(r"([A-Za-z]+)(?:\^([23]))?")
_POWERS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
# Words that change the number or withdraw it: 5 thousand, 5 or more, 5 modulo 7, about 5, 5 is
# wrong.
CHANGING = frozenset(
    "or and not to by in if when unless for mod modulo base over plus minus times point "
    "pi factorial squared cubed less fewer least most otherwise out percent above below "
    "under increase decrease loss negative negatives half halves third thirds quarter "
    "quarters fifth fifths sixth sixths seventh sevenths eighth eighths ninth ninths "
    "tenth tenths hundredth hundredths thousandth thousandths millionth millionths tens "
    "couple couples pair pairs score scores dozen dozens hundred hundreds thousand "
    "thousands lakh lakhs million millions crore crores billion billions trillion "
    "trillions that which it about approximately approx roughly nearly almost around no "
    "never without except is are was were be has have does can may must should would "
    "could seems looks works fails always perhaps sometimes this thus yes wrong incorrect "
    "false".split()
)
# Words that do not change the number: 5 units, 5 altogether.
_EMPTY = frozenset("unit units exactly precisely total altogether each apiece".split())
# Words that may follow a number without a noun: 5 left.
_TAIL = frozenset("left remaining away old ago sold more".split())
_PLURALS = frozenset(
    "people children men women mice geese teeth dice fish sheep deer pence yen".split()
)


@dataclass(frozen=True)
class Unit:
    """A number's unit: `measured` ("cm^2", "km/h"), words of `counted` things ("boy"), both (kg of
    rice) or neither."""

    measured: str = ""
    counted: frozenset[str] = frozenset()

    def agrees(self, other: "Unit") -> bool:
        """Return whether numbers with these two units can be equal. One unit may be missing, or
        lack some words."""
        agree = self.counted <= other.counted or other.counted <= self.counted
        return NO_UNIT in (self, other) or (agree and self.measured == other.measured)

    def ratio(self, other: "Unit") -> Fraction | None:
        """Return how many of the `other` unit this unit is: 60 for an hour in minutes.

        Returns None for other quantities, unknown sizes and other counted things."""
        mine = size_of(self.measured)
        theirs = size_of(other.measured)
        agree = self.counted <= other.counted or other.counted <= self.counted
        if not agree or not mine or not theirs:
            return None
        my_size, my_quantity = mine
        their_size, their_quantity = theirs
        return my_size / their_size if my_quantity == their_quantity else None


NO_UNIT = Unit()


Powers = tuple[tuple[str, int], ...]  # of basic units: ("m", 1), ("s", -1)


@lru_cache(maxsize=1024)
def size_of(measured: str) -> tuple[Fraction, Powers] | None:
    """Return the size of a unit such as "km/h" in powers of basic units, or None if it is
    unknown."""
    total = Fraction(1)
    powers: dict[str, int] = {}
    for index, factor in enumerate(measured.split("/")):
        unit = _FACTOR.fullmatch(factor)
        if not unit or unit[1] not in _SIZES:
            return None
        size, basic = _SIZES[unit[1]]
        name, _, basic_power = basic.partition("^")
        power = int(unit[2] or 1)
        if index > 0:  # below the slash
            power = -power
        total *= size**power
        powers[name] = powers.get(name, 0) + power * int(basic_power or 1)
    return total, tuple(sorted(powers.items()))


@lru_cache(maxsize=256)
def sizes_like(measured: str) -> tuple[Fraction, ...]:
    """Return the ratios of a unit to all units for the same quantity: 60 and 1/24, among others,
    for an hour. Returns no ratios if its size is unknown."""
    size = size_of(measured)
    if size is None:
        return ()
    power = re.search(r"\^[23]\Z", measured)
    names = [name + (power[0] if power else "") for name in _SIZES]
    if "/" in measured:
        names = [f"{name}/{per}" for name in _SIZES for per in names]
    others = filter(None, map(size_of, names))
    return tuple(size[0] / other[0] for other in others if other[1] == size[1])


_AMOUNT = re.compile(
    r"(?P<number>[0-9]+(?:\.[0-9]+)?|\\frac ?\{(?P<top>[0-9]+)\} ?\{(?P<bottom>[1-9][0-9]*)\})"
    r" ?(?P<unit>[A-Za-z]+|''|[\"'])(?: ?,)?(?: ?and(?![A-Za-z]))? ?"
)
_SHORT = {"'": "ft", '"': "in", "''": "in"}


def compound(text: str) -> tuple[Fraction, Unit] | None:
    """Return the number and unit of a quantity in several units, or None for other texts.

    "2 hours and 15 minutes" is 9/4 h. Each unit must be smaller than the unit before it."""
    text = re.sub(r"\\(?:text|textrm|mathrm|mbox) ?\{([^{}]*)\}", r" \1 ", text)
    text = re.sub(r"\s+", " ", text).strip()
    sign = -1 if text.startswith("-") else 1
    text = text.removeprefix("-").strip()
    amounts = list(_AMOUNT.finditer(text))
    if len(amounts) < 2 or "".join(amount[0] for amount in amounts) != text:
        return None
    units = [_unit_of_amount(amount["unit"]) for amount in amounts]
    total = Fraction()
    last_ratio: Fraction | None = None
    for amount, unit in zip(amounts, units, strict=True):
        ratio = unit.ratio(units[0])
        if ratio is None or (last_ratio is not None and ratio >= last_ratio):
            return None
        last_ratio = ratio
        number = f"{amount['top']}/{amount['bottom']}" if amount["top"] else amount["number"]
        total += Fraction(number) * ratio
    return sign * total, units[0]


def _unit_of_amount(word: str) -> Unit:
    return Unit(_SHORT.get(word) or _name_of(word) or "")


def _name_of(word: str) -> str | None:
    """Return the name of the unit that a word spells, or None."""
    for spelling in (word, word.lower(), word.lower().removesuffix("s")):
        if spelling in UNITS:
            return UNITS[spelling]
    return None


def unit_of(words: str, power: str = "", is_one: bool = False) -> Unit | None:
    """Return the unit that `words` name, with an optional `power` such as ^2. Returns None if the
    words change the number (5 thousand, 7 wrong) or have digits. Nouns must be plural (7 boys)
    unless the number is one (`is_one`)."""
    if re.search(r"(?<!\^)(?<!\^\{)[0-9]", words):
        return None
    words = re.sub(r" in (?:total|all) *\Z", "", words)
    parts = re.findall(r"[A-Za-z]+|/|\^\{?[23]", words + power)
    while parts and parts[-1].lower() in _EMPTY:
        parts.pop()
    if {word.lower() for word in parts} <= _TAIL:
        return NO_UNIT
    return _read_unit(parts, is_one)


def _read_unit(parts: list[str], is_one: bool) -> Unit | None:
    factors: list[str] = []
    power_before = ""  # a power that precedes its unit: square metres
    for index, word in enumerate(parts):
        name = _name_of(word)
        power = _power_of(word)
        if power and factors and (word[0] == "^" or word.endswith("d")):
            factors[-1] += power
        elif power and len(parts) > 1:
            power_before = power
        elif _changes_number(word, parts[:index]):
            return None
        elif word in ("/", "per"):
            factors.append("/")
        elif name:
            factors.append(name + power_before)
            power_before = ""
        else:
            return _with_noun(factors, parts, index, is_one)
    return Unit("".join(factors))


def _power_of(word: str) -> str:
    """Return the power that a word or sign spells, such as "^2", or ""."""
    if word[0] == "^":
        return f"^{word[-1]}"
    power = _POWERS.get(word.lower())
    return f"^{power}" if power else ""


def _changes_number(word: str, before: list[str]) -> bool:
    """Return whether a word changes the number. "in" does not if it means inches: 5 square in."""
    is_inch = word == "in" and set(before) <= set(_POWERS)
    return word.lower() in CHANGING and not is_inch


def _with_noun(factors: list[str], parts: list[str], index: int, is_one: bool) -> Unit | None:
    """Return the unit of `parts` that have a noun at `index`: 5 kg of rice, 5 years old. In 5 day
    passes, the passes are counted."""
    rest = [word.lower() for word in parts[index:]]
    if not factors or (parts[index] != "of" and any(map(_is_plural, rest))):
        return _counted(parts, is_one)
    return Unit("".join(factors), frozenset(rest)) if CHANGING.isdisjoint(rest) else None


def _counted(parts: list[str], is_one: bool) -> Unit | None:
    """Return the unit of counted things, or None without a noun before "per" or "of", or if words
    change the number."""
    words = [
        word.lower()
        for word in parts
        if word[0] != "^" and word.lower() not in _EMPTY | _POWERS.keys()
    ]
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
