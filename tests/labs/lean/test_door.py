"""Searching theorems, end to end: real Lean and the real tiny policy, as a user runs it."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from core.engines.need import Need
from labs.lean import served, trajectories
from labs.lean.toolchain import Toolchain
from tests.conftest import ended, run, start
from tests.fakes.http import Proxy, Request

THEOREMS = (
    ("identity", "(p : Prop) : p → p"),
    ("falsity", "(p q : Prop) : False → (p ∧ q)"),
    ("succ", "(n : Nat) : n + 1 = 1 + n"),
    ("false", "(p q : Prop) : p → q"),
)
TIMES = ("seconds", "seconds_to_proof")
pytestmark = pytest.mark.usefixtures("lean")


def written(folder: Path, *theorems: tuple[str, str]) -> str:
    path = folder / "mine.json"
    path.write_text(json.dumps({"theorems": [{"name": name, "statement": what} for name, what in theorems]}))
    return f"THEOREMS={path}"


def record(results: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((results / "lean" / "baseline" / "record.json").read_text())
    return found


def figures(results: Path) -> dict[str, Any]:
    return {name: value for name, value in record(results)["figures"].items() if name not in TIMES}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search that nothing disturbed."""
    results = tmp_path_factory.mktemp("whole")
    status, out, err = run("23_lean_baseline", written(results, *THEOREMS), RESULTS_DIR=str(results))
    assert status == 0, err
    assert "solved, %" in out and "share of the searches' time" in out and "\ngo: " in out
    return results


def test_searches_leave_a_record_a_table_proofs_and_trajectories(whole: Path, lean: Toolchain) -> None:
    folder, found = whole / "lean" / "baseline", record(whole)
    assert found["complete"] and found["figures"]["theorems"] == len(THEOREMS)
    assert "open_network" in found and found["lean"] == lean.name
    proofs = json.loads((folder / "proofs.json").read_text())["theorems"]
    names = {each["name"] for each in proofs}
    assert names and "false" not in names and all(each["lean"].startswith("theorem ") for each in proofs)
    rows = trajectories.read(folder / "trajectories").to_pylist()
    assert {row["theorem_name"] for row in rows} == {name for name, _ in THEOREMS}
    assert {row["theorem_name"] for row in rows if row["is_proof_complete"]} == names
    assert "within nodes" in (folder / "table.txt").read_text()


def test_killed_the_same_command_gives_the_same_searches(whole: Path, tmp_path: Path) -> None:
    theorems = written(tmp_path, *THEOREMS)
    process = start("23_lean_baseline", theorems, RESULTS_DIR=str(tmp_path))
    searches = tmp_path / "lean" / "baseline" / "trajectories"
    while process.poll() is None and not any(searches.glob("*.json")):
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGINT)
    status, out, err = ended(process)
    assert status in (0, 130) and "Traceback" not in err, err
    assert status == 0 or "Run the same command again" in out
    status, _, err = run("23_lean_baseline", theorems, RESULTS_DIR=str(tmp_path))
    assert status == 0, err
    assert figures(tmp_path) == figures(whole)


def test_another_run_puts_the_earlier_one_aside(tmp_path: Path) -> None:
    theorems = written(tmp_path, ("a", ": True"))
    assert run("23_lean_baseline", theorems, "MAX_NODES=2", RESULTS_DIR=str(tmp_path))[0] == 0
    status, out, err = run("23_lean_baseline", theorems, "MAX_NODES=3", RESULTS_DIR=str(tmp_path))
    assert status == 0 and "it is kept as" in out, err
    assert len(list((tmp_path / "lean").glob("baseline.*"))) == 1


@pytest.mark.parametrize(
    ("overrides", "theorems", "said"),
    [
        (["MAX_NODES=0"], THEOREMS, "MAX_NODES=0 is out of range"),
        (["PROBLEMS=sums"], THEOREMS, "PROBLEMS says nothing here"),
        (["RUNS=3"], THEOREMS, "unknown constant 'RUNS'"),
        (["TEMPERATURE=0"], THEOREMS, "TEMPERATURE=0"),
        ([], [("a", ": True"), ("a", ": True")], "stands there twice"),
        ([], [("wrong", "(p : Prop) : q → p")], "does not elaborate"),
        ([], [("code", ": True := trivial")], "refused"),
    ],
)
def test_bad_input_is_one_line_before_any_search(
    overrides: list[str], theorems: list[tuple[str, str]], said: str, tmp_path: Path
) -> None:
    status, out, err = run("23_lean_baseline", written(tmp_path, *theorems), *overrides, RESULTS_DIR=str(tmp_path))
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert status == 2 and len(lines) == 1 and said in lines[0], (out, err)
    assert "Traceback" not in err and not (tmp_path / "lean").exists()


class Silent(Proxy):
    """Passes on no wish for log probabilities."""

    def post(self, request: Request, body: bytes) -> None:
        asked = {name: value for name, value in json.loads(body).items() if "logprobs" not in name}
        super().post(request, json.dumps(asked).encode())


def test_a_policy_without_log_probabilities_is_one_line(tmp_path: Path) -> None:
    theorems = written(tmp_path, *THEOREMS)
    with served.policy(Need(0, 64, 0), tmp_path) as server:
        proxy = Silent(server.base_url)
        status, out, err = run("23_lean_baseline", theorems, RESULTS_DIR=str(tmp_path), BASE_URL=proxy.url)
        proxy.close()
    assert status == 2 and err.count("error: ") == 1 and "does not give the log probabilities" in err, (out, err)
    assert "Traceback" not in err


def test_no_lean_is_one_line(tmp_path: Path) -> None:
    status, _, err = run("23_lean_baseline", RESULTS_DIR=str(tmp_path), LEAN=str(tmp_path))
    assert status == 2 and err.count("error: ") == 1 and "LEAN=" in err
