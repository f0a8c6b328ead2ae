"""Find false equations in a trace, such as `7*46=282`: two whole numbers or decimals, an operator
and a result. Skip equations in longer calculations, lines with words such as "if" or "not", and
texts with congruences or bases."""

import re
from fractions import Fraction

_NUMBER = r"[0-9]{1,18}(?:\.[0-9]{1,18})?"
_EQUATION = re.compile(
    rf"(?<![\w.,^)}}\]!/*×·÷+−-])(?<![\d^)!/*×·÷+−-] )"
    rf"(?P<a>{_NUMBER}) ?(?P<op>[-−+*/×·÷]|\\times|\\cdot) ?(?P<b>{_NUMBER}) ?= ?(?P<c>{_NUMBER})"
    r"(?![\w^!%({\\]|[.,:]\w| ?[-−+*/×·÷]| (?:remainder|times|and) )"
)
_BULLET = re.compile(r"\A\s*[-*•] ")
_SIGNS = {"−": "-", "×": "*", "·": "*", "÷": "/", r"\times": "*", r"\cdot": "*"}
# modulo 10, 7*3 = 1 is true
_MODULAR = re.compile(r"≡|\\equiv|\bp?mod(?:ul\w+)?\b|congruent|\bbase\b", re.IGNORECASE)
_MEANT = re.compile(
    r"\b(?:if|suppos|assum|whether|wrong|incorrect|contradict|not\b)|\?", re.IGNORECASE
)


def false_equations(text: str) -> list[str]:
    """List the false equations in `text`, in order. Results that are rounded up or down count as
    true."""
    if _MODULAR.search(text):
        return []
    lines = [_BULLET.sub("", line, count=1) for line in text.split("\n") if not _MEANT.search(line)]
    return [
        found[0]
        for line in lines
        for found in _EQUATION.finditer(line)
        if _is_false(**found.groupdict())
    ]


def _is_false(a: str, op: str, b: str, c: str) -> bool:
    one, other, sign = Fraction(a), Fraction(b), _SIGNS.get(op, op)
    if sign == "/" and not other:
        return False
    value = {"+": one.__add__, "-": one.__sub__, "*": one.__mul__, "/": one.__truediv__}[sign](
        other
    )
    return bool(abs(value - Fraction(c)) >= Fraction(1, 10 ** len(c.partition(".")[2])))
