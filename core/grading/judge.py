"""Whether two mathematical answers say the same: equality.py, in a child process that a deadline really ends.

math-verify's own time-out is a signal that fails in threads and under asyncio (Math-Verify #50, #55), and sympy can
hang or eat the memory on a line like 9^{9^{9^9}}.
"""

import asyncio
import atexit
import faulthandler
import json
import logging
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from importlib.util import find_spec

from core.base.errors import UserError
from core.base.files import ROOT

# Seconds of the child's own processor time, for a busy machine takes none of that away:
DEADLINE_S = 10.0  # for one comparison
START_S = 60.0  # for importing sympy
WALL_S = 600.0  # by the clock, for either
MEMORY_BYTES = 4 << 30  # address space of the child


@lru_cache(maxsize=65536)
def math_equal(answer: str, truth: str) -> bool | None:
    """Whether `answer` equals the reference `truth`, both LaTeX without dollar signs; None, and a warning in the log,
    when there was no verdict within DEADLINE_S. Safe in threads; one comparison runs at a time, and an unusually busy
    machine may take long for it.

    Raises UserError when math-verify is not installed.
    """
    verdict = _JUDGE.verdict(answer, truth)
    if verdict is None:
        logging.getLogger(__name__).warning("no verdict in time on %.200r = %.200r: taken for different", answer, truth)
    return verdict


@lru_cache(maxsize=65536)
def math_readable(text: str) -> bool | None:
    """Whether `text`, LaTeX without dollar signs, can be compared with answers that are spelled otherwise; None when
    there was no verdict within DEADLINE_S. Safe and raises as math_equal."""
    return _JUDGE.verdict(text)


def stop() -> None:
    """End the child, also in the middle of a comparison; every comparison from now on is undecided. For a run that is
    being stopped, and must not wait for what hangs."""
    _JUDGE.end()


@asynccontextmanager
async def stopping_judge() -> AsyncIterator[None]:
    """When a run is stopped, `stop`: asyncio waits for its threads, and one may be at a line that hangs. The next run
    of the process judges again."""
    _JUDGE.revive()
    try:
        yield
    except asyncio.CancelledError:
        stop()
        raise


class _Judge:
    """The child, started when first needed and again after it ended itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._ended = False
        atexit.register(self._stop)

    def verdict(self, *texts: str) -> bool | None:
        """Ask whether two texts are equal, or whether one is readable. None: no verdict within DEADLINE_S."""
        with self._lock:
            if self._ended:
                return None
            if self._process is None or self._process.poll() is not None:
                self._stop()
                self._start()
            assert self._process and self._process.stdin and self._process.stdout
            try:
                self._process.stdin.write(json.dumps([*texts, DEADLINE_S]) + "\n")
                self._process.stdin.flush()
                reply = self._process.stdout.readline()
            except OSError:  # it ended before it could read
                reply = ""
            except BaseException:  # an interrupt: the reply still to come would be taken for the next one's
                self._stop()
                raise
            if not reply:
                self._stop()
            return json.loads(reply) if reply else None

    def end(self) -> None:
        self._ended = True
        process = self._process  # without the lock: whoever holds it waits for this very process
        if process:
            process.kill()

    def revive(self) -> None:
        """Judge again after `end`, also what had no verdict then."""
        if self._ended:
            self._ended = False
            math_equal.cache_clear()
            math_readable.cache_clear()

    def _start(self) -> None:
        if find_spec("math_verify") is None:
            raise UserError("math-verify is not installed, and answers of type math need it. Run: bash setup.sh")
        self._process = subprocess.Popen(  # known before it is ready: `end` may come while sympy is imported
            [sys.executable, "-m", "core.grading.judge"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if self._ended:  # in between
            self._process.kill()
        assert self._process.stdout
        if not self._process.stdout.readline():
            self._stop()
            raise UserError("the judge of math answers does not start. See why with: python -m core.grading.judge")

    def _stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None


_JUDGE = _Judge()


def _serve() -> None:
    """The child: a JSON list [answer, truth, deadline in s] (of one that is to be read, without the truth) a line in,
    true or false a line out. It says "ready" when sympy is imported, and ends by itself when the parent is gone."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not pass for a reply
    with _ending_after(START_S):
        from core.grading.equality import equal, readable

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        *texts, deadline = json.loads(line)
        with _ending_after(deadline):
            verdict = equal(*texts) if len(texts) == 2 else readable(*texts)
        print(json.dumps(verdict), file=replies, flush=True)


@contextmanager
def _ending_after(seconds: float) -> Iterator[None]:
    """End this process, whatever sympy is doing, when the block has taken `seconds` of its processor time: the kernel
    counts them, and its signal needs no Python to be noticed. A block that takes no time and yet does not end is ended
    after WALL_S by a C thread."""
    faulthandler.dump_traceback_later(WALL_S, exit=True)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    _serve()
