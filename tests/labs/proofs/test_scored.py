"""Statistics and the page of graded lines: ours, exports of results, and lines of QED-Nano's
evaluation."""

import re
import statistics
from pathlib import Path

import pytest

from core.base.errors import UserError
from harness.report import report
from harness.report.table import Table
from labs.proofs import stats
from labs.proofs.scored import Line, Runs
from tests.labs.proofs.conftest import FRAGMENTS, Desk, Row, rows, the_error, written
from tests.labs.proofs.lines import scored, theirs


def all_of(runs: Runs) -> list[Line]:
    return [line for lines in runs.values() for line in lines]


def cells(table: Table) -> dict[str, dict[str, str]]:
    """Return the cells of a table by row and column."""
    first, *others = table.columns
    return {
        row: {each.head: each.cells[place] for each in others}
        for place, row in enumerate(first.cells)
    }


def test_files_are_runs_with_a_mean_a_deviation_the_best_and_the_worst(tmp_path: Path) -> None:
    given = [[7, 0, 7, 3], [0, 0, 7, 7], [7, 7, 7, 7]]
    found = scored(
        tmp_path, *([theirs(points, n) for n, points in enumerate(run)] for run in given)
    )
    means = [sum(run) / 4 for run in given]
    points, runs, tokens = map(cells, stats.tables_of(found))
    column = "mean points, % of 7"
    assert (
        points["all"][column].startswith(f"{100 * sum(means) / 21:.1f} [")
        and points["all"]["problems"] == "4"
    )
    assert (
        points["3 runs"][column]
        == f"{100 * sum(means) / 21:.1f} ± {100 * statistics.stdev(means) / 7:.1f}"
    )
    assert points["split Basic"][column].startswith(f"{100 * (0 + 3 + 0 + 7 + 7 + 7) / 42:.1f} [")
    assert [*runs] == ["run-0", "run-1 (worst)", "run-2 (best)"]
    assert [float(row["points of 7"]) for row in runs.values()] == pytest.approx(means, abs=1e-3)
    assert runs["run-0"]["tokens written"] == "460" and runs["run-0"]["cost"] == "$2.00"
    assert [tokens["all proofs"][name] for name in ("counted", "least", "mean", "most", "sum")] == [
        *("12", "100", "115", "130", "1,380")
    ]
    assert tokens["wrong"]["counted"] == "4" and tokens["gradings"]["most"] == "20"


def test_repetitions_and_seeds_in_one_file_are_runs_too(tmp_path: Path) -> None:
    repeated = scored(tmp_path, [theirs(points, n) for points in (7, 0) for n in range(2)])
    assert [[line.points_share for line in lines] for lines in repeated.values()] == [
        [1, 1],
        [0, 0],
    ]
    ours = [row | {"score": seed / 2, "seed": seed} for row in rows(4)[::3] for seed in (0, 1, 2)]
    assert [[line.points_share for line in lines] for lines in scored(tmp_path, ours).values()] == [
        [0, 0],
        [0.5, 0.5],
        [1, 1],
    ]


def test_missing_grades_and_empty_proofs_are_counted_and_enter_no_mean(tmp_path: Path) -> None:
    lines = [
        theirs(7, 0),
        theirs(None, 1),
        theirs(0, 2, model_solution=""),
        theirs(3, 3, cost_run=None),
    ]
    found = scored(tmp_path, lines)
    assert [line.points_share for line in all_of(found)] == [1, None, 0, 3 / 7] and all_of(found)[
        1
    ].why == "grade missing"
    (run,) = cells(stats.over_runs(found)).values()
    assert (
        run["truncated or empty"] == "25.0%"
        and run["tokens written"] == "≥ 330"
        and run["cost"] == "≥ $1.50"
    )
    assert any("1 grade missing" in note for note in stats.notes(found))
    answers = [
        theirs(n, n, schema_0=[{"title": "Answer", "desc": "", "points": 1}]) for n in (0, 1)
    ]
    assert [line.points_share for line in all_of(scored(tmp_path, answers))] == [0, 1]


def test_what_grade_writes_is_read_in_both_shapes(desk: Desk) -> None:
    lines = rows(4)
    lines[1]["model_solution"] = None
    lines += [
        {"problem": "How much is 6*7?", "answer": 42, "model_solution": f"\\boxed{{{n}}}"}
        for n in (42, 41)
    ]
    made, other = desk.made("grade", lines, "SHAPE=qed"), desk.made("grade", lines)
    assert desk.grader.asked == 3, "another shape needs no new grading"
    assert [row["score"] for row in made][4:] == [1, 0] and all(
        row["score"] in (*range(8), None) for row in made
    )
    assert [row["grade"][0]["points"] for row in made] == [row["score"] for row in made]
    assert (
        made[0]["schema_0"][0]["points"] == 7
        and made[0]["schema_0"][0]["desc"] == lines[0]["grading_scheme"]
    )
    assert "Points:" in made[0]["grade"][0]["desc"] and made[0]["grade_cost"]["output_tokens"] > 0
    assert "grade_reasons" not in made[0] and made[0]["problem_idx"] == "p0"
    theirs, ours = (
        [line.points_share for line in all_of(scored(desk.path.parent, each))]
        for each in (made, other)
    )
    assert theirs == pytest.approx(ours) and None not in theirs


def test_the_page_contains_hostile_texts_only_packed(
    tmp_path: Path, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hostile = "</script><script>alert(1)</script>"
    lines = [
        theirs(7, n, model_solution=f"{hostile} {n} {each}", question_id=f"<b>evil{n}")
        for n, each in enumerate(FRAGMENTS)
    ]
    path = written(
        tmp_path / "mine.graded.jsonl",
        [*lines, theirs(2, 99, grade=[{"points": 2, "desc": hostile}])],
    )
    report.main([path])
    out, page = (
        capsys.readouterr().out,
        (tmp_path / "mine.graded.html").read_bytes().decode(errors="replace"),
    )
    assert "mine.graded.html" in out and "points of 7" in out
    assert "alert(1)" not in page and "<b>evil" not in page and "default-src 'none'" in page
    stats.main([path, "--markdown"])
    assert "| run | proofs |" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ([], "empty"),
        ([{"problem": "x", "model_solution": "y"}], "no grade in line 1"),
        ([theirs(7), theirs(8)], "line 2"),
        ([theirs(7, grade_cost={"cost": -1})], "line 1"),
        ([theirs(7, score="7")], "line 1"),
        ([{"solution": "x"}], 'column "problem"'),
        ([theirs(8), theirs(7), theirs(9)], "in lines 1"),
    ],
)
def test_bad_lines_are_refused(tmp_path: Path, lines: list[Row], named: str) -> None:
    with pytest.raises(UserError, match=re.escape(named)):
        scored(tmp_path, lines)


def test_bad_commands_are_one_line(
    tmp_path: Path, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(tmp_path / "a.jsonl", [theirs(7)])
    commands = (
        (stats.main, ["x.json"]),
        (report.main, [path, "02_rsa_basic"]),
        (report.main, [path, "--live"]),
    )
    for main, argv in commands:
        with pytest.raises(SystemExit) as raised:
            main(argv)
        assert raised.value.code == 2 and the_error(capsys.readouterr().err)
