"""An interrupted test suite leaves no processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment
from tests.helpers.processes import eventually, is_alive

SUITE = """
import os, subprocess, sys, time
from pathlib import Path

def test_that_never_ends():
    own = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
    Path(os.environ["PIDS"] + ".new").write_text(f"{os.getpid()} {own.pid}")
    os.rename(os.environ["PIDS"] + ".new", os.environ["PIDS"])
    time.sleep(600)
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/environ"), reason="needs /proc")
@pytest.mark.parametrize(
    ("sign", "workers"), [(signal.SIGINT, []), (signal.SIGKILL, ["-n", "1"]), (signal.SIGTERM, ["-n", "1"])]
)
def test_processes_of_a_suite_end_with_it(tmp_path: Path, sign: signal.Signals, workers: list[str]) -> None:
    (tmp_path / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", *workers]
    command += ["--rootdir", str(tmp_path), str(tmp_path / "test_suite.py")]
    pids = tmp_path / "pids"
    here = environment(PIDS=str(pids))
    suite = subprocess.Popen(
        command,
        cwd=ROOT,
        env={name: value for name, value in here.items() if not name.startswith("PYTEST_XDIST")},  # in case of a worker
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert eventually(pids.exists, 120)
    started = [int(pid) for pid in pids.read_text().split()]
    assert all(map(is_alive, started))
    suite.send_signal(sign)
    assert eventually(lambda: not any(map(is_alive, started)), 120)
    suite.wait()
