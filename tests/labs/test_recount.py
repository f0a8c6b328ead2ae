"""The figures of README and docs/results.md, counted again from docs/data."""

from pathlib import Path

import pytest

from harness.report import compare, scores_table, transitions_table
from harness.report.budgets import Row, in_unit, pair, rows
from harness.report.data import Results
from harness.report.tables import chance, interval, shift
from labs.star.aggregation import evaluate
from tests.conftest import ROOT

DATA = ROOT / "docs" / "data" / "qwen"
TEXT = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
LEARNING = (ROOT / "docs" / "learn_to_aggregate.md").read_text(encoding="utf-8")
SETS = {
    "svamp": "### Scaffolds at equal tokens, SVAMP",
    "chain_sum": "### Scaffolds at equal tokens, sums",
    "gsm8k_1.5b": "### A larger model: Qwen2.5-Coder-1.5B on GSM8K",
}
BUDGETS = {  # in samples
    "svamp": [2.5, 5.5, 10.5],
    "chain_sum": [2.5, 5.5, 10.5],
    "gsm8k_1.5b": [2.5, 5.5, 8.5],
}
README = {
    "vote of the samples": "12_majority",
    "one greedy reply": "01_greedy",
    "RSA (N=4, K=2)": "02_rsa_basic_4",
    "refinement": "14_refinement",
    "self-check": "09_selfcheck_verdict",
}


def table_of(set_name: str) -> dict[str, str]:
    """Return the rows of the page's table about a set, by entry."""
    section = TEXT.split(SETS[set_name])[1].split("\n### ")[0]
    return {line.split("`")[1]: line for line in section.splitlines() if line.startswith("| `")}


def figures_of(folder: Path, names: tuple[str, ...], samples: list[float]) -> list[Row]:
    runs = {}
    for name in names:
        [path] = folder.glob(f"{name}-seed0.*json")
        runs[name] = [path]
    figures = rows(runs, in_unit(samples, runs[names[0]]))
    pair(figures, names[0])
    return figures


@pytest.mark.parametrize("set_name", SETS)
def test_accuracies_at_equal_tokens(set_name: str) -> None:
    table = table_of(set_name)
    last = {}
    for row in figures_of(DATA / set_name, tuple(table), BUDGETS[set_name]):
        if row.unanswered < 0.5:
            assert interval(row.accuracy.to_json()) in table[row.name]
        last[row.name] = row
    assert len(last) >= 5
    for name, row in last.items():
        assert f"{row.means['tokens']:,.0f}" in table[name]
        if row.against and row.p_holm is not None:
            against = row.against
            assert shift(against.difference, against.low, against.high) in table[name]
            assert f"| {chance(against.p)} | {chance(row.p_holm)} |" in table[name]


def test_the_table_of_the_readme() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    columns = []
    for set_name in ("svamp", "chain_sum"):
        figures = figures_of(DATA / set_name, tuple(README.values()), [10.5])
        columns.append([interval(row.accuracy.to_json()) for row in figures])
    for scaffold, *cells in zip(README, *columns, strict=True):
        assert f"| {scaffold} | {' | '.join(cells)} |" in text


@pytest.mark.parametrize("set_name", SETS)
def test_transitions(set_name: str) -> None:
    run = Results(DATA / set_name / "02_rsa_basic_4-seed0.json")
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


def test_star() -> None:
    before, after, control = (
        Results(DATA / "star" / f"{name}.json")
        for name in ("seed63-round0", "seed63-round1", "no_filter-seed63-round1")
    )
    accuracies = [
        interval(run.head.document["metrics"]["steps"][0]["mean_accuracy"])
        for run in (before, after, control)
    ]
    assert f"| 0 | {accuracies[0]} |" in TEXT
    assert f"| 1 | {accuracies[1]} | {gain(before, after)} |" in TEXT
    assert f"| 1, without the filter | {accuracies[2]} | {gain(before, control)} |" in TEXT
    assert gain(control, after).replace(" [", " points [") in TEXT


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("svamp_mean", "`confidence`, mean"),
        ("svamp_tail", "`confidence`, tail"),
        ("svamp_lowest", "`confidence`, lowest"),
        ("sums_mean", "`confidence`, mean (sums)"),
        ("sums_tail", "`confidence`, tail (sums)"),
        ("sums_lowest", "`confidence`, lowest (sums)"),
        ("svamp_value", "`reward`: this head in a run on 40 other problems (4 solutions)"),
    ],
)
def test_scores(name: str, label: str) -> None:
    text = (ROOT / "docs" / "scores.md").read_text(encoding="utf-8")
    run = Results(DATA / "scores" / f"{name}.json")
    figures = scores_table.Report(run).figures
    rights = [figures[f"{way} is right"] for way in ("best score", "weighted vote", "vote")]
    area, _, _ = figures["AUC within problems"].partition(" (n=")
    assert f"| {label} | {' | '.join([area, *rights])} |" in text


