r"""False equations of numbers in a trace: 7*46=282. Whole numbers, decimals and fractions, + - * / and parentheses.

What can't be read surely is skipped, never guessed: an equation is told only where its sides are wholly arithmetic,
nothing beside them may belong to them ("the sum of 3 and 4 = 7", "10/3 = 3 remainder 1", "2x = 6"), and no reading of
it is true. A rounded value ("1/3 = 0.33") and what may be a congruence are not told. Nothing is evaluated but what the
parser below has read, with numbers of bounded size, in time linear in the text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from core.grading.final import LINE_ENDS

MAX_DIGITS = 40  # of a number
MAX_TOKENS = 100  # of a side; a longer one is not worked out
MAX_RUN = 2000  # tokens of a chain of equations
MAX_DEPTH = 20  # of parentheses
SHOWN = 200  # characters of an equation

_RELATIONS = (
    "neq?|leq?|geq?|leqslant|geqslant|lt|gt|approx|sim|simeq|cong|equiv|to|implies|iff|propto"
    "|(?:long)?(?:left)?rightarrow|(?:Long)?(?:Left)?[Rr]ightarrow"
)
_TOKEN = re.compile(
    rf"""
    (?P<line>[{LINE_ENDS}][ \t]*(?:(?P<bullet>[-*•])[ \t]+|\(?[0-9]{{1,3}}[.)][ \t]+)?|\\\\)
    | (?P<blank>[ \t\u00a0\u2009\u202f]+|\\[,;:!>\ ]|\\(?:left|right|quad|qquad|displaystyle)(?![A-Za-z])|[`&])
    | (?P<edge>\$+|\\[()\[\]])
    | (?P<number>\.?[0-9](?:[0-9]|[.,](?=[0-9])|\{{,\}}(?=[0-9]))*)
    | (?P<power>\*\*+)
    | (?P<times>[xX](?=[ \t]*[0-9(]))
    | (?P<unknown>--+|\.\.+|…|\\[lc]?dots(?![A-Za-z])|::+)
    | (?P<relation>={1, 2}[><]|[<>!:]={1, 2}|[<>≤≥≈≠≡≅∼~→⇒⇔↔]|\\(?:{_RELATIONS})(?![A-Za-z]))
    | (?P<equals>==?)
    | (?P<operator>[-+*/×·⋅∙∗÷−﹣－]|\\(?:times|cdot|ast|div)(?![A-Za-z]))
    | (?P<open>\() | (?P<close>\)) | (?P<left>\{{) | (?P<right>\}})
    | (?P<fraction>\\[dt]?frac(?![A-Za-z])) | (?P<box>\\boxed(?![A-Za-z]))
    | (?P<modulo>\\(?:bmod|mod|pmod)(?![A-Za-z])|(?<![A-Za-z])(?:mod|modulo|modulus)(?![A-Za-z])|%(?=[ \t]*[0-9]))
    | (?P<word>[^\W\d_]+(?:['’][^\W\d_]+)*)
    | (?P<point>[,;:.?!])
    | (?P<other>\\[A-Za-z]+|.)
    """,
    re.VERBOSE | re.DOTALL,
)
_WHOLE = re.compile(r"(?:0|[1-9][0-9]*|[1-9][0-9]{0,2}(?:(?:,|\{,\})[0-9]{3})+)(?:\.[0-9]+)?|\.[0-9]+")
_SIGNS = dict.fromkeys("*×·⋅∙∗xX", "*") | dict.fromkeys("-−﹣－", "-") | {"+": "+", "/": "/", "÷": "/"}
_SIGNS |= {r"\times": "*", r"\cdot": "*", r"\ast": "*", r"\div": "/"}

# Words behind which an equation begins anew, and before which it has ended. Any other may change what it says: "half of
# 10 = 5", "= 7 dozen".
_BEFORE = re.compile(
    "so|then|thus|hence|therefore|that|since|because|gets?|gives?|giving|have|has|comput(?:e|ing)|calculat(?:e|ing)"
    "|evaluate|multiply(?:ing)?|add(?:ing)?|subtract|first|second|third|next|now|also|finally|check(?:ing)?|verify"
    "|indeed|but|where|as|is|are|equals|which|yields|obtain|find|see|step|again|still|write",
    re.IGNORECASE,
)
_BEHIND = re.compile(
    "so|then|which|thus|hence|therefore|but|since|because|for|as|is|the|we|it|this|that|where|while|giving",
    re.IGNORECASE,
)
_UNFINISHED = re.compile(
    "of|by|times|and|plus|minus|half|twice|double|triple|over|divided|from|than|to|squared", re.IGNORECASE
)
# An equation beside these may be meant to be false.
_DISOWNED = re.compile(
    r"\b(?:contradict\w*|impossib\w*|absurd\w*|suppos\w*|assum\w*|whether|if|wrong\w*|incorrect\w*|false\w*|mistak\w*"
    r"|is not|isn't|cannot|can't|claims?)\b",
    re.IGNORECASE,
)
_DISOWNS = 200  # characters around it, in its line
_BASES = re.compile(
    r"\bbase[-\s]?(?:[0-9$]|two|three|four|five|six|seven|eight|nine|ten|twelve|sixteen)|\b(?:binary|octal|hexa?decimal"
    r"|ternary)\b",
    re.IGNORECASE,
)
_MODULUS = re.compile(
    r"(?:\\[bp]?mod|(?<![A-Za-z\\])mod(?:ul(?:o|us))?)(?![A-Za-z])[\s{$(]{0,4}(?P<number>[0-9]{1,40})?(?P<equals>\s{0,4}=)?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class _Token:
    kind: str
    start: int
    end: int
    text: str = ""
    value: Fraction = Fraction(0)
    places: int = 0  # decimals of a number
    is_apart: bool = False  # a blank stands before it


@dataclass
class _Run:
    """What stands between two words, points or lines. `before`, `after`: those; `edge`: TeX's mathematics begin with
    it; `last`: what stood before `before`; `follows`: the run before held an equation; `negated`: a dash before it may
    be a minus or a mark of a list."""

    before: _Token
    last: _Token | None = None
    follows: bool = False
    negated: bool = False
    edge: bool = False
    tokens: list[_Token] = field(default_factory=list)


@dataclass(frozen=True)
class _Side:
    """One side of an equation: its `values`, one for each reading; none where it can't be read surely. `places`: of a
    number that stands alone, its decimals."""

    values: frozenset[Fraction]
    places: int | None
    start: int
    end: int


class _Unread(Exception):
    """This is no arithmetic that we know."""


def false_equations(text: str) -> list[str]:
    """The equations in `text` that are false, as they stand there, in order: of a chain like 2*3=6=7, the two sides
    that differ. Never raises, and takes time linear in `text`."""
    moduli = _moduli(text)
    if moduli is None or _BASES.search(text):
        return []
    found = []
    for run, after in _runs(text):
        sides = _sides(run, after)
        for one, other in pairwise(sides):
            if one and other and _differ(one, other, moduli) and not _is_disowned(text, one.start, other.end):
                found.append(" ".join(text[one.start : other.end][:SHOWN].split()))
    return found


def _moduli(text: str) -> list[int] | None:
    """The moduli that `text` speaks of, but for "1542 mod 1000 = 542"; None where one is not known."""
    found = []
    for modulus in _MODULUS.finditer(text):
        before = text[max(0, modulus.start() - 4) : modulus.start()].rstrip(" $)")
        if modulus["equals"] and modulus["number"] and before[-1:].isdigit():
            continue
        if not modulus["number"]:
            return None
        found.append(int(modulus["number"]))
    return None if not found and re.search(r"≡|\\equiv|\bcongruent\b", text) else sorted(set(found))[:50]


def _is_disowned(text: str, start: int, end: int) -> bool:
    first = max(text.rfind("\n", max(0, start - _DISOWNS), start) + 1, start - _DISOWNS, 0)
    last = text.find("\n", end, end + _DISOWNS)
    return _DISOWNED.search(text, first, end + _DISOWNS if last < 0 else last) is not None


# --- reading ---


def _tokens(text: str) -> Iterator[_Token]:
    """The tokens of `text` without blanks. What is glued to letters, or no number that can be read, is unknown."""
    last: _Token | None = None
    is_apart = False
    for found in _TOKEN.finditer("\n" + text):
        kind, said, start, end = found.lastgroup or "", found[0], found.start() - 1, found.end() - 1
        if kind == "bullet":
            kind = "line"
        before, behind = text[start - 1 : start] if start > 0 else "", text[end : end + 1]
        is_number_before = last is not None and last.kind in ("number", "close")
        value, places = Fraction(0), 0
        if kind == "power":
            kind = "unknown" if is_number_before and re.match(r"[ \t]*[0-9(\\]", text[end : end + 20]) else "blank"
        if kind == "blank":
            is_apart = True
            continue
        if kind == "times":
            is_product = is_number_before and not (last and last.text == "0")
            kind = "operator" if is_product else "word" if len(said) > 1 else "unknown"
        elif kind == "number":
            is_glued = before.isalpha() and not (last and last.end == start and last.kind in ("operator", "fraction"))
            is_glued |= behind.isalpha() and not (
                behind in "xX" and re.match(r"[xX][ \t]*[0-9(]", text[end : end + 20])
            )
            is_odd = said[0] == "." and (before.isalnum() or before in ")}")
            if is_glued or is_odd or len(said) > MAX_DIGITS or not _WHOLE.fullmatch(said):
                kind = "unknown"
            else:
                value = Fraction(said.replace("{,}", "").replace(",", ""))
                places = len(said.partition(".")[2])
        elif kind == "word":
            is_glued = before.isdigit() or behind.isdigit() or behind == "("
            kind = "unknown" if len(said) == 1 or is_glued else kind
        elif kind == "point" and said == "!":
            kind = "unknown" if is_number_before else kind
        elif kind == "other":
            kind = "unknown"
        last = _Token(kind, start, end, said, value, places, is_apart)
        is_apart = False
        yield last


_START = _Token("line", 0, 0)


def _runs(text: str) -> Iterator[tuple[_Run, _Token]]:
    """The runs of `text` that may hold an equation, each with the token behind it. A line that ends in a sign goes on
    in the next one, and so does one before a line that begins with an equals sign."""
    run, last = _Run(_START), _START
    pending: _Token | None = None
    for token in _tokens(text):
        if token.kind == "line" and run.tokens and run.tokens[-1].kind in ("operator", "equals", "open", "left"):
            continue
        if pending and token.kind == "line":
            pending = token
            continue
        if pending:
            if token.kind != "equals" or not run.tokens:
                yield run, pending
                run, last = _next(run, pending, last), pending
            pending = None
        if token.kind == "line":
            pending = token
        elif token.kind in ("word", "point"):
            yield run, token
            run, last = _next(run, token, last), token
        elif token.kind == "edge":
            run.edge |= not run.tokens
        else:
            run.tokens.append(token)
            if len(run.tokens) > MAX_RUN:
                run.tokens = [_Token("unknown", token.start, token.end)]
    yield run, _Token("line", len(text), len(text))


def _next(run: _Run, token: _Token, last: _Token) -> _Run:
    """The run that begins behind `token`, which ends `run`."""
    follows = any(each.kind == "equals" for each in run.tokens)
    new = _Run(token, run.tokens[-1] if run.tokens else last, follows)
    new.negated = _mark(token) == "-"
    return new


def _mark(line: _Token) -> str:
    """The mark of a list that a line begins with."""
    return "".join(line.text.split())


def _sides(run: _Run, after: _Token) -> list[_Side | None]:
    """The sides of the equations in a run; None stands for what compares with nothing."""
    tokens = run.tokens
    if after.text == "?" or not any(token.kind == "equals" for token in tokens):
        return []
    parts: list[list[_Token] | None] = [[]]
    for token in tokens:
        if token.kind in ("equals", "relation"):
            parts += [[]] if token.kind == "equals" else [None, []]
        elif parts[-1] is not None:
            parts[-1].append(token)
    has_modulo = any(token.kind == "modulo" for token in tokens)
    if has_modulo and any(token.kind == "modulo" for part in parts[1:] for token in part or []):
        return []
    sides = [part and _side(part) for part in parts]
    if sides[0] and run.negated:
        first = sides[0]
        sides[0] = _Side(first.values | _values(parts[0] or [], "-"), None, first.start, first.end)
    if not _begins_surely(run, parts[0] or []):
        sides[0] = None
    if not _ends_surely(run, after):
        sides[-1] = None
    for place in range(1, len(parts) - 1):  # 1+300=301,301+348=649: a comma, or thousands?
        part = parts[place]
        if part and len(part) > 1 and "," in part[0].text:
            sides[place] = None
    return [side or None for side in sides]


def _begins_surely(run: _Run, part: list[_Token]) -> bool:
    """Whether what stands before the first side can't belong to it."""
    is_bare, before, last = len(part) < 2, run.before, run.last
    if before.kind == "line":
        if _mark(before) and last and last.kind in ("number", "close") and not run.follows:
            return False
        return not (last and last.kind == "word" and (is_bare or _UNFINISHED.fullmatch(last.text)))
    if before.kind == "word":
        is_sure = run.follows if before.text == "and" else run.edge and not is_bare
        return is_sure or _BEFORE.fullmatch(before.text) is not None
    if before.text in ",;":
        return run.follows or bool(last and last.kind == "word" and not is_bare)
    return not is_bare or bool(before.text == ":" and last and last.kind == "word")


def _ends_surely(run: _Run, after: _Token) -> bool:
    """Whether what stands behind the last side can't belong to it."""
    if after.kind == "word":
        divides = any(token.kind == "fraction" or token.text in ("/", "÷", r"\div") for token in run.tokens)
        return (after.text == "and" and not divides) or _BEHIND.fullmatch(after.text) is not None
    return after.text != ":"


def _side(part: list[_Token]) -> _Side | None:
    values = _values(part)
    return _Side(values, part[0].places if _is_number(part) else None, part[0].start, part[-1].end) if values else None


def _is_number(part: list[_Token]) -> bool:
    return len(part) == 1 and part[0].kind == "number"


# --- working out ---


def _values(part: list[_Token], sign: str = "") -> frozenset[Fraction]:
    """What `part` comes to, in each way that it can be read."""
    if len(part) > MAX_TOKENS:
        return frozenset()
    if sign:
        part = [_Token("operator", part[0].start, part[0].start, sign), *part]
    try:
        if any(token.kind == "modulo" for token in part):
            return _remainders(part)
        return frozenset(_Reader(part, is_loose).whole() for is_loose in (False, True))
    except (_Unread, ZeroDivisionError):
        return frozenset()


def _remainders(part: list[_Token]) -> frozenset[Fraction]:
    """Of "a + b mod n": the remainder of the sum, or with that of b alone."""
    *of, modulo, number = part
    if modulo.kind != "modulo" or number.kind != "number" or number.value.denominator != 1 or not number.value:
        raise _Unread
    readings = [_Reader(of, False).whole() % number.value]
    if of[-1].kind == "number":
        last = _Token("number", of[-1].start, of[-1].end, value=of[-1].value % number.value)
        readings.append(_Reader([*of[:-1], last], False).whole())
    return frozenset(readings)


class _Reader:
    """Works out the tokens of a side. `is_loose`: a/b*c is read as a/(b*c)."""

    def __init__(self, tokens: list[_Token], is_loose: bool) -> None:
        self._tokens, self._is_loose, self._at, self._depth = tokens, is_loose, 0, 0

    def whole(self) -> Fraction:
        value = self._sum()
        if self._at < len(self._tokens):
            raise _Unread
        return value

    def _peek(self) -> tuple[str, str]:
        """Kind and sign of the next token."""
        if self._at == len(self._tokens):
            return "", ""
        token = self._tokens[self._at]
        return token.kind, _SIGNS.get(token.text, "") if token.kind == "operator" else ""

    def _take(self, kind: str) -> _Token:
        if self._peek()[0] != kind:
            raise _Unread
        self._at += 1
        return self._tokens[self._at - 1]

    def _sum(self) -> Fraction:
        value = self._product()
        while self._peek()[1] in ("+", "-"):
            is_minus = self._peek()[1] == "-"
            self._at += 1
            value += -self._product() if is_minus else self._product()
        return value

    def _product(self) -> Fraction:
        value, divided = self._signed(), False
        while True:
            kind, sign = self._peek()
            if kind == "open" and not self._tokens[self._at].is_apart:  # 2(3+4)
                if divided:
                    raise _Unread
                value *= self._primary()
            elif sign == "*":
                self._at += 1
                factor = self._signed()
                value = value / factor if divided and self._is_loose else value * factor
            elif sign == "/":
                self._at += 1
                value, divided = value / self._signed(), True
            else:
                return value

    def _signed(self) -> Fraction:
        if self._peek()[1] == "-":
            self._at += 1
            return -self._primary()
        return self._primary()

    def _primary(self) -> Fraction:
        kind = self._peek()[0]
        if kind == "number":
            return self._take(kind).value
        if kind == "open":
            return self._within("open", "close")
        if kind == "box":
            self._take(kind)
            return self._within("left", "right")
        self._take("fraction")
        if self._peek()[0] == "number":  # \frac12
            digits = self._take("number").text
            if not re.fullmatch("[0-9]{2}", digits):
                raise _Unread
            return Fraction(int(digits[0]), int(digits[1]))
        return self._within("left", "right") / self._within("left", "right")

    def _within(self, left: str, right: str) -> Fraction:
        self._take(left)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _Unread
        value = self._sum()
        self._take(right)
        self._depth -= 1
        return value


def _differ(one: _Side, other: _Side, moduli: list[int]) -> bool:
    """Whether the sides are unequal in every reading, neither is the other, rounded, and they are not congruent."""
    return not any(
        a == b or _is_rounded(a, b, other.places) or _is_rounded(b, a, one.places) or _are_congruent(a, b, moduli)
        for a in one.values
        for b in other.values
    )


def _is_rounded(value: Fraction, to: Fraction, places: int | None) -> bool:
    """Whether `to`, written with so many `places`, may stand for a `value` that has more of them."""
    if places is None or (value * 10**places).denominator == 1:
        return False
    return bool(abs(value - to) * 10**places <= 1)


def _are_congruent(one: Fraction, other: Fraction, moduli: list[int]) -> bool:
    difference = one - other
    return difference.denominator == 1 and any(modulus and difference % modulus == 0 for modulus in moduli)
