"""Scores from confidences, the weighted vote and its filter, each against DeepConf's or
search-and-learn's definition in plain Python."""

import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.base.errors import UserError
from core.rsa import RSA
from core.types import CONFIDENCE, Completion, NamedPopulation, Population
from harness.run import solve_sync
from harness.scaffolds import confidence
from harness.scaffolds.best_of import BEST_OF, best_of, weighted_vote
from harness.scaffolds.confidence import LARGEST_GROUP, PARTLY, UNLISTED, Confident, group_size
from harness.scaffolds.rsa_verified import RSA_VERIFIED
from tests.fakes.model import Model, Names, constants_with, run, traced
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import TWO, journal_lines, load

SURE: dict[str, Any] = {"N": 4, "SCORE": CONFIDENCE}


def windows(confidences: Sequence[float], size: int) -> list[float]:
    """List the mean of each window of `size` tokens, or of all tokens if they are fewer."""
    if len(confidences) < size:
        return [math.fsum(confidences) / len(confidences)]
    starts = range(len(confidences) - size + 1)
    return [math.fsum(confidences[start : start + size]) / size for start in starts]


@pytest.mark.parametrize("tokens", [1, 2, 7, 8, 9, 40])
@pytest.mark.parametrize("group", [1, 3, 8, 2048])
def test_measures_are_those_of_deepconf(tokens: int, group: int) -> None:
    rng = random.Random(tokens)
    confidences = [round(rng.expovariate(0.1), 4) for _ in range(tokens)]
    last = confidences[-group:] if tokens > group else confidences
    assert confidence.mean(confidences, group) == pytest.approx(sum(confidences) / tokens)
    assert confidence.tail(confidences, group) == pytest.approx(sum(last) / len(last))
    expected = min(windows(confidences, group))
    assert confidence.lowest(confidences, group) == pytest.approx(expected)


def test_a_group_is_deepconfs_with_the_default_cap_and_smaller_below() -> None:
    assert group_size(constants_with({})) == LARGEST_GROUP == 2048
    caps = {1: 1, 100: 12, 400: 50, 64_000: 2048}
    assert {cap: group_size(constants_with({"MAX_TOKENS": cap})) for cap in caps} == caps
    assert group_size(constants_with({"MAX_TOKENS": 100, "GROUP": 7})) == 7
    assert Confident().CONFIDENCE == "mean"


def stages(populations: Sequence[Population]) -> list[str]:
    return [each.name for each in populations if isinstance(each, NamedPopulation)]


def sampled(confidences: Sequence[Sequence[float]], answers: Sequence[str] = ()) -> Model:
    """Return a model whose sample i has these confidences and this answer."""

    def reply(names: Names, prompt: str) -> Completion:
        i = int(names[1])
        answer = answers[i] if answers else "\\boxed{42}"
        return Completion("", 0, answer=answer, confidences=list(confidences[i]))

    return Model(reply)


@pytest.mark.parametrize(("measure", "winner"), [("mean", 0), ("tail", 1), ("lowest", 2)])
def test_the_surest_solution_wins_without_a_request(measure: str, winner: int) -> None:
    model = sampled([[9, 9, 0, 0], [0, 0, 0, 9], [3, 3, 3, 3], [1, 1, 1, 1]])
    config = {**SURE, "CONFIDENCE": measure, "GROUP": 1 if measure == "lowest" else 2}
    populations = run(best_of, model, **config)
    solutions, scored, (best,) = populations
    assert [changes for *_, changes in model.asked] == [{"confidences": True}] * 4
    assert BEST_OF.max_completions(constants_with(config)) == 4
    assert stages(populations) == ["solutions", "scored", "best score"]
    assert solutions[0].self_score is None
    assert best.parents == [winner]
    assert not any(member.side_calls or member.verdicts for member in scored)


def test_a_solution_without_log_probabilities_has_no_score_and_a_note() -> None:
    model = sampled([[1.0], [], [3.0], []], ["\\boxed{1}", "\\boxed{1}", "\\boxed{1}", ""])
    _, scored, (best,) = run(best_of, model, **SURE)
    assert [member.self_score for member in scored] == [1.0, None, 3.0, None]
    assert [member.notes.count(UNLISTED) for member in scored] == [0, 1, 0, 0]
    assert best.parents == [2]


def test_listing_only_a_part_of_the_tokens_is_a_note() -> None:
    """A server may list the tokens of the answer, but not those of the thinking."""
    counts = [0, 20, 40]

    def reply(names: Names, prompt: str) -> Completion:
        tokens = counts[int(names[1])]
        return Completion("", 0, answer="a", completion_tokens=tokens, confidences=[1.0] * 12)

    _, scored, _ = run(best_of, Model(reply), **SURE | {"N": 3})
    assert [PARTLY in member.notes for member in scored] == [False, False, True]
    assert all(member.self_score == 1.0 for member in scored)


