"""The text of a run: its table of steps for each kind of run, and the parts below the table."""

from typing import Any

import pytest

from harness.report.run_table import markdown, steps_table, text
from tests.helpers import documents

RATE = documents.RATE
LOST = {"value": None, "low": None, "high": None, "n": 0}
UNGRADED = {"mean_accuracy": LOST, "majority_accuracy": LOST, "pass_at_k": {}}
OVER_RUNS = {"mean": 0.5, "std": 0.02, "values": [0.48, 0.52]}
RUNS = {"mean_accuracy": OVER_RUNS, "majority_accuracy": OVER_RUNS}
PRICES = {"read": 1.0, "cached": 0.1, "written": 10.0, "on": "2026-11-23"}
PROOFS: dict[str, Any] = {
    "points": RATE,
    "good": RATE,
    "full": RATE,
    "proofs": 4,
    "groups": {"source": {"a": {"points": RATE, "good": RATE, "full": RATE}}},
    "written": {
        "right": {"proofs": 1, "thinking": 20.0, "answer": 30.0},
        "wrong": {"proofs": 3, "thinking": None, "answer": None},
    },
    "not_delivered": {"empty": 1},
    "missing": {"cut off": 2},
    "runs": None,
}
ANSWERS = ["mean accuracy", "majority accuracy", "pass@1"]
COSTS = ["tokens", "tokens so far", "seconds", "truncated", "forced"]
COUNTS = ["no answer", "doubtful", "failed"]


def document(*steps: dict[str, Any], **parts: Any) -> Any:
    metrics = [documents.metrics_of_step(number, **step) for number, step in enumerate(steps)]
    return documents.document([documents.problem("1", [])], metrics, **parts)


def heads(*steps: dict[str, Any], **parts: Any) -> list[str]:
    return [column.head for column in steps_table(document(*steps, **parts)).columns]


def cells(head: str, *steps: dict[str, Any], **parts: Any) -> list[str]:
    columns = steps_table(document(*steps, **parts)).columns
    return list(next(column.cells for column in columns if column.head == head))


@pytest.mark.parametrize(
    ("step", "parts", "expected"),
    [
        ({"problems": 1}, {}, ["step", *ANSWERS, *COSTS, *COUNTS]),
        ({"problems": 1, "stage": "draft"}, {}, ["step", *ANSWERS, *COSTS, *COUNTS]),
        ({"problems": 1, "elicited": 2}, {}, ["step", *ANSWERS, *COSTS, "elicited", *COUNTS]),
        ({"problems": 1, "undecided": 1}, {}, ["step", *ANSWERS, *COSTS, *COUNTS, "undecided"]),
        (
            {"problems": 1, "runs": RUNS},
            {"runs": {"by": "mean", "seeds": [0]}},
            ["step", *ANSWERS[:2], "mean, runs", "majority, runs", "pass@1", *COSTS, *COUNTS],
        ),
        (
            {"problems": 1, "cost": 0.5},
            {"prices": PRICES},
            ["step", *ANSWERS, *COSTS[:2], "cost", *COSTS[2:], *COUNTS],
        ),
        (
            {"problems": 1},
            {"metrics": {"proofs": PROOFS}},
            ["step", "mean points, % of 7", *COSTS, *COUNTS[1:]],
        ),
        (
            {"problems": 1, "runs": RUNS},
            {"metrics": {"proofs": PROOFS}, "runs": {"by": "mean", "seeds": [0]}},
            ["step", "mean points, % of 7", "points, runs", *COSTS, *COUNTS[1:]],
        ),
        (
            {"problems": 1} | UNGRADED,
            {"metrics": {"proofs": PROOFS}},
            ["step", "grades", *COSTS, *COUNTS[1:]],
        ),
    ],
)
def test_each_kind_of_run_has_its_columns(
    step: dict[str, Any], parts: dict[str, Any], expected: list[str]
) -> None:
    assert heads(step, **parts) == expected


def test_cells_are_figures_with_their_intervals_and_units() -> None:
    first = {"stage": "draft", "uncounted": 1}
    second = {"verification_tokens": 5, "completion_tokens": 1234, "generation_seconds": 1234.5}
    assert cells("step", first, second) == ["0 draft", "1"]
    assert cells("mean accuracy", first) == ["50.0 [25.0, 75.0]"]
    assert cells("pass@1", first, {"pass_at_k": {}}) == ["50.0 [25.0, 75.0]", "-"]
    two = {"pass_at_k": {"1": RATE, "2": RATE}}
    assert cells("pass@k", first, two) == ["pass@1 50.0 [25.0, 75.0]", "pass@2 50.0 [25.0, 75.0]"]
    assert cells("tokens", first, second) == ["≥ 10", "1,234 + 5"]
    assert cells("tokens so far", first, second) == ["10", "1,249"]
    assert cells("tokens so far", {"completion_tokens": None}, second) == ["unknown", "unknown"]
    assert cells("seconds", first, second) == ["1", "1,234"]
    assert cells("failed", {"failed": 3}) == ["3"]
    costs = cells("cost", {"cost": 0.5, "uncounted": 1}, {"cost": 2.0}, prices=PRICES)
    assert costs == ["≥ $0.5000", "$2.00"]
    assert cells("points, runs", {"runs": RUNS}, {}, metrics={"proofs": PROOFS}) == [
        "50.0 ± 2.0",
        "-",
    ]


