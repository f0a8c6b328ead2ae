"""How good scores are: choices counted by hand, and figures recomputed from the members in plain
Python."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean
from typing import Any

import pytest
from msgspec import convert

from harness.results.model import ProblemResult
from harness.results.scores import MANY, Choice, Scores
from tests.helpers.documents import member, problem, step

Row = tuple[bool | None, float | None, int | None]  # right, score, group


def members(*rows: Row) -> list[dict[str, Any]]:
    """Return members. Scores of None are missing, as those of other populations."""
    built = []
    for is_right, score, group in rows:
        own: dict[str, Any] = {} if score is None else {"self_score": score}
        built.append(member(correct=is_right, group=group, **own))
    return built


def problems(*populations: Sequence[dict[str, Any]]) -> list[ProblemResult]:
    rows = [problem(f"p{i}", [step(0, own)]) for i, own in enumerate(populations)]
    return convert(rows, list[ProblemResult])


def choice(*rows: Row) -> Choice:
    (only,) = Scores(problems(members(*rows))).choices
    return only


def test_choices_are_those_counted_by_hand() -> None:
    counted = choice((True, 0.9, 1), (False, 0.5, 0), (False, 0.6, 0), (False, 0.2, None))
    assert (counted.best, counted.vote, counted.weighted_vote) == (1, 0, 0)
    assert (counted.random, counted.agreement) == (0.25, 0)
    weighted = choice((True, 0.9, 1), (False, 0.4, 0), (False, 0.4, 0))
    assert (weighted.best, weighted.vote, weighted.weighted_vote) == (1, 0, 1)


def test_ties_score_their_mean() -> None:
    counted = choice((True, 0.5, 0), (False, 0.5, 1))
    assert (counted.best, counted.vote, counted.weighted_vote) == (0.5, 0.5, 0.5)
    assert counted.agreement == 1, "both answers win the vote"


def test_scores_of_zero_are_equal_votes_and_silence_has_none() -> None:
    assert choice((True, 0.0, 0), (True, 0.0, 0), (False, 0.0, 1)).weighted_vote == 1
    silent = choice((False, 0.5, None), (False, 0.1, None))
    assert (silent.vote, silent.weighted_vote, silent.agreement) == (0, 0, 0)


def test_only_finished_candidates_with_score_and_grade_count() -> None:
    rows = problems(members((True, 0.5, 0), (None, 0.5, 1), (True, None, 0)))
    scores = Scores(rows)
    assert (scores.candidates, scores.problems, scores.unscored) == (1, 1, 2)
    unfinished = problem("p", [step(0, members((True, 0.5, 0))) | {"partial": True}])
    assert not Scores(convert([unfinished], list[ProblemResult])).choices


def test_negative_scores_have_no_weighted_vote() -> None:
    assert not Scores(problems(members((True, -0.5, 0)))).has_weights
    assert Scores(problems(members((True, 0.5, 0)))).has_weights
    proofs = Scores(problems(members((True, 0.5, None))))
    assert not proofs.has_votes and not proofs.has_weights


def drawn(seed: int, count: int) -> list[list[Row]]:
    rng = random.Random(seed)
    populations = []
    for _ in range(count):
        groups = [rng.randint(0, 2) for _ in range(4)]
        scores = [rng.choice([0.25, 0.5, rng.random()]) for _ in range(4)]
        rows: list[Row] = [(g == 0, s, g) for g, s in zip(groups, scores, strict=True)]
        populations.append(rows)
    return populations


def area(right: Sequence[float], wrong: Sequence[float]) -> float:
    pairs = [1.0 if r > w else 0.5 if r == w else 0.0 for r in right for w in wrong]
    return fmean(pairs)


def test_figures_follow_from_the_members() -> None:
    populations: list[Any] = drawn(1, 40)
    scores = Scores(problems(*(members(*rows) for rows in populations)))
    areas, bests, votes, weighted = [], [], [], []
    for rows in populations:
        right = [score for is_right, score, _ in rows if is_right]
        wrong = [score for is_right, score, _ in rows if not is_right]
        if right and wrong:
            areas.append(area(right, wrong))
        highest = max(score for _, score, _ in rows)
        bests.append(fmean(is_right for is_right, score, _ in rows if score == highest))
        counts = Counter(group for *_, group in rows)
        most = [group for group in counts if counts[group] == max(counts.values())]
        votes.append(fmean(group == 0 for group in most))
        sums = defaultdict[int, float](float)
        for _, score, group in rows:
            sums[group] += score
        largest = [group for group in sums if sums[group] > max(sums.values()) - 1e-9]
        weighted.append(fmean(group == 0 for group in largest))
    assert scores.within().value == pytest.approx(fmean(areas))
    assert scores.within().n == len(areas)
    everything = [row for rows in populations for row in rows]
    right = [score for is_right, score, _ in everything if is_right]
    wrong = [score for is_right, score, _ in everything if not is_right]
    pooled = scores.pooled()
    assert pooled is not None and pooled.value == pytest.approx(area(right, wrong))
    assert scores.share(lambda each: each.best).value == pytest.approx(fmean(bests))
    assert scores.share(lambda each: each.vote).value == pytest.approx(fmean(votes))
    assert scores.share(lambda each: each.weighted_vote).value == pytest.approx(fmean(weighted))
    gain = scores.gain(lambda each: each.best)
    assert gain.value == pytest.approx(fmean(bests) - fmean(votes))


@pytest.mark.parametrize(("count", "parts"), [(MANY // 4, 10), (MANY // 4 - 1, 5)])
def test_parts_are_tenths_or_fifths_with_equal_scores_together(count: int, parts: int) -> None:
    rng = random.Random(3)
    populations: list[Any] = [
        [(rng.random() < 0.5, rng.random(), 0) for _ in range(4)] for _ in range(count)
    ]
    divided = Scores(problems(*(members(*rows) for rows in populations))).parts()
    sizes = [part.candidates for part in divided]
    assert len(divided) == parts and sum(sizes) == 4 * count
    assert max(sizes) - min(sizes) <= 1
    assert all(one.high <= other.low for one, other in pairwise(divided))
    ordered = sorted((score, is_right) for rows in populations for is_right, score, _ in rows)
    lowest = ordered[: sizes[0]]
    assert divided[0].right.value == pytest.approx(fmean(is_right for _, is_right in lowest))
    binary: list[Any] = [[(True, 1.0, 0), (False, 0.0, 1), (True, 1.0, 0)]] * 30
    two = Scores(problems(*(members(*rows) for rows in binary))).parts()
    assert [(part.low, part.high, part.candidates) for part in two] == [(0, 0, 30), (1, 1, 60)]
