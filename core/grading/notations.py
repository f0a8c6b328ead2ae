r"""List notations that have another reading, in which two unequal answers are equal.

Each notation has an example, which is its test."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Notation:
    """Another reading of a notation. `example` has two texts that are equal in it. `pattern` is
    replaced by `instead`, which is in our notation. The other text must match `against`."""

    name: str
    example: tuple[str, str]
    pattern: str
    instead: str
    against: str = ""

    def readings(self, text: str, other: str) -> list[str]:
        """Return the text in the other reading. The list is empty if the notation is absent."""
        if not re.search(self.against, other):
            return []
        again = re.sub(self.pattern, self.instead, text)
        return [again] if again != text else []


_TRIG = r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])(?:\^\{?[0-9]\}?)?"
_NUMBER = r"\A(-?[0-9]+(?:\.[0-9]+)?)\Z"
_DIGITS = r"\(?([0-9A-F]+)\)? ?_ ?"
_NO_BASE = r"\A[^_]*\Z"
_HAS_ANGLE = r"\\pi|π|arc|rad|-1"
_INVERSE = r" ?\^ ?\{ ?-1 ?\}"
_LOG = r"\\?(?<![a-z])log(?![a-z])(?! ?_)"
NOTATIONS = (
    # numbers
    Notation(
        "dot between thousands",
        ("1.250", "1250"),
        r"\A(-?[0-9]{1,3})\.([0-9]{3})(?![0-9])",
        r"\1\2",
    ),
    Notation(
        "decimal comma that cleaning took for thousands",
        ("1250", "1.25"),
        r"\A(-?[0-9]{1,3}\.[0-9]{1,3})(?![0-9.])",
        r"\1e3",
    ),
    Notation("decimal comma before zeros", ("2000", "2"), r"\A(-?[0-9]{1,3})000\Z", r"\1"),
    Notation(
        "decimal comma in a list",
        ("(1,5; 2,5)", "(1.5, 2.5)"),
        r"(?<=[0-9]),(?=[0-9])",
        r".",
    ),
    Notation(
        "mixed number with a hyphen",
        ("3-1/2", "3.5"),
        r"\b([0-9]+)-([0-9]+)/([0-9]+)\b",
        r"\1\\frac{\2}{\3}",
    ),
    Notation(
        "per cent left out",
        ("25", "0.25"),
        _NUMBER,
        r"\1\\%",
        against=r"\A0?\.[0-9]|/|\\frac",
    ),
    Notation(
        "base left out",
        ("1101", "1101_2"),
        _DIGITS + r"(?:[0-9]|\{[^{}]*\})",
        r"\1",
        against=_NO_BASE,
    ),
    Notation(
        "base in words left out",
        ("1101", r"1101_\text{two}"),
        _DIGITS + r"\\text ?\{[^{}]*\}",
        r"\1",
        against=_NO_BASE,
    ),
    Notation(
        "dot in the middle as a decimal point",
        ("1·5", "1.5"),
        r"\A(-?[0-9]+) ?· ?([0-9]+)\Z",
        r"\1.\2",
    ),
    Notation(
        "value repeated in brackets",
        (r"\frac38 (0.375)", "0.375"),
        r"\A([^()=]*[^()=\s]) ?\([^()]*[0-9][^()]*\)\Z",
        r"\1",
    ),
    Notation("binary prefix", ("0b1101", "13"), r"\A0b([01]+)", r"\1_2"),
    # functions
    Notation("log as ln", (r"\log x", r"\ln x"), _LOG, r"\\ln "),
    Notation("lg as log", (r"\lg x", r"\log_{10} x"), r"\\lg(?![A-Za-z])", r"\\log_{10} "),
    Notation("lg as a binary logarithm", (r"\lg 8", "3"), r"\\lg(?![A-Za-z])", r"\\log_2 "),
    Notation(
        "degrees left out", ("30", r"\frac{\pi}{6}"), _NUMBER, r"\1^\\circ", against=_HAS_ANGLE
    ),
    Notation(
        "sine of degrees",
        (r"\sin 30", r"\frac12"),
        rf"({_TRIG} ?[({{]? ?[0-9.]+)(?![0-9.]|\\|\^)",
        r"\1^\\circ",
    ),
    Notation("reciprocal of a sine", (r"\sin^{-1} x", r"\csc x"), r"\\sin" + _INVERSE, r"\\csc "),
    Notation("reciprocal of a cosine", (r"\cos^{-1} x", r"\sec x"), r"\\cos" + _INVERSE, r"\\sec "),
    Notation(
        "reciprocal of a tangent", (r"\tan^{-1} x", r"\cot x"), r"\\tan" + _INVERSE, r"\\cot "
    ),
    # how far a sign reaches
    Notation(
        "product in an exponent",
        ("e^2x", "e^{2x}"),
        r"\^ ?([0-9]+) ?([A-Za-z])(?![A-Za-z])",
        r"^{\1\2}",
    ),
    Notation(
        "product under a root",
        (r"\sqrt2x", r"\sqrt{2x}"),
        r"\\sqrt ?([0-9]) ?([a-z])(?![a-z])",
        r"\\sqrt{\1\2}",
    ),
    Notation(
        "fraction before a letter",
        ("1/2x", r"\frac{x}{2}"),
        r"\b([0-9]+|[a-z])/([0-9]+) ?(?=[A-Za-z\\])",
        r"\\frac{\1}{\2}",
    ),
    Notation(
        "brackets below a slash",
        ("1/2(x+1)", r"\frac{1}{2x+2}"),
        r"/ ?([0-9]+|[a-z]) ?(\([^()]*\))",
        r"/(\1\2)",
    ),
)
