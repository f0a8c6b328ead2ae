"""Fixtures: the real embedded engine, a proxy that injects faults before it, and experiments run as a user does."""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from core.engines import start as engines
from core.engines.server import Server
from tests.fakes.http import Proxy
from tests.fakes.server import ScriptedServer
from tests.helpers import leftovers
from tests.helpers.browser import CHROMIUM, Tab
from tests.helpers.preloaded import Preloaded, Program

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in jobs in the background, where CI may run us
# Machines that run tests are busy, all of the time or for a moment: no test of properties has a deadline.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
os.environ.pop("COLUMNS", None)  # what is printed is as wide as it gets; xdist and terminals may say otherwise
ROOT = Path(__file__).resolve().parent.parent
collect_ignore = [] if (ROOT / "labs").exists() else ["real"]  # which serves models that a lab converts


# The files that take longest, the longest first: what begins last decides when the suite ends.
LONGEST = (
    "labs/lean/test_faults.py",
    "labs/star/test_star.py",
    "labs/proofs/curate/test_tools.py",
    "labs/lean/test_iterate.py",
    "labs/star/test_faults.py",
    "labs/star/test_swap.py",
    "engines/test_fleet.py",
    "base/test_output.py",
    "labs/proofs/grade/test_lines.py",
    "labs/lean/test_baseline.py",
    "report/test_cli.py",
    "session/test_run.py",
    "labs/training/test_loop.py",
    "report/test_page.py",
    "labs/training/test_sft.py",
    "labs/proofs/grade/test_trial.py",
    "scaffolds/test_resume.py",
    "engines/test_llamacpp.py",
    "generate/test_retry.py",
    "labs/proofs/grade/test_stored.py",
    "scaffolds/test_proofs.py",
    "faults/test_wire.py",
    "engines/test_identity.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {ROOT / "tests" / name: rank for rank, name in enumerate(LONGEST)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))


def pytest_configure(config: pytest.Config) -> None:
    """Have what the tests start end with them (leftovers.py). Workers of xdist carry the mark of the process that
    started them."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        return
    os.environ[leftovers.NAME] = uuid.uuid4().hex
    config.stash[WATCH] = subprocess.Popen(
        [sys.executable, leftovers.__file__, os.environ[leftovers.NAME]],
        stdin=subprocess.PIPE,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != leftovers.NAME},
    )


WATCH = pytest.StashKey["subprocess.Popen[bytes]"]()  # held until this process ends, and its end of the pipe with it


@pytest.fixture(scope="session")
def engine() -> Iterator[Server]:
    """The embedded model on the embedded engine, shared by all tests."""
    with engines.embedded() as server:
        yield server


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setenv("RESULTS_DIR", str(folder))
    return folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """A scripted server that runs attach to."""
    made = ScriptedServer()
    monkeypatch.setenv("BASE_URL", made.url)
    yield made
    made.close()


@pytest.fixture
def proxy(engine: Server) -> Iterator[Proxy]:
    made = Proxy(engine.base_url)
    yield made
    made.close()


def environment(**changes: str) -> dict[str, str]:
    """The environment of an experiment started by a user: no server chosen, and port 30000 left alone. The ports of
    tests lie below those that the system gives to whoever asks for any."""
    left_out = ("BASE_URL", "API_KEY", "MODEL", "PROBLEMS")
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    return inherited | {"PYTHONPATH": str(ROOT), "PORT": "29871"} | changes


def heed_signals() -> None:
    """As in a terminal: a job in the background (CI's, perhaps) ignores Ctrl-C, and its children inherit that."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_DFL)


@lru_cache(maxsize=1)
def preloaded() -> Preloaded | None:
    return Preloaded(environment(), heed_signals) if sys.platform == "linux" else None


def start(experiment: str, *overrides: str, **changes: str) -> "subprocess.Popen[str]":
    return python(str(ROOT / "experiments" / f"{experiment}.py"), *overrides, **changes)


def python(*args: str, **changes: str) -> "subprocess.Popen[str]":
    """A program of this project, as a user starts it."""
    env = environment(**changes)
    if (forking := preloaded()) and forking.can_start(args, env):
        return Program(forking, args, env, ROOT)
    return subprocess.Popen(
        [sys.executable, *args],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        preexec_fn=heed_signals,
    )


def run(experiment: str, *overrides: str, **changes: str) -> tuple[int, str, str]:
    """Run an experiment to its end: status, standard output, standard error."""
    return ended(start(experiment, *overrides, **changes))


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """A process, when it is over: status, standard output, standard error."""
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.fixture(scope="module")  # no longer: while it is open, this thread has an event loop at work
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser: Any) -> Iterator[Tab]:
    made = Tab(browser)
    yield made
    made.close()
    assert made.trouble == [], made.trouble
