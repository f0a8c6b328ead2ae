"""Count how often aggregations are right, by the number of their parents that are right.

An aggregation is a new candidate that was written from candidates of the last population, its
parents. Figures are over aggregations, with intervals over problems. Merged runs of a problem form
one cluster.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from statistics import fmean

from core.base import stats
from core.base.stats import Estimate
from core.grading.kind import Kind
from core.grading.kinds import kinds
from harness.results.model import MemberResult, ProblemResult, StepResult
from harness.results.proof_points import is_good
from harness.results.voting import vote_score

TextOf = Callable[[MemberResult], str | None]  # None if the journal lacks the completion
Family = tuple[MemberResult, list[MemberResult]]  # an aggregation and its parents


@dataclass(frozen=True)
class Aggregation:
    """An aggregation of a problem's candidates."""

    problem: str
    parents: int
    right_parents: int
    is_right: bool
    vote: float | None  # share of right answers among the winners, or None without votes
    has_answer: bool
    repeats_answer: bool  # of a parent
    repeats_text: bool | None  # of a parent, or None if a text is unknown

    @property
    def one_parent(self) -> float:
        """The chance that a parent drawn at random is right."""
        return self.right_parents / self.parents

    @property
    def is_mixed(self) -> bool:
        """True if some parents are right and others are wrong."""
        return 0 < self.right_parents < self.parents

    @property
    def is_new(self) -> bool:
        """True if no parent has this answer."""
        return self.has_answer and not self.repeats_answer


@dataclass(frozen=True)
class Diversity:
    """The mean number of distinct answers in the populations of a step, over problems."""

    step: int
    stage: str
    members: float  # mean size of the populations
    distinct: Estimate


@dataclass(frozen=True)
class Transitions:
    """The graded aggregations of a run. `ungraded` counts those with an ungraded parent or without
    a grade. `diversity` is empty without votes."""

    aggregations: Sequence[Aggregation]
    ungraded: int
    diversity: Sequence[Diversity]

    @property
    def by_right_parents(self) -> dict[tuple[int, int], list[Aggregation]]:
        """The aggregations by their numbers of parents and of right parents."""
        rows = defaultdict[tuple[int, int], list[Aggregation]](list)
        for aggregation in self.aggregations:
            rows[aggregation.parents, aggregation.right_parents].append(aggregation)
        return dict(sorted(rows.items()))


def _no_text(_: MemberResult) -> None:
    return None


def of_run(problems: Sequence[ProblemResult], text_of: TextOf = _no_text) -> Transitions:
    """Collect the aggregations of a run. `text_of` returns a candidate's reply after thinking."""
    aggregations: list[Aggregation] = []
    ungraded = 0
    has_votes = any(member.group is not None for member in _members(problems))
    for problem in problems:
        reader = _Reader(problem, has_votes, text_of)
        for child, parents in _families(problem.steps):
            aggregation = reader.read(child, parents)
            if aggregation:
                aggregations.append(aggregation)
            else:
                ungraded += 1
    return Transitions(aggregations, ungraded, _diversity(problems) if has_votes else [])


def is_right(member: MemberResult) -> bool | None:
    """Return whether a member has the full score, or as a proof enough points. Return None without
    a grade."""
    if not member.is_proof:
        return member.correct
    share = member.known_worth
    return None if share is None else is_good(share)


def mean_share(values: Iterable[tuple[str, float]]) -> Estimate:
    """Average the values of aggregations, in [0, 1], each with its problem."""
    by_problem = _by_problem(values)
    means = [fmean(numbers) for numbers in by_problem.values()]
    samples = [len(numbers) for numbers in by_problem.values()]
    return stats.mean_by_problem(means, samples)


def gain(aggregations: Sequence[Aggregation], baselines: Sequence[float]) -> Estimate:
    """Return the share of right aggregations minus the mean of their `baselines`, paired by
    problem. There is at least one aggregation."""
    problems = [aggregation.problem for aggregation in aggregations]
    rights = [float(aggregation.is_right) for aggregation in aggregations]
    before = _by_problem(zip(problems, baselines, strict=True)).values()
    after = _by_problem(zip(problems, rights, strict=True)).values()
    # Divided by one number, the sums of problems are in [0, 1], and keep the weights of problems.
    most = max(len(numbers) for numbers in before)
    sums_before = [sum(numbers) / most for numbers in before]
    sums_after = [sum(numbers) / most for numbers in after]
    pair = stats.paired(sums_before, sums_after)
    scale = most * pair.n / len(aggregations)
    low = max(-1.0, pair.low * scale)
    high = min(1.0, pair.high * scale)
    return Estimate(pair.difference * scale, low, high, pair.n)