def test_rsa_draws_by_confidence_without_a_request() -> None:
    config = constants_with({"N": 4, "K": 2, "T": 2, "SCORE": CONFIDENCE, "TAU": 0.001})
    assert RSA_VERIFIED.max_completions(config) == RSA.max_completions(config) == 12
    populations, model = traced(
        RSA_VERIFIED.run,
        lambda names, prompt: Completion(
            "", 0, answer=f"I am {names}", confidences=[float(names[1])]
        ),
        **vars(config),
    )
    assert len(model.asked) == 12
    assert [member.self_score for member in populations[0]] == [0.0, 1.0, 2.0, 3.0]
    assert all(sorted(member.parents) == [2, 3] for member in populations[1])
    assert [member.self_score for member in populations[2]] == [None] * 4


# --- the weighted vote ---


def by_definition(
    answers: Sequence[str | None], scores: Sequence[float], drop: float
) -> tuple[set[str], int]:
    """Return the answers with the largest sum of scores, and the number of solutions that vote.
    DeepConf keeps the solutions whose score is at least a percentile of all scores."""
    voters = [(a, s) for a, s in zip(answers, scores, strict=True) if a is not None]
    ordered = sorted(score for _, score in voters)
    place = drop * (len(ordered) - 1)
    below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
    threshold = below + (above - below) * (place - math.floor(place))
    kept = [(answer, score) for answer, score in voters if score >= threshold - 1e-9]
    sums = {answer: sum(s for a, s in kept if a == answer) for answer, _ in kept}
    return {a for a in sums if sums[a] >= max(sums.values()) - 1e-9}, len(kept)


@pytest.mark.parametrize("drop", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_the_weighted_vote_is_that_of_search_and_learn_with_deepconfs_filter(drop: float) -> None:
    rng = random.Random(1)
    for _ in range(200):
        n = rng.randint(1, 12)
        answers = [rng.choice(["a", "b", "c", None]) for _ in range(n)]
        answers[0] = "a"
        scores = [rng.choice([0.25, 0.5, 1.0, rng.random()]) for _ in range(n)]
        winners, kept = by_definition(answers, scores, drop)
        chosen = weighted_vote(answers, np.array(scores), drop)
        assert {answers[i] for i in chosen} == winners
        assert len(chosen) <= kept


def test_a_frequent_answer_outweighs_the_best_score() -> None:
    answers = ["\\boxed{1}", "\\boxed{2}", "so \\boxed{2.0}", "I give up"]
    confidences = [[5.0], [3.0], [4.0], [9.0]]
    vote = {**SURE, "CHOOSE": "weighted_vote"}
    populations = run(best_of, sampled(confidences, answers), **vote)
    assert stages(populations)[-1] == "weighted vote"
    assert populations[-1][0].parents == [2], "the best-scored solution of the answer 2"
    dropping = run(best_of, sampled(confidences, answers), **vote, DROP=0.9)
    assert dropping[-1][0].parents == [0], "only the best-scored answer votes"
    assert run(best_of, sampled(confidences, answers), **SURE)[-1][0].parents == [3]


def test_scores_of_zero_are_equal_votes() -> None:
    answers = ["a", "b", "b", None]
    assert weighted_vote(answers, np.zeros(4)) == [1, 2]
    assert weighted_vote([None, None], np.ones(2)) == [0, 1]


def test_a_negative_score_can_not_be_added() -> None:
    with pytest.raises(UserError, match="CHOOSE=best"):
        weighted_vote(["a", "b"], np.array([-1.0, 2.0]))


def test_the_second_model_has_no_part_in_a_confidence() -> None:
    for scaffold in (BEST_OF, RSA_VERIFIED):
        with pytest.raises(UserError, match="VERIFIER=model"):
            scaffold.constants(SCORE=CONFIDENCE, VERIFIER="scorer")


def test_stored_scores_follow_from_the_journal(server: ScriptedServer, results: Path) -> None:
    solve_sync(BEST_OF, TWO, name="best", N=3, SCORE=CONFIDENCE, CONFIDENCE="lowest", GROUP=2)
    document = load(results, "best")
    stored = {}
    for line in journal_lines(results, "best"):
        record = json.loads(line)
        stored[record["key"]] = record["completion"]["confidences"]
    members = [m for problem in document["problems"] for m in problem["steps"][1]["members"]]
    assert len(members) == 6
    for member in members:
        lowest = min(windows(stored[member["key"]], 2))
        assert member["self_score"] == pytest.approx(lowest, abs=1e-6)
