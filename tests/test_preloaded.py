"""A program that is forked from the process with the libraries behaves like one that was started by itself."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment, heed_signals, preloaded
from tests.helpers.preloaded import Program

SEEN = """
import json, os, signal, sys, threading
if len(sys.argv) > 1:
    print("ready", flush=True)
    exec(sys.argv[1])
handlers = {sign.name: str(signal.getsignal(sign)) for sign in signal.Signals}
print(json.dumps({
    "main": [__name__, __file__, vars(sys.modules["__main__"])["__file__"]],
    "argv": sys.argv, "path": sys.path, "folder": os.getcwd(), "env": dict(os.environ), "handlers": handlers,
    "files": sorted(os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in (0, 1, 2)),
    "open": len(os.listdir("/proc/self/fd")), "threads": threading.active_count(), "flags": list(sys.flags),
    "ours": sorted(name for name in sys.modules if name.startswith(("core", "tests", "experiments"))),
}))
"""
ENDS = {
    "sys.exit(3)": 3,
    "1 / 0": 1,
    "os.kill(os.getpid(), signal.SIGKILL)": -9,
    "threading.Thread(target=lambda: print('after')).start(); sys.exit(5)": 5,
}
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs are forked on Linux only")


def both(folder: Path, *args: str) -> "list[subprocess.Popen[str]]":
    """Start the program by itself and forked."""
    (folder / "probe.py").write_text(SEEN)
    given, env, forking = [str(folder / "probe.py"), *args], environment(ASKED="yes", PORT="1"), preloaded()
    assert forking and forking.can_start(given, env)
    pipe = subprocess.PIPE
    own = subprocess.Popen(
        [sys.executable, *given], env=env, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, preexec_fn=heed_signals
    )
    return [own, Program(forking, given, env, ROOT)]


def test_it_has_the_environment_of_a_program(tmp_path: Path) -> None:
    own, forked = (json.loads(process.communicate()[0]) for process in both(tmp_path))
    assert forked == own and not own["ours"] and own["env"]["ASKED"] == "yes"


@pytest.mark.parametrize("end", ENDS)
def test_it_ends_like_a_program(end: str, tmp_path: Path) -> None:
    own, forked = both(tmp_path, end)
    outputs = [process.communicate(timeout=120) for process in (own, forked)]
    assert own.returncode == forked.returncode == ENDS[end]
    assert outputs[0][0] == outputs[1][0] and outputs[0][1].splitlines()[-1:] == outputs[1][1].splitlines()[-1:]


def test_a_signal_ends_it_like_a_program(tmp_path: Path) -> None:
    for process in both(tmp_path, "signal.pause()"):
        assert process.stdout and process.stdout.readline() == "ready\n" and process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(120) == -signal.SIGINT == process.poll()
        process.communicate()
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)
