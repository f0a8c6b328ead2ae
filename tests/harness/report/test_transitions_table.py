"""The table of transitions, its verdict, and the command that prints it."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.report import transitions_table
from harness.report.data import Results
from harness.report.report import main
from harness.report.transitions_table import verdict
from harness.results.merge import merge
from harness.results.transitions import Aggregation
from tests.helpers import reports

HEADS = [
    "right parents",
    "count",
    "right",
    "vote",
    "random",
    "same answer",
    "same text",
    "new right",
]


def aggregations(
    problems: int, parents: int, right_parents: int, rights: Sequence[bool]
) -> list[Aggregation]:
    """Return an aggregation for each problem and each item of `rights`. A vote needs more than half
    of the parents."""
    vote = float(2 * right_parents > parents)
    return [
        Aggregation(f"p{number}", parents, right_parents, is_right, vote, True, True, None)
        for number in range(problems)
        for is_right in rights
    ]


@pytest.mark.parametrize(
    ("problems", "parents", "right_parents", "rights", "words"),
    [
        (20, 3, 1, [True], ["more often", "the model aggregates", "than the parents' vote"]),
        (60, 3, 2, [True], ["more often", "as often as the parents' vote"]),
        (20, 3, 2, [False], ["less often", "does harm", "The parents' vote is right more often"]),
        (60, 3, 1, [True, False, False], ["as often as", "copies, it does not aggregate"]),
        (4, 3, 1, [True], ["do not show", "from the parents' vote is too uncertain"]),
        (20, 2, 2, [True], ["No aggregation had both"]),
        (20, 1, 0, [True], ["more often than its parent", "refinement helps"]),
        (20, 1, 1, [False], ["less often than its parent", "refinement does harm"]),
        (60, 1, 1, [True], ["as often as its parent", "no effect"]),
        (4, 1, 1, [False], ["do not show whether refinement helps"]),
    ],
)
def test_the_interval_chooses_the_verdict(
    problems: int, parents: int, right_parents: int, rights: list[bool], words: list[str]
) -> None:
    text = verdict(aggregations(problems, parents, right_parents, rights))
    assert [word for word in words if word not in text] == []


def test_a_few_aggregations_show_no_difference() -> None:
    """Half of the parents are right, and so are five of eight aggregations."""
    rows = aggregations(8, 2, 1, [True])[:5] + aggregations(8, 2, 1, [False])[5:]
    assert "do not show" in verdict(rows)


@pytest.fixture
def folder(results: Path) -> Path:
    return reports.results(results, problems=3, K=2)


def test_the_command_prints_the_table_and_its_verdict(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["02_rsa_basic", "--transitions"])
    text = capsys.readouterr().out
    lines = text.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("right parents"))
    names = [line.split("  ")[0].strip() for line in lines[head + 2 : head + 6]]
    assert names == ["0 of 2", "1 of 2", "2 of 2", "all"]
    assert all(name in lines[head] for name in HEADS)
    assert "Wrong turned into right in" in text
    assert "Diversity" in text
    assert not (folder / "02_rsa_basic.html").exists()


def test_texts_are_compared_only_with_a_journal(folder: Path) -> None:
    (folder / "journal" / "02_rsa_basic.jsonl").unlink()
    text = transitions_table.text([Results(folder / "02_rsa_basic.json")])
    assert "same answer" in text
    assert "same text" not in text


def test_results_without_parents_get_one_line(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reports.results(results, T=0)
    main(["02_rsa_basic", "--transitions"])
    assert capsys.readouterr().out == f"02_rsa_basic: {transitions_table.NO_PARENTS}\n"
    run = Results(results / "02_rsa_basic.json")
    assert transitions_table.report(run).page() is None


def test_ungraded_results_get_one_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "02_rsa_basic.json"
    document = json.loads(path.read_text())
    for problem in document["problems"]:
        for step in problem["steps"]:
            for member in step["members"]:
                member["correct"] = None
    path.write_text(json.dumps(document))
    main(["02_rsa_basic", "--transitions"])
    assert capsys.readouterr().out == f"02_rsa_basic: {transitions_table.UNGRADED}\n"
    page = transitions_table.report(Results(path)).page()
    assert page == {"tables": [], "line": transitions_table.UNGRADED}


def test_merged_results_count_all_runs(folder: Path) -> None:
    path = folder / "02_rsa_basic.json"
    paths = []
    for seed in range(2):
        document = json.loads(path.read_text())
        document["config"]["SEED"] = seed
        paths.append(folder / f"seed{seed}.json")
        paths[-1].write_text(json.dumps(document))
    single = transitions_table.report(Results(path)).tables[0]
    merged_path, _ = merge(paths, "", folder)
    merged = transitions_table.report(Results(merged_path)).tables[0]
    counts = [int(cell) for cell in single.columns[1].cells]
    assert [int(cell) for cell in merged.columns[1].cells] == [2 * count for count in counts]
    assert merged.columns[2].cells == single.columns[2].cells  # as many problems
    assert "one cluster" in merged.legend_end
