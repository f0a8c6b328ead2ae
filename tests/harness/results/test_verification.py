"""Self-scores: their AUC over all candidates and within problems, and their counts."""

from typing import Any

from harness.results.verification import SelfScores
from tests.helpers import documents


def step(*scores: tuple[bool | None, float | None]) -> dict[str, Any]:
    members = [
        documents.member(correct=correct, self_score=score, verdicts=[score])
        for correct, score in scores
    ]
    return documents.step(0, members)


def test_without_scores_there_is_no_field() -> None:
    scores = SelfScores(1)
    scores.add(0, documents.step(0, [documents.member()]))
    assert scores.figures() == {}


def test_only_a_full_score_is_right() -> None:
    scores = SelfScores(1)
    partly = step((False, 0.9), (True, 0.5))
    partly["members"][0]["grade"] = 0.9
    scores.add(0, partly)
    figures = scores.figures()["verification"]
    assert (figures["right"], figures["wrong"], figures["auc"]) == (1, 1, 0)


def test_scores_of_right_and_wrong_candidates_are_compared_within_problems_too() -> None:
    scores = SelfScores(1)
    scores.add(0, step((True, 0.9), (False, 0.1), (True, None)))
    scores.add(1, step((False, 0.95), (False, 0.95)))
    scores.add(2, step((None, 0.5)) | {"partial": True})
    figures = scores.figures()["verification"]
    assert (figures["right"], figures["wrong"], figures["auc"]) == (1, 3, 1 / 3)
    assert (figures["auc_within"]["value"], figures["auc_within"]["n"]) == (1.0, 1)
    assert (figures["verdicts"], figures["unreadable"]) == (6, 1)
    assert (figures["selections"], figures["uniform_selections"]) == (3, 2)
