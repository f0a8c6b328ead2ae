"""The kind "integer": whole numbers from 0 to 999, as in AIME. They lose units, and are compared as
text. A set has this kind if every row without another kind has such an answer."""

import re
from dataclasses import replace

from core.base.errors import RowError
from core.grading.canonical import is_aime
from core.grading.cleaning import clean
from core.grading.kind import Cells
from core.grading.numeric import Numeric
from core.types import Problem


class Integer(Numeric):
    name = "integer"
    claims_all = True

    def clean(self, text: str) -> str | None:
        return clean(text, keeps_units=False)

    def fault(self, answer: str) -> str | None:
        return None if is_aime(answer) else "not an integer"

    def canonical(self, answer: str) -> str:
        cleaned = self.clean(answer)
        return answer if cleaned is None else cleaned

    def is_equal(self, answer: str, other: str) -> bool | None:
        form = self.canonical(answer)
        return is_aime(form) and form == self.canonical(other)

    def is_readable(self, reference: str) -> bool:
        return is_aime(self.canonical(reference))

    @classmethod
    def claims(cls, problem: Problem, cells: Cells) -> bool:
        return problem.answer is not None and _is_whole(problem.answer)

    @classmethod
    def complete(cls, problem: Problem, cells: Cells) -> Problem:
        if problem.answer is None:
            return problem
        if not _is_whole(problem.answer):
            raise RowError(
                'the answer_type is "integer", but the answer is not an integer from 0 to 999',
                'Correct it, or give the answer_type "math"',
                f"{problem.answer!r:.40}",
            )
        return replace(problem, answer=str(int(problem.answer)))


def _is_whole(answer: str) -> bool:
    return re.fullmatch(r"[0-9]{1,20}", answer) is not None and int(answer) <= 999
