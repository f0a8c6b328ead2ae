"""Faults between real parts. Long tests have the mark `faults`.

FAULTS_SEED draws the random moments, and is printed at the end.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from core.engines.protocol import Server
from tests.conftest import start
from tests.fakes.http import Proxy, Request
from tests.helpers.runs import load, timeless

SEED = int(os.environ.get("FAULTS_SEED", "0"))

NAME = "02_rsa_basic"
IN_FLIGHT = 4
# A run of 32 completions, all cut off and forced to answer.
CONSTANTS = (
    "LIMIT=2",
    "N=4",
    "K=2",
    "T=3",
    "MAX_TOKENS=38",
    "ANSWER_TOKENS=24",
    f"CONCURRENCY={IN_FLIGHT}",
)
TOTAL = 2 * 4 * 4
Popen = subprocess.Popen[str]
PIPES: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(f"FAULTS_SEED={SEED}")


class Asked(NamedTuple):
    """A chat request. `run`: its API key, which tells runs apart."""

    run: str
    seed: int
    at: float  # time.monotonic()


class Recorder(Proxy):
    """A proxy of the engine that records each request and its run."""

    def __init__(self, target: str) -> None:
        self.requests: list[Asked] = []
        super().__init__(target)

    def post(self, request: Request, body: bytes) -> None:
        run = request.headers["authorization"].removeprefix("Bearer ")
        self.requests.append(Asked(run, json.loads(body)["seed"], time.monotonic()))
        super().post(request, body)

    def of(self, run: str) -> list[Asked]:
        return [request for request in self.requests if request.run == run]


@pytest.fixture(scope="session")
def recorder(engine: Server) -> Iterator[Recorder]:
    with closing(Recorder(engine.base_url)) as recorder:
        yield recorder


def begin(folder: Path, *overrides: str, **changes: str) -> Popen:
    """Start the experiment with its results in `folder`, in its own process group."""
    return start(NAME, *CONSTANTS, *overrides, RESULTS_DIR=str(folder), **changes)


def end(process: Popen, seconds: float = 240) -> tuple[int, str, str]:
    """Wait for a run to end within `seconds`; return status, standard output and standard error."""
    try:
        out, err = process.communicate(timeout=seconds)
    finally:
        kill(process)
    # If Ctrl-C comes during the imports, Python shows it, as in every program. numpy turns it into
    # an error of its own.
    is_early = process.returncode == -signal.SIGINT and err.endswith("KeyboardInterrupt\n")
    is_early |= process.returncode == 1 and "Importing the numpy C-extensions failed" in err
    assert is_early or "Traceback" not in out + err, err
    return process.returncode, out, err


def kill(process: Popen) -> None:
    """Send SIGKILL to the whole group."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def wait(process: Popen, seconds: float) -> None:
    """Wait `seconds`, or until it ends."""
    deadline = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.005)


def wait_for_lines(process: Popen, folder: Path, count: int) -> None:
    """Wait until its journal has `count` lines, or it ends."""
    path = journal(folder)
    while process.poll() is None and not (
        path.exists() and path.read_bytes().count(b"\n") >= count
    ):
        time.sleep(0.005)


def finish(folder: Path, *overrides: str, **changes: str) -> dict[str, Any]:
    """Run the experiment to its end; return its results without times."""
    status, _, err = end(begin(folder, *overrides, **changes))
    assert status == 0, err
    return whole(folder)


def whole(folder: Path) -> dict[str, Any]:
    """Return the results of a complete run without times, after a check that nothing is left over
    or kept twice."""
    document: dict[str, Any] = timeless(load(folder, NAME))
    for name in ("git_commit", "git_dirty"):  # the repository may change while tests run
        del document["provenance"][name]
    for name in ("why", "version"):  # the engine may be in the run's process or at BASE_URL
        del document["engine"][name]
    assert document["complete"] and (folder / f"{NAME}.png").read_bytes()[:4] == b"\x89PNG"
    assert not list(folder.glob(".*")) and not (folder / f"{NAME}.partial.json").exists()
    kept = records(folder)
    assert len(kept) == len({record["key"] for record in kept}) == TOTAL
    return document


def journal(folder: Path) -> Path:
    return folder / "journal" / f"{NAME}.jsonl"


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, recorder: Recorder) -> Path:
    """Return the results folder of an undisturbed run."""
    folder = tmp_path_factory.mktemp("undisturbed")
    finish(folder, BASE_URL=recorder.url, API_KEY="undisturbed")
    return folder


def records(folder: Path) -> list[dict[str, Any]]:
    """Read the whole lines of the journal."""
    kept = journal(folder).read_bytes().rpartition(b"\n")[0] if journal(folder).exists() else b""
    return [json.loads(line) for line in kept.splitlines()]


def seeds(folder: Path) -> set[int]:
    """Return the seeds of the completions in the journal."""
    return {record["completion"]["seed"] for record in records(folder)}
