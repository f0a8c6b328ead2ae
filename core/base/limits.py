"""How many files (connections are files too) this process may have open: raised where it needs more."""

import errno
import os
import resource

SPARE = 16  # files that come and go beside those that are counted on: a save, the judge's pipes, names looked up


def short_of(files: int = 0) -> str:
    """What to do where `files` more can't be opened."""
    return f"allow more: ulimit -n {max(1024, _open_now() + files + SPARE)} (in a new shell, if this one refuses)"


def reserve(files: int) -> int:
    """See to it that `files` more can be opened, and SPARE beside them. Return how many of `files` really can be."""
    wanted = _open_now() + files + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return files
    granted = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, granted), hard))
    return max(0, files - (wanted - granted))


def are_short(error: BaseException) -> bool:
    """Whether `error`, or the first of a group, is that no more files may be opened."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def _open_now() -> int:
    return len(os.listdir("/dev/fd"))
