"""Commands in a shell, whose output nobody takes: a pipe without a reader, a full disk."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.conftest import ROOT, environment, heed_signals

SIGPIPE = 128 + 13


def shell(line: str, **changes: str) -> "subprocess.CompletedProcess[str]":
    """A line of bash in which $P is Python and $S the status of the first command of a pipe."""
    return subprocess.run(
        ["bash", "-c", line.replace("$S", "${PIPESTATUS[0]}")],
        env=environment(**changes) | {"P": sys.executable},
        capture_output=True,
        text=True,
        cwd=ROOT,
        preexec_fn=heed_signals,
        timeout=300,
    )


def ends_as_other_programs_do(command: str, redirected: str, results: Path) -> None:
    done = shell(f"$P {command} {redirected}", RESULTS_DIR=str(results))
    assert done.returncode == (SIGPIPE if "true" in redirected else 1)
    assert "Traceback" not in done.stderr and "Exception ignored" not in done.stderr
    assert done.stderr.count("\n") == (redirected == "> /dev/full"), done.stderr


def serves_on_until_it_is_stopped(command: str, port: int, redirected: str) -> None:
    process = subprocess.Popen(
        ["bash", "-c", f"exec $P {command} {redirected}"],
        env=environment(PORT="29892") | {"P": sys.executable},
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        preexec_fn=heed_signals,
    )
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
    assert process.returncode in (lost, 0, 130)  # its port was open, and it may not have been quite ready
    assert "Traceback" not in err and "stopped" in err
