"""Raise the limit on open files (connections count too) of this process if it needs more."""

import errno
import os
import resource

SPARE = 16  # open files besides the counted ones: a save, the judge's pipes, name look-ups


def short_of(files: int = 0) -> str:
    """Return the advice for the user if `files` more files cannot be opened."""
    return f"allow more: ulimit -n {max(1024, _open_now() + files + SPARE)} (in a new shell, if this one refuses)"


def reserve(files: int) -> int:
    """Raise the limit so that `files` more, and SPARE, can be opened. Return how many of `files` really can."""
    wanted = _open_now() + files + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return files
    granted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, granted), hard))
    return max(0, files - (wanted - granted))


def are_short(error: BaseException) -> bool:
    """Return whether `error`, or the first of a group, means too many open files."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def _open_now() -> int:
    return len(os.listdir("/dev/fd"))
