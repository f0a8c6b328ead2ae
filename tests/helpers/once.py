"""Folders that several files of tests read, made once for all workers."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """Return a copy of the folder `name`, which `make` fills for the first caller."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    kept = base / name
    with open(base / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            making = factory.mktemp(f"making-{name}")
            make(making)
            making.rename(kept)
        return shutil.copytree(kept, factory.mktemp(name) / name)
