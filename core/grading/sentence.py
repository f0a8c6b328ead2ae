r"""Read the number of a sentence in a box, such as \boxed{The minimum value is 42}.

Letters of a sentence are no variables. So a box with prose is no mathematics. It has an answer if
it has exactly one number (or one formula), and no word that makes the number unclear. A unit may
follow the number."""

import re
from functools import lru_cache

from core.grading.units import unit_of

_TEXT = re.compile(r"\\(?:text(?:bf|it|rm|normal)?|mbox|mathrm|operatorname) ?\{([^{}]*)\}")
_ENVIRONMENT = re.compile(r"\\(?:begin|end) ?\{[^{}]*\}(?:\{[^{}]*\})?")
# Words that belong to mathematics: functions, and words that join answers or conditions.
_FORMULA_WORDS = frozenset(
    "sin cos tan cot sec csc sinh cosh tanh arcsin arccos arctan log ln exp lim max min gcd"
    " lcm det mod bmod pmod sqrt frac pi binom deg dim ker rank cis inf sup or and if for"
    " when where".split()
)
# Short words of English. Other words of two or three letters may be products of variables, such as
# ab or xyz.
_SHORT = frozenset(
    "the is are was has had not no yes of at to by it he she we his her its they who day"
    " man men one two six ten sum per can may did does will so as an on up way add ans than"
    " then out off our my you get got let set".split()
)
_WORD = re.compile(
    r"(?<![\\A-Za-z0-9_^])(?:[A-Za-z]{3,}(?:-[a-z]{3,})+"
    r"|[A-Za-z]+(?:['’][A-Za-z]+)*)(?![A-Za-z0-9(^_]| ?=)"
)
_TRAILING = re.compile(r"(?:(?<=[\d})!])|(?<=\\pi)) ?([A-Za-z ./]+(?:\^\{?[23]\}?)?)\Z")  # a unit
_NUMBERS = re.compile(r"\d+(?:[.,]\d+)*|\\(?:pi|infty|sqrt|frac)(?![a-z])")
_PUNCTUATION = " ,.;:!=*'\"“”"
_NAME = re.compile(r"\\?[A-Za-z]{1,2}(?:_\{?\w+\}?)?'*(?:\([a-z]\))?")
_NAMES = re.compile(r"[A-Za-z][A-Za-z ]*")  # total cost
_REMARK = re.compile(r" ?\((?=[A-Za-z]{2})[^()]*\)[ .]*\Z")  # 42 (the minimum)
# Signs of two values in one piece of mathematics: 2, 3 and 6*7 = 42.
_TWO = re.compile(r"\d\s+\d|,(?!\d{3}(?!\d))|[;&=]")
# Words after a number that describe it and name no unit: 18 per day, 42 in total.
_DESCRIBES = frozenset(
    "per of in a an the each every for to on at from with is are was were that which more".split()
)
_UNCLEAR = re.compile(
    r"(?i)\b(?:not|no|never|none|neither|nor|cannot|can ?not|unable|impossible|unclear|unknown"
    r"|undefined|wrong|incorrect|mistake|error|at (?:the )?(?:very )?(?:least|most)|than|between"
    r"|up to|about|approximately|approx|roughly|nearly|almost|around|close to|over|under|above"
    r"|below|beyond|exceed\w*|within|or|nor|either|if|unless|except|without|maybe|perhaps|possibly"
    r"|probably|might|could|but|minus|negative|plus|times|twice|double|triple|half|halves|thirds?"
    r"|quarters?|fourths?|fifths?|tenths?|hundredths?|percent|factorial|roots?|squared|cubed|log\w*"
    r"|mod|modulo|base|thousands?|millions?|billions?|trillions?|dozens?|hundreds?|lakhs?|crores?"
    r"|couples?|pairs? of|scores? of|(?:squares?|cubes?|multiples?|factors?|divisors?|powers?"
    r"|products?|out|each"
    r"|one|some|any|all|most|ratio|logarithm|digits|reciprocal|inverse|opposite|complement"
    r"|successor"
    r"|predecessor|derivative|integral|conjugate|absolute value) of|until|till|even|odd|option"
    r"|choice|multiplicity)\b"
    r"|n['’]t\b|[?<>≤≥≠≈±]|\\(?:l|g|n)(?:e|eq|t)(?![a-z])|\\(?:pm|mp|approx|sim|in|equiv|to|ldots"
    r"|dots)(?![a-z])"
)
_SPELLED = re.compile(
    r"(?i)\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six"
    r"|seven|eigh|nine)teen|twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)\b"
)
# Words directly before a number that names a thing: step 3, May 5, the first 10, divisible by 3.
_NAMED = re.compile(
    r"(?i)\b(?:by|from|after|before|preceding|following|first|last|next|other|step|case|equation"
    r"|question|part|problem|day|figure"
    r"|line|example|round|type|grade|room|page|chapter|section|theorem|lemma|number|team|year|class"
    r"|level|highway|january|february|march|april|may|june|july|august|september|october|november"
    r"|december|radius|side|sides|length|order|degree|size)\W*\Z"
)
# Words by which a text is a sentence, even if one other word precedes the number.
_VERB = re.compile(
    r"(?i)\b(?:is|are|was|were|be|has|have|had|equals?|gives?|gets?|makes?|made|needs?|costs?"
    r"|takes?|there|becomes?|earns?|pays?|spends?|left|remains?|yields?|should|will|would|must)\b"
    r"|[:=]\W*\Z|\b(?:so|thus|hence|therefore|yes|finally|answer|total|sum|result|value)\b\W*\Z"
)


