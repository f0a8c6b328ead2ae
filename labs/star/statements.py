"""Decide whether two statements are the same, by the hash of their text without labels and
typesetting.

The hash ignores case, white space (except between words), full-width letters, invisible characters,
dollar signs, and kinds of dashes and quotes. It ignores LaTeX's spacing and sizes, braces around an
index or exponent of one character, punctuation at the ends, labels ("12. ", "Problem 12:") and
points ("(5 points)"). A rewording, a translation or another formula has another hash. `near` finds
some of these variants."""

import hashlib
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

GRAM = 8  # different statements rarely share so many words in a row

_CHARACTERS = str.maketrans(
    dict.fromkeys("−–—―‐‑‒", "-") | dict.fromkeys("“”„«»", '"') | dict.fromkeys("‘’‚`´", "'")
)
_SPACING = re.compile(
    r"\\(?:(?:left|right|bigg?[lr]?|displaystyle|textstyle|q?quad|thinspace|noindent)(?![a-z])"
    r"|[,;:!> ()\[\]])"
    r"|\\?[$~]"
)
_POINTS = r"[(\[]\s*[0-9]{1,3}\s*(?:points?|pts?\.?|marks?)\s*[)\]]"
# Problem 12:, Question:, Q3., 12., 12) or (a), with or without points, or only (5 points), but not
# only [5 points]
_LABEL = re.compile(
    r"(?:[\s#*>]*(?:(?:problem|question|exercise|example|task|[pq])\s*(?:[0-9]+[.:)]+|:)"
    rf"|\(?(?:[0-9]+(?:\.[0-9]+)*|[a-z])[.)](?=\s))[\s*]*(?:{_POINTS})?|\s*(?=\(){_POINTS})"
)
_WORTH = re.compile(rf"{_POINTS}[\s.]*\Z")
_BRACES = re.compile(r"(?<=[\^_])\{(\w)\}")
_SPACE = re.compile(r" (?!\w)|(?<!\w) ")  # not between two words
# stripped from both ends. Minus, factorial and brackets may belong to a formula
_ENDS = " .,:;?¿¡\"'*_#•。、"


def hash_of(statement: str) -> str:
    """Return the sha256 of the normalised `statement`, in hex."""
    return hashlib.sha256(normalised(statement).encode("utf-8", "surrogatepass")).hexdigest()


def normalised(statement: str) -> str:
    """Remove everything from `statement` that its hash ignores (see above)."""
    text = unicodedata.normalize("NFKC", statement)
    if not text.isascii():
        text = "".join(
            each for each in text if each.isspace() or unicodedata.category(each)[0] != "C"
        )
    text = text.translate(_CHARACTERS).casefold()
    text = _BRACES.sub(r"\1", re.sub(r"\\[dt]frac(?![a-z])", r"\\frac", _SPACING.sub(" ", text)))
    text = _WORTH.sub("", text[label.end() :] if (label := _LABEL.match(text)) else text)
    return _SPACE.sub("", " ".join(text.split())).strip(_ENDS)


def near(named: Iterable[tuple[str, str]], others: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the statements in `named` that share GRAM words in a row with a statement
    in `others`. `named` has pairs of a name and a statement. Numbers and letters in formulas count
    as words. Words that most of `others` share are a task's wording, and don't count."""
    texts = list(others)
    counts = Counter(gram for text in texts for gram in _grams(text))
    compared = {gram for gram, count in counts.items() if count <= max(1, len(texts) / 2)}
    return tuple(name for name, statement in named if not compared.isdisjoint(_grams(statement)))


def _grams(statement: str) -> set[str]:
    words = re.findall(r"\w+", statement.casefold())
    return {" ".join(words[start : start + GRAM]) for start in range(len(words) - GRAM + 1)}
