r"""Compare two mathematical answers strictly, with math-verify's LaTeX parser. Either order gives
the same result.

Only the judge's child process (core/grading/judge.py) imports this module, because sympy may hang.
The parser drops bases, degrees, units and primes, and reads the segment AC as A times C. So this
module first splits an answer into parts, such as a name, a unit and the members of a list. Only the
expressions in these parts go to the parser.

Rational constants are compared exactly. Others must agree in 30 of 50 digits and, without sums and
integrals, in 450 of 500 digits. Expressions with variables must agree at fixed random points. Sets
are compared member by member."""

import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from operator import add
from typing import Any

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy
from sympy.core.function import AppliedUndef

from core.grading.units import NO_UNIT, Unit, compound, unit_of

# (digits computed, digits that must agree): the first pair decides most comparisons
DIGITS = ((50, 30), (500, 450))
POINTS = 16  # fixed random points at which expressions with variables are compared
MAX_MEMBERS = 60  # most members of a list or set (an answer with a longer one is compared as text)
MAX_SIGNS = 4  # plus-minus signs in one expression


class Unreadable(Exception):
    """The error for a text that this module cannot read as mathematics."""


@dataclass(frozen=True)
class Answer:
    """An answer in parts. The `kind` "value" has a sympy object as `value`. The kind "relation" has
    a tuple of sympy relations, which all hold. Other kinds have `members`: "list" (1, 2 without
    brackets), "set" (in braces, with ±, or joined by "or" or "and"), "ratio" (1:2:3), "union" and
    "row". A "row" is a point, an interval or a time of day, with `brackets` such as "[)" or "pm".
    `name` is a name on one side of an equals sign, or before ∈. `text` is the LaTeX of a
    "value"."""

    kind: str
    value: Any = None
    members: tuple["Answer", ...] = ()
    brackets: str = ""
    name: str = ""
    unit: Unit = NO_UNIT
    text: str = ""


def equal(answer: str, truth: str) -> bool:
    """Return whether two LaTeX answers, cleaned by boxed.py, are equal. If one is unreadable,
    compare their tokens."""
    try:
        mine, theirs = _alternatives(answer, truth)
        return any(guarded(same, a, b) for a, b in product(mine, theirs))
    except (Unreadable, RecursionError):
        return _letters(answer) == _letters(truth)


def readable(text: str) -> bool:
    """Return whether a cleaned answer can be compared by meaning, not only by spelling."""
    try:
        found = read(text)
        return guarded(same, found, found) is True
    except (Unreadable, RecursionError):
        return False


def read(text: str) -> Answer:
    """Read a cleaned answer. Raises Unreadable if it is not mathematics."""
    if (quantity := compound(text)) is not None:
        number, unit = quantity
        return Answer("value", sympy.Rational(number.numerator, number.denominator), unit=unit)
    return _read(_spell(text))


def _letters(text: str) -> list[str]:
    """Return the tokens of a text that cannot be read, without spaces and without braces around
    single tokens."""
    token = r"\\[A-Za-z]+|[0-9]+|\S"
    for _ in range(3):
        text = re.sub(rf"(?<!\\)\{{\s*({token})\s*\}}", r" \1 ", text)
    return re.findall(token, text)


def _alternatives(*texts: str) -> list[list[Answer]]:
    """List the possible answers of each text. If only one text has a degree or per cent sign, it is
    also read without the sign. Texts with sin, cos and the like keep the sign, because sin 1 is not
    the sine of one degree. A text also keeps it if the other text has a unit (30 rad). A per cent
    sign stays in a list, or before more text."""
    readings = [[read(text)] for text in texts]
    texts = tuple(map(_spell, texts))
    for sign, kept in _KEPT.items():
        for mine, theirs in ((0, 1), (1, 0)):
            is_alone = sign in texts[mine] and sign not in texts[theirs]
            if is_alone and not kept.search(texts[mine]) and readings[theirs][0].unit == NO_UNIT:
                readings[mine].append(_read(texts[mine].replace(sign, "")))
    for text, found in zip(texts, readings, strict=True):
        if power := _SMALL.fullmatch(text):  # 3e-4 is a number, or 3e minus 4
            found.append(_read(_power_of_ten(power)))
    return readings


# --- spelling ---

