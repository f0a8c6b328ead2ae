"""Grade a proof: ask a grader for points, as often as is wanted, and say what is missing.

What no grader could grade is no 0. A proof that was cut off or is empty is never sent; a grading that fails, is cut off
or states no points is asked for once more, under another seed, and is missing data after that. An answer is compared
by math-verify first, and a grader is asked for what that leaves in doubt.
"""

import asyncio
import hashlib
import statistics
from dataclasses import dataclass

from core.grading import answers
from core.results.points import CUT_OFF, EMPTY, NOT_DELIVERED
from core.types import MAX_POINTS, Ask, Completion, Member, Problem
from labs.proofs import points
from labs.proofs.defence import shown
from labs.proofs.rubric import Prompt, asked

ATTEMPTS = 2  # at each grading
FAILED, FILTERED, UNREADABLE = "failed", "filtered", "unreadable"
BY_MATH_VERIFY, BY_GRADER = "math-verify", "grader"


@dataclass(frozen=True)
class Grading:
    """One grading: the `points`, None where they are missing, and then `why`; the grader's own words; what it took,
    the attempt that came to nothing included."""

    points: int | None
    why: str | None
    reason: str
    calls: tuple[Completion, ...] = ()


@dataclass(frozen=True)
class Points:
    """What a proof is worth. `ungraded`: why nobody was to grade it (CUT_OFF, EMPTY, FAILED, FILTERED); else the
    `gradings`, the `scheme` that the grader was shown, and the characters of a self-evaluation that it was not. `by`:
    who decided."""

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
        """The mean, in points; None where there is no grading."""
        found = self.readable
        return None if not found else found[0] if len(found) == 1 else statistics.fmean(found)

    @property
    def spread(self) -> float | None:
        """The standard deviation of several gradings, n - 1 in its denominator."""
        return statistics.stdev(self.readable) if len(self.readable) > 1 else None

    @property
    def counted(self) -> float | None:
        """Its points in means: 0 where the solver delivered no proof, None where they are missing."""
        return 0 if self.ungraded in NOT_DELIVERED else self.grade

    @property
    def missing(self) -> str | None:
        """Why it has no grade, and counts nowhere; None where it does."""
        if self.counted is not None:
            return None
        return self.ungraded or f"grading {next((each.why for each in self.gradings if each.why), UNREADABLE)}"

    @property
    def calls(self) -> list[Completion]:
        """All that the grading took."""
        return [call for each in self.gradings for call in each.calls]


def undelivered(proof: Completion) -> str | None:
    """Why a completion holds no proof that could be graded; None where it does."""
    if proof.error:
        return FAILED
    if proof.filtered:
        return FILTERED
    if proof.truncated and proof.forced is None:
        return CUT_OFF
    return None if proof.text.strip() else EMPTY


async def grade(
    problem: Problem, proof: Completion, ask: Ask, count: int, seed: int = 0, chosen: Prompt | None = None
) -> Points:
    """The points of a `proof`, or of an answer, in `count` gradings beside each other. What is asked follows from the
    problem, the proof and the run's `seed` alone. Raises UserError where the prompt can't be filled in."""
    why = undelivered(proof)
    decided = None
    if not problem.is_proof and why in (None, CUT_OFF):
        decided = await asyncio.to_thread(_compared, problem, proof)
    if decided or why:
        return decided or Points(ungraded=why)
    what = shown(proof.text)
    question = asked(problem, what, seed, chosen)
    name = hashlib.sha256(what.encode("utf-8", "surrogatepass")).hexdigest()

    async def one(number: int) -> Grading:
        calls: list[Completion] = []
        for attempt in range(ATTEMPTS):
            said = await ask(question.messages, "points", name, number, attempt)
            calls.append(said)
            found = None if unusable(said) else points.read(said.text, question.allowed, proof.text)
            if found is not None:
                break
        return Grading(found, None if found is not None else unusable(said) or UNREADABLE, said.text, tuple(calls))

    gradings = await asyncio.gather(*map(one, range(count)))
    return Points(tuple(gradings), None, question.scheme, len(proof.text.strip()) - len(what))


def _compared(problem: Problem, proof: Completion) -> Points | None:
    """What math-verify says of an answer without a doubt; None where it leaves one. It blocks. What was cut off behind
    the right answer has said it; behind a wrong one, it has not had its last word."""
    grade = answers.grade_answers(problem, [Member(proof)]).grades[0]
    is_right_so_far = grade.doubt == "truncated" and grade.value == 1
    if grade.is_undecided or (grade.doubt and not is_right_so_far):
        return None
    words = f"The box holds {grade.answer}, and the right answer is {problem.answer}."
    return Points((Grading(MAX_POINTS * int(grade.value == 1), None, words),), by=BY_MATH_VERIFY)


def unusable(said: Completion) -> str | None:
    """Why nothing is to be read from what a grader said."""
    return FAILED if said.error else FILTERED if said.filtered else CUT_OFF if said.truncated else None
