"""Small disks that fill up, and the error line of a run."""

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(folder: Path, size: str = "4m") -> Iterator[Path]:
    """Mount a disk of this `size` at `folder`."""
    folder.mkdir()
    args = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(args, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting is not permitted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path, free: int) -> Path:
    """Write a file that leaves `free` bytes of the disk, or fewer if a run writes meanwhile."""
    ballast, disk = folder / "ballast", os.statvfs(folder)
    try:
        ballast.write_bytes(bytes(disk.f_bavail * disk.f_frsize - free))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
    return ballast


def the_error(status: int, err: str) -> str:
    """Return the error line, which is the last one after the progress bar."""
    last = err.replace("\r", "\n").splitlines()[-1]
    assert status == 2 and last.startswith("error: ") and err.count("error: ") == 1, err
    return last
