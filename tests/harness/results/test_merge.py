"""Runs of one experiment merged: figures by hand, and refusals."""

import json
import statistics
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base.errors import UserError
from core.base.stats import mean_by_problem
from harness.report import compare
from harness.report.data import load
from harness.results.merge import merge
from harness.session import regrade
from tests.helpers.documents import VALIDATOR
from tests.helpers.graded import document, figures, graded, member

Right = list[list[list[bool]]]  # by problem, step and member


@cache
def base() -> dict[str, Any]:
    """Return a document that is checked against the schema, which takes too long to do a thousand
    times."""
    return document(graded([[[member("")]]]))


def save(path: Path, right: Right, seed: int, **changes: Any) -> Path:
    """Save the results of one run in which these members answer 42 and all others 7."""
    rows = graded(
        [
            [[member(f"\\boxed{{{42 if is_right else 7}}}") for is_right in step] for step in p]
            for p in right
        ]
    )
    run = base() | {"problems": rows, "metrics": figures(rows).metrics(1.0)}
    run |= {
        "problem_set": run["problem_set"] | {"n": len(rows)},
        "config": run["config"] | {"SEED": seed},
    }
    for name, value in changes.items():
        run[name] = run[name] | value if isinstance(value, dict) else value
    path.write_text(json.dumps(run))
    return path


RUN_0: Right = [[[True, True, False, False], [True] * 4], [[False] * 4, [True, True, True, False]]]
RUN_1: Right = [
    [[True, False, False, False], [False] * 4],
    [[True, False, False, False], [True] * 4],
]


@pytest.fixture
def two(results: Path) -> list[Path]:
    """Return two runs with one file name, as from two machines."""
    for machine in ("a", "b"):
        (results / machine).mkdir()
    runs = ((results / "a", RUN_0, 0), (results / "b", RUN_1, 5))
    return [save(machine / "09_test.json", right, seed) for machine, right, seed in runs]


def merged(paths: list[Path], by: str, folder: Path) -> dict[str, Any]:
    path, _ = merge(paths, f"{by}-test", folder, by)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize(
    ("by", "means", "majorities"),
    [
        ("mean", [(0.375 + 0.125) / 2, (0.5 + 0.875) / 2], [(0.25 + 0) / 2, (0.5 + 1) / 2]),
        ("max", [(0.5 + 0.25) / 2, 1.0], [(0.5 + 0) / 2, 1.0]),
        ("min", [(0.25 + 0) / 2, (0 + 0.75) / 2], [0.0, (0 + 1) / 2]),
    ],
)
def test_figures_of_two_runs_by_hand(
    two: list[Path], results: Path, by: str, means: list[float], majorities: list[float]
) -> None:
    found = merged(two, by, results)
    VALIDATOR.validate(found)
    steps = found["metrics"]["steps"]
    assert [step["mean_accuracy"]["value"] for step in steps] == means
    assert [step["majority_accuracy"]["value"] for step in steps] == majorities
    assert {step["mean_accuracy"]["n"] for step in steps} == {2}, "problems, not runs of them"
    over = steps[1]["runs"]
    assert over["mean_accuracy"]["values"] == [0.875, 0.5] and over["majority_accuracy"][
        "values"
    ] == [1.0, 0.5]
    assert over["mean_accuracy"]["mean"] == 0.6875
    assert over["mean_accuracy"]["std"] == pytest.approx(statistics.stdev([0.875, 0.5]))
    assert found["runs"] == {"of": "09_test", "by": by, "seeds": [0, 5]}
    assert found["config"]["SEED"] == 0 and found["config"]["RUNS"] == 2
    assert found["metrics"]["tokens"]["completion"] == 2 * 2 * 2 * 4 * 10
    assert [(row["id"], row["seed"]) for row in found["problems"]] == [
        ("p0", 0),
        ("p0", 5),
        ("p1", 0),
        ("p1", 5),
    ]


PROBLEM = st.lists(st.lists(st.booleans(), min_size=2, max_size=2), min_size=1, max_size=3)
RUNS = [st.lists(st.lists(PROBLEM, min_size=n, max_size=n), min_size=2, max_size=3) for n in (2, 3)]


