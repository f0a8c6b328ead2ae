"""Server processes: real ones under a real supervisor, killed, failing and hanging."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from core.base.errors import UserError
from core.engines import process
from tests.conftest import ROOT, environment
from tests.helpers.processes import eventually, is_alive

# A leader with a child of its own, as SGLang has its scheduler; both write down their process ids.
PAIR = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open(sys.argv[1] + ".new", "w") as out:
    out.write(f"{os.getpid()} {child.pid}")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)
"""


def pids(file: Path) -> list[int]:
    assert eventually(file.exists)
    return [int(pid) for pid in file.read_text().split()]


def test_all_of_a_server_ends_with_the_block_that_started_it(tmp_path: Path) -> None:
    with process.running("X", [sys.executable, "-c", PAIR, str(tmp_path / "pids")], 1, tmp_path / "log"):
        both = pids(tmp_path / "pids")
        assert all(map(is_alive, both))
    assert eventually(lambda: not any(map(is_alive, both)))


def test_a_killed_run_leaves_no_server_behind(tmp_path: Path) -> None:
    holder = f"""
import sys, time
from core.engines import process
with process.running("X", [sys.executable, "-c", {PAIR!r}, {str(tmp_path / "pids")!r}], 1):
    time.sleep(600)
"""
    run = subprocess.Popen([sys.executable, "-c", holder], cwd=ROOT, env=environment())
    both = pids(tmp_path / "pids")
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert eventually(lambda: not any(map(is_alive, both)))


def test_one_that_ignores_the_request_to_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{PAIR}"
    with process.running("X", [sys.executable, "-c", deaf, str(tmp_path / "pids")], 1, tmp_path / "log"):
        both = pids(tmp_path / "pids")
    assert eventually(lambda: not any(map(is_alive, both)))


def test_a_death_is_noticed_at_once_and_told_with_the_log(tmp_path: Path) -> None:
    dying = "import sys; print('loading'); sys.exit('RuntimeError: no such thing')"
    with (
        process.running("X", [sys.executable, "-c", dying], 1, tmp_path / "log") as started,
        pytest.raises(UserError, match=r"status 1: RuntimeError: no such thing.*/log"),
    ):
        started.wait_until(lambda: None, 600)
    assert "loading" in (tmp_path / "log").read_text()


def test_a_key_is_blotted_out_of_log_and_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    key = "s'3\\c\"r-" + "et" * 8  # printed as it is, as Python and as JSON quote it
    says = f"import json; key = {key!r}; print('server_args=', dict(api_key=key)); print(key); print(json.dumps(key))"
    log = tmp_path / "log"
    failing = [sys.executable, "-c", f"{says}; raise SystemExit('error: the key ' + key + ' is not available.')"]
    with process.running("X", failing, 1, log, secret=key) as started, pytest.raises(UserError) as raised:
        started.wait_until(lambda: None, 600)
    assert log.stat().st_mode & 0o777 == 0o600
    with process.running("X", failing, 1, secret=key) as started:  # its output goes to the terminal
        assert eventually(lambda: started.failure() is not None)
    seen = log.read_text() + str(raised.value) + str(started.failure()) + "".join(capfd.readouterr())
    assert seen.count(process.BLOT) >= 8
    assert "etet" not in seen
    assert "is not available. Its log is" in str(raised.value)  # one full stop


def test_one_that_never_answers_is_given_up(tmp_path: Path) -> None:
    with (
        process.running("X", [sys.executable, "-c", "import time; time.sleep(600)"], 1, tmp_path / "log") as started,
        pytest.raises(UserError, match="1 s"),
    ):
        started.wait_until(lambda: None, 1)


def test_a_program_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with process.running("X", ["/no/such/program"], 1, tmp_path / "log") as started:
        assert eventually(lambda: started.failure() is not None)
        assert "/no/such/program" in str(started.failure())


def test_a_taken_port_is_told_by_a_real_server(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        args = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port)]
        with process.running("X", args, port, tmp_path / "log") as started:
            assert eventually(lambda: started.failure() is not None)
            assert f"port {port}" in str(started.failure())


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", "the GPU's memory does not suffice"),
        ("RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.", "memory does not suffice"),
        ("ValueError: No available memory for the cache blocks.", "memory does not suffice"),
        ("OSError: [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000)", "port 77 is in use"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "the NVIDIA driver is missing"),
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 12040).", "too old for it"),
        ("ImportError: libcuda.so.1: cannot open shared object file", "the NVIDIA driver is missing"),
        ("RuntimeError: Cannot find any model weights with `/w/QED-Nano`", "weights are missing or damaged"),
        ("OSError: /w/QED-Nano does not appear to have a file named config.json", "weights are missing or damaged"),
        ("safetensors_rust.SafetensorError: Error while deserializing header: HeaderTooLarge", "missing or damaged"),
        ("launch_server.py: error: unrecognized arguments: --fast", "unrecognized arguments: --fast"),
        ("loading\nModuleNotFoundError: No module named 'sgl_kernel'\n", "No module named 'sgl_kernel'"),
        ("Traceback\n  File x\nValueError: odd thing\nbye", "ValueError: odd thing"),
        ("", "it said nothing"),
    ],
)
def test_what_servers_say_is_told_with_its_remedy(said: str, meant: str) -> None:
    """Messages as SGLang 0.5.23, vLLM 0.33.0, PyTorch and transformers print them (their sources)."""
    assert meant in process.explanation([f"{line}\n" for line in said.split("\n")], 1, 77)


def test_a_killed_server_is_told_as_such() -> None:
    assert "it was killed" in process.explanation(["loading\n"], 128 + signal.SIGKILL, 1)
    assert os.path.exists("/proc"), "these tests read /proc"


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent was killed")
def test_killing_the_supervisor_itself_frees_the_port(tmp_path: Path) -> None:
    program = f"""
import os, socket, time
listener = socket.create_server(("127.0.0.1", 0))
with open({str(tmp_path / "new")!r}, "w") as out:
    out.write(f"{{os.getpid()}} {{listener.getsockname()[1]}}")
os.rename({str(tmp_path / "new")!r}, {str(tmp_path / "told")!r})
time.sleep(600)
"""
    with process.running("X", [sys.executable, "-c", program], 1, tmp_path / "log") as started:
        pid, port = pids(tmp_path / "told")
        started.supervisor.kill()
        assert eventually(lambda: not is_alive(pid))
        with socket.create_server(("127.0.0.1", port)):
            pass
