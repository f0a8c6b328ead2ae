"""A login node of a cluster with stand-ins for Slurm's commands (tests/fakes/slurm.py)."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment
from tests.fakes.slurm import running
from tests.helpers.machine import stand_in

KEY = "sk-of-the-fleet"
SUBMIT = ROOT / "scripts" / "slurm" / "submit.sh"


@pytest.fixture
def slurm(tmp_path: Path, results: Path) -> Iterator[dict[str, str]]:
    """Return the environment there: two servers of the embedded model, and a key."""
    stand = f'exec {sys.executable} {ROOT}/tests/fakes/slurm.py "${{0##*/}}" "$@"'
    path = stand_in(tmp_path / "bin", sbatch=stand, scancel=stand, scontrol=stand)
    state = tmp_path / "slurm"
    state.mkdir()
    chosen = {
        "PATH": path,
        "SLURM_STAND_IN": str(state),
        "ENGINE": "embedded",
        "API_KEY": KEY,
        "SERVERS": "2",
    }
    # for setup.sh, because a python3 of pyenv is slow
    yield environment(**chosen, PYTHON=sys.executable)
    for file in state.glob("*.pids"):
        for pid in file.read_text().split():
            with suppress(ProcessLookupError):
                os.killpg(int(pid), signal.SIGKILL)


def submit(env: dict[str, str], *args: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["bash", SUBMIT, *args], env=env, capture_output=True, text=True, timeout=120
    )


def ended(env: dict[str, str], *jobs: str) -> bool:
    """Return whether these jobs have no process."""
    return not any(running(number, Path(env["SLURM_STAND_IN"])) for number in jobs)
