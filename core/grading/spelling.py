r"""Replace synonyms, and shorthand that the parser drops or misreads, by one LaTeX spelling.

RULES apply in their order. Each has an example, which is its test."""

import re

from core.grading.brackets import Unreadable
from core.grading.rules import Rule, replacing, rewritten

_SYMBOLS = str.maketrans(
    {
        "π": r"\pi ",
        "∞": r"\infty ",
        "×": r"\times ",
        "·": r"\cdot ",
        "⋅": r"\cdot ",
        "*": r"\cdot ",
        "÷": r"\div ",
        "√": r"\sqrt ",
        "≤": r"\le ",
        "≥": r"\ge ",
        "≠": r"\ne ",
        "≈": r"\approx ",
        "±": r"\pm ",
        "∪": r"\cup ",
        "∩": r"\cap ",
        "∅": r"\emptyset ",
        "∈": r"\in ",
        "°": r"^\circ ",
        "θ": r"\theta ",
        "′": "'",
    }
)
_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_SYNONYMS = {  # of commands, by the spelling that replaces them
    r"\binom": "dbinom tbinom",
    r"\emptyset": "varnothing",
    r"\le": "leqslant leq",
    r"\ge": "geqslant geq",
    r"\ne": "neq",
    r"\{": "lbrace",
    r"\}": "rbrace",
    r"\setminus": "backslash",
    r"\mod": "bmod",
    r"\cdot": "ast",
    r"\ldots": "dots cdots",
    r"\to": "longrightarrow rightarrow",
    "<": "lt",
    ">": "gt",
    "|": "lvert rvert vert",
    "[": "lbrack",
    "]": "rbrack",
    "(": "langle",
    ")": "rangle",
    ":": "colon",
    "'": "prime",
    " or ": "lor vee",
    " and ": "land wedge",
    "": "big Big bigl bigr Bigl Bigr bigg Bigg biggl biggr displaylimits nolimits",
}
_SPELLING_OF = {
    command: spelling for spelling, commands in _SYNONYMS.items() for command in commands.split()
}
_FUNCTIONS = (
    "arcsin|arccos|arctan|arccot|arcsec|arccsc|sinh|cosh|tanh|sin|cos|tan|cot|sec|csc"
    "|log|ln|exp|gcd|lcm|max|min|det|sqrt|pi|binom"
)
_PERIOD = (
    r"([0-9]*)\.([0-9]*)"
    r"(?:\\(?:overline|bar|dot|overdot)\s*(?:\{([0-9]+)\}|([0-9]))|\(([0-9]+)\))(?![0-9])"
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
_DIGITS_IN_BASE = (
    r"(?<![A-Za-z0-9_.}^,\\])"
    r"(?:([0-9][0-9A-F]*)|\(([0-9][0-9A-F]*)\)|\\text\s?\{([0-9A-F]+)\})"
)
_BASE_IN_DIGITS = r"([2-9])|\{\s?\(?([1-9][0-9]?)\)?\s?\}"
_BASE_IN_WORDS = rf"\{{?\s?(?:\\text\s?)?\{{\s?({'|'.join(_BASE_WORDS)})\s?\}}\s?\}}?"
_BASE = rf"{_DIGITS_IN_BASE}\s?_\s?(?:{_BASE_IN_DIGITS}|{_BASE_IN_WORDS})(?![0-9])"
_SCIENTIFIC = (
    r"(?<![A-Za-z0-9.\\])"
    r"(?:(\d+\.\d+|1)e([-+]?\d+)|(\d+)e(\d+)|(\d+(?:\.\d+)?)E([-+]?\d+))(?!\w)"
)
_SMALL = re.compile(r"(-?[0-9]+)e(-[0-9]+)")
_MINUTES = r"([0-9]+)\^\\circ\s*([0-9]+)\s?'(?!')(?:\s*([0-9]+)\s?(?:''|\"))?"
_CONTENT = r"(?:[^\[\]()]|\([^\[\]()]*\))*"
_OUTWARD = rf"([\[\]])({_CONTENT}[,;]{_CONTENT})([\[\]])"


def _raised(digits: re.Match[str]) -> str:
    return "^{" + digits[0].translate(_RAISED) + "}"


def _command(command: re.Match[str]) -> str:
    return _SPELLING_OF.get(command[1], command[0])


def _primed(prime: re.Match[str]) -> str:
    return prime[1] + "_{prime" + str(len(prime[2])) + "}"


def _degrees_with_minutes(angle: re.Match[str]) -> str:
    degrees, minutes, seconds = (int(part or 0) for part in angle.groups())
    return rf"(\frac{{{degrees * 3600 + minutes * 60 + seconds}}}{{3600}})^\circ"


def _with_round_brackets(interval: re.Match[str]) -> str:
    left = "(" if interval[1] == "]" else "["
    right = ")" if interval[3] == "[" else "]"
    return left + interval[2] + right


def _fraction_of_period(decimal: re.Match[str]) -> str:
    whole, fixed, *periods = decimal.groups()
    period = next(digits for digits in periods if digits)
    without_period = int((whole or "0") + fixed)
    top = int((whole or "0") + fixed + period) - without_period
    bottom = 10 ** len(fixed) * (10 ** len(period) - 1)
    return rf"(\frac{{{top}}}{{{bottom}}})"


def _in_base_ten(number: re.Match[str]) -> str:
    digits = next(group for group in number.groups()[:3] if group)
    base = int(number[4] or number[5] or _BASE_WORDS[number[6]])
    try:
        return str(int(digits, base))
    except ValueError:  # a digit is too large for the base, or the base is not from 2 to 36
        raise Unreadable from None


def _power_of_ten(number: re.Match[str]) -> str:
    factor, power = (group for group in number.groups() if group)
    return rf"({factor}\cdot 10^{{{power}}})"


RULES = (
    Rule("raised digits", "x²", "x^{2}", replacing("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+", _raised)),
    Rule("symbols", "2π", "2\\pi ", lambda text: text.translate(_SYMBOLS)),
    Rule("synonyms of commands", r"x\leq 2", r"x\le 2", replacing(r"\\([A-Za-z]+)", _command)),
    Rule(
        "names of functions",
        "sin(x)",
        r"\sin (x)",
        replacing(rf"(?<![A-Za-z\\{{])(?!min\Z)({_FUNCTIONS})(?![A-Za-z])", r"\\\1 "),
    ),
    Rule(
        "sign of degrees",
        r"30^{\circ}",
        r"30^\circ",
        replacing(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})", r"^\\circ"),
    ),
    Rule(
        "degrees in words",
        r"30\text{ degrees}",
        r"30^\circ",
        replacing(
            r"(?<=[0-9})]) ?(?:\\text\s?\{\s*degrees?\s*\}|\bdegrees?\b)",
            r"^\\circ",
        ),
    ),
    Rule("per cent", "5%", r"5\%", replacing(r"(?<!\\)%", r"\\%")),
    Rule("empty braces", r"\{ \}", r"\emptyset", replacing(r"\\\{\s*\\\}", r"\\emptyset")),
    Rule("primes", "f''", "f_{prime2}", replacing(r"([A-Za-z])('+)", _primed)),
    Rule(
        "minutes of an angle",
        r"7^\circ 30'",
        r"(\frac{27000}{3600})^\circ",
        replacing(_MINUTES, _degrees_with_minutes),
    ),
    Rule(
        "x for times",
        "1.5 x 10^3",
        r"1.5\times 10^3",
        replacing(r"(?<=[0-9])\s*x\s*(?=10\s*\^)", r"\\times "),
    ),
    Rule("outward brackets", "]1, 2[", "(1, 2)", replacing(_OUTWARD, _with_round_brackets)),
    Rule(
        "period of a decimal",
        r"0.1\overline{6}",
        r"(\frac{15}{90})",
        replacing(_PERIOD, _fraction_of_period),
    ),
    Rule("base of a number", "1101_2", "13", replacing(_BASE, _in_base_ten)),
    Rule(
        "power of ten",
        "1.5e3",
        r"(1.5\cdot 10^{3})",
        replacing(_SCIENTIFIC, _power_of_ten),
    ),
)


def spelled(text: str) -> str:
    """Return a cleaned answer in one LaTeX spelling. Raises Unreadable if a digit is too large for
    its base."""
    return rewritten(text, RULES).strip()


def as_power_of_ten(text: str) -> str | None:
    """Return 3e-4, which may also be 3e minus 4, as a power of ten. Return None for other texts."""
    number = _SMALL.fullmatch(text)
    return None if number is None else _power_of_ten(number)
