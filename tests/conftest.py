"""Fixtures: the real embedded engine, a proxy that injects faults, and experiments as a user runs
them."""

import gc
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from core import server as engines
from core.base import signals, terminal
from core.client import retry
from core.engines.protocol import Server
from tests.fakes.http import Proxy
from tests.fakes.moody import Moody
from tests.fakes.server import ScriptedServer
from tests.helpers import leftovers
from tests.helpers.browser import CHROMIUM, FLAGS, Tab

signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs, as in CI, may ignore it
# Machines that run tests may be busy, so no test of properties has a deadline.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
os.environ.pop("COLUMNS", None)  # xdist and terminals may set it; lines are not wrapped without it
gc.disable()  # while the tests are collected, of which it takes a quarter
# a second thread spins and takes time from other tests
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
ROOT = Path(__file__).resolve().parent.parent
collect_ignore = [] if (ROOT / "labs").exists() else ["real"]  # needs models that a lab converts


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Start the process that kills leftovers of the tests at their end (leftovers.py)."""
    if "PYTEST_XDIST_WORKER" in os.environ:  # it inherits the mark
        return
    os.environ[leftovers.NAME] = uuid.uuid4().hex
    config.stash[WATCH] = subprocess.Popen(
        [sys.executable, leftovers.__file__, os.environ[leftovers.NAME]],
        stdin=subprocess.PIPE,
        start_new_session=True,
        env={name: value for name, value in os.environ.items() if name != leftovers.NAME},
    )


WATCH = pytest.StashKey["subprocess.Popen[bytes]"]()  # keeps the pipe open until this process ends


@pytest.fixture(scope="session")
def engine() -> Iterator[Server]:
    """Return the embedded model on the embedded engine, for all tests."""
    with engines.embedded() as server:
        yield server


@pytest.fixture(autouse=True)
def own_signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Restore the handlers of signals. Otherwise a test that is stopped would stop later tests of
    the same process."""
    monkeypatch.setattr(signals, "_stop", signals._stop)
    handlers = {sign: signal.getsignal(sign) for sign in signals.STOPS}
    yield
    for sign, handler in handlers.items():
        signal.signal(sign, handler)


@pytest.fixture(autouse=True)
def no_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Announce no step that takes a second, because any step may take it on a busy machine."""
    monkeypatch.setattr(terminal, "SECOND", 60.0)


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "results"
    folder.mkdir()
    monkeypatch.setenv("RESULTS_DIR", str(folder))
    return folder


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    """Return a scripted server that runs attach to."""
    with closing(ScriptedServer()) as server:
        monkeypatch.setenv("BASE_URL", server.url)
        yield server


@pytest.fixture
def moody() -> Iterator[Moody]:
    with closing(Moody()) as moody:
        yield moody


@pytest.fixture
def proxy(engine: Server) -> Iterator[Proxy]:
    with closing(Proxy(engine.base_url)) as proxy:
        yield proxy


@pytest.fixture
def through(engine: Server, proxy: Proxy) -> Server:
    """Return the engine behind the proxy."""
    return replace(engine, base_url=proxy.url)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask again without the waits."""
    monkeypatch.setattr(retry, "_backoff", lambda attempt: 0.001)


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of a user's experiment: no server is chosen, the port is one that the
    system gives to no other program, and the hub is not asked, because without a network each
    set-up would try for 20 seconds."""
    left_out = ("BASE_URL", "API_KEY", "MODEL", "PROBLEMS")
    inherited = {name: value for name, value in os.environ.items() if name not in left_out}
    return inherited | {"PYTHONPATH": str(ROOT), "PORT": "29871", "HF_HUB_OFFLINE": "1"} | changes


def heed_signals() -> None:
    """Handle signals as in a terminal: background jobs, as in CI, ignore Ctrl-C, and so do their
    children."""
    for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.SIG_DFL)


def start(experiment: str, *overrides: str, **changes: str) -> "subprocess.Popen[str]":
    return python(str(ROOT / "experiments" / f"{experiment}.py"), *overrides, **changes)


def python(*args: str, **changes: str) -> "subprocess.Popen[str]":
    """Start a program of this project in its own process group, as a user does."""
    return subprocess.Popen(
        [sys.executable, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(**changes),
        cwd=ROOT,
        preexec_fn=heed_signals,
        process_group=0,
    )


def run(experiment: str, *overrides: str, **changes: str) -> tuple[int, str, str]:
    """Run an experiment to its end; return status, standard output and standard error."""
    return ended(start(experiment, *overrides, **changes))


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    """Wait for a process; return status, standard output and standard error."""
    try:
        out, err = process.communicate(timeout=300)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.fixture(scope="module")  # while it is open, this thread runs an event loop
def browser() -> Iterator[Tab]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium: apt-get install chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield Tab(chromium)
        chromium.close()


@pytest.fixture
def tab(browser: Tab) -> Iterator[Tab]:
    browser.reset()
    yield browser
    assert browser.trouble == [], browser.trouble
