"""Whether two mathematical answers say the same: core/equality.py, in a child process that a deadline really ends.

math-verify's own time-out is a signal that fails in threads and under asyncio (Math-Verify #50, #55), and sympy can
hang or eat the memory on a line like 9^{9^{9^9}}.
"""

import atexit
import faulthandler
import json
import logging
import os
import subprocess
import sys
import threading
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from core.errors import UserError

DEADLINE_S = 10.0  # for one comparison
START_S = 120.0  # for importing sympy on a busy machine
MEMORY_BYTES = 4 << 30  # address space of the child


@lru_cache(maxsize=65536)
def math_equal(answer: str, truth: str) -> bool | None:
    """Whether `answer` equals the reference `truth`, both LaTeX without dollar signs; None, and a warning in the log,
    when there was no verdict within DEADLINE_S. Safe in threads; one comparison runs at a time.

    Raises UserError when math-verify is not installed.
    """
    verdict = _JUDGE.equal(answer, truth)
    if verdict is None:
        logging.getLogger(__name__).warning("no verdict on %.200r = %.200r: counted as wrong", answer, truth)
    return verdict


def stop() -> None:
    """End the child, also in the middle of a comparison; every comparison from now on is undecided. For a run that is
    being stopped, and must not wait for what hangs."""
    _JUDGE.end()


class _Judge:
    """The child, started when first needed and again after it ended itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._ended = False
        atexit.register(self._stop)

    def equal(self, answer: str, truth: str) -> bool | None:
        with self._lock:
            if self._ended:
                return None
            if self._process is None or self._process.poll() is not None:
                self._stop()
                self._start()
            assert self._process and self._process.stdin and self._process.stdout
            try:
                self._process.stdin.write(json.dumps([answer, truth, DEADLINE_S]) + "\n")
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

    def _start(self) -> None:
        if find_spec("math_verify") is None:
            raise UserError("math-verify is not installed, and answers of type math need it. Run: bash setup.sh")
        self._process = subprocess.Popen(  # known before it is ready: `end` may come while sympy is imported
            [sys.executable, "-m", "core.judge"],
            cwd=Path(__file__).resolve().parent.parent,
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
            raise UserError("the judge of math answers does not start. See why with: python -m core.judge")

    def _stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None


_JUDGE = _Judge()


def _serve() -> None:
    """The child: a JSON list [answer, truth, deadline in s] a line in, true or false a line out. The watchdog is a C
    thread, so it ends the process whatever sympy is doing, and also when the parent is gone."""
    faulthandler.dump_traceback_later(START_S, exit=True)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not pass for a reply
    from core.equality import equal

    if sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    print("ready", file=replies, flush=True)
    faulthandler.cancel_dump_traceback_later()
    for line in sys.stdin:
        answer, truth, deadline = json.loads(line)
        faulthandler.dump_traceback_later(deadline, exit=True)
        print(json.dumps(equal(answer, truth)), file=replies, flush=True)
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    _serve()