def test_the_page_shows_counts_as_shares_and_marks_those_above_a_tenth() -> None:
    page = steps_table(document({"failed": 1, "truncated": 2, "completions": 10})).page()
    shares = dict(zip(page["heads"], page["rows"][0], strict=True))
    assert shares["failed"] == ("10.0%", "1 of 10", False)
    assert shares["truncated"] == ("20.0%", "2 of 10", True)
    assert "forced" not in shares and "forced" in page["legend"]


def test_counts_that_are_not_0_stay_in_80_columns_and_times_go_first() -> None:
    counts = {"truncated": 3, "unread": 2, "failed": 1, "doubtful": 5, "completions": 9}
    costs = {"completion_tokens": 123_456, "generation_seconds": 123_456.0}
    width = 80
    lines = steps_table(document(counts | costs, counts | costs)).body(width).splitlines()
    assert max(map(len, lines)) <= width
    assert all(head in lines[0] for head in ("truncated", "no answer", "failed"))
    assert "seconds, tokens" in lines[-1]


def test_markdown_has_every_table_of_the_text() -> None:
    one = markdown(document({"problems": 1}))
    assert "| step | mean accuracy | majority accuracy |" in one
    assert "| pass@1 |" in one and "accuracies in %" in one
    points = markdown(document({"problems": 1}, metrics={"proofs": PROOFS}))
    assert "| source a | 1 |" in points and "grade missing, and not counted: 2 truncated" in points
    wait = {"waits": 0, "mean_accuracy": RATE, "waited": 3, "completion_tokens": 40}
    assert "**Waits**" in markdown(document({"problems": 1, "waits": [wait]}))


def test_a_run_of_one_step_has_pass_at_k_below_its_table() -> None:
    one = text(document({"problems": 1}))
    assert "pass@1  50.0 [25.0, 75.0]\n" in one
    assert "pass@1  " not in text(document({"problems": 1}, {"problems": 1}))
    assert "\nseconds            summed over requests\n" in one
    unit = "\naccuracies in %, with 95% intervals over problems"
    assert one.endswith(unit)
    short = text(document({"problems": 1}), has_legend=False)
    assert short.endswith(unit) and "summed over requests" not in short


def test_graded_proofs_have_points_by_group_and_lines_for_missing_grades() -> None:
    lines = text(document({"problems": 1}, metrics={"proofs": PROOFS})).splitlines()
    rows = [" ".join(line.split()) for line in lines]
    assert "all 1 50.0 [25.0, 75.0] 50.0 [25.0, 75.0] 50.0 [25.0, 75.0]" in rows
    assert "source a 1 50.0 [25.0, 75.0] 50.0 [25.0, 75.0] 50.0 [25.0, 75.0]" in rows
    assert "in %, with 95% intervals over problems, from 4 proofs" in lines
    assert (
        "mean tokens of the 1 right proofs (6 points or more): 20 thinking + 30 answer, by "
        "characters"
    ) in lines
    assert not any("wrong proofs" in line for line in lines)
    assert "not graded, and counted as 0 points: 1 empty" in lines
    assert "grade missing, and not counted: 2 truncated" in lines


def test_answers_after_waits_have_a_table_with_gains_over_none() -> None:
    wait = {"mean_accuracy": RATE, "waited": 3, "completion_tokens": 40}
    gain = {"value": 0.1, "low": -0.1, "high": 0.3, "n": 1}
    waits = [{"waits": 0, **wait}, {"waits": 1, "gain": gain, **wait, "completion_tokens": None}]
    step = {"problems": 1, "completions": 4, "waits": waits}
    rows = [" ".join(line.split()) for line in text(document(step)).splitlines()]
    assert "0 50.0 [25.0, 75.0] 40" in rows
    assert "1 50.0 [25.0, 75.0] +10.0 [-10.0, +30.0] 3 of 4 unknown" in rows
    several = [" ".join(line.split()) for line in text(document(step, step)).splitlines()]
    assert "1 0 50.0 [25.0, 75.0] 40" in several, "the step comes first"


def test_scores_name_their_candidates_and_figures() -> None:
    checked = {"auc": 0.75, "right": 3, "wrong": 4, "auc_within": {"n": 0}}
    step = {"problems": 1, "partly_right": 2, "pass_at_k": {}}
    shown = text(document(step, metrics={"verification": checked}))
    assert "AUC 0.750 (3 full score, 4 other candidates)" in shown
    assert cells("full score", step) == ["-"]
    assert cells("partly right", step, {"problems": 1}) == ["2", "0"]


@pytest.mark.parametrize(
    ("auc", "within", "expected"),
    [
        (None, {}, "no AUC, because it needs scores of both right and wrong candidates"),
        (0.75, {"n": 0}, "AUC 0.750 (3 right, 4 wrong candidates)"),
        (
            0.75,
            {"n": 2, "value": 0.5, "low": 0.25, "high": 0.75},
            "AUC 0.750 (3 right, 4 wrong candidates). Within a problem: 0.500 [0.250, 0.750] (n=2)",
        ),
    ],
)
def test_verification_has_its_auc(auc: float | None, within: Any, expected: str) -> None:
    checked = {"auc": auc, "right": 3, "wrong": 4, "auc_within": within}
    lines = text(document({"problems": 1}, metrics={"verification": checked})).splitlines()
    assert f"verification: {expected}" in lines
