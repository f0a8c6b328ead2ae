"""Grade a proof: ask a grader a given number of times for the proof's points, and record missing
gradings. Failed, filtered and empty proofs are never sent. A truncated proof is sent only if its
answer was forced. A grading is missing after two replies without points, and never counts as 0.
Answers are sent only after a doubtful comparison."""

import asyncio
import hashlib
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from core.base.prices import Prices
from core.eval import grade_answers
from core.types import MAX_POINTS, Ask, Completion, Member, Message, Problem
from harness.results.model import total
from harness.results.proof_points import CUT_OFF, EMPTY, NOT_DELIVERED, undelivered
from labs.proofs.defence import shown
from labs.proofs.rubric import Prompt, asked, read_points

ATTEMPTS = 2  # for each grading
UNREADABLE = "unreadable"
BY_MATH_VERIFY, BY_GRADER = "math-verify", "grader"
T = TypeVar("T")


@dataclass(frozen=True)
class Grading:
    """One grading. If `points` is None, `why` is the cause. `reason` is the grader's reply, or
    math-verify's result."""

    points: int | None
    why: str | None
    reason: str
    calls: tuple[Completion, ...] = ()


@dataclass(frozen=True)
class Points:
    """The `gradings` of a proof or an answer, and the judge (`by`). Without gradings, `ungraded`
    gives the reason.

    `scheme` is the scheme or the guidelines in the prompt. `left_out` counts a hidden
    self-evaluation's characters.
    """

    gradings: tuple[Grading, ...] = ()
    ungraded: str | None = None
    scheme: str = ""
    left_out: int = 0
    by: str = BY_GRADER

    @property
    def readable(self) -> list[int]:
        return [grading.points for grading in self.gradings if grading.points is not None]

    @property
    def grade(self) -> float | None:
        """The mean points of the readable gradings, or None if no grading is readable."""
        points = self.readable
        if not points:
            return None
        return points[0] if len(points) == 1 else statistics.fmean(points)

    @property
    def spread(self) -> float | None:
        """The sample standard deviation (n - 1) of the readable gradings' points, or None for fewer
        than two."""
        return statistics.stdev(self.readable) if len(self.readable) > 1 else None

    @property
    def points_share(self) -> float | None:
        """The value in means, from 0 to 1: 0 if the proof is truncated or empty, None if the grade
        is missing."""
        if self.ungraded in NOT_DELIVERED:
            return 0.0
        return None if self.grade is None else self.grade / MAX_POINTS

    @property
    def why(self) -> str | None:
        """The reason why the proof has no grade, or None if it has one."""
        if self.gradings and self.grade is None:
            reasons = [grading.why for grading in self.gradings if grading.why]
            return f"grading {reasons[0] if reasons else UNREADABLE}"
        return self.ungraded

    @property
    def calls(self) -> list[Completion]:
        return [call for grading in self.gradings for call in grading.calls]


async def attempts(
    ask: Ask, messages: Sequence[Message], read: Callable[[str], T | str | None], *names: str | int
) -> tuple[T | None, str | None, tuple[Completion, ...]]:
    """Ask up to ATTEMPTS times, until `read` returns a result. Returns (result, None, calls) or
    (None, reason, calls). If `read` can't read a reply, it returns None or a reason (a string)."""
    calls: list[Completion] = []
    result: T | str | None = None
    for attempt in range(ATTEMPTS):
        reply = await ask(messages, *names, attempt)
        calls.append(reply)
        reason = undelivered(reply)
        result = read(reply.text) if reason in (None, EMPTY) else reason
        if not isinstance(result, str | None):
            return result, None, tuple(calls)
    return None, str(result or UNREADABLE), tuple(calls)