@settings(max_examples=40)
@given(st.one_of(RUNS))
def test_the_interval_equals_the_one_of_all_samples_clustered_by_problem(
    tmp_path_factory: pytest.TempPathFactory, runs: list[Right]
) -> None:
    """Runs may end problems at different steps: one that has ended counts with its last
    population."""
    folder = tmp_path_factory.mktemp("runs")
    paths = [save(folder / f"{seed}.json", right, seed) for seed, right in enumerate(runs)]
    alone = [json.loads(path.read_text())["metrics"]["steps"] for path in paths]
    steps = merged(paths, "mean", folder)["metrics"]["steps"]
    assert len(steps) == max(map(len, alone))
    for t, step in enumerate(steps):
        rates = [
            statistics.fmean(flag for run in runs for flag in run[p][min(t, len(run[p]) - 1)])
            for p in range(len(runs[0]))
        ]
        expected = mean_by_problem(rates).to_json()
        assert step["mean_accuracy"] == pytest.approx(expected, abs=1e-9)
        assert step["pass_at_k"]["1"] == pytest.approx(expected, abs=1e-9)
        each = [run[min(t, len(run) - 1)] for run in alone]
        assert step["runs"]["mean_accuracy"]["values"] == pytest.approx(
            [s["mean_accuracy"]["value"] for s in each]
        )


def test_merged_results_are_read_and_compared(two: list[Path], results: Path) -> None:
    merge(two, "mean-09_test", results)
    found = load("mean-09", results)
    assert repr(found) == "<Results of mean-09_test: 2 problems, 2 runs, 32 members>"
    assert [row["seed"] for row in found.rows[::8]] == [0, 5, 0, 5]
    alone, both = (compare.result(load(name, results)) for name in (str(two[0]), "mean-09_test"))
    pair = compare.pair(alone, both)
    assert alone.spent_tokens == both.spent_tokens == "160", "tokens of a run"
    assert alone.spent_dollars == both.spent_dollars == ""
    assert pair.problems == 2 and pair.metrics["mean accuracy"].difference == pytest.approx(-0.1875)
    assert "mean of 2 runs" in compare.table([alone, both])


def test_all_files_that_can_not_be_merged_are_named(two: list[Path], results: Path) -> None:
    third = save(results / "c.json", RUN_0, 9, complete=False)
    save(two[1], RUN_1, 5, complete=False)
    with pytest.raises(UserError) as error:
        merge([*two, third], "all", results)
    assert str(two[1]) in str(error.value) and str(third) in str(error.value)


def test_merged_files_are_not_merged_again(two: list[Path], results: Path) -> None:
    pair, _ = merge(two, "", results)
    assert pair.name == "mean-09_test.json"
    with pytest.raises(UserError, match="is merged"):
        merge([pair, save(results / "c.json", RUN_0, 9)], "all", results)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"config": {"N": 3}}, r"N \(2; 3\)"),
        ({"config": {"WAITS": 3, "N": 3}}, r"N \(2; 3\), WAITS \(none; 3\)"),
        ({"problem_set": {"name": "other", "sha256": "1" * 64}}, r"problem set \(0{64}; 1{64}\)"),
        ({"model": {"name": "other"}}, r"model \(m; other\)"),
        ({"experiment": "10_test"}, r"experiment \(09_test; 10_test\)"),
        ({"provenance": {"prompts_sha256": "x"}}, "prompts"),
        ({"grader": "mine"}, r"grader \(by_answer; mine\)"),
        ({"complete": False}, "b/09_test.json"),
        ({"config": {"SEED": 0}}, "SEED=0"),
        ({"config": {"SEED": "x"}}, "b/09_test.json"),
    ],
)
def test_runs_of_different_experiments_are_refused_in_one_line(
    two: list[Path], results: Path, changes: dict[str, Any], named: str
) -> None:
    save(two[1], RUN_1, 5, **changes)
    with pytest.raises(UserError, match=named) as error:
        merge(two, "all", results)
    assert "\n" not in str(error.value) and not list(results.glob("*.json"))


def test_other_problems_are_refused_and_another_name_of_the_set_is_not(
    two: list[Path], results: Path
) -> None:
    save(two[1], RUN_1, 5, problem_set={"name": "copy"}, config={"PROBLEMS": "copy.json"})
    merge(two, "all", results)
    for changed in (RUN_1[:1], [*RUN_1, RUN_1[0]]):
        save(two[1], changed, 5, problem_set={"n": 2})
        with pytest.raises(UserError, match="problems"):
            merge(two, "all", results)
    rows = json.loads(two[1].read_text())["problems"][:2]
    save(two[1], RUN_1, 5, problems=rows[::-1])
    with pytest.raises(UserError, match="problems"):
        merge(two, "all", results)


def test_other_engines_and_commits_are_a_warning(two: list[Path], results: Path) -> None:
    save(two[1], RUN_1, 5, engine={"version": "0.5"}, provenance={"git_commit": "abc"})
    noted = merged(two, "mean", results)["warnings"]
    assert all(
        any(words in note for note in noted) for words in ("engine: other; other 0.5", "commit")
    )


def test_merged_runs_are_graded_one_by_one(two: list[Path], results: Path) -> None:
    path, _ = merge(two, "all", results)
    with pytest.raises(UserError, match="2 runs"):
        regrade.regrade(path)