@lru_cache(maxsize=4096)
def is_prose(answer: str) -> bool:
    """Return whether a cleaned answer has words that neither belong to mathematics nor name its
    unit."""
    flat = _flat(answer)
    named = re.fullmatch(r"\\?[A-Za-z][A-Za-z ]* ?= ?(.*)", flat)  # total cost = 42
    flat = named[1] if named else flat
    unit = _TRAILING.search(flat)
    if unit and unit_of(unit[1].strip(" ."), "", flat[: unit.start()] == "1"):
        flat = flat[: unit.start()]
    return any(map(_is_word, _WORD.findall(flat)))


def is_sentence(answer: str) -> bool:
    """Return whether an answer of mere words is a sentence, and no name such as "no solution" or
    "Evelyn"."""
    return len(answer.split()) > 2 and _VERB.search(answer) is not None


@lru_cache(maxsize=4096)
def value_in(answer: str) -> str | None:
    r"""Return the value that a sentence in a cleaned box states, with its unit, or None.

    None means that the box is no sentence, or that its value is unclear. A value is unclear if the
    sentence has two numbers, or a word such as "not" or "at least"."""
    flat = _flat(answer)
    if _ENVIRONMENT.search(answer) or _UNCLEAR.search(flat) or _SPELLED.search(flat):
        return None
    remark = _REMARK.search(flat)
    if remark and not any(map(_is_word, _WORD.findall(remark[0]))):
        remark = None
    flat = flat[: remark.start()] if remark else flat
    words = [word for word in _WORD.finditer(flat) if len(word[0]) > 1 or word[0] in "aAI"]
    if not (remark or any(_is_word(word[0]) for word in words)):
        return None
    gaps = _between(flat, words)
    chunks = [(start, flat[start:end]) for start, end in gaps if _NUMBERS.search(flat[start:end])]
    names = [
        flat[start:end].strip(f"(){_PUNCTUATION}")
        for start, end in gaps
        if not _NUMBERS.search(flat[start:end])
    ]
    if len(chunks) != 1 or not all(_NAME.fullmatch(name) for name in names if name):
        return None
    start, chunk = chunks[0]
    core = chunk.strip(_PUNCTUATION)
    at = start + chunk.index(core)
    before = flat[:at]
    behind = flat[at + len(core) :]
    name, equals, value = core.partition("=")
    is_named = equals and (_NAME.fullmatch(name.strip()) or _NAMES.fullmatch(name.strip()))
    value = value.strip() if is_named else core
    if _TWO.search(value) or not (is_named or remark or _is_value_of(before, behind, words)):
        return None
    return _with_unit(value, behind)


def _flat(answer: str) -> str:
    """Return an answer without TeX's text commands and environments."""
    return re.sub(r"\s+", " ", _TEXT.sub(r" \1 ", _ENVIRONMENT.sub(" ", answer))).strip()


def _is_word(word: str) -> bool:
    """Return whether letters are a word of English, and neither a product, a name of points nor a
    function."""
    return all(map(_is_english, word.split("-")))


def _is_english(word: str) -> bool:
    if word.lower() in _FORMULA_WORDS or (word.isupper() and len(word) < 5):
        return False
    is_name = re.fullmatch("[A-Z][a-z]{2}", word) is not None  # Tom, but not aBc
    return len(word) > 3 or word.lower() in _SHORT or is_name


def _between(text: str, words: list[re.Match[str]]) -> list[tuple[int, int]]:
    """Return the spans of `text` between its `words`."""
    starts = [0, *(word.end() for word in words)]
    ends = [*(word.start() for word in words), len(text)]
    return list(zip(starts, ends, strict=True))


def _is_value_of(before: str, behind: str, words: list[re.Match[str]]) -> bool:
    """Return whether a number is the value of its sentence: words precede it, or a verb or several
    words follow it."""
    leading = [word for word in words if word.start() < len(before)]
    if not leading:
        return bool(_VERB.search(behind) or len(words) > 2)
    return not _NAMED.search(before) and bool(len(leading) > 1 or _VERB.search(before))


def _with_unit(value: str, after: str) -> str:
    """Add the unit that begins the text after a `value`, if there is one."""
    behind = re.match(r" ?((?:[A-Za-z]+ ?){1,3})", after)
    words = behind[1].split() if behind else []
    if not words or words[0].lower() in _DESCRIBES or not re.fullmatch(r"[-+]?[\d.,]+", value):
        return value
    for end in range(len(words), 0, -1):
        if unit_of(" ".join(words[:end]), "", value == "1") is not None:
            return rf"{value}\text{{ {' '.join(words[:end])}}}"
    return value
