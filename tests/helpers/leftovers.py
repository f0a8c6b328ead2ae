"""Kill all processes of a suite at its end: `python tests/helpers/leftovers.py MARK`.

The end closes standard input. Then every process with MARK in its environment is killed: tests
start servers and runs in other sessions, which neither Ctrl-C nor the end of pytest reaches.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

NAME = "QED_RSA_TESTS"  # the variable with the mark; children inherit it
LOOKS, BETWEEN = 5, 0.2  # a process may start others before it is killed


def carrying(mark: str) -> list[int]:
    """Return the ids of processes with the mark; none without /proc."""
    wanted, found = f"{NAME}={mark}\0".encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                found.append(int(folder.name))
    return found


if __name__ == "__main__":
    sys.stdin.read()
    for _ in range(LOOKS):
        for pid in carrying(sys.argv[1]):
            with suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(BETWEEN)
