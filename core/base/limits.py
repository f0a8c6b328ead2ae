"""Raise this process's limit on open files if necessary. Network connections count as open files."""

import errno
import os
import resource

SPARE = 16  # additional open files: saved results, the judge's pipes, name look-ups


def short_of(files: int = 0) -> str:
    """Return the advice for a user whose process cannot open `files` more files."""
    return f"run ulimit -n {max(1024, _open_now() + files + SPARE)} first (in a new shell if this one refuses)"


def reserve(files: int) -> int:
    """Raise the limit so that `files` and SPARE more files can be open. Return how many of the `files` are allowed."""
    wanted = _open_now() + files + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return files
    granted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, granted), hard))
    return max(0, files - (wanted - granted))


def are_short(error: BaseException) -> bool:
    """Return whether `error`, or the first error of a group, means that too many files are open."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def _open_now() -> int:
    return len(os.listdir("/dev/fd"))
