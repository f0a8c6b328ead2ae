"""The vote of the first samples of a run with one step."""

from pathlib import Path

import pytest

from harness.report import votes
from harness.report.data import Results
from harness.results.model import MemberResult
from tests.helpers import reports


def member(group: int | None, grade: float) -> MemberResult:
    return MemberResult(
        answer=None if group is None else str(group),
        correct=grade == 1,
        doubt=None,
        group=group,
        parents=[],
        grade=grade,
        finish_reason="stop",
        prompt_tokens=1,
        cached_tokens=0,
        completion_tokens=1,
        seconds=1.0,
        key="0" * 32,
    )


@pytest.mark.parametrize(
    ("members", "score"),
    [
        ([(0, 1.0)], 1.0),
        ([(0, 1.0), (1, 0.0)], 0.5),
        ([(0, 1.0), (1, 0.0), (1, 0.0)], 0.0),
        ([(0, 0.25), (0, 0.25), (None, 0.0)], 0.25),
        ([(None, 0.0), (None, 0.0)], 0.0),
    ],
)
def test_a_tie_scores_the_mean_of_its_answers(
    members: list[tuple[int | None, float]], score: float
) -> None:
    assert votes.score([member(*fields) for fields in members]) == score


def test_the_curve_ends_at_the_figures_of_the_run(tmp_path: Path) -> None:
    run = Results(reports.results(tmp_path, problems=5, N=6, T=0) / "02_rsa_basic.json")
    curve = votes.curve(run)
    step = run.document["metrics"]["steps"][0]
    assert [point["samples"] for point in curve] == [1, 2, 4, 6]
    assert curve[-1]["majority_accuracy"] == step["majority_accuracy"]
    assert curve[-1]["tokens"] == step["completion_tokens"]
    assert not votes.curve(Results(reports.results(tmp_path) / "02_rsa_basic.json"))
