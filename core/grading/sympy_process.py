"""Compare mathematical answers (equality.py) in a child process, which ends if it reaches a
deadline. sympy can hang or use up the memory on an answer such as 9^{9^{9^9}}. math-verify's own
time-out is a signal, which fails in threads and under asyncio (Math-Verify #50, #55)."""

import asyncio
import atexit
import faulthandler
import json
import logging
import os
import resource
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import lru_cache
from subprocess import DEVNULL, PIPE, Popen

from core.base.errors import UserError
from core.base.files import ROOT
from core.grading.doubts import NOTATION

# Limits in seconds of the child's processor time, which does not depend on the machine's load:
DEADLINE_S = 10.0  # for one comparison
START_S = 60.0  # for importing sympy
WALL_S = 600.0  # a limit of wall-clock time for a comparison or the import
MEMORY_BYTES = 4 << 30  # address space of the child


@lru_cache(maxsize=65536)
def math_equal(answer: str, truth: str) -> bool | None:
    """Return whether `answer` equals the reference answer `truth`, both in LaTeX without dollar
    signs. Returns None and warns if the child ends before its verdict, for example at a deadline or
    for lack of memory. Threads may call it, but comparisons run one at a time. Raises UserError if
    the child does not start."""
    verdict = _PROCESS.ask("equal", answer, truth)
    if verdict is None:
        logging.getLogger(__name__).warning(
            "no verdict: %.200r and %.200r count as different", answer, truth
        )
    return None if verdict is None else bool(verdict)


@lru_cache(maxsize=65536)
def math_readable(text: str) -> bool | None:
    """Return whether `text` can be compared with other spellings. Returns None and raises in
    math_equal's cases."""
    verdict = _PROCESS.ask("readable", text)
    return None if verdict is None else bool(verdict)


@lru_cache(maxsize=65536)
def math_difference(answer: str, truth: str) -> str | None:
    """Return a doubt (doubts.py) about two readable answers that are not equal, or None if they
    certainly differ. If the child ends first, that is a doubt, too. Raises as math_equal does."""
    doubt = _PROCESS.ask("difference", answer, truth)
    if doubt is None:
        return NOTATION
    return str(doubt) or None


@asynccontextmanager
async def stopping_sympy() -> AsyncIterator[None]:
    """End the judge's child if the block is cancelled. Otherwise asyncio would wait for a hung
    child. If an earlier block was cancelled, first restore the judge, and drop cached verdicts, so
    that undecided pairs are judged again."""
    if _PROCESS.has_ended:
        _PROCESS.has_ended = False
        math_equal.cache_clear()
        math_readable.cache_clear()
        math_difference.cache_clear()
    try:
        yield
    except asyncio.CancelledError:
        _PROCESS.end()
        raise


class _SympyProcess:
    """The child process. It starts at the first comparison, and again if it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: Popen[str] | None = None
        self.has_ended = False
        atexit.register(self._stop)

    def ask(self, question: str, *texts: str) -> bool | str | None:
        """Return the child's answer to a `question` (see _serve) about texts, or None if the child
        ends first."""
        with self._lock:
            if self.has_ended:
                return None
            if self._process is None or self._process.poll() is not None:
                self._stop()
                self._start()
            assert self._process and self._process.stdin and self._process.stdout
            try:
                self._process.stdin.write(json.dumps([question, *texts, DEADLINE_S]) + "\n")
                self._process.stdin.flush()
                reply = self._process.stdout.readline()
            except OSError:  # the child ended before it could read the request
                reply = ""
            except BaseException:  # an interrupt: the next comparison would read this reply
                self._stop()
                raise
            if not reply:
                self._stop()
            answer: bool | str | None = json.loads(reply) if reply else None
            return answer

    def end(self) -> None:
        """End the child, even during a comparison. Later comparisons are undecided."""
        self.has_ended = True
        if process := self._process:  # without the lock: its holder waits for this process
            process.kill()

    def _start(self) -> None:
        self._process = Popen(  # set early, because `end` may be called while sympy is imported
            [sys.executable, "-m", "core.grading.sympy_process"],
            cwd=ROOT,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            text=True,
        )
        assert self._process.stdout
        if not self._process.stdout.readline():
            self._stop()
            raise UserError(
                "the judge of math answers does not start. To see why, run: python -m "
                "core.grading.sympy_process"
            )

    def _stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None


_PROCESS = _SympyProcess()


def _serve() -> None:
    """Write the line "ready". Then answer each JSON line [question, text, ..., seconds]. The
    questions are "equal" and "readable", answered by true or false, and "difference", answered by a
    doubt, or by "" if there is none."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries' output must not be read as a reply
    with _ending_after(START_S):
        from core.grading.differences import difference
        from core.grading.equality import is_equal, readable

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    answers: dict[str, Callable[..., bool | str]] = {
        "equal": is_equal,
        "readable": readable,
        "difference": lambda *texts: difference(*texts) or "",
    }
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        question, *texts, deadline = json.loads(line)
        with _ending_after(deadline):
            answer = answers[question](*texts)
        print(json.dumps(answer), file=replies, flush=True)


@contextmanager
def _ending_after(seconds: float) -> Iterator[None]:
    """End this process if the block uses `seconds` of processor time. The kernel's signal works
    even if Python hangs. In any case, a C thread ends the process after WALL_S of wall-clock time,
    for example if the block only waits."""
    faulthandler.dump_traceback_later(WALL_S, exit=True)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    _serve()
