"""Raise this process's limit on open files if necessary. Network connections count as open files."""

import os
import resource

SPARE = 16  # additional open files: saved results, the judge's pipes, name look-ups
ADVICE = "run ulimit -n 4096 first (in a new shell if this one refuses), or set a lower CONCURRENCY"


def allows(files: int) -> bool:
    """Raise the limit so that `files` and SPARE more files can be open. Return whether the system allows it."""
    wanted = len(os.listdir("/dev/fd")) + files + SPARE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return True
    if hard != resource.RLIM_INFINITY and hard < wanted:
        return False
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return True
