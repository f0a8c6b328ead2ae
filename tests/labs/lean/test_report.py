"""Test the report of searches: ones with known figures, and broken ones."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from harness.report.report import main
from labs.lean import trajectories
from labs.lean.report import html
from labs.lean.searches import Report, read
from labs.lean.tables import overview, tables
from tests.helpers.reports import EVIL, refused
from tests.labs.lean import searches


def columns(found: Report) -> list[dict[str, list[str]]]:
    return [
        {column.head: list(column.cells) for column in table.columns} for table in tables(found)
    ]


# Tables


def test_rates_gains_and_costs_are_those_worked_out_by_hand(results: Path) -> None:
    searches.record(results / "lean" / "baseline")
    searches.searched(results / "lean" / "baseline" / "trajectories", None, 1)
    searches.iteration(results)
    by_nodes, gains, energy, taken, ended, time = columns(read(results / "lean"))
    assert by_nodes["searches"] == [
        "baseline",
        "first policy",
        "iteration 0",
        "iteration 0, energy",
    ]
    rates = [
        " ".join(cell.split()[0] for cell in by_nodes[f"within {nodes}"]) for nodes in (1, 2, 4, 8)
    ]
    assert rates == [
        "50.0 0.0 12.5 12.5",
        "50.0 0.0 25.0 25.0",
        "50.0 12.5 37.5 37.5",
        "50.0 25.0 75.0 87.5",
    ]
    # Five won and one lost: 2 * (1 + 6) of 64 patterns of signs are as far from 0.
    assert gains["won, lost"] == gains["won, lost (first)"] == ["-", "5, 1"]
    assert gains["minus before"][1].startswith("+50.0 [") and gains["p"] == ["-", "0.219"]
    assert gains["training theorems proved"] == ["-", "2 of 3"] and gains["pairs"] == ["-", "1,234"]
    assert energy["difference"][0].startswith("+12.5 [") and energy["won, lost"] == ["1, 0"]
    assert energy["AUC"] == ["0.875"] and energy["own"] == ["0.750"] and energy["p"] == ["1.000"]
    at = taken["searches"].index("iteration 0")  # proved with nodes 1 2 3 6 8 8
    assert (
        taken["nodes to a proof"][at] == "4 [2, 8]"
        and taken["s to a proof"][at] == "4.0 [4.0, 4.0]"
    )
    assert taken["tactics a state"][at] == "3.00" and taken["proved"][at] == "6 of 8"
    assert ended["budget"][at] == "2" and time["s in all"][at] == "32"
    assert [time[part][at] for part in ("Lean", "policy", "energy", "acceptance")] == [
        "25",
        "50",
        "0",
        "25",
    ]


def test_the_parts_of_a_baseline_are_rows_of_one_table(results: Path) -> None:
    for name in ("baseline", "baseline.20261126-1200", "baseline/index", "baseline_minif2f"):
        searches.searched(
            searches.record(results / "lean" / name) / "trajectories", *searches.FIRST
        )
    for name in ("eval_before", "eval_before_energy"):
        searches.searched(searches.record(results / "lean" / "iteration_0") / name, *searches.FIRST)
    labels = columns(read(results / "lean"))[0]["searches"]
    first = ["first policy", "first policy, energy"]
    assert labels == ["baseline", "baseline, index", "baseline, minif2f", *first]


def test_an_iteration_is_compared_with_the_one_before_and_with_the_first(results: Path) -> None:
    searches.iteration(results)
    searches.searched(searches.record(results / "lean" / "iteration_1") / "eval", *searches.GUIDED)
    gains = columns(read(results / "lean"))[1]
    assert gains["policy"] == ["first policy", "iteration 0", "iteration 1"]
    assert gains["won, lost"] == ["-", "5, 1", "1, 0"] and gains["won, lost (first)"] == [
        "-",
        "5, 1",
        "5, 0",
    ]
    assert gains["pairs"] == ["-", "1,234", "-"]


def test_without_the_first_policys_evaluation_the_baseline_does_not_stand_in_for_it(
    results: Path,
) -> None:
    """The baseline may be of another model: SKIP_BASELINE=1 reports no gain of iteration 0."""
    searches.searched(
        searches.record(results / "lean" / "baseline") / "trajectories", *searches.FIRST
    )
    searches.searched(searches.record(results / "lean" / "iteration_0") / "eval", *searches.ALONE)
    gains = columns(read(results / "lean"))[1]
    assert gains["policy"] == ["iteration 0"] and gains["won, lost"] == gains[
        "won, lost (first)"
    ] == ["-"]


def test_what_is_there_of_a_run_that_goes_on_is_shown_with_notes(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = searches.record(results / "lean" / "iteration_0", complete=False)
    searches.searched(own / "eval_before", *searches.FIRST)
    searches.searched(own / "eval", 1, 2)
    searches.search(own / "trajectories", "t1", 3)
    searches.search(own / "trajectories", "t3", 3, run="another")
    # its tree is not there yet
    trajectories.part(own / "trajectories", "t2").with_suffix(".json").write_text("{}")
    # put aside
    searches.searched(searches.record(results / "lean" / "iteration_0.2026-01-01") / "eval", 1, 2)
    found = read(results / "lean")
    assert [each.label for each in found.searches] == [
        "first policy",
        "iteration 0, training set",
        "iteration 0",
    ]
    assert columns(found)[1]["minus before"] == ["-", "-"] and b"".join(html(found))
    assert [note.split(" ")[0] for note in found.notes] == ["iteration_0", "iteration"]
    monkeypatch.setenv("COLUMNS", "80")
    main(["lean"])
    out = capsys.readouterr().out
    assert (
        max(len(line) for line in out.splitlines() if "/" not in line) <= 80 and "tables.txt" in out
    )
    main(["lean", "--markdown"])
    assert "| policy | nodes | solved | minus before |" in capsys.readouterr().out


# What can't be shown


def test_nothing_there_is_one_line(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert "23_lean_baseline" in refused(capsys, "lean")
        searches.record(results / "lean" / "baseline")
    with pytest.raises(UserError):
        overview(results / "lean")


@pytest.mark.parametrize("more", ["--live", "--figures", "--jsonl", "--inspect=x", "02_rsa_basic"])
def test_lean_stands_alone(results: Path, capsys: pytest.CaptureFixture[str], more: str) -> None:
    refused(capsys, "lean", more)


@pytest.mark.parametrize(
    "record", [[], {"config": {}}, {"config": {"MAX_NODES": 8}, "guided": {"auc": EVIL}}]
)
def test_a_record_of_anyone_is_one_line(
    results: Path, capsys: pytest.CaptureFixture[str], record: Any
) -> None:
    own = searches.iteration(results)
    (own / "record.json").write_text(json.dumps(record))
    assert "iteration_0/record.json" in refused(capsys, "lean")


def test_a_broken_search_is_one_line_and_leaves_no_page(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = searches.record(results / "lean" / "baseline") / "trajectories"
    searches.searched(folder, 1)
    part = trajectories.part(folder, "t1")
    part.write_bytes(b"PAR1")
    assert part.name in refused(capsys, "lean")
    assert not (results / "lean" / "report.html").exists()
    path = part.with_suffix(".json")
    for content in (json.dumps(json.loads(path.read_text()) | {"seconds": {"all": EVIL}}), "{"):
        path.write_text(content)
        assert path.name in refused(capsys, "lean")