_SYMBOLS = str.maketrans(
    {
        "π": r"\pi ",
        "∞": r"\infty ",
        "×": r"\times ",
        "·": r"\cdot ",
        "⋅": r"\cdot ",
        "÷": r"\div ",
        "√": r"\sqrt ",
    }
    | {
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "±": r"\pm ",
        "∪": r"\cup ",
        "∩": r"\cap ",
        "∅": r"\emptyset ",
    }
    | {"∈": r"\in ", "≈": r"\approx ", "°": r"^\circ ", "θ": r"\theta ", "′": "'", "*": r"\cdot "}
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SAME_COMMAND = {
    "dbinom": r"\binom", "tbinom": r"\binom", "varnothing": r"\emptyset", "leqslant": r"\le", (
        "geqslant"
    ): (
        r"\ge"
    ),
    "leq": r"\le", "geq": r"\ge", "lt": "<", "gt": ">", "neq": r"\ne", "lbrace": r"\{", "rbrace": (
        r"\}"
    ), (
        "lvert"
    ): (
        "|"
    ),
    "rvert": "|", "vert": "|", "lbrack": "[", "rbrack": "]", "langle": "(", "rangle": ")", "lor": (
        " or "
    ), (
        "vee"
    ): (
        " or "
    ),
    "land": " and ", "wedge": " and ", "colon": ":", "backslash": r"\setminus", "bmod": r"\mod", (
        "ast"
    ): (
        r"\cdot"
    ),
    "big": "", "Big": "", "bigl": "", "bigr": "", "Bigl": "", "Bigr": "", "bigg": "", "Bigg": "", (
        "biggl"
    ): (
        ""
    ),
    "biggr": "", "displaylimits": "", "nolimits": "", "dots": r"\ldots", "cdots": r"\ldots", (
        "prime"
    ): (
        "'"
    ),
    "longrightarrow": r"\to", "rightarrow": r"\to",
}  # fmt: skip
_FUNCTIONS = (
    "arcsin|arccos|arctan|arccot|arcsec|arccsc|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc|log|ln|exp|gcd|lcm|max|min|det|"
    "sqrt|pi|binom"
)
_ANGLED = r"\\(?:arc)?(?:sin|cos|tan|cot|sec|csc)"
_KEPT = {r"^\circ": re.compile(_ANGLED), r"\%": re.compile(rf"{_ANGLED}|[,;]|(?<!\\%)\Z")}
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_PERIOD = re.compile(
    r"([0-9]*)\.([0-9]*)(?:\\(?:overline|bar|dot|overdot)\s*(?:\{([0-9]+)\}|([0-9]))"
    r"|\(([0-9]+)\))(?![0-9])"
)
_BASE = re.compile(
    r"(?<![A-Za-z0-9_.}^,\\])(?:([0-9][0-9A-F]*)|\(([0-9][0-9A-F]*)\)"
    r"|\\text\s?\{([0-9A-F]+)\})\s?_\s?"
    r"(?:([2-9])|\{\s?\(?([1-9][0-9]?)\)?\s?\}|\{?\s?(?:\\text\s?)?\{\s?(two|three|four|five|six"
    r"|seven|eight|nine|"
    r"ten)\s?\}\s?\}?)(?![0-9])"
)
_BASE_WORDS = {
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
}
_SCIENTIFIC = re.compile(
    r"(?<![A-Za-z0-9.\\])(?:(\d+\.\d+|1)e([-+]?\d+)|(\d+)e(\d+)|(\d+(?:\.\d+)?)E([-+]?\d+))(?!\w)"
)
_SMALL = re.compile(r"(-?[0-9]+)e(-[0-9]+)")
# 7^\circ 30'
_MINUTES = re.compile(r"([0-9]+)\^\\circ\s*([0-9]+)\s?'(?!')(?:\s*([0-9]+)\s?(?:''|\"))?")
_TIMES = re.compile(r"(?<=[0-9])\s*x\s*(?=10\s*\^)")  # 1.5 x 10^3
_OUTWARD = re.compile(  # ]1, 2[ is (1, 2)
    r"([\[\]])((?:[^\[\]()]|\([^\[\]()]*\))*[,;](?:[^\[\]()]|\([^\[\]()]*\))*)([\[\]])"
)
_CLOCK = re.compile(r"([0-9]{1,2})(?::([0-9]{2}))? ?(?:\\text ?\{ ?)?([AaPp])\.? ?[Mm]\.? ?\}?")
_THOUSANDS = re.compile(r"(?<![0-9,.])(?!0,)[0-9]{1,3}(?:,[0-9]{3})+(?![0-9,])")
# Letters that form one name: capitals (AC is a segment, not A times C), I alone, and words of four
# letters or more.
_NAMES = re.compile(r"(?<![A-Za-z\\{])(?:[A-Z]{2,}|I|(?<![^ ])[A-Za-z]{4,})(?![A-Za-z])")
_REFUSED = re.compile(
    r"\\(?:equiv|pmod|sim|simeq|propto|to|mapsto|ldots|Rightarrow|implies|iff|cong|perp|parallel"
    r"|mp|pm(?=.*\\pm.*\\mp))"
    r"(?![A-Za-z])|(?<![_^])[0-9.]\s+[0-9.]|[0-9]\.[0-9]+\.[0-9]|!!|[0-9]\s*_|[\"`@#;']"
    r"|\^\s*\{?\s*(?:T|\\top|\\intercal)(?![A-Za-z])"  # the parser drops it
)


def _spell(text: str) -> str:
    """Replace synonyms, and shorthand that the parser drops or misreads, by one LaTeX spelling."""
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", lambda raised: "^{" + raised[0].translate(_RAISED) + "}", text)
    text = text.translate(_SYMBOLS)
    text = _COMMAND.sub(lambda command: _SAME_COMMAND.get(command[1], command[0]), text)
    text = re.sub(rf"(?<![A-Za-z\\{{])(?!min\Z)({_FUNCTIONS})(?![A-Za-z])", r"\\\1 ", text)
    text = re.sub(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})", r"^\\circ", text)
    text = re.sub(r"(?<=[0-9})]) ?(?:\\text\s?\{\s*degrees?\s*\}|\bdegrees?\b)", r"^\\circ", text)
    text = re.sub(r"(?<!\\)%", r"\\%", text)
    text = re.sub(r"\\\{\s*\\\}", r"\\emptyset", text)
    text = re.sub(
        r"([A-Za-z])('+)", lambda prime: prime[1] + "_{prime" + str(len(prime[2])) + "}", text
    )
    text = _MINUTES.sub(_degrees_with_minutes, text)
    text = _TIMES.sub(r"\\times ", text)
    text = _OUTWARD.sub(_with_round_brackets, text)
    text = _PERIOD.sub(_fraction_of_period, text)
    text = _BASE.sub(_in_base_ten, text)
    text = _SCIENTIFIC.sub(_power_of_ten, text)
    return text.strip()


