"""Measure from stored results how well scores tell right from wrong candidates, and how often each
way of choosing by them is right.

A candidate counts if it is finished, and has a score and a grade. Each population with such
candidates makes one choice. Figures have intervals over problems. Merged runs of a problem form one
cluster."""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from core.base import stats
from core.base.auc import pooled_auc
from core.base.stats import Estimate
from harness.results.model import MemberResult, ProblemResult
from harness.results.transitions import is_right, mean_share
from harness.results.voting import vote_score

MANY = 200  # candidates, which are divided into TENTHS
TENTHS = 10
FIFTHS = 5  # the parts of fewer candidates
NEAR = 1e-9  # scores or sums that differ by less are equal


@dataclass(frozen=True)
class Candidate:
    """A candidate: its score, whether it is right, and its member in the results."""

    score: float
    is_right: bool
    member: MemberResult


Row = tuple[Candidate, str]  # a candidate and its problem


@dataclass(frozen=True)
class Choice:
    """A choice among the `candidates` of a population of a problem."""

    problem: str
    candidates: Sequence[Candidate]

    @property
    def random(self) -> float:
        """The chance that a candidate drawn at random is right."""
        return fmean(candidate.is_right for candidate in self.candidates)

    @property
    def best(self) -> float:
        """The chance that the candidate with the best score is right. Ties are broken at
        random."""
        return fmean(candidate.is_right for candidate in self._best)

    @property
    def vote(self) -> float:
        """The share of right answers among the winners of the vote."""
        members = [candidate.member for candidate in self.candidates]
        rights = [float(candidate.is_right) for candidate in self.candidates]
        return vote_score(members, rights)

    @property
    def weighted_vote(self) -> float:
        """The share of right answers among the answers with the largest sum of scores. Without
        answers, it is 0. If all scores are 0, it is the vote."""
        groups = self._groups
        sums = {}
        for group, candidates in groups.items():
            sums[group] = sum(candidate.score for candidate in candidates)
        largest = max(sums.values(), default=0.0)
        if largest == 0:
            return self.vote
        shares = []
        for group, candidates in groups.items():
            if sums[group] >= largest - NEAR:
                shares.append(fmean(candidate.is_right for candidate in candidates))
        return fmean(shares)

    @property
    def agreement(self) -> float:
        """The chance that the answer of the candidate with the best score wins the vote, maybe with
        others."""
        groups = self._groups
        most = max(map(len, groups.values()), default=0)
        winners = [group for group in groups if len(groups[group]) == most]
        return fmean(candidate.member.group in winners for candidate in self._best)

    @property
    def _best(self) -> list[Candidate]:
        highest = max(candidate.score for candidate in self.candidates)
        near = highest - NEAR
        return [candidate for candidate in self.candidates if candidate.score >= near]

    @property
    def _groups(self) -> dict[int, list[Candidate]]:
        groups = defaultdict[int, list[Candidate]](list)
        for candidate in self.candidates:
            if candidate.member.group is not None:
                groups[candidate.member.group].append(candidate)
        return groups


@dataclass(frozen=True)
class Part:
    """The candidates with scores from `low` to `high`, and the share that is right."""

    low: float
    high: float
    candidates: int
    right: Estimate


