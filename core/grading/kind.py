"""Define a kind of answer: its form in prompts, its reading and its scores. The kind also checks
the rows of problem sets."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from core.base.errors import RowError
from core.constants import AUTO, BOXED, LAST_NUMBER, TEXT, WHOLE
from core.grading import text as readers
from core.grading.extraction import Extraction
from core.grading.grammar import Grammar
from core.types import BOX, MAX_ANSWER_CHARS, Problem

Cells = Mapping[str, Any]  # a row's cells by plain name, with "outer.inner" for objects


class Kind(Grammar):
    """A kind of answer, bound to a `problem`, or to None if only texts are read.

    kinds/__init__.py shows how to add a kind. The methods of Grammar (grammar.py) tell what the
    texts of a reply mean."""

    name: ClassVar[str]  # the answer_type of its problems
    is_proof: ClassVar[bool] = False  # asks for a proof, which has no answer to read or to vote on
    compares: ClassVar[bool] = False  # answers of different canonical forms may be equal
    claims_all: ClassVar[bool] = False  # claims rows only if it claims all rows of a set
    forms: ClassVar[Mapping[str, str]] = {
        BOXED: "put the final answer in \\boxed{}.",
        TEXT: 'end with a last line "The answer is …" that states the final answer.',
    }  # with LAST_NUMBER, if answers are numbers. Otherwise, ANSWER=number means "text"

    def __init__(self, problem: Problem | None = None) -> None:
        self.problem = problem

    # --- the prompt ---

    @classmethod
    def form(cls, way: str) -> str:
        """Return the text of {form} in prompts for a value of ANSWER."""
        way = BOXED if way in (AUTO, WHOLE) else way
        return cls.forms.get(way, cls.forms[TEXT])

    @classmethod
    def opening(cls, text: str, way: str) -> str:
        r"""Return the `text` that opens a forced answer, which ends with " \boxed{". The box is
        left out if the prompt asks for none."""
        return text.removesuffix(BOX) if way in (TEXT, LAST_NUMBER) else text

    # --- a reply ---

    def read(self, text: str, way: str = BOXED, truncated: bool = False) -> Extraction:
        """Read the answer of a reply's `text` in one of WAYS. Never raises."""
        if way == LAST_NUMBER and way not in self.forms:
            way = TEXT
        return readers.read(text, self, way, truncated)

    def places(self, text: str) -> list[tuple[int, int]] | None:
        """Return the start and end of each place with tags that states an answer. Return None for
        a kind without tags."""
        return None

    # --- votes and grades ---

    def spelling(self, answers: Sequence[str]) -> str:
        """Return the spelling that represents equal `answers`."""
        return min(answers, key=lambda answer: (len(answer), answer))

    def is_equal(self, answer: str, other: str) -> bool | None:
        """Return whether two answers are equal, or None without a verdict."""
        return self.canonical(answer) == self.canonical(other)

    def score(self, answer: str | None) -> float | None:
        """Score an answer from 0 (wrong) to 1 (right), or None without a verdict. Raises UserError
        if something outside of the answer is missing."""
        truth = self.problem.answer if self.problem else None
        if answer is None or truth is None:
            return 0.0
        verdict = self.is_equal(answer, truth)
        return None if verdict is None else float(verdict)

    def doubt(self, answer: str, score: float) -> str | None:
        """Return why the `score` of an answer may be mistaken, or None."""
        return None

    def is_readable(self, reference: str) -> bool:
        """Return whether answers can be compared with this reference by meaning. May block."""
        return True

    # --- a row of a problem set ---

    @classmethod
    def claims(cls, problem: Problem, cells: Cells) -> bool:
        """Return whether a row without an answer type belongs to this kind. `problem` has the row's
        statement and answer, as far as it has them."""
        return False

    @classmethod
    def complete(cls, problem: Problem, cells: Cells) -> Problem:
        """Return the problem of a row with its checked reference answer, and with `details` if the
        kind needs any. A missing or unreadable answer is None. Raises RowError."""
        answer = problem.answer
        if answer is None:
            return problem
        if len(answer) > MAX_ANSWER_CHARS or answer in ("nan", "inf", "-inf"):
            raise RowError(
                f"the answer is nan, inf or over {MAX_ANSWER_CHARS} characters",
                "Give the final answer alone",
                f"{answer:.40}",
            )
        return problem

    @classmethod
    def check_together(cls, rows: Sequence[tuple[Problem, Cells]]) -> None:
        """Raise RowError if the rows of a set contradict each other."""

    @classmethod
    def shuffled(cls, problem: Problem, seed: int) -> Problem:
        """Return the problem with its options in an order drawn from the seed (SHUFFLE)."""
        return problem

    @classmethod
    def published(cls, problem: Problem) -> Problem:
        """Return the problem as before it was shuffled."""
        return problem