def _by_problem(values: Iterable[tuple[str, float]]) -> dict[str, list[float]]:
    by_problem = defaultdict[str, list[float]](list)
    for problem, value in values:
        by_problem[problem].append(value)
    return by_problem


def _members(problems: Sequence[ProblemResult]) -> Iterator[MemberResult]:
    for problem in problems:
        for step in problem.steps:
            yield from step.members


def _families(steps: Sequence[StepResult]) -> Iterator[Family]:
    """Yield each aggregation with its parents. Carried-over members and failed requests are no new
    candidates, and unfinished solutions are only continued."""
    for before, step in pairwise(steps):
        if before.partial or step.partial:
            continue
        for member in step.members:
            if member.carried_over or member.error:
                continue
            parents = [before.members[j] for j in member.parents if j < len(before.members)]
            if parents:
                yield member, parents


class _Reader:
    """Compares the aggregations of a problem with their parents."""

    def __init__(self, problem: ProblemResult, has_votes: bool, text_of: TextOf) -> None:
        self._problem = problem.id
        self._has_votes = has_votes
        self._text_of = text_of
        self._texts: dict[str, str | None] = {}  # by key
        kind = kinds().get(problem.answer_type, Kind)()
        self._form = cache(kind.canonical)

    def read(self, child: MemberResult, parents: Sequence[MemberResult]) -> Aggregation | None:
        """Return the aggregation, or None if a grade is missing."""
        verdict = is_right(child)
        rights = [right for right in map(is_right, parents) if right is not None]
        if verdict is None or len(rights) < len(parents):
            return None
        return Aggregation(
            problem=self._problem,
            parents=len(parents),
            right_parents=sum(rights),
            is_right=verdict,
            vote=vote_score(parents, rights) if self._has_votes else None,
            has_answer=child.answer is not None,
            repeats_answer=self._repeats_answer(child, parents),
            repeats_text=self._repeats_text(child, parents),
        )

    def _repeats_answer(self, child: MemberResult, parents: Sequence[MemberResult]) -> bool:
        """Compare answers by the forms that votes count."""
        if child.answer is None:
            return False
        answers = [parent.answer for parent in parents if parent.answer is not None]
        return self._form(child.answer) in map(self._form, answers)

    def _repeats_text(self, child: MemberResult, parents: Sequence[MemberResult]) -> bool | None:
        text = self._text(child)
        texts = [self._text(parent) for parent in parents]
        if text is None or None in texts:
            return None
        return text != "" and text in texts

    def _text(self, member: MemberResult) -> str | None:
        if member.key not in self._texts:
            text = self._text_of(member)
            self._texts[member.key] = None if text is None else text.strip()
        return self._texts[member.key]


def _diversity(problems: Sequence[ProblemResult]) -> list[Diversity]:
    """Count the distinct answers in each step, except in steps with unfinished solutions or with
    one candidate."""
    by_step = defaultdict[int, list[tuple[str, StepResult]]](list)
    for problem in problems:
        for step in problem.steps:
            if not step.partial:
                by_step[step.step].append((problem.id, step))
    rows = [_of_step(by_step[number]) for number in sorted(by_step)]
    return [row for row in rows if row.members > 1]


def _of_step(populations: Sequence[tuple[str, StepResult]]) -> Diversity:
    _, first = populations[0]
    sizes = [len(step.members) for _, step in populations]
    most = max(sizes)  # makes shares of the counts, which have an interval
    share = mean_share((name, _count_distinct(step) / most) for name, step in populations)
    distinct = Estimate(share.value * most, share.low * most, share.high * most, share.n)
    return Diversity(first.step, first.stage, fmean(sizes), distinct)


def _count_distinct(step: StepResult) -> int:
    return len({member.group for member in step.members if member.group is not None})