class Scores:
    """The scored candidates of a run. `unscored` counts candidates without a readable score or a
    grade, in populations with scores."""

    def __init__(self, problems: Sequence[ProblemResult]) -> None:
        self.choices: list[Choice] = []
        self.unscored = 0
        self._problems = problems
        for problem in problems:
            for candidates, unscored in _populations(problem):
                self.choices.append(Choice(problem.id, candidates))
                self.unscored += unscored

    @property
    def candidates(self) -> int:
        return sum(len(choice.candidates) for choice in self.choices)

    @property
    def problems(self) -> int:
        return len({choice.problem for choice in self.choices})

    @property
    def has_votes(self) -> bool:
        """True if answers have been grouped."""
        return any(candidate.member.group is not None for candidate, _ in self._rows())

    @property
    def has_weights(self) -> bool:
        """True if the scores can be added: none is negative."""
        return self.has_votes and all(candidate.score >= 0 for candidate, _ in self._rows())

    def within(self) -> Estimate:
        """Return the mean of the AUCs within problems that have both right and wrong
        candidates."""
        by_problem = defaultdict[str, list[float]](list)
        for problem in self._problems:
            scored: list[Candidate] = []
            for candidates, _ in _populations(problem):
                scored += candidates
            area = stats.auc(_scores(scored, True), _scores(scored, False))
            if area is not None:
                by_problem[problem.id].append(area)
        return stats.mean_by_problem([fmean(areas) for areas in by_problem.values()])

    def pooled(self) -> Estimate | None:
        """Return the AUC over all candidates, or None without both right and wrong ones."""
        by_problem = defaultdict[str, list[Candidate]](list)
        for candidate, problem in self._rows():
            by_problem[problem].append(candidate)
        right = [_scores(candidates, True) for candidates in by_problem.values()]
        wrong = [_scores(candidates, False) for candidates in by_problem.values()]
        return pooled_auc(right, wrong)

    def share(self, read: Callable[[Choice], float]) -> Estimate:
        """Average a figure of the choices, in [0, 1]."""
        return mean_share((choice.problem, read(choice)) for choice in self.choices)

    def gain(self, read: Callable[[Choice], float]) -> Estimate:
        """Return a figure of the choices minus the same choices' vote, paired by problem."""
        before = self._by_problem(lambda choice: choice.vote)
        after = self._by_problem(read)
        pair = stats.paired(before, after)
        return Estimate(pair.difference, pair.low, pair.high, pair.n)

    def _by_problem(self, read: Callable[[Choice], float]) -> list[float]:
        by_problem = defaultdict[str, list[float]](list)
        for choice in self.choices:
            by_problem[choice.problem].append(read(choice))
        return [fmean(values) for values in by_problem.values()]

    def parts(self) -> list[Part]:
        """Divide the candidates by their scores into tenths, or fewer than MANY into fifths, the
        lowest scores first. Equal scores stay together, so parts may differ in size or be
        missing."""
        rows = list(self._rows())
        count = TENTHS if len(rows) >= MANY else FIFTHS
        places = _middle_places([candidate.score for candidate, _ in rows])
        by_part = defaultdict[int, list[Row]](list)
        for row, place in zip(rows, places, strict=True):
            number = math.floor(count * place)
            by_part[number].append(row)
        return [_part(by_part[number]) for number in sorted(by_part)]

    def _rows(self) -> Iterator[Row]:
        for choice in self.choices:
            for candidate in choice.candidates:
                yield candidate, choice.problem


def _part(rows: Sequence[Row]) -> Part:
    scores = [candidate.score for candidate, _ in rows]
    right = mean_share((problem, float(candidate.is_right)) for candidate, problem in rows)
    return Part(min(scores), max(scores), len(rows), right)


def _populations(problem: ProblemResult) -> Iterator[tuple[list[Candidate], int]]:
    """Yield the candidates of each finished population with scores, and the number of its other
    members."""
    for step in problem.steps:
        if step.partial:
            continue
        candidates = []
        for member in step.members:
            verdict = is_right(member)
            if member.self_score is not None and verdict is not None:
                candidates.append(Candidate(member.self_score, verdict, member))
        if candidates:
            yield candidates, len(step.members) - len(candidates)


def _scores(candidates: Sequence[Candidate], is_right: bool) -> list[float]:
    return [candidate.score for candidate in candidates if candidate.is_right is is_right]


def _middle_places(scores: Sequence[float]) -> list[float]:
    """Return the place of each score in ascending order, in (0, 1). Equal scores share the middle
    of their places."""
    ranks = defaultdict[float, list[int]](list)
    for rank, score in enumerate(sorted(scores)):
        ranks[score].append(rank)
    places = {score: (fmean(equal) + 0.5) / len(scores) for score, equal in ranks.items()}
    return [places[score] for score in scores]
