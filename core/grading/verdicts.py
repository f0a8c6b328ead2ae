"""Prepare math answers for a comparison, and find the doubt about a verdict (doubts.py)."""

from core.grading.canonical import NOTHING, NUMBER, WORDS, canonical
from core.grading.cleaning import clean
from core.grading.doubts import (
    NO_MATHEMATICS,
    NO_REFERENCE,
    NOTATION,
    VERDICTS,
    doubt_of_kinds,
    doubt_of_options,
    doubt_of_words,
)
from core.grading.numerals import in_digits, with_point
from core.grading.sentence import is_prose, is_sentence
from core.grading.sympy_process import math_difference, math_equal, math_readable
from core.grading.units import compound


def comparable(answer: str) -> str:
    """Return the text of a math answer that sympy compares."""
    return in_digits(clean(answer) or "")


def in_point_form(answer: str, other: str) -> tuple[str, str] | None:
    """Return both texts with the decimal comma of `answer` as a point, or None if the `other` has
    commas."""
    number = with_point(answer)
    return None if number is None or "," in other else (number, other)


def is_comparable(answer: str) -> bool:
    """Return whether a formula can be compared by meaning, not only by spelling. Words cannot,
    except phrases such as "no solution". It may block or raise UserError, like is_equal."""
    text = canonical(answer)
    if NUMBER.fullmatch(text) or text in NOTHING:
        return True
    # The letters of words are no variables, but a quantity such as "2 hours and 15 minutes" is
    # read.
    formula = comparable(answer)
    is_words = WORDS.fullmatch(text) or (is_prose(formula) and compound(formula) is None)
    return bool(formula) and not is_words and math_readable(formula) is True


def doubt_of(answer: str, truth: str, verdict: bool) -> str | None:
    """Return why the `verdict` on two math answers may be mistaken (DOUBTS_OF_WRONG), or None.

    A right verdict has a doubt only if the reference answer may be a list: 12,5 for 12.5. Like
    core.eval.is_equal, this function may block for seconds."""
    return _doubt_of_right(answer, truth) if verdict else _doubt_of_wrong(answer, truth)


def _doubt_of_right(answer: str, truth: str) -> str | None:
    if canonical(answer) == canonical(truth):
        return None
    my_formula = comparable(answer)
    their_formula = comparable(truth)
    has_comma = in_point_form(their_formula, my_formula) is not None
    return NOTATION if has_comma and not math_equal(my_formula, their_formula) else None


def _doubt_of_wrong(answer: str, truth: str) -> str | None:
    mine = canonical(answer)
    theirs = canonical(truth)
    my_formula = comparable(answer)
    their_formula = comparable(truth)
    doubt = doubt_of_options(my_formula, their_formula)
    if doubt is not None:
        return doubt or None
    is_mine_words = _is_words(mine) and mine not in NOTHING
    is_theirs_words = _is_words(theirs) and theirs not in NOTHING
    if is_mine_words and is_theirs_words:
        return doubt_of_words(mine, theirs)
    is_mine_read = is_comparable(answer)
    is_theirs_read = is_comparable(truth)
    if not is_theirs_read and not is_theirs_words:
        return NO_REFERENCE
    if not is_mine_read and not is_mine_words:
        return NO_MATHEMATICS
    if is_mine_words or is_theirs_words or NOTHING & {mine, theirs}:
        doubt = doubt_of_kinds(mine, theirs)
        return NO_MATHEMATICS if doubt and not is_mine_read else doubt
    return math_difference(my_formula, their_formula)


def _is_words(text: str) -> bool:
    """Return whether a canonical text is a word or some words, such as "odd" or "true", and no
    sentence."""
    is_phrase = WORDS.fullmatch(text) is not None and not is_sentence(text)
    return is_phrase or text.lower() in VERDICTS
