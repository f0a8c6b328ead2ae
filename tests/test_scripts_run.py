"""Run every script of the harness as a user's process that must have an effect."""

import json
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from core.engines.process import free_port
from tests.conftest import ROOT, ended, environment
from tests.fakes.server import ScriptedServer
from tests.helpers.machine import stand_in
from tests.helpers.scripts import output, runs, script

RUN = ("PROBLEMS=sums", "LIMIT=2", "MAX_TOKENS=60")


@pytest.fixture(scope="module")
def served() -> Iterator[str]:
    """Return the address of a scripted server."""
    with closing(ScriptedServer()) as server:
        yield server.url


@pytest.fixture(scope="module")
def stored(served: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return results of 01_baseline and 02_rsa_basic, and of 01_baseline with another seed in the
    folder other."""
    folder = tmp_path_factory.mktemp("stored")
    at = {"BASE_URL": served, "RESULTS_DIR": str(folder)}
    output("run.sh", "01_baseline", *RUN, "N=2", **at)
    output("run.sh", "02_rsa_basic", *RUN, "N=2", "K=2", "T=1", **at)
    output(
        "run.sh",
        "01_baseline",
        *RUN,
        "N=2",
        "SEED=1",
        **at | {"RESULTS_DIR": str(folder / "other")},
    )
    return folder


@pytest.fixture
def copied(stored: Path, tmp_path: Path) -> Path:
    return shutil.copytree(stored, tmp_path / "results")


@runs("run.sh")
def test_run_saves_the_results_of_an_experiment(stored: Path) -> None:
    document = json.loads((stored / "01_baseline.json").read_text())
    assert document["complete"] and [
        len(each["steps"][0]["members"]) for each in document["problems"]
    ] == [2, 2]


@runs("sweep.sh")
def test_sweep_saves_a_result_of_each_combination(served: str, tmp_path: Path) -> None:
    output("sweep.sh", "01_baseline", *RUN, "N=1,2", BASE_URL=served, RESULTS_DIR=str(tmp_path))
    found = [
        json.loads(path.read_text())["config"]["N"] for path in tmp_path.glob("01_baseline*/*.json")
    ]
    assert sorted(found) == [1, 2]


@runs("report.sh")
def test_report_prints_the_results_that_it_is_given(stored: Path) -> None:
    shown = output("report.sh", "01_baseline", RESULTS_DIR=str(stored))
    assert "01_baseline" in shown and "02_rsa_basic" not in shown


@runs("compare.sh")
def test_compare_prints_a_difference_between_two_results(stored: Path) -> None:
    shown = output("compare.sh", "01_baseline", "02_rsa_basic", RESULTS_DIR=str(stored))
    assert "01_baseline" in shown and "02_rsa_basic" in shown


@runs("merge.sh")
def test_merge_saves_the_mean_of_two_runs(copied: Path) -> None:
    output(
        "merge.sh",
        "mean",
        "01_baseline",
        copied / "other" / "01_baseline.json",
        RESULTS_DIR=str(copied),
    )
    merged = [path for path in copied.glob("*.json") if "runs" in json.loads(path.read_text())]
    assert len(merged) == 1
    assert json.loads(merged[0].read_text())["runs"]["seeds"] == [0, 1]


@runs("regrade.sh")
def test_regrade_grades_the_stored_replies_again(copied: Path) -> None:
    path = copied / "01_baseline.json"
    document = json.loads(path.read_text())
    member = document["problems"][0]["steps"][0]["members"][0]
    right = member["answer"]
    member["answer"] = "an answer that no reply states"
    path.write_text(json.dumps(document))
    output("regrade.sh", "01_baseline", RESULTS_DIR=str(copied))
    assert json.loads(path.read_text())["problems"][0]["steps"][0]["members"][0]["answer"] == right


@runs("plan.sh")
def test_plan_counts_the_completions_of_the_constants(tmp_path: Path) -> None:
    shown = output(
        "plan.sh", "01_baseline", "N=3", "LIMIT=2", "--gpu", "H100", RESULTS_DIR=str(tmp_path)
    )
    assert re.search(r"^completions +6 ", shown, re.M)


@runs("start_server.sh")
def test_start_server_serves_until_it_is_stopped(tmp_path: Path) -> None:
    changes = environment(ENGINE="embedded", PORT=str(free_port()), RESULTS_DIR=str(tmp_path))
    server = subprocess.Popen(
        ["bash", str(ROOT / "scripts" / "start_server.sh")],
        env=changes,
        cwd=ROOT,
        text=True,
        process_group=0,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert server.stdout
    url = re.search(r"http://[\d.:]+", server.stdout.readline())
    try:
        assert url
        with urllib.request.urlopen(f"{url[0]}/v1/models", timeout=60) as reply:
            assert json.load(reply)["data"]
    finally:
        server.send_signal(signal.SIGTERM)
        status, _, err = ended(server)
    assert status == 0, err


# A stand-in for a Python that makes a venv, in which pip installs nothing and uv prints the names
# of its files.
PYTHON = """
mkdir -p "$3/bin"
printf '#!/bin/sh\\n' >"$3/bin/python"
printf '#!/bin/sh\\nfor word; do case $word in requirements*) echo "$word"; esac; done\\n' \
>"$3/bin/uv"
chmod +x "$3/bin/python" "$3/bin/uv"
"""


@runs("lock.sh")
def test_lock_writes_the_lock_of_each_part(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    stand_in(tmp_path / "bin", python3=PYTHON)
    done = subprocess.run(
        ["bash", "scripts/lock.sh"], cwd=tmp_path, capture_output=True, text=True,
        env=environment(PYTHON=str(tmp_path / "bin" / "python3")),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    locks = {path.name: path.read_text().split() for path in (tmp_path / "locks").iterdir()}
    assert locks.keys() >= {path.name for path in (ROOT / "locks").glob("*.lock")}
    assert locks["requirements-lean.lock"] == ["requirements.txt", "requirements-lean.txt"]
    assert locks["requirements-vllm.lock"] == ["requirements-vllm.txt"]


@runs("test.sh")
@pytest.mark.parametrize("failing", ["", "python", "ruff", "mypy"])
def test_test_passes_words_to_pytest_and_fails_if_a_check_fails(
    failing: str, tmp_path: Path
) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    (tmp_path / "setup.sh").write_text('echo "setup $*"\n')
    for name in ("python", "ruff", "mypy"):
        (tmp_path / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
        stand_in(
            tmp_path / ".venv" / "bin", **{name: f'echo "{name} $*"\nexit {int(name == failing)}'}
        )
    path = stand_in(tmp_path / "bin", chromium="")  # otherwise the script installs one
    done = subprocess.run(
        ["bash", "scripts/test.sh", "-k", "journal"], cwd=tmp_path, capture_output=True, text=True,
        env=environment(PATH=path),
    )  # fmt: skip
    assert done.returncode == bool(failing), done.stderr
    assert done.stdout.splitlines() == [
        "setup dev", "setup train", "python -m pytest -k journal", "ruff check .",
    "ruff format --check .", (
            "mypy "
        ),
    ]  # fmt: skip


def test_a_script_without_an_input_is_refused(tmp_path: Path) -> None:
    """The scripts that need an input do not end with status 0 without it."""
    for name in ("compare.sh", "merge.sh", "regrade.sh", "plan.sh", "sweep.sh"):
        assert script(name, RESULTS_DIR=str(tmp_path)).returncode == 2, name