def _with_round_brackets(interval: re.Match[str]) -> str:
    left, content, right = interval.groups()
    return ("(" if left == "]" else "[") + content + (")" if right == "[" else "]")


def _degrees_with_minutes(angle: re.Match[str]) -> str:
    degrees, minutes, seconds = (int(part or 0) for part in angle.groups())
    return rf"(\frac{{{degrees * 3600 + minutes * 60 + seconds}}}{{3600}})^\circ"


def _fraction_of_period(match: re.Match[str]) -> str:
    whole, fixed, *periods = match.groups()
    period = next(p for p in periods if p)
    number = int((whole or "0") + fixed + period) - int((whole or "0") + fixed)
    return rf"(\frac{{{number}}}{{{10 ** len(fixed) * (10 ** len(period) - 1)}}})"


def _in_base_ten(match: re.Match[str]) -> str:
    digits = next(d for d in match.groups()[:3] if d)
    base = int(match[4] or match[5] or _BASE_WORDS[match[6]])
    try:
        return str(int(digits, base))
    except ValueError:  # a digit is too large for the base, or the base is not from 2 to 36
        raise Unreadable from None


def _power_of_ten(match: re.Match[str]) -> str:
    factor, power = (group for group in match.groups() if group)
    return rf"({factor}\cdot 10^{{{power}}})"


# --- taking apart ---

_TOKEN = re.compile(r"\\(?:begin|end)\s?\{[a-z*]+\}|\\[A-Za-z]+|\\[\s\S]|[\s\S]")
_OPEN, _CLOSE = (
    {"{", "(", "[", r"\{", r"\lfloor", r"\lceil"},
    {"}", ")", "]", r"\}", r"\rfloor", r"\rceil"},
)
_RELATIONS = {
    "=": sympy.Eq,
    "<": sympy.Lt,
    ">": sympy.Gt,
    r"\le": sympy.Le,
    r"\ge": sympy.Ge,
    r"\ne": sympy.Ne,
}
_LETTER = r"(?:\\[A-Za-z]+|[A-Za-z])(?:_(?:\{[^{}]*\}|[A-Za-z0-9]))?"
_WORD = r"(?:[A-Z]{2,}|(?:\\text\s?\{[A-Za-z ]+\}|[A-Za-z]{4,})(?: [A-Za-z]+)*)"
_NAME = re.compile(
    rf"(?:\\(?:angle|triangle|overline)\s?)?\{{?(?:{_WORD}|{_LETTER})\}}?"
    rf"(?:\((?:{_LETTER}|[0-9]+)(?:, ?(?:{_LETTER}|[0-9]+))*\))?"
    rf"|\(\s?{_LETTER}(?:\s?,\s?{_LETTER})+\s?\)|\| ?(?:{_WORD}|{_LETTER}) ?\||\[ ?[A-Z]{{3,}} ?\]"
    r"|\\(?:gcd|lcm|max|min)\s*\([^()=]*[A-Za-z][^()=]*\)"
)
_TRAILING = re.compile(
    r"^(?P<value>.*[^\s,;])(?:\s*,)?\s*"
    r"(?:\\(?:text|mathrm|mbox|textrm|textnormal|textit"
    r"|rm)\s?\{(?P<text>[A-Za-z .,/()\\^0-9{}-]*?)\}"
    r"|(?<=[\s})0-9])(?P<bare>(?<=\s)(?:[a-z]{4,}|day|men|way|yen)(?:[ ](?:[a-z]{4,}|[a-z]{2}))*"
    r"|(?:(?:sq|cu|square|cubic)\s)?(?:[cmk]m|mm|kg|ft|mph|min|sec|hrs?|lbs?|oz|yd|mL)))"
    r"(?P<power>\s?\^\s?(?:[23]|\{\s?[23]\s?\}))?$"
)


def _tokens(text: str) -> list[tuple[str, int]]:
    """Return each token of `text` with the number of brackets around it. Brackets may be mixed, as
    in [1,2). Raises Unreadable if brackets do not balance."""
    found, depth = [], 0
    for token in _TOKEN.findall(text):
        opens = token in _OPEN or token.startswith(r"\begin")
        depth -= token in _CLOSE or token.startswith(r"\end{") or token.startswith(r"\end ")
        found.append((token, depth))
        depth += opens
    if depth:
        raise Unreadable
    return found


