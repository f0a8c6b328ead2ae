"""Run every task of python -m labs.demo as a user's process that must have an effect."""

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from labs.demo.__main__ import TASKS
from labs.lean import pairs
from tests.conftest import ROOT, environment
from tests.fakes.server import ScriptedServer
from tests.helpers.scripts import output
from tests.labs.training import helpers as training

Test = TypeVar("Test", bound=Callable[..., object])
TESTED: set[str] = set()


def runs(*tasks: str) -> Callable[[Test], Test]:
    """Note that the decorated test runs `tasks`."""

    def note(test: Test) -> Test:
        TESTED.update(tasks)
        return test

    return note


def start(
    *args: object, python: object = sys.executable, folder: Path = ROOT, **changes: str
) -> subprocess.CompletedProcess[str]:
    """Run a task to its end, with the code in `folder`."""
    command = [str(python), "-m", "labs.demo", *map(str, args)]
    env = environment(**changes) | {"PYTHONPATH": str(folder)}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=600)


def printed(*args: object, **changes: Any) -> str:
    """Return the standard output of a task that succeeds."""
    done = start(*args, **changes)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_task_is_run_by_a_test() -> None:
    assert set(TASKS) == TESTED


def test_help_lists_every_task() -> None:
    shown = printed("-h")
    assert all(f"  {name} " in shown for name in TASKS)


@pytest.mark.parametrize("args", [(), ("missing",), ("measure",), ("sums",)])
def test_a_command_without_a_valid_task_is_refused(args: tuple[str, ...]) -> None:
    done = start(*args)
    assert done.returncode and not done.stdout and "Traceback" not in done.stderr


@pytest.mark.parametrize("task", ["words", "graded", "measure", "roles"])
def test_help_of_a_task_starts_nothing(task: str, tmp_path: Path) -> None:
    assert f"labs.demo {task}" in printed(task, "-h", RESULTS_DIR=str(tmp_path))
    assert not list(tmp_path.iterdir())


@runs("words")
def test_word_problems_are_written_as_they_are_bundled(checkout: Path) -> None:
    names = ("words.json", "words_train.json")
    for name in names:
        (checkout / "data" / name).unlink()
    printed("words", folder=checkout)
    for name in names:
        assert (checkout / "data" / name).read_bytes() == (ROOT / "data" / name).read_bytes()


@runs("sums")
def test_sums_are_written_as_they_are_bundled(tmp_path: Path) -> None:
    printed("sums", tmp_path / "sums.json", "--seed", 1, "--n", 20)
    assert (tmp_path / "sums.json").read_bytes() == (ROOT / "data" / "sums.json").read_bytes()


@runs("measure")
def test_the_contest_of_the_model_card_compares_two_results(results: Path) -> None:
    with closing(ScriptedServer()) as server:
        for experiment in ("01_baseline", "02_rsa_basic"):
            words = ("PROBLEMS=sums", "LIMIT=2", "MAX_TOKENS=60", "N=2")
            more = ("K=2", "T=1") if experiment == "02_rsa_basic" else ()
            output("run.sh", experiment, *words, *more, BASE_URL=server.url)
    assert "on 2 problems" in printed("measure", "contest", "02_rsa_basic", "01_baseline")


@runs("lean-pairs")
@pytest.mark.usefixtures("lean")
def test_pairs_of_lemmas_are_written(tmp_path: Path) -> None:
    lemma = {
        "name": "a",
        "statement": "(n : Nat) : n ≤ n",
        "proof": ["exact Nat.le_refl _"],
        "teach": True,
    }
    lemmas, written = tmp_path / "lemmas.json", tmp_path / "pairs.jsonl"
    lemmas.write_text(json.dumps({"theorems": [lemma]}))
    printed("lean-pairs", written, "--lemmas", lemmas, "--variants", 1)
    assert pairs.read(written)[0].tactic == "exact Nat.le_refl _"


@runs("roles")
def test_the_roles_of_the_model_card_are_measured(results: Path) -> None:
    shown = printed("roles", "PROBLEMS=sums_card", "LIMIT=1", "MAX_TOKENS=60", ENGINE="embedded")
    assert "AUC" in shown and (results / "embedded_roles.json").is_file()


@pytest.mark.faults
@runs("lean-lemmas")
@pytest.mark.usefixtures("lean")
def test_lemmas_are_written_as_they_are_bundled(checkout: Path) -> None:
    """This takes a minute."""
    printed("lean-lemmas", folder=checkout)
    for name in ("train", "tune", "test"):
        path = f"data/lean/lemmas_{name}.json"
        assert (checkout / path).read_bytes() == (ROOT / path).read_bytes()


@pytest.mark.faults
@runs("graded")
def test_graded_proofs_are_written_as_they_are_bundled(checkout: Path) -> None:
    printed("graded", folder=checkout)
    path = "data/sums_graded.json"
    assert (checkout / path).read_bytes() == (ROOT / path).read_bytes()


@pytest.mark.faults
@training.needed
@runs("train", "chances", "lean-policy")
def test_tiny_models_are_trained_and_measured(tmp_path: Path) -> None:
    torch: dict[str, Any] = {"python": training.PYTHON}
    printed("train", "--share", "0.0001", "--out", tmp_path, **torch)
    shown = printed("chances", tmp_path / "model.gguf", "--lines", "2", **torch)
    assert "solving, 2 lines" in shown
    taught, policy = tmp_path / "pairs.jsonl", tmp_path / "policy.gguf"
    pairs.write(taught, [pairs.Pair("a", f"p : Prop\n⊢ p → {n}", "intro h") for n in range(9)])
    printed("lean-policy", taught, "--out", policy, "--tokens", "2000", **torch)
    assert policy.stat().st_size > 10**6
