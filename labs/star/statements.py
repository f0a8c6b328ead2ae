r"""Whether two statements are one: by the hash of their words and formulas, without labels and type-setting.

These make no difference: case, spacing, full-width letters, characters that are not seen, dollar signs, bold,
punctuation at the ends; a label ("12. ", "Problem 12:") and points ("(5 points)"); spellings of one formula (× \times
\cdot *, 1,000 and 1000, x^{2} and x², \dfrac12 and 1/2, \leq and ≤). A rewording is not found, nor are another
language, renamed variables, changed numbers or a sentence more. `near` counts some of those by shared words.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable

GRAM = 8  # words in a row that two statements share by chance seldom
PASSES = 20  # what is stripped may bare more of it

# A backslash and the letters behind it are one token, so that no half of \\ or \$ is ever cut off.
_TOKEN = re.compile(r"\\(?:[a-z]+|[\s\S])|[$~]|<=(?!>)|>=")
_MEANING = (
    dict.fromkeys(("$", "~", r"\$", r"\(", r"\)", r"\[", r"\]"), " ")
    | dict.fromkeys((r"\!", r"\,", r"\;", r"\:", r"\>", "\\ ", "\\\n", "\\\t", r"\quad", r"\qquad", r"\thinspace"), " ")
    | dict.fromkeys((r"\left", r"\right", r"\displaystyle", r"\textstyle", r"\limits", r"\nolimits"), " ")
    | dict.fromkeys((r"\big", r"\bigl", r"\bigr", r"\bigg", r"\biggl", r"\biggr", r"\noindent", r"\bf"), " ")
    | dict.fromkeys((r"\dfrac", r"\tfrac", r"\cfrac"), r"\frac")
    | {r"\times": "*", r"\cdot": "*", r"\ast": "*", r"\div": "/", r"\neq": r"\ne"}
    | {r"\leq": r"\le", r"\leqslant": r"\le", "<=": r"\le ", r"\geq": r"\ge", r"\geqslant": r"\ge", ">=": r"\ge "}
    | {r"\%": "%", r"\degree": r"^\circ"}
)
_UNSEEN = re.compile(  # controls that are no white space, and what Unicode calls default ignorable
    "[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_CHARACTERS = str.maketrans(
    dict.fromkeys("−–—―‐‑‒", "-")
    | dict.fromkeys("“”„«»", '"')
    | dict.fromkeys("‘’‚`´", "'")
    | dict.fromkeys("×·⋅∙∗", "*")
    | dict.fromkeys("÷⁄∕", "/")
    | {"≤": r"\le ", "≥": r"\ge ", "≠": r"\ne ", "π": r"\pi ", "√": r"\sqrt ", "∞": r"\infty ", "∠": r"\angle "}
    | {"°": r"^\circ "}
)
_RAISED = re.compile("[²³¹⁰⁴-⁹]+")
_FRACTIONS = re.compile("[¼-¾⅐-⅟↉]")  # 1½ is no 11/2
_THOUSANDS = re.compile(r"(?<=[0-9])(?:,|\{,\}|\\,|[\u2009\u202f])(?=[0-9]{3}(?![0-9]))")
_LISTED = re.compile(r"(?<=[0-9])(?:, | , ?)(?=[0-9]{3}(?![0-9]))")  # 12, 345 is no 12,345
_WRAPPED = re.compile(r"\\(?:text(?:bf|it|rm)?|emph|mbox|math(?:bf|rm|it)|boldsymbol|bm)\s*\{([^{}]*)\}")
_BOLD = re.compile(r"(?<![\w)*])(\*{1,3}|_{2,3})(?=[^\s*_])([^*_\n]*[^*_\s])\1(?![\w(*])")
_WORTH = r"[0-9]{1,3}\s*(?:points?|pts?\.?|marks?)"
_BEHIND = rf"(?:[(\[]\s*{_WORTH}\s*[)\]]|{_WORTH}\.(?=\s))"  # behind a label; "[5 points] on a circle" begins no label
_POINTS = re.compile(rf"\A\s*(?:\(\s*{_WORTH}\s*\)|{_WORTH}\.(?=\s))|[(\[]\s*{_WORTH}\s*[)\]](?=[\s.]*\Z)")
_NUMBER = r"#?[0-9]++(?:\.[0-9]+)*+"
_LABEL = re.compile(  # Problem 12 (AIME):, Question:, Q3., 12., (a), each with points; not: Problem 12 is
    r"(?:[\s#*>]*(?:(?:problem|question|exercise|example|task|prob\.|ex\.|no\.|q|p)\s*"
    rf"(?:{_NUMBER}[a-z]?\b\s*(?:\([^()]*\)\s*)?[.:)-]+|:)|\(problem\s+{_NUMBER}\)"
    rf"|(?:problem|exercise|example)\s+{_NUMBER}(?:[^\S\n]*\n|(?=\s*{_BEHIND}))"
    rf"|{_NUMBER}\.(?=\s)|[(\[]?(?:{_NUMBER}|[a-z])[)\]:](?=\s+[$\\]?[a-z]|\s*{_BEHIND})))+(?:\s*{_BEHIND})?"
)
_FRACTION = re.compile(r"\\frac *(?:(?<!\\)\{ *(\w+) *\} *\{ *(\w+) *\}|([0-9])([0-9]))")
# Braces around one letter, number or command (2^{n}, not x^{2n}); elsewhere around a word too (\overline{AB}).
_BRACES = re.compile(
    r"([\^_]) *\{ *([0-9]+|[^\W0-9_]|\\[a-z]+) *\}(?!\.[0-9]|,[0-9]{3})"
    r"|(?<![\\^_])(?<![\^_] )\{ *([0-9]*|[^\W0-9_]+) *\}"
)
_SPACE = re.compile(r" (?!\w)|(?<!\w) ")  # that keeps no two words apart
_ENDS = " .,:;?¿¡\"'*_#•。、"  # of no formula: no minus, no factorial, no bracket


def hash_of(statement: str) -> str:
    """The sha256 of `statement`, normalised, in hex."""
    return hashlib.sha256(normalised(statement).encode("utf-8", "surrogatepass")).hexdigest()


def normalised(statement: str) -> str:
    """Strip `statement` of its dress (above). Normalising once more changes nothing, unless it nests PASSES deep."""
    text = statement
    for _ in range(PASSES):
        before, text = text, _undressed(text)
        if text == before:
            break
    return text


def _undressed(text: str) -> str:
    text = _THOUSANDS.sub("", _RAISED.sub(r"^\g<0>", _UNSEEN.sub("", text)).translate(_CHARACTERS))
    text = _THOUSANDS.sub("", unicodedata.normalize("NFKC", _FRACTIONS.sub(r" \g<0> ", text)).casefold())
    text = _POINTS.sub(" ", _BOLD.sub(r"\2", _WRAPPED.sub(r" \1 ", text)))
    text = _TOKEN.sub(lambda token: _MEANING.get(token[0], token[0] + " " * token[0][1:].isalpha()), text)
    text = _LABEL.sub("", text, count=1) if _LABEL.match(text) else text
    text = _BRACES.sub(_bared, _FRACTION.sub(r" \1\3/\2\4 ", text))
    text = _SPACE.sub("", _LISTED.sub(";", " ".join(text.split())))
    return text.rstrip(_ENDS + "\\").lstrip(_ENDS + ">")


def _bared(braces: re.Match[str]) -> str:
    return f"{braces[1]}{braces[2]} " if braces[1] else f" {braces[3]} "  # 2^{3}4 is 2^3 4


def near(named: Iterable[tuple[str, str]], others: Iterable[str]) -> tuple[str, ...]:
    """Name the statements in `named` (names with statements) that share GRAM words in a row with any of the `others`.
    Numbers and the letters of formulas are words too."""
    known = {gram for other in others for gram in _grams(other)}
    return tuple(name for name, statement in named if not known.isdisjoint(_grams(statement)))


def _grams(statement: str) -> set[str]:
    words = re.findall(r"\w+", statement.casefold())
    return {" ".join(words[start : start + GRAM]) for start in range(len(words) - GRAM + 1)}