def _split(text: str, *separators: str) -> tuple[list[str], list[str]]:
    """Split `text` at `separators` outside brackets. Returns the parts and the separators."""
    parts, between = [""], []
    for token, depth in _tokens(text):
        if depth == 0 and token in separators:
            between.append(token)
            parts.append("")
        else:
            parts[-1] += token
    return [part.strip() for part in parts], between


def _inside(text: str) -> tuple[str, str] | None:
    """Return the brackets around the whole text, such as "[)", and their content, or None if none
    enclose it."""
    tokens = _tokens(text)
    first, last = tokens[0][0], tokens[-1][0]
    if first not in ("(", "[", r"\{", "{") or last not in (")", "]", r"\}", "}"):
        return None
    if any(depth == 0 for _, depth in tokens[1:-1]):
        return None
    return first[-1] + last[-1], text[len(first) : -len(last)].strip()


@lru_cache(maxsize=4096)
def _read(text: str) -> Answer:
    text = re.sub(r"\\text\s?\{\s*(or|and)\s*\}", r" \1 ", text).strip()
    if not text:
        raise Unreadable
    for word in ("or", "and"):
        joined = re.sub(rf",?(?<![A-Za-z\\])\b{word}\b(?![A-Za-z])", "\0", text)
        if "\0" in joined:
            return _joined(_split(joined, "\0", ",")[0], word)
    if clock := _CLOCK.fullmatch(text):
        hour, minute = (Answer("value", sympy.Integer(part or 0)) for part in clock.groups()[:2])
        return Answer("row", members=(hour, minute), brackets=clock[3].lower() + "m")
    text = (
        _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
        if not _inside(text)
        else text
    )
    for kind, *separators in (("list", ",", ";"), ("union", r"\cup")):
        parts, _ = _split(text, *separators)
        if len(parts) > 1:
            return _of_members(kind, parts)
    if around := _inside(text):
        brackets, content = around
        parts = _split(content, ",", ";")[0]
        if text.startswith(r"\{"):
            return _set(content, parts)
        if len(parts) > 1:
            return replace(_of_members("row", parts), brackets=brackets)
        if brackets in ("()", "{}"):
            return _read(content)
        inner = _read(content)
        if inner.kind == "value" and inner.value.free_symbols:  # [x] may be x rounded down
            raise Unreadable
    return _statement(text)


def _of_members(kind: str, parts: Sequence[str]) -> Answer:
    if len(parts) > MAX_MEMBERS or not all(parts):
        raise Unreadable
    members: list[Answer] = []
    for part in parts:
        member = _read(part)
        members += (
            member.members
            if member.kind == "set" and kind == "list" and r"\pm" in part
            else [member]
        )
    return Answer(kind, members=tuple(members))


def _joined(parts: Sequence[str], word: str) -> Answer:
    """Join the answers that `word` ("or" or "and") separates. Raises Unreadable if values and
    relations are mixed."""
    whole = _of_members("set", parts)
    are_relations = {member.kind == "relation" for member in whole.members}
    if are_relations == {False}:
        return whole
    if len(are_relations) > 1:
        raise Unreadable
    if word == "or":
        return replace(whole, kind="union")
    return Answer(
        "relation", tuple(relation for member in whole.members for relation in member.value)
    )


def _set(content: str, parts: Sequence[str]) -> Answer:
    builder = re.fullmatch(
        rf"({_LETTER})\s*(?:\\in\s*\\mathbb\s?\{{R\}}|\\in\s*\\R)?\s*(?:\\mid|\||:)(.+)", content
    )
    if not builder:
        return _of_members("set", parts)
    condition = _read(builder[2].strip())
    if condition.kind not in ("relation", "union"):
        raise Unreadable
    return condition


def _statement(text: str) -> Answer:
    """Read an expression, an equation or an inequality. A name may precede it, and a unit may
    follow it."""
    text, *rounded = _split(text, r"\approx")[0]
    if rounded and _NAME.fullmatch(text):  # x ≈ 1.41, but √2 ≈ 1.41 is read as √2
        text = rounded[0]
    name, *sets = _split(text, r"\in")[0]
    if len(rounded) > 1 or len(sets) > 1 or (sets and not _NAME.fullmatch(name)):
        raise Unreadable
    if sets:
        return replace(_read(sets[0]), name=_name(name))
    parts, signs = _split(text, *_RELATIONS)
    if not signs:
        parts, _ = _split(text, ":")
        return _of_members("ratio", parts) if len(parts) > 2 else _value(text)
    if not all(parts):
        raise Unreadable
    if set(signs) != {"="}:
        sides = [_expression(part) for part in parts]
        pairs = zip(sides, signs, sides[1:], strict=False)
        return Answer(
            "relation", tuple(_RELATIONS[sign](a, b, evaluate=False) for a, sign, b in pairs)
        )
    if len(parts) == 2 and _NAME.fullmatch(parts[1]) and not _NAME.fullmatch(parts[0]):
        parts.reverse()
    name = parts[0] if _NAME.fullmatch(parts[0]) else ""
    values = [_read(part) for part in (parts[1:] if name else parts)]
    # x = 84/2 = 42 is a value, but 2x = 10 is an equation
    if all(same(value, values[-1]) for value in values[:-1]):
        return replace(values[-1], name=_name(name)) if not values[-1].name else values[-1]
    if len(parts) > 2 or name:
        raise Unreadable
    return Answer(
        "relation", (sympy.Eq(_expression(parts[0]), _expression(parts[1]), evaluate=False),)
    )


