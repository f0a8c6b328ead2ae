"""Test real server processes under a real supervisor: killed, failing and hanging."""

import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.engines import process
from tests.conftest import ROOT, environment
from tests.helpers.processes import eventually, is_alive

# A leader with a child, like SGLang and its scheduler. It writes both_pids process ids to a file.
PAIR = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + ".new", "w") as out:
    out.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{PAIR}"


def pids(file: Path) -> list[int]:
    assert eventually(file.exists)
    return [int(pid) for pid in file.read_text().split()]


@pytest.mark.parametrize("program", [PAIR, DEAF], ids=["obeys", "ignores SIGTERM"])
def test_all_of_a_server_ends_with_the_block_that_started_it(tmp_path: Path, program: str) -> None:
    with process.running(
        "X", [sys.executable, "-c", program, str(tmp_path / "pids")], 1, tmp_path / "log"
    ):
        both_pids = pids(tmp_path / "pids")
        assert all(map(is_alive, both_pids))
    assert eventually(lambda: not any(map(is_alive, both_pids)))


def test_a_killed_run_leaves_no_server_behind(tmp_path: Path) -> None:
    holder = f"""
import sys, time
from core.engines import process
with process.running("X", [sys.executable, "-c", {PAIR!r}, {str(tmp_path / "pids")!r}], 1):
    time.sleep(600)
"""
    run = subprocess.Popen([sys.executable, "-c", holder], cwd=ROOT, env=environment())
    both_pids = pids(tmp_path / "pids")
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert eventually(lambda: not any(map(is_alive, both_pids)))


def test_a_death_is_noticed_at_once_and_reported_with_the_log(tmp_path: Path, capsys: Any) -> None:
    dying = "import sys; print('loading'); sys.exit('RuntimeError: no such thing')"
    with (
        process.running("X", [sys.executable, "-c", dying], 1, tmp_path / "log") as started,
        pytest.raises(UserError, match=r"status 1: RuntimeError: no such thing.*/log"),
    ):
        started.wait_until(lambda: None, 600)
    assert "loading" in (tmp_path / "log").read_text()
    assert capsys.readouterr().err.endswith("  | loading\n  | RuntimeError: no such thing\n"), (
        "its last lines"
    )


def test_a_server_whose_log_is_full_is_not_blocked(tmp_path: Path) -> None:
    """It prints more than a pipe holds before it is ready."""
    ready = tmp_path / "ready"
    chatty = (
        f"import time\nfor n in range(20000): print('line', n)\nopen({str(ready)!r}, "
        "'w').close()\ntime.sleep(600)"
    )
    with process.running("X", [sys.executable, "-c", chatty], 1, Path("/dev/full")) as started:
        started.wait_until(lambda: ready.exists() or None, 60)


def test_a_key_is_removed_from_log_and_terminal(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    key = "s'3\\c\"r-" + "et" * 8  # printed as it is, as Python and as JSON quote it
    says = (
        f"import json; key = {key!r}; print('server_args=', dict(api_key=key)); print(key); "
        "print(json.dumps(key))"
    )
    log = tmp_path / "log"
    failing = [
        sys.executable,
        "-c",
        f"{says}; raise SystemExit('error: the key ' + key + ' is not available.')",
    ]
    with (
        process.running("X", failing, 1, log, secret=key) as started,
        pytest.raises(UserError) as raised,
    ):
        started.wait_until(lambda: None, 600)
    assert log.stat().st_mode & 0o777 == 0o600
    with process.running("X", failing, 1, secret=key) as started:  # its output goes to the terminal
        assert eventually(lambda: started.failure() is not None)
    seen = (
        log.read_text() + str(raised.value) + str(started.failure()) + "".join(capfd.readouterr())
    )
    assert seen.count(process.HIDDEN) >= 8
    assert "etet" not in seen


def test_one_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with (
        process.running(
            "X", [sys.executable, "-c", "import time; time.sleep(600)"], 1, tmp_path / "log"
        ) as started,
        pytest.raises(UserError, match="1 s"),
    ):
        started.wait_until(lambda: None, 1)


def test_a_missing_program_and_a_taken_port_are_reported(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
        for args, named in ((server, f"port {port}"), (["/no/such/program"], "/no/such/program")):
            with process.running("X", args, port, tmp_path / "log") as started:
                assert eventually(started.failure)
                assert named in str(started.failure())


# the engine's own figure is part of the explanation
FULL = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
PORT, DRIVER, MEMORY, WEIGHTS = (
    meaning.format(port=77, words=FULL) for _, meaning in process.FAILURES
)


@pytest.mark.parametrize(
    ("printed", "meaning"),
    [
        (f"torch.{FULL}\nbye", MEMORY),
        (
            "OSError: [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000)",
            PORT,
        ),
        ("RuntimeError: Found no NVIDIA driver on your system.", DRIVER),
        ("OSError: /w/QED-Nano does not appear to have a file named config.json", WEIGHTS),
        (
            "launch_server.py: error: unrecognized arguments: --fast",
            "unrecognized arguments: --fast",
        ),
        ("Traceback\n  File x\nValueError: odd thing\nbye", "ValueError: odd thing"),
        (
            "(Worker pid=7) ERROR 11-29 [executor.py:953] AttributeError: no conv_dim\n"
            "RuntimeError: Engine core initialization failed. See root cause above",
            "AttributeError: no conv_dim",
        ),
        ("x.ValidationError: 1 error\n  No block fits\n    For more", "1 error  No block fits"),
    ],
)
def test_errors_of_servers_are_explained(printed: str, meaning: str) -> None:
    """They are printed by SGLang 0.5.23, vLLM 0.33.0, PyTorch and transformers, by their
    sources."""
    assert process.explanation([f"{line}\n" for line in printed.split("\n")], 1, 77).endswith(
        meaning
    )
