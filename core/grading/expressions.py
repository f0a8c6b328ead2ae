r"""Parse one LaTeX expression into a sympy object with exact numbers, with math-verify's parser."""

import re
from functools import lru_cache
from typing import Any

import sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig, latex2sympy
from sympy.core.function import AppliedUndef

from core.grading.brackets import TOKEN, Unreadable
from core.grading.rules import Rule, replacing, rewritten

# Texts that the parser misreads: relations of other kinds, signs that depend on each other, numbers
# side by side, double factorials, and a matrix's transpose, which it drops.
_RELATION = (
    r"\\(?:equiv|pmod|sim|simeq|propto|to|mapsto|ldots|Rightarrow|implies|iff|cong|perp|parallel"
    r"|mp|pm(?=.*\\pm.*\\mp))(?![A-Za-z])"
)
_NUMBERS = r"(?<![_^])[0-9.]\s+[0-9.]|[0-9]\.[0-9]+\.[0-9]|[0-9]\s*_"
_SIGNS = r"!!|[\"`@#;']"
_TRANSPOSE = r"\^\s*\{?\s*(?:T|\\top|\\intercal)(?![A-Za-z])"
_REFUSED = re.compile(f"{_RELATION}|{_NUMBERS}|{_SIGNS}|{_TRANSPOSE}")
# Letters that form one name: capitals (AC is a segment, not A times C), I alone, and words of four
# letters or more.
_NAMES = r"(?<![A-Za-z\\{])(?:[A-Z]{2,}|I|(?<![^ ])[A-Za-z]{4,})(?![A-Za-z])"
_COMPUTED = (
    sympy.Sum,
    sympy.Product,
    sympy.Integral,
    sympy.Limit,
    sympy.Derivative,
    sympy.Mod,
)


def _without_commas(number: re.Match[str]) -> str:
    return number[0].replace(",", "")


def _mixed(fraction: re.Match[str]) -> str:
    r"""Return the fraction of a mixed number as it is, and others as a factor: 3\frac42 is 6."""
    is_proper = int(fraction[1]) < int(fraction[2])
    return fraction[0] if is_proper else rf"\cdot{fraction[0]}"


# The parser would read 2(3) and 3\frac{4}{2} as mixed numbers, so they get a multiplication sign.
RULES = (
    Rule(
        "commas of thousands",
        r"\sqrt{1,024}",
        r"\sqrt{1024}",
        replacing(r"(?<=\{)[0-9]{1,3}(?:,[0-9]{3})+(?=\})", _without_commas),
    ),
    Rule(
        "choose",
        r"5 \choose 2",
        r"\binom{5}{2}",
        replacing(r"^([^{}]*?)\s*\\choose\s*([^{}]*)$", r"\\binom{\1}{\2}"),
    ),
    Rule("names", "AC", r"\text{AC}", replacing(_NAMES, lambda name: rf"\text{{{name[0]}}}")),
    Rule(
        "number before brackets",
        "2(3)",
        r"2\cdot (3)",
        replacing(r"(?<![_^0-9.])([0-9]+(?:\.[0-9]+)?)\s*(?=\()", r"\1\\cdot "),
    ),
    Rule(
        "factor before a fraction",
        r"(2)\frac{1}{2}",
        r"(2)\cdot \frac{1}{2}",
        replacing(r"(\)|\\frac\{[0-9]+\}\{[0-9]+\})\s*(?=\\frac)", r"\1\\cdot "),
    ),
    Rule(
        "number before a fraction above one",
        r"3\frac{4}{2}",
        r"3\cdot\frac{4}{2}",
        replacing(r"(?<=[0-9])\s*\\frac\{([0-9]+)\}\{([0-9]+)\}", _mixed),
    ),
)


@lru_cache(maxsize=4096)
def expression(text: str) -> Any:
    """Parse one LaTeX expression into a sympy object with exact numbers. Raises Unreadable if this
    fails."""
    try:
        text = with_braces(re.sub(r"\\sqrt\s*\(([^()]*)\)", r"\\sqrt{\1}", text))
        if _REFUSED.search(text) or not text.strip():
            raise Unreadable
        value = latex2sympy(
            rewritten(text, RULES),
            is_real=True,
            convert_degrees=True,
            normalization_config=None,
            conversion_config=ConversionConfig(lowercase_symbols=False),
        )
        return _exact(value)
    except (MemoryError, Unreadable):
        raise
    except Exception:  # the parser and sympy raise many kinds of errors
        raise Unreadable from None


def with_braces(text: str) -> str:
    r"""Add braces around arguments, as in \frac12 and \sqrt2. Raises IndexError or ValueError if
    one is missing."""
    groups: list[list[str]] = [[]]  # the parts of each open group, from right to left
    for token in reversed(TOKEN.findall(text)):
        if token == "}":
            groups.append([])
        elif token == "{":
            content = "".join(reversed(groups.pop()))
            groups[-1].append("{" + content + "}")
        else:
            part = token + _arguments(token, groups[-1])
            groups[-1].append(part)
    (whole,) = groups
    return "".join(reversed(whole))


def _arguments(token: str, parts: list[str]) -> str:
    """Take the arguments of a `token` from the end of `parts`. Returns them in braces."""
    if token in (r"\frac", r"\binom"):
        return _argument(parts) + _argument(parts)
    if token == r"\sqrt":
        return _degree_of_root(parts) + _argument(parts)
    if token in ("^", "_") and parts and parts[-1].startswith((r"\frac", r"\sqrt", r"\binom")):
        return f"{{{parts.pop()}}}"
    return ""


def _argument(parts: list[str]) -> str:
    while parts[-1].isspace():
        parts.pop()
    part = parts.pop()
    return part if part[0] == "{" else f"{{{part}}}"


def _degree_of_root(parts: list[str]) -> str:
    degree = ""
    if parts[-1] == "[":
        while not degree.endswith("]"):
            degree += parts.pop()
    return degree


def _exact(value: Any) -> Any:
    """Replace decimals by fractions, i by the imaginary unit and f(x) by a symbol. Compute sums.
    Raises Unreadable."""
    if isinstance(value, sympy.MatrixBase):
        return value.applyfunc(_exact)
    if isinstance(value, sympy.MatrixExpr):
        return _exact(sympy.Matrix(value.doit()))
    is_truth = isinstance(value, (sympy.logic.boolalg.BooleanAtom, sympy.Tuple))
    if is_truth or not isinstance(value, sympy.Basic):
        raise Unreadable
    exact = {call: sympy.Symbol(str(call), real=True) for call in value.atoms(AppliedUndef)}
    exact |= {symbol: sympy.I for symbol in value.free_symbols if symbol.name == "i"}
    exact |= {number: sympy.Rational(str(number)) for number in value.atoms(sympy.Float)}
    value = value.xreplace(exact).replace(sympy.UnevaluatedExpr, lambda inner: inner)
    return value.doit() if value.has(*_COMPUTED) else value
