"""The kind "math": numbers, formulas, lists and words, compared by meaning with sympy."""

from core.grading.canonical import NOTHING, NUMBER, WORDS, canonical, dropped_name, read_value
from core.grading.numeric import Numeric
from core.grading.sympy_process import math_equal
from core.grading.verdicts import comparable, doubt_of, in_point_form, is_comparable


class Math(Numeric):
    name = "math"
    joins_boxes = True
    compares = True

    def clean(self, text: str) -> str | None:
        return read_value(text)

    def dropped_name(self, text: str) -> str:
        return dropped_name(text)

    def canonical(self, answer: str) -> str:
        return canonical(answer)

    def is_equal(self, answer: str, other: str) -> bool | None:
        """Compare values (see math_equal in sympy_process.py). This may block for seconds: in
        asyncio, use a thread. Raises UserError if sympy's process does not start."""
        mine = canonical(answer)
        theirs = canonical(other)
        if mine == theirs:
            return True
        if NUMBER.fullmatch(mine) and NUMBER.fullmatch(theirs):
            return False
        # words are not products of letters: star is not rats
        if WORDS.fullmatch(mine) or WORDS.fullmatch(theirs):
            return mine in NOTHING and theirs in NOTHING
        my_formula = comparable(answer)
        their_formula = comparable(other)
        verdict = math_equal(my_formula, their_formula)
        if verdict is False:
            pair = in_point_form(my_formula, their_formula)
            if pair is None:
                pair = in_point_form(their_formula, my_formula)
            if pair is not None:
                return self.is_equal(*pair)
        return verdict

    def doubt(self, answer: str, score: float) -> str | None:
        """Return a doubt about a wrong answer, unless it certainly differs from the reference."""
        truth = self.problem.answer if self.problem else None
        return doubt_of(answer, truth or "", score == 1)

    def is_readable(self, reference: str) -> bool:
        return is_comparable(reference)
