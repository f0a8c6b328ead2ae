"""Processes that tests start, wait for and kill."""

import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from core.base.files import ROOT


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"  # a zombie is dead


def eventually(true: Callable[[], object], seconds: float = 240) -> bool:
    """Return whether `true()` becomes true within so many `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if true():
            return True
        time.sleep(0.05)
    return False


def is_free(port: int) -> bool:
    """Return whether nothing listens on a `port` of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    except OSError:  # a server that is ending may reset or delay a connection
        return False
    return False


def loads_none(module: str, heavy: list[str]) -> None:
    """Import `module` in another process, and check that it loads none of the `heavy` modules."""
    program = f"import {module}, sys; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"
