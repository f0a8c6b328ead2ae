"""Without the labs, the harness runs and passes its tests (in a copy of the checkout)."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment

PLAN = (sys.executable, "-m", "harness.plan.plan")
RUN, RESUMED = (f"tests/golden/test_core.py::test_{name}" for name in (
    "a_run_leaves_its_golden_files", "a_stored_journal_answers_every_request"))  # fmt: skip
TESTS = (f"{RUN}[01_baseline]", f"{RUN}[plan_15_compute_matched]", f"{RESUMED}[compare]",
         f"{RESUMED}[18_proofs]", f"{RESUMED}[19_answers]",
         "tests/harness/scaffolds/test_stopping.py::test_a_problem_ends_at_the_first_population_that_agrees",
         "tests/test_house.py::test_every_wing_is_a_package_that_is_installed")  # fmt: skip
pytestmark = pytest.mark.skipif(not (ROOT / "labs").exists(), reason="the labs are gone already")


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the working tree without the labs, their tests and the experiments that import them."""
    copied = tmp_path_factory.mktemp("wall") / "checkout"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(
        listed, capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout.split("\0")
    for file in (
        ROOT / name for name in names if name and not name.startswith(("labs/", "tests/labs/"))
    ):
        if file.is_file() and not (
            file.parent.name == "experiments" and "\nfrom labs." in file.read_text("utf-8")
        ):
            compiled = (
                file.parent.glob(f"__pycache__/{file.stem}.*") if file.suffix == ".py" else ()
            )
            for path in (file, *compiled):
                (copied / path.relative_to(ROOT)).parent.mkdir(parents=True, exist_ok=True)
                # with its time, which Python compares
                shutil.copy2(path, copied / path.relative_to(ROOT))
    (copied / ".venv").symlink_to(ROOT / ".venv")
    return copied


def python(copy: Path, *args: str) -> str:
    """Run a command in the copy and return its output."""
    env = {name: value for name, value in environment().items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": str(copy), "RESULTS_DIR": str(copy / "results")}
    done = subprocess.run(
        [sys.executable, *args], env=env, capture_output=True, text=True, cwd=copy, timeout=600
    )
    assert done.returncode == 0, f"{args}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def test_without_the_labs_the_harness_runs_and_passes_its_tests(copy: Path) -> None:
    """The tests run experiments, a report, a comparison and a plan."""
    assert (
        python(copy, "-c", "from importlib.util import find_spec; print(find_spec('labs'))")
        == "None\n"
    )
    kept = {path.name[:2] for path in (copy / "experiments").glob("*.py")}
    assert kept >= {f"{number:02}" for number in range(1, 20)}
    python(copy, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "", *TESTS)


@pytest.mark.faults
def test_without_the_labs_all_other_tests_are_collected(copy: Path) -> None:
    listed = python(copy, "-m", "pytest", "--collect-only", "-q", "-m", "")
    collected = set(re.findall(r"^(tests/\S+\.py): \d+$", listed, re.M))
    files = {os.path.relpath(path, copy) for path in (copy / "tests").rglob("test_*.py")}
    assert {name for name in files - collected if not name.startswith("tests/real/")} == set()


@pytest.mark.parametrize(
    "command",
    [
        ("bash", "scripts/grade.sh"),
        ("bash", "scripts/value.sh", "13_best_of"),
        ("bash", "scripts/run.sh", "21_star"),
        (*PLAN, "21_star"),
    ],
)
def test_without_the_labs_their_commands_are_refused_in_a_line(
    copy: Path, command: tuple[str, ...]
) -> None:
    experiment = copy / "experiments" / "21_star.py"
    shutil.copy(ROOT / "experiments" / "21_star.py", experiment)
    done = subprocess.run(
        command, env=environment(PYTHONPATH=str(copy)), capture_output=True, text=True, cwd=copy
    )
    experiment.unlink()
    assert done.returncode == 2 and done.stderr.endswith(": git checkout labs\n")
    assert done.stderr.count("\n") == 1
