"""RUNS of a whole experiment: each as it would be alone, and all of them in one file."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.constants import Constants
from core.plan.plan import main as plan
from core.report.report import main as report
from core.scaffolds.rsa import RSA
from core.session.run import solve_sync
from tests.conftest import run, start
from tests.fakes.server import ScriptedServer
from tests.session.test_python import TWO
from tests.session.test_run import SMALLER, journal_lines, load, timeless

SIZE: dict[str, Any] = {"N": 4, "K": 2, "T": 1}


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    made = ScriptedServer()
    monkeypatch.setenv("BASE_URL", made.url)
    yield made
    made.close()


def test_seeds_are_counted_on_and_may_not_leave_their_range() -> None:
    assert [each.SEED for each in Constants(SEED=5, RUNS=3).runs()] == [5, 6, 7]
    assert Constants(SEED=5).runs() == [Constants(SEED=5)]
    with pytest.raises(UserError, match="SEED=9223372036854775808 is out of range"):
        Constants(SEED=2**63 - 1, RUNS=2).runs()


def test_each_run_is_what_it_is_alone_and_what_was_made_is_not_asked_again(
    server: ScriptedServer, results: Path
) -> None:
    first = solve_sync(RSA, TWO, **SIZE)
    alone, asked = json.loads(first.path.read_text()), len(server.asked)
    assert "RUNS" not in alone["config"] and "runs" not in alone
    whole = solve_sync(RSA, TWO, **SIZE, RUNS=3)
    assert len(server.asked) == 3 * asked, "the first run came from the journal"
    assert whole.path == results / "rsa.json" and whole.head.runs and whole.head.runs.seeds == [0, 1, 2]
    assert repr(whole) == "<Results of rsa: 2 problems, 3 runs, 48 members>"
    assert whole.completion(whole.problems[2].steps[1].members[3]).text, "the journal is that of the experiment"
    runs = [load(results / "rsa", f"rsa-seed{seed}") for seed in range(3)]
    assert timeless(runs[0] | {"experiment": "rsa"}) == timeless(alone)
    second = solve_sync(RSA, TWO, **SIZE, SEED=1)
    assert timeless(json.loads(second.path.read_text())["problems"]) == timeless(runs[1]["problems"])
    assert len(server.asked) == 3 * asked
    means = [each["metrics"]["final"]["mean_accuracy"]["value"] for each in runs]
    over = whole.head.metrics.steps[-1].runs
    assert over and over["mean_accuracy"].values == pytest.approx(means)
    assert {each.name for each in results.glob("rsa.*.json")} and not list(results.glob("*.partial.json"))


def test_a_whole_experiment_is_run_shown_stopped_and_gone_on_with(
    results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process = start("02_rsa_basic", *SMALLER, "RUNS=3", "SEED=4")
    begun = results / "02_rsa_basic.partial.json"
    while process.poll() is None and not begun.exists():
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "stopped" in out + err and "Traceback" not in err, err
    partial = load(results, "02_rsa_basic.partial")
    assert not partial["complete"] and partial["runs"]["seeds"] == [4] and partial["config"]["RUNS"] == 1
    report(["02_rsa_basic"])
    assert "partial run" in capsys.readouterr().out
    lines = journal_lines(results, "02_rsa_basic")
    status, out, err = run("02_rsa_basic", *SMALLER, "RUNS=3", "SEED=4")
    assert status == 0, err
    assert "run 3 of 3: SEED=6" in out and "n=2, mean of 3 runs" in out and "majority, runs" in out
    assert "final: majority" in out.splitlines()[-1] and ", over 3 runs " in out.splitlines()[-1]
    assert journal_lines(results, "02_rsa_basic")[: len(lines)] == lines
    assert len(journal_lines(results, "02_rsa_basic")) == 3 * 2 * 4 * 3
    document = load(results, "02_rsa_basic")
    assert document["complete"] and document["runs"]["seeds"] == [4, 5, 6] and not begun.exists()
    report(["02_rsa_basic"])
    out = capsys.readouterr().out
    assert "mean, runs" in out and "counted in each run" in out
    report(["02_rsa_basic", "--figures"])
    assert "RUNS=3" in (results / "figures" / "02_rsa_basic-accuracy.svg").read_text()


def test_a_comparison_refuses_runs_for_it_has_seeds(results: Path) -> None:
    status, _, err = run("15_compute_matched", "RUNS=2")
    assert status == 2 and "a comparison runs once for each of the `seeds` in its file" in err


def test_a_file_where_the_runs_belong_is_told(server: ScriptedServer, results: Path) -> None:
    (results / "rsa").write_text("")
    with pytest.raises(UserError, match="rsa, for the runs, can't be made"):
        solve_sync(RSA, TWO, **SIZE, RUNS=2)
    assert not server.asked


def test_a_plan_counts_all_runs(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for runs in (1, 3):
        plan(["02_rsa_basic", f"RUNS={runs}", "LIMIT=10", "--gpu", "H100", "--price", "1000"])
        told.append(capsys.readouterr().out)
    assert "480 (48 for each of 10 problems)" in told[0] and "in each of" not in told[0]
    assert "1,440 (48 for each of 10 problems in each of 3 runs)" in told[1]
    one, three = (next(line.split() for line in out.splitlines() if line.startswith("cost ")) for out in told)
    for low, high in ((1, 1), (3, 3)):
        of_one, of_three = float(one[low].replace(",", "")), float(three[high].replace(",", ""))
        assert of_three == pytest.approx(3 * of_one, rel=1e-3)