def _name(text: str) -> str:
    return re.sub(r"\\text|[\s{}]", "", text)


def _value(text: str) -> Answer:
    unit, remark = NO_UNIT, False
    if (found := _TRAILING.match(text)) and (found["text"] is not None or found["bare"]):
        named = unit_of(
            found["text"] or found["bare"] or "",
            found["power"] or "",
            found["value"].strip() == "1",
        )
        if named is None:
            raise Unreadable
        text, unit, remark = found["value"].strip(), named, not named.measured
    if residue := re.fullmatch(r"(-?[0-9]+) ?\\pmod ?\{?([0-9]+)\}?", text):
        if not int(residue[2]):
            raise Unreadable
        return Answer(
            "value",
            sympy.Integer(int(residue[1]) % int(residue[2])),
            unit=Unit(f"mod {int(residue[2])}"),
        )
    if text.endswith(r"\%"):
        whole = _value(text.removesuffix(r"\%"))
        if whole.kind != "value" or not isinstance(whole.value, sympy.Expr):
            raise Unreadable
        return replace(whole, value=whole.value / 100, unit=unit, text=text)
    if signs := len(re.findall(r"\\(?:pm|mp)(?![A-Za-z])", text)):
        if signs > MAX_SIGNS:
            raise Unreadable
        return Answer("set", members=tuple(map(_value, _with_signs(text))), unit=unit)
    value = _expression(text)
    if remark and getattr(value, "free_symbols", True):  # "n is even" is not the answer n
        raise Unreadable
    return Answer("value", value, unit=unit, text=text)


def _with_signs(text: str) -> list[str]:
    r"""Return a copy of `text` for each choice of signs for \pm. If the text has a \mp, all signs
    change together."""
    pieces = re.split(r"\\pm(?![A-Za-z])", text)
    if r"\mp" in text:
        return [one.join(pieces).replace(r"\mp", other) for one, other in ("+-", "-+")]
    return [
        "".join(map(add, pieces, (*signs, ""))) for signs in product("+-", repeat=len(pieces) - 1)
    ]


# --- expressions ---


@lru_cache(maxsize=4096)
def _expression(text: str) -> Any:
    """Parse one LaTeX expression into a sympy object with exact numbers. Raises Unreadable if this
    fails."""
    try:
        text = _with_braces(re.sub(r"\\sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}", text))
        if _REFUSED.search(text) or not text.strip():
            raise Unreadable
        text = re.sub(
            r"(?<=\{)[0-9]{1,3}(?:,[0-9]{3})+(?=\})",
            lambda number: number[0].replace(",", ""),
            text,
        )
        text = re.sub(r"^([^{}]*?)\s*\\choose\s*([^{}]*)$", r"\\binom{\1}{\2}", text)
        text = _NAMES.sub(lambda name: rf"\text{{{name[0]}}}", text)
        # The parser would read 2(3) and 3\frac{4}{2} as mixed numbers, so add a multiplication
        # sign.
        text = re.sub(r"(?<![_^0-9.])([0-9]+(?:\.[0-9]+)?)\s*(?=\()", r"\1\\cdot ", text)
        text = re.sub(r"(\)|\\frac\{[0-9]+\}\{[0-9]+\})\s*(?=\\frac)", r"\1\\cdot ", text)
        text = re.sub(r"(?<=[0-9])\s*\\frac\{([0-9]+)\}\{([0-9]+)\}", _mixed, text)
        config = ConversionConfig(lowercase_symbols=False)
        value = latex2sympy(
            text,
            is_real=True,
            convert_degrees=True,
            normalization_config=None,
            conversion_config=config,
        )
        return _exact(value)
    except (MemoryError, Unreadable):
        raise
    except Exception:  # the parser and sympy raise many kinds of errors
        raise Unreadable from None


def _mixed(fraction: re.Match[str]) -> str:
    return fraction[0] if int(fraction[1]) < int(fraction[2]) else rf"\cdot{fraction[0]}"


def _with_braces(text: str) -> str:
    r"""Add braces around arguments, as in \frac12 and \sqrt2. Raises IndexError or ValueError if
    one is missing."""
    groups: list[list[str]] = [[]]  # the parts of each open group, from right to left

    def argument(parts: list[str]) -> str:
        while parts[-1].isspace():
            parts.pop()
        part = parts.pop()
        return part if part[0] == "{" else f"{{{part}}}"

    for token in reversed(_TOKEN.findall(text)):
        if token == "}":
            groups.append([])
            continue
        if token == "{":
            token = "{" + "".join(reversed(groups.pop())) + "}"
        parts = groups[-1]
        if token in (r"\frac", r"\binom"):
            token += argument(parts) + argument(parts)
        elif token == r"\sqrt":
            if parts[-1] == "[":
                while not token.endswith("]"):
                    token += parts.pop()
            token += argument(parts)
        elif (
            token in ("^", "_") and parts and parts[-1].startswith((r"\frac", r"\sqrt", r"\binom"))
        ):
            token += f"{{{parts.pop()}}}"
        parts.append(token)
    (whole,) = groups
    return "".join(reversed(whole))


