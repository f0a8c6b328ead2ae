"""The figures of README and docs/results.md, counted again from docs/data."""

from pathlib import Path

import pytest

from harness.report import transitions_table
from harness.report.budgets import Row, in_unit, pair, rows
from harness.report.data import Results
from harness.report.tables import interval, shift
from tests.conftest import ROOT

DATA = ROOT / "docs" / "data" / "qwen"
TEXT = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
SVAMP = ("12_majority", "01_greedy", "13_best_of_p_true", "02_rsa_basic_4")


def line_of(name: str) -> str:
    """Return the first line of the page's table about an entry."""
    return next(line for line in TEXT.splitlines() if line.startswith(f"| `{name}`"))


def figures_of(folder: Path, names: tuple[str, ...], samples: list[float]) -> list[Row]:
    runs = {name: [folder / f"{name}-seed0.json"] for name in names}
    figures = rows(runs, in_unit(samples, runs[names[0]]))
    pair(figures, names[0])
    return figures


@pytest.mark.parametrize("name", SVAMP)
def test_accuracies_at_equal_tokens(name: str) -> None:
    line = line_of(name)
    for row in figures_of(DATA / "svamp", SVAMP, [2.5, 5.5, 10.5]):
        if row.name == name and row.unanswered < 0.5:
            assert interval(row.accuracy.to_json()) in line
            last = row
    assert f"{last.means['tokens']:,.0f}" in line
    if last.against:
        assert shift(last.against.difference, last.against.low, last.against.high) in line


def test_the_table_of_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    table = [line for line in text.splitlines() if line.startswith("| ")]
    names = ("12_majority", "02_rsa_basic_4")
    vote, rsa = figures_of(DATA / "svamp", names, [5.5])
    cells = f"{interval(vote.accuracy.to_json())} | {interval(rsa.accuracy.to_json())} |"
    assert any(line.endswith(cells) for line in table)
    finals = []
    for name in names:
        metrics = Results(DATA / "svamp" / f"{name}-seed0.json").head.document["metrics"]
        finals.append(interval(metrics["steps"][-1]["majority_accuracy"]))
    assert any(line.endswith(f"{finals[0]} | {finals[1]} |") for line in table)


def test_transitions() -> None:
    run = Results(DATA / "svamp" / "02_rsa_basic_4-seed0.json")
    table = transitions_table.report(run).tables[0]
    cells = {column.head: column.cells for column in table.columns}
    for parents, count, right in zip(
        cells["right parents"], cells["count"], cells["right"], strict=True
    ):
        assert f"| {parents} | {count} | {right} |" in TEXT


def test_greedy_decoding_on_gsm8k() -> None:
    head = Results(DATA / "gsm8k" / "01_baseline.json").head
    accuracy = head.document["metrics"]["steps"][0]["mean_accuracy"]
    assert interval(accuracy).replace(" [", "% [") in TEXT
