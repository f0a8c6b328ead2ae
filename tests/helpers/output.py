"""Commands in a shell whose output is lost: a pipe without a reader, a full disk."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.conftest import ROOT, environment, heed_signals

SIGPIPE = 128 + 13
PLACE: Any = {"text": True, "cwd": ROOT, "preexec_fn": heed_signals}


def shell(line: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    """Run a line of bash in which $P is Python and $S the status of the first command of a pipe."""
    args, env = ["bash", "-c", line.replace("$S", "${PIPESTATUS[0]}")], environment(**changes) | {"P": sys.executable}
    return subprocess.run(args, env=env, **PLACE, capture_output=True, timeout=300)


def ends_as_other_programs_do(command: str, redirected: str, results: Path) -> None:
    done = shell(f"$P {command} {redirected}", RESULTS_DIR=str(results))
    assert done.returncode == (SIGPIPE if "true" in redirected else 1)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert done.stderr.count("\n") == (redirected == "> /dev/full"), done.stderr


def serves_on_until_it_is_stopped(command: str, port: int, redirected: str) -> None:
    args, env = ["bash", "-c", f"exec $P {command} {redirected}"], environment(PORT="29892") | {"P": sys.executable}
    process = subprocess.Popen(args, env=env, **PLACE, stderr=subprocess.PIPE)
    try:
        with socket.socket() as client:
            while client.connect_ex(("127.0.0.1", port)):
                assert process.poll() is None
                time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=60)[1]
    finally:
        process.kill()
    lost = SIGPIPE if "true" in redirected else 1
    assert process.returncode in (lost, 0, 130)  # it may not have been ready when its port was open
    assert "Traceback" not in err and "stopped" in err