def _exact(value: Any) -> Any:
    """Replace decimals by fractions, i by the imaginary unit and f(x) by a symbol. Compute sums.
    Raises Unreadable."""
    if isinstance(value, sympy.MatrixBase):
        return value.applyfunc(_exact)
    if isinstance(value, sympy.MatrixExpr):
        return _exact(sympy.Matrix(value.doit()))
    if not isinstance(value, sympy.Basic) or isinstance(
        value, (sympy.logic.boolalg.BooleanAtom, sympy.Tuple)
    ):
        raise Unreadable
    named = {f: sympy.Symbol(str(f), real=True) for f in value.atoms(AppliedUndef)}
    named |= {symbol: sympy.I for symbol in value.free_symbols if symbol.name == "i"}
    named |= {number: sympy.Rational(str(number)) for number in value.atoms(sympy.Float)}
    value = value.xreplace(named).replace(sympy.UnevaluatedExpr, lambda inner: inner)
    if value.has(
        sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit, sympy.Derivative, sympy.Mod
    ):
        value = value.doit()
    return value


# --- comparing ---


def same(a: Answer, b: Answer) -> bool:
    """Return whether two answers are equal. Their names must be equal, except for a function's
    argument: f(t) = t^2 is f(x) = x^2. Units may differ if they measure the same quantity."""
    b = with_arguments(b, a)
    if a.name and b.name and a.name != b.name and "relation" not in (a.kind, b.kind):
        return False
    if not a.unit.agrees(b.unit):
        ratio = a.unit.ratio(b.unit)
        if ratio is None or {a.kind, b.kind} != {"value"} or not isinstance(a.value, sympy.Expr):
            return False
        a = replace(a, value=a.value * sympy.Rational(ratio.numerator, ratio.denominator))
    kinds = {a.kind, b.kind}
    if kinds == {"value"}:
        return same_value(a.value, b.value)
    # y = 2x+1 and y-2x = 1
    if kinds == {"relation"} or (kinds == {"value", "relation"} and (a.name or b.name)):
        return _same_relations(as_equation(a), as_equation(b))
    if kinds <= {"list", "set"}:
        if kinds == {"list"} and len(a.members) != len(b.members):  # 1, 1, 2 has a double root
            return False
        if kinds == {"list"} and in_order_of_names(a) != in_order_of_names(b):
            return _all_same(a.members, b.members)
        return _each_among(a.members, b.members, same) and _each_among(b.members, a.members, same)
    if kinds == {"row"}:
        return a.brackets == b.brackets and _all_same(a.members, b.members)
    if kinds == {"list", "row"}:  # x = 1, y = 2 is a point, but 1, 2 and x = 2, 3 are not
        named = _is_named_point(a if a.kind == "list" else b)
        return named and "()" in (a.brackets, b.brackets) and _all_same(a.members, b.members)
    if kinds == {"ratio"}:
        mine, theirs = ([member.value for member in one.members] for one in (a, b))
        return len(mine) == len(theirs) and all(
            same_value(x * theirs[0], y * mine[0]) for x, y in zip(mine, theirs, strict=True)
        )
    if kinds == {"value", "row"} and is_vector(a, b):
        return True
    a, b = (b, a) if b.kind == "value" else (a, b)  # start with a value: most values are not sets
    if kinds == {"value", "set"} and len(b.members) == 1 and isinstance(a.value, sympy.Expr):
        # {5} is 5, but {x} may be a fractional part
        return not a.value.free_symbols and same(a, b.members[0])
    return (one := as_set(a)) is not None and _same_sets(one, as_set(b))


_ARGUMENTS = re.compile(
    rf"(?P<head>{_LETTER}|[A-Za-z]{{3,}})(?:\({_LETTER}(?:,{_LETTER})*\)|(?P<index>_[a-z]))"
)


def with_arguments(answer: Answer, model: Answer) -> Answer:
    """Return a function's value with the argument names of the `model`, or another answer
    unchanged.

    f(x) = x^2 becomes f(t) = t^2 if the model is f(t), and a_k = 2k becomes a_n = 2n."""
    mine, theirs = (_ARGUMENTS.fullmatch(one.name) for one in (answer, model))
    if not mine or not theirs or mine["head"] != theirs["head"]:
        return answer
    if {answer.kind, model.kind} != {"value"} or not isinstance(answer.value, sympy.Basic):
        return answer
    letters = _letters_of(mine)
    wanted = _letters_of(theirs)
    if (
        len(letters) != len(wanted)
        or len({*letters}) < len(letters)
        or len({*wanted}) < len(wanted)
    ):
        return answer
    free = {symbol.name: symbol for symbol in answer.value.free_symbols}
    # a_n = 2n has a general index, but a_n = 3 has not. P(A) = 3 is a value, but f(x) = 3 is a
    # function.
    is_general = all(re.fullmatch("[t-z]", letter) for letter in (*letters, *wanted))
    if free.keys().isdisjoint(letters) and (mine["index"] or not is_general):
        return answer
    # f(x) = x + t is not f(t) = t + t
    if any(name in free and name not in letters for name in wanted):
        return answer
    names = dict(zip(letters, wanted, strict=True))
    renamed = {free[name]: sympy.Symbol(names[name], real=True) for name in names if name in free}
    return replace(answer, value=answer.value.xreplace(renamed), name=model.name)


