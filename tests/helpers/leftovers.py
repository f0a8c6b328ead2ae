"""What a suite started ends with it, however it ended: `python tests/helpers/leftovers.py MARK` waits until its
standard input closes, which is the suite's end, and kills every process that carries MARK in its environment.

Tests start servers and runs in sessions of their own, which neither Ctrl-C nor the end of pytest reaches.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

NAME = "QED_RSA_TESTS"  # the variable that holds the mark; a child inherits it
LOOKS, BETWEEN = 5, 0.2  # what is looked at may start others meanwhile


def carrying(mark: str) -> list[int]:
    """Process ids; none where there is no /proc."""
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
