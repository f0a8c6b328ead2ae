"""Decide whether two statements are the same, by the hash of their text without labels and type-setting.

These make no difference: case, blanks, full-width letters, invisible characters, kinds of dashes and quotes, dollar
signs, LaTeX's spacing and sizes, braces around one character, punctuation at the ends, a label ("12. ", "Problem 12:")
and points ("(5 points)"). A rewording, a translation or another formula is another statement. `near` counts some of
those."""

import hashlib
import re
import unicodedata
from collections.abc import Iterable

GRAM = 8  # words in a row that two statements rarely share by chance

_CHARACTERS = str.maketrans(dict.fromkeys("−–—―‐‑‒", "-") | dict.fromkeys("“”„«»", '"') | dict.fromkeys("‘’‚`´", "'"))
_SPACING = re.compile(
    r"\\(?:(?:left|right|bigg?[lr]?|displaystyle|textstyle|q?quad|thinspace|noindent)(?![a-z])|[,;:!> ()\[\]])"
    r"|\\?[$~]"
)
_POINTS = r"[(\[]\s*[0-9]{1,3}\s*(?:points?|pts?\.?|marks?)\s*[)\]]"
# Problem 12:, Question:, Q3., 12., 12), (a), with points or without; (5 points), but not [5 points] of a circle
_LABEL = re.compile(
    r"(?:[\s#*>]*(?:(?:problem|question|exercise|example|task|[pq])\s*(?:[0-9]+[.:)]+|:)"
    rf"|\(?(?:[0-9]+(?:\.[0-9]+)*|[a-z])[.)](?=\s))[\s*]*(?:{_POINTS})?|\s*(?=\(){_POINTS})"
)
_WORTH = re.compile(rf"{_POINTS}[\s.]*\Z")
_BRACES = re.compile(r"(?<=[\^_])\{(\w)\}")
_SPACE = re.compile(r" (?!\w)|(?<!\w) ")  # not between two words
_ENDS = " .,:;?¿¡\"'*_#•。、"  # never part of a formula: no minus, no factorial, no bracket


def hash_of(statement: str) -> str:
    """Return the sha256 of `statement`, normalised, in hex."""
    return hashlib.sha256(normalised(statement).encode("utf-8", "surrogatepass")).hexdigest()


def normalised(statement: str) -> str:
    """Strip `statement` of everything that makes no difference (see above)."""
    text = unicodedata.normalize("NFKC", statement)
    if not text.isascii():
        text = "".join(each for each in text if each.isspace() or unicodedata.category(each)[0] != "C")
    text = text.translate(_CHARACTERS).casefold()
    text = _BRACES.sub(r"\1", re.sub(r"\\[dt]frac(?![a-z])", r"\\frac", _SPACING.sub(" ", text)))
    text = _WORTH.sub("", text[label.end() :] if (label := _LABEL.match(text)) else text)
    return _SPACE.sub("", " ".join(text.split())).strip(_ENDS)


def near(named: Iterable[tuple[str, str]], others: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the statements in `named` (name, statement) that share GRAM words in a row with one of
    `others`. Numbers and the letters of formulas are words too."""
    known = {gram for other in others for gram in _grams(other)}
    return tuple(name for name, statement in named if not known.isdisjoint(_grams(statement)))


def _grams(statement: str) -> set[str]:
    words = re.findall(r"\w+", statement.casefold())
    return {" ".join(words[start : start + GRAM]) for start in range(len(words) - GRAM + 1)}