def test_the_second_round_of_star() -> None:
    names = ("seed63-round0", "seed63-round1", "seed63-round2", "round_1_again-seed63-round2")
    before, first, second, again = (Results(DATA / "star" / f"{name}.json") for name in names)
    for label, run in (("2", second), ("2, the 8 traces of round 1 again", again)):
        accuracy = run.head.document["metrics"]["steps"][0]["mean_accuracy"]
        assert f"| {label} | {interval(accuracy)} | {gain(before, run)} |" in TEXT
    box = Results(DATA / "star" / "box-round0.json")
    for earlier in (first, again, box):
        assert gain(earlier, second).replace(" [", " points [") in TEXT


def test_star_with_a_box() -> None:
    rows = {0: [""] * 4, 1: [""] * 4}
    for column, ending in ((0, ""), (2, "-sampled")):
        runs = [Results(DATA / "star" / f"box-round{number}{ending}.json") for number in rows]
        for number, run in enumerate(runs):
            accuracy = run.head.document["metrics"]["steps"][0]["mean_accuracy"]
            rows[number][column] = interval(accuracy)
        rows[1][column + 1] = gain(*runs)
    for number, cells in rows.items():
        assert f"| {number} | {' | '.join(cells)} |".replace("|  |", "| |") in TEXT
    box, trained = (
        Results(DATA / "star" / f"{name}.json") for name in ("box-round0", "seed63-round1")
    )
    assert gain(box, trained).replace(" [", " points [") in TEXT


def gain(first: Results, second: Results) -> str:
    pair = compare.pair(compare.result(first), compare.result(second), anyway=True)
    metric = pair.metrics[compare.METRICS[0]]
    return shift(metric.difference, metric.low, metric.high)


def test_transitions_of_three_parents() -> None:
    table = transitions_table.report(Results(DATA / "svamp_20" / "02_rsa_basic-seed0.json"))
    cells = {column.head: column.cells for column in table.tables[0].columns}
    text = " ".join(TEXT.split())
    for count, right in zip(cells["count"][:-1], cells["right"][:-1], strict=True):
        share, brackets = right.split(maxsplit=1)
        assert f"{share}% {brackets} of {count}" in text


@pytest.mark.parametrize("folder", ["svamp_20", "chain_sum_20"])
def test_the_vote_and_rsa_at_twenty_samples(folder: str) -> None:
    text = " ".join(TEXT.split())
    vote, rsa = figures_of(DATA / folder, ("12_majority", "02_rsa_basic"), [20.5])
    for row in (vote, rsa):
        assert interval(row.accuracy.to_json()).replace(" [", "% [") in text
    assert rsa.against is not None
    assert shift(rsa.against.difference, rsa.against.low, rsa.against.high)[:5] in text


def test_p_true_and_the_vote_of_its_samples() -> None:
    steps = Results(DATA / "gsm8k_1.5b" / "13_best_of_p_true-seed0.json").head.document["metrics"]
    for step in (steps["steps"][0], steps["steps"][-1]):
        assert interval(step["majority_accuracy"]).replace(" [", "% [") in " ".join(TEXT.split())


@pytest.mark.parametrize("name", ["before", "`learn`", "`plain`", "`more_plain`"])
def test_learning_to_aggregate(name: str) -> None:
    path = DATA / "learn" / f"{name.strip('`')}.json"
    figures = evaluate.figures([path], [path])
    first, *_, last = figures["steps"]
    _, one, both = figures["transitions"]
    table = LEARNING.split("## Result on a language model")[1]
    row = next(line for line in table.splitlines() if line.startswith(f"| {name} |"))
    cells = row.split(" | ")
    assert cells[1:3] == [interval(first["mean"]), interval(last["mean"])]
    assert cells[4:6] == [interval(one["right"]), interval(both["right"])]


@pytest.mark.parametrize(
    ("first", "second", "step"),
    [
        ("before", "learn", -1),
        ("learn", "plain", -1),
        ("before", "plain", 0),
        ("plain", "more_plain", -1),
    ],
)
def test_changes_by_learning_to_aggregate(first: str, second: str, step: int) -> None:
    folder = DATA / "learn"
    change = evaluate.change([folder / f"{first}.json"], [folder / f"{second}.json"], step)
    words = shift(change["difference"], change["low"], change["high"])
    assert words.replace(" [", " points [") in LEARNING