def _letters_of(name: re.Match[str]) -> list[str]:
    """List the symbols of a function's arguments, or of an index."""
    return [_symbol_name(letter) for letter in re.findall(_LETTER, name[0][len(name["head"]) :])]


def _symbol_name(letter: str) -> str:
    return next(iter(symbol.name for symbol in _expression(letter).free_symbols), letter)


def is_vector(a: Answer, b: Answer) -> bool:
    """Return whether a point such as (1, 2) equals the other answer, a matrix of one row or
    column."""
    matrix, point = (a, b) if a.kind == "value" else (b, a)
    if not isinstance(matrix.value, sympy.MatrixBase) or point.brackets != "()":
        return False
    if 1 not in matrix.value.shape:
        return False
    entries = [Answer("value", entry) for entry in matrix.value.flat()]
    return _all_same(entries, point.members)


def _all_same(mine: Sequence[Answer], theirs: Sequence[Answer]) -> bool:
    return len(mine) == len(theirs) and all(map(same, mine, theirs))


def _each_among(
    mine: Iterable[Any], theirs: Iterable[Any], same: Callable[[Any, Any], bool]
) -> bool:
    return all(any(same(one, other) for other in theirs) for one in mine)


def in_order_of_names(answer: Answer) -> bool:
    """Return whether the members have different names, so that their order counts: x = 1, y = 2 is
    (1, 2), not 2, 1."""
    return len({member.name for member in answer.members} - {""}) > 1


def _is_named_point(answer: Answer) -> bool:
    """Return whether a list is a point such as x = 1, y = 2. Letters must be in alphabetical
    order."""
    names = [member.name for member in answer.members]
    is_sorted = names == sorted(names) or not all(re.fullmatch("[A-Za-z]", name) for name in names)
    return in_order_of_names(answer) and is_sorted


def same_value(a: Any, b: Any) -> bool:
    if isinstance(a, sympy.MatrixBase) and isinstance(b, sympy.MatrixBase):
        return a.shape == b.shape and all(map(same_value, a.flat(), b.flat()))
    if isinstance(a, sympy.Set) and isinstance(b, sympy.Set):
        return _same_sets(a, b)
    if not all(
        isinstance(one, sympy.Expr) and not isinstance(one, sympy.MatrixBase) for one in (a, b)
    ):
        return False
    if a == b:
        return not a.has(sympy.nan, sympy.zoo)
    if a.is_infinite or b.is_infinite:
        return False
    symbols = sorted(a.free_symbols | b.free_symbols, key=str)
    if not symbols:
        return _same_number(a, b)
    defined = 0
    for at in points_for(symbols):
        verdict = guarded(_same_number, a.xreplace(at), b.xreplace(at), DIGITS[:1])
        if verdict is False:
            return False
        defined += verdict is True
    return defined >= 3


def guarded(compare: Callable[..., Any], *values: Any) -> Any:
    """Return the result of `compare`, or None if sympy cannot decide, for example at a pole."""
    try:
        return compare(*values)
    except (
        Unreadable,
        ArithmeticError,
        ValueError,
        TypeError,
        NotImplementedError,
        AttributeError,
    ):
        return None


def points_for(symbols: Sequence[Any]) -> list[dict[Any, Any]]:
    """Return POINTS assignments of fractions and whole numbers to `symbols`. Only the number of
    symbols matters."""
    chance = random.Random(len(symbols))
    points = []
    for index in range(POINTS):
        # small whole numbers keep 2^n exact
        below, largest = ((1, 9), (1, 9), (7, 60), (101, 300))[index % 4]
        above = [n for n in range(2, largest + len(symbols)) if n % below or below == 1]
        signs = (1,) if index < POINTS // 2 else (1, -1)
        numbers = [
            sympy.Rational(n * chance.choice(signs), below)
            for n in chance.sample(above, len(symbols))
        ]
        points.append(dict(zip(symbols, numbers, strict=True)))
    return points


def _same_number(a: Any, b: Any, looks: Sequence[tuple[int, int]] = DIGITS) -> bool:
    for digits, agreeing in looks:
        mine, theirs = _parts(a, digits), _parts(b, digits)
        size = max(_square(mine), _square(theirs))
        apart = _square((mine[0] - theirs[0], mine[1] - theirs[1]))
        if apart > size * sympy.Rational(1, 10 ** (2 * agreeing)):
            return False
        if digits == DIGITS[0][0]:
            exact = [value.doit() for value in (a, b)]
            if all(value.is_Rational for value in exact):
                return bool(exact[0] == exact[1])
            if a.has(sympy.Integral, sympy.Sum, sympy.Product) or b.has(
                sympy.Integral, sympy.Sum, sympy.Product
            ):
                return True  # 500 digits of a sum or integral take too long
    return True


