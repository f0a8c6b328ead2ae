"""Name the reasons why a wrong verdict on a math answer may be mistaken.

A wrong verdict has no doubt only if both answers were read as the same kind, such as numbers, and
differ in it. This module decides about words and choices, and differences.py about mathematics."""

import re

from core.grading.canonical import NUMBER

NO_MATHEMATICS = "not mathematics"
NO_REFERENCE = "reference not read"
KINDS = "different kinds"
VARIABLES = "different variables"
NAMES = "different names"
WORDING = "different words"
MEASURES = "different units"
NOTATION = "another notation"
ROUNDED = "rounded"

# Reasons why a wrong math answer may be right. A grade has only the first reason that applies.
DOUBTS_OF_WRONG = {
    NO_MATHEMATICS: "The answer was not read as mathematics, so spellings were compared.",
    NO_REFERENCE: "The reference answer was not read as mathematics, so spellings were compared.",
    KINDS: "One is a number, and the other a list, an equation, an interval, a matrix or words.",
    VARIABLES: "The variables differ: t^2+1 and x^2+1, or x+C and x.",
    NAMES: "The values are equal, but their names differ: a_1=3 and a_2=3.",
    WORDING: "Both are words that differ but may mean the same: True and Yes.",
    MEASURES: "Units differ or one lacks a unit, and another unit makes them equal: 50 cm and 0.5.",
    NOTATION: "Another notation makes them equal: 1.250 for 1250, 1101 in base two, or log for ln.",
    ROUNDED: "One is the other rounded: 3.14 and pi.",
}

_SYNONYMS = (
    {"true", "yes", "correct", "right", "always"},
    {"false", "no", "incorrect", "wrong", "never"},
    {"no", "none", "nothing", "impossible", "never", "nonexistent", "undefined", "dne"},
    {"infinity", "infinite", "unbounded", "divergent", "diverges"},
)
VERDICTS = _SYNONYMS[0] | _SYNONYMS[1]
_FILLERS = {"the", "a", "an", "is", "it", "on", "in", "at", "of", "to", "be"}
_OPTION = re.compile(r"\(?([A-J])(?:[.:)] ?| |\Z)(.*)")


def doubt_of_words(answer: str, truth: str) -> str | None:
    """Return a doubt if two different answers in words may mean the same.

    Only single words certainly differ, if they are no synonyms and begin with different letters."""
    mine = _words(answer)
    theirs = _words(truth)
    if len(mine) != 1 or len(theirs) != 1:
        return WORDING
    are_synonyms = any({*mine, *theirs} <= group for group in _SYNONYMS)
    return WORDING if are_synonyms or mine[0][:3] == theirs[0][:3] else None


def _words(text: str) -> list[str]:
    return [word for word in text.lower().split() if word not in _FILLERS]


def doubt_of_kinds(answer: str, truth: str) -> str | None:
    """Return a doubt about words and mathematics. A number certainly is neither yes nor no."""
    texts = {answer.lower(), truth.lower()}
    is_certain = texts & VERDICTS and any(map(NUMBER.fullmatch, texts))
    return None if is_certain else KINDS


def doubt_of_options(answer: str, truth: str) -> str | None:
    """Return a doubt if one answer is a choice's letter, and the other adds its text: (B) 42.

    Returns "" for two letters, which certainly differ, and None for other answers."""
    options = [_OPTION.fullmatch(text) for text in (answer, truth)]
    if not options[0] or not options[1]:
        return None
    (one, text), (other, more) = (option.groups() for option in options if option)
    if not text and not more:
        return ""
    return KINDS if one == other and not (text and more) else None
