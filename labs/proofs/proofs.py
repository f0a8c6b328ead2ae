"""Grade a proof: ask a grader for points, as often as wanted, and record missing data.
A truncated or empty proof is never sent. A grading without points is requested once more; then it is missing, not 0.
math-verify compares an answer first, and the grader decides only the doubtful ones."""

import asyncio
import hashlib
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from core.grading import answers
from core.results.points import CUT_OFF, EMPTY, NOT_DELIVERED
from core.types import MAX_POINTS, Ask, Completion, Member, Message, Problem
from labs.proofs import points
from labs.proofs.defence import shown
from labs.proofs.rubric import Prompt, asked

ATTEMPTS = 2  # at each grading
FAILED, FILTERED, UNREADABLE = "failed", "filtered", "unreadable"
BY_MATH_VERIFY, BY_GRADER = "math-verify", "grader"
T = TypeVar("T")


@dataclass(frozen=True)
class Grading:
    """One grading: the `points`, or None and `why`; the grader's reply as the `reason`; the calls of all attempts."""

    points: int | None
    why: str | None
    reason: str
    calls: tuple[Completion, ...] = ()


@dataclass(frozen=True)
class Points:
    """The points of a proof: `ungraded`, a reason why it was not sent, or `gradings`.

    `scheme`: as the grader was shown it. `left_out`: characters of a self-evaluation that the grader was not shown.
    """

    gradings: tuple[Grading, ...] = ()
    ungraded: str | None = None
    scheme: str = ""
    left_out: int = 0
    by: str = BY_GRADER

    @property
    def readable(self) -> list[int]:
        return [each.points for each in self.gradings if each.points is not None]

    @property
    def grade(self) -> float | None:
        """The mean of the gradings, in points; None if there is none."""
        found = self.readable
        return None if not found else found[0] if len(found) == 1 else statistics.fmean(found)

    @property
    def spread(self) -> float | None:
        """The standard deviation of several gradings (of a sample: n - 1)."""
        return statistics.stdev(self.readable) if len(self.readable) > 1 else None

    @property
    def counted(self) -> float | None:
        """The points in means: 0 if the solver delivered no proof, None if they are missing."""
        return 0 if self.ungraded in NOT_DELIVERED else self.grade

    @property
    def missing(self) -> str | None:
        """The reason why it is in no mean; None if it is in them."""
        if self.counted is not None:
            return None
        return self.ungraded or f"grading {next((each.why for each in self.gradings if each.why), UNREADABLE)}"

    @property
    def calls(self) -> list[Completion]:
        return [call for each in self.gradings for call in each.calls]


def unusable(reply: Completion) -> str | None:
    """Return why a reply can't be read, if so."""
    is_cut_off = reply.truncated and reply.forced is None
    return FAILED if reply.error else FILTERED if reply.filtered else CUT_OFF if is_cut_off else None


def undelivered(proof: Completion) -> str | None:
    """Return why a completion holds no proof to be graded; None if it does."""
    return unusable(proof) or (None if proof.text.strip() else EMPTY)


async def attempts(
    ask: Ask, messages: Sequence[Message], read: Callable[[str], T | str | None], *names: str | int
) -> tuple[T | None, str | None, tuple[Completion, ...]]:
    """Ask up to ATTEMPTS times, until `read` returns more than None or a reason; return that, the reason, all calls."""
    calls: list[Completion] = []
    found: T | str | None = None
    for attempt in range(ATTEMPTS):
        calls.append(await ask(messages, *names, attempt))
        found = unusable(calls[-1]) or read(calls[-1].text)
        if not isinstance(found, str | None):
            return found, None, tuple(calls)
    return None, str(found or UNREADABLE), tuple(calls)


async def grade(
    problem: Problem, proof: Completion, ask: Ask, count: int, seed: int = 0, chosen: Prompt | None = None
) -> Points:
    """Return the points of a `proof`, or of an answer, from `count` gradings at once. Raises UserError."""
    why = undelivered(proof)
    decided = None
    if not problem.is_proof and why in (None, CUT_OFF):
        decided = await asyncio.to_thread(_compared, problem, proof)
    if decided or why:
        return decided or Points(ungraded=why)
    what = shown(proof.text)
    question = asked(problem, what, seed, chosen)
    name = hashlib.sha256(what.encode("utf-8", "surrogatepass")).hexdigest()

    def read(text: str) -> int | None:
        return points.read(text, question.allowed, proof.text)

    async def one(number: int) -> Grading:
        found, why, calls = await attempts(ask, question.messages, read, "points", name, number)
        return Grading(found, why, calls[-1].text, calls)

    gradings = await asyncio.gather(*map(one, range(count)))
    return Points(tuple(gradings), None, question.scheme, len(proof.text.strip()) - len(what))


def _compared(problem: Problem, proof: Completion) -> Points | None:
    """Return the points of an answer by math-verify; None if it is in doubt. It blocks."""
    grade = answers.grade_answers(problem, [Member(proof)]).grades[0]
    # A solution that was cut off after a wrong answer might have corrected it.
    is_right_so_far = grade.doubt == "truncated" and grade.value == 1
    if grade.is_undecided or (grade.doubt and not is_right_so_far):
        return None
    words = f"The box holds {grade.answer}, and the right answer is {problem.answer}."
    return Points((Grading(MAX_POINTS * int(grade.value == 1), None, words),), by=BY_MATH_VERIFY)