def _square(parts: tuple[Any, Any]) -> Any:
    return parts[0] * parts[0] + parts[1] * parts[1]


def _parts(value: Any, digits: int) -> tuple[Any, Any]:
    """Return the real and imaginary part of a constant. A part becomes 0 if even 20 times `digits`
    are only noise."""
    parts = value.evalf(digits, maxn=20 * digits).as_real_imag()
    if not all(part.is_Float or part.is_Rational for part in parts):
        raise Unreadable
    real, imaginary = (0 if part.is_Float and part._prec < 2 * digits else part for part in parts)
    return real, imaginary


# --- relations and sets ---


def as_equation(answer: Answer) -> tuple[Any, ...]:
    if answer.kind == "relation":
        return tuple(answer.value)
    if not answer.name or not isinstance(answer.value, sympy.Expr):
        return ()
    return (sympy.Eq(_expression(answer.name), answer.value, evaluate=False),)


def _same_relations(mine: Sequence[Any], theirs: Sequence[Any]) -> bool:
    if not mine or not theirs or variables(mine) != variables(theirs):
        return False
    if is_inequality((*mine, *theirs)):
        return _same_sets(solutions(mine), solutions(theirs))
    among = _each_among(mine, theirs, _same_relation) and _each_among(theirs, mine, _same_relation)
    return among and len(mine) == len(theirs)


def variables(relations: Sequence[Any]) -> set[Any]:
    return set().union(*(relation.free_symbols for relation in relations))


def is_inequality(relations: Sequence[Any]) -> bool:
    """Return whether the relations are inequalities in one unknown."""
    return len(variables(relations)) == 1 and not any(
        isinstance(relation, sympy.Eq) for relation in relations
    )


def _same_relation(a: Any, b: Any) -> bool:
    """Return whether one relation is a multiple of the other. For inequalities, the factor must be
    positive."""
    (kind, left), (other, right) = map(against_zero, (a, b))
    if kind != other:
        return False
    ratios = []
    for at in points_for(sorted(left.free_symbols | right.free_symbols, key=str)):
        below = guarded(lambda: _parts(right.xreplace(at), 50))  # noqa: B023 - called at once
        if below is not None and below != (0, 0):
            ratios.append(left.xreplace(at) / right.xreplace(at))
    if len(ratios) < 3 or not all(guarded(_same_number, ratio, ratios[0]) for ratio in ratios[1:]):
        return False
    sign = _parts(ratios[0], 50)
    return sign != (0, 0) and (kind in ("==", "!=") or bool(sign[0] > 0))


def against_zero(relation: Any) -> tuple[str, Any]:
    """Rewrite a relation so that its right side is 0, with "<" for ">" and "≤" for "≥". Returns
    kind and left side."""
    if isinstance(relation, (sympy.Eq, sympy.Ne)):
        return relation.rel_op, sympy.fraction(sympy.together(relation.lhs - relation.rhs))[0]
    return relation.rel_op.replace(">", "<"), relation.lts - relation.gts


def solutions(relations: Sequence[Any]) -> Any:
    """Return the real solutions of inequalities in one unknown, or None if sympy cannot solve
    them."""
    return guarded(
        lambda: sympy.Intersection(*(relation.doit().as_set() for relation in relations))
    )


def as_set(answer: Answer) -> Any:
    """Convert a set, a union, an interval or an inequality to a sympy set. Returns None for other
    answers."""
    values = [member.value for member in answer.members]
    are_expressions = all(isinstance(value, sympy.Expr) for value in values)
    match answer.kind:
        case "value" if isinstance(answer.value, sympy.Set):
            return answer.value
        # an equation does not equal the set of its solutions
        case "relation" if is_inequality(answer.value):
            return solutions(answer.value)
        case "row" if are_expressions and len(values) == 2:
            interval = guarded(
                sympy.Interval, *values, answer.brackets[0] in "(]", answer.brackets[1] in ")["
            )
            # (2,1) is a point, not an interval
            return None if interval is sympy.S.EmptySet else interval
        case "set" if are_expressions:
            return sympy.FiniteSet(*values)
        case "union":
            sets = [as_set(member) for member in answer.members]
            return None if None in sets else guarded(sympy.Union, *sets)
    return None


def _same_sets(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return False
    a, b = guarded(a.doit) or a, guarded(b.doit) or b
    if a == b:
        return True
    if isinstance(a, sympy.Interval) and isinstance(b, sympy.Interval):
        ends = same_value(a.start, b.start) and same_value(a.end, b.end)
        return ends and a.left_open == b.left_open and a.right_open == b.right_open
    if (
        type(a) is type(b)
        and isinstance(a, (sympy.Union, sympy.FiniteSet))
        and len(a.args) == len(b.args)
    ):
        same = _same_sets if isinstance(a, sympy.Union) else same_value
        if _each_among(a.args, b.args, same):
            return True
    return guarded(a.is_subset, b) is True and guarded(b.is_subset, a) is True
