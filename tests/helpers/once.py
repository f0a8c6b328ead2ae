"""What several files of tests look at, made once for all workers."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """A copy, of one's own, of the folder that `make` filled for whoever asked for `name` first."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    made = base / name
    with open(base / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.exists():
            making = factory.mktemp(f"making-{name}")
            make(making)
            making.rename(made)
        return shutil.copytree(made, factory.mktemp(name) / name)