async def grade(
    problem: Problem,
    proof: Completion,
    ask: Ask,
    count: int,
    seed: int = 0,
    chosen: Prompt | None = None,
) -> Points:
    """Return the points of a proof or an answer. If a grader is needed, it grades `count` times.
    Raises UserError."""
    reason = undelivered(proof)
    if not problem.is_proof and reason in (None, CUT_OFF):
        decided = await asyncio.to_thread(_compared, problem, proof)
        if decided:
            return decided
    if reason:
        return Points(ungraded=reason)
    text = shown(proof.text)
    messages, scheme = asked(problem, text, seed, chosen)
    name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    def read(reply: str) -> int | None:
        return read_points(reply, problem.is_proof, proof.text)

    async def grade_once(number: int) -> Grading:
        points, why, calls = await attempts(ask, messages, read, "points", name, number)
        return Grading(points, why, calls[-1].text, calls)

    gradings = await asyncio.gather(*map(grade_once, range(count)))
    return Points(tuple(gradings), None, scheme, len(proof.text.strip()) - len(text))


def _compared(problem: Problem, proof: Completion) -> Points | None:
    """Compare an answer with the reference answer. Returns its points, or None in case of doubt.
    Blocks the thread."""
    grade = grade_answers(problem, [Member(proof)]).grades[0]
    # The missing part of a truncated solution might have corrected a wrong answer.
    is_right_so_far = grade.doubt == "truncated" and grade.value == 1
    if grade.is_undecided or (grade.doubt and not is_right_so_far):
        return None
    words = (
        f"The solution's answer is {grade.answer}, and the reference answer is {problem.answer}."
    )
    return Points((Grading(MAX_POINTS * int(grade.value == 1), None, words),), by=BY_MATH_VERIFY)


def fields(points: Points, prices: Prices | None) -> dict[str, Any]:
    """Return the fields of a graded proof, by their names in results. The names in lines are in
    harness/report/jsonl.py."""
    return {
        "grade": points.grade,
        "points_share": points.points_share,
        "ungraded": points.why,
        "graded_by": points.by if points.gradings else None,
        "grades": [grading.points for grading in points.gradings],
        "spread": points.spread,
        "reasons": [grading.reason for grading in points.gradings],
        "scheme": points.scheme,
        "self_evaluation_left_out": points.left_out,
        "grade_cost": cost(points.calls, prices),
    }


def counts(points: Sequence[Points], prices: Prices | None) -> dict[str, Any]:
    """Count proofs with a grade, proofs without a grade, gradings, tokens and dollars."""
    gradings: list[Grading] = []
    calls: list[Completion] = []
    for proof in distinct(points):
        calls += proof.calls
        if proof.by == BY_GRADER:
            gradings += proof.gradings
    ungraded = Counter(proof.ungraded for proof in points)
    missing = Counter(proof.why for proof in points if proof.points_share is None)
    unread = [grading.why or UNREADABLE for grading in gradings if grading.points is None]
    return {
        "proofs": len(points),
        "graded": len([proof for proof in points if proof.grade is not None]),
        "not_delivered": {reason: ungraded[reason] for reason in NOT_DELIVERED if ungraded[reason]},
        "missing": dict(missing),
        "gradings": len(gradings),
        "missing_gradings": dict(Counter(unread)),
        "asked_again": sum(len(grading.calls) - 1 for grading in gradings),
        **cost(calls, prices),
    }


def distinct(points: Sequence[Points]) -> list[Points]:
    """Return each object once, because equal proofs share one Points object."""
    return list({id(proof): proof for proof in points}.values())


def cost(calls: Sequence[Completion], prices: Prices | None) -> dict[str, float | None]:
    """Return the tokens and dollars of `calls`. Failed calls count as free. A figure is None if the
    server did not count all its tokens. Dollars are also None without `prices`."""
    counted = [call.counted for call in calls if not call.error]
    return {
        "input_tokens": total([prompt for prompt, _, _ in counted]),
        "output_tokens": total([written for _, _, written in counted]),
        "cost": total([prices.dollars(each) for each in counted]) if prices else None,
    }
