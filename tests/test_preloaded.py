"""A program that is forked from the process with the libraries is as one that was started by itself."""

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
import json, os, random, signal, sys, threading
if len(sys.argv) > 1:
    print("ready", flush=True)
    exec(sys.argv[1])
handlers = {sign.name: str(signal.getsignal(sign)) for sign in signal.Signals}
print(json.dumps({
    "main": [__name__, __file__, vars(sys.modules["__main__"])["__file__"]],
    "argv": sys.argv, "path": sys.path, "folder": os.getcwd(), "env": dict(os.environ), "handlers": handlers,
    "files": sorted(os.readlink(f"/proc/self/fd/{fd}").split(":")[0] for fd in (0, 1, 2)),
    "open": len(os.listdir("/proc/self/fd")), "threads": threading.active_count(), "flags": list(sys.flags),
    "streams": [[s.encoding, s.errors, s.line_buffering, s.isatty()] for s in (sys.stdin, sys.stdout, sys.stderr)],
    "ours": sorted(name for name in sys.modules if name.startswith(("core", "tests", "experiments"))),
}))
"""
ENDS = {
    "pass": 0,
    "sys.exit(3)": 3,
    "sys.exit('words')": 1,
    "1 / 0": 1,
    "os.kill(os.getpid(), signal.SIGKILL)": -9,
    "os.kill(os.getpid(), signal.SIGTERM)": -15,
    "signal.raise_signal(signal.SIGINT)": -2,
    "threading.Thread(target=lambda: print('behind')).start(); sys.exit(5)": 5,
}
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs are forked on Linux only")


def both(folder: Path, *args: str) -> "list[subprocess.Popen[str]]":
    """The probe, started by itself and forked."""
    (folder / "probe.py").write_text(SEEN)
    given, env, forking = [str(folder / "probe.py"), *args], environment(ASKED="yes", PORT="1"), preloaded()
    assert forking and forking.can_start(given, env)
    pipe = subprocess.PIPE
    own = subprocess.Popen(
        [sys.executable, *given], env=env, stdout=pipe, stderr=pipe, text=True, cwd=ROOT, preexec_fn=heed_signals
    )
    return [own, Program(forking, given, env, ROOT)]


def test_it_finds_what_a_program_finds(tmp_path: Path) -> None:
    own, forked = (json.loads(process.communicate()[0]) for process in both(tmp_path))
    assert forked == own and not own["ours"] and own["env"]["ASKED"] == "yes"


@pytest.mark.parametrize("end", ENDS)
def test_it_ends_as_a_program_ends(end: str, tmp_path: Path) -> None:
    own, forked = both(tmp_path, end)
    said, told = own.communicate(timeout=120), forked.communicate(timeout=120)
    assert own.returncode == forked.returncode == ENDS[end]
    assert said[0][:6] == told[0][:6] and said[1].splitlines()[-1:] == told[1].splitlines()[-1:]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda sign: sign.name)
def test_it_is_signalled_and_waited_for_as_a_program(sign: signal.Signals, tmp_path: Path) -> None:
    for process in both(tmp_path, "signal.pause()"):
        assert process.stdout and process.stdout.readline() == "ready\n"
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        process.send_signal(sign)
        assert process.wait(120) == -sign == process.poll()
        process.kill()  # of no effect, as it is over
        process.communicate()
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


def test_what_is_read_at_a_start_takes_a_start() -> None:
    forking = preloaded()
    assert forking and forking.can_start(["-m", "core.plan.plan"], environment(RESULTS_DIR="x"))
    assert not forking.can_start(["-m", "core.plan.plan"], environment(PYTHONIOENCODING="ascii"))
    assert not forking.can_start(["-c", "pass"], environment())
