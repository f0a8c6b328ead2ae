"""Run a module of this project as a child process that answers questions, and that ends if it
reaches a deadline. Answers of models can make a program hang or use up the memory."""

import asyncio
import atexit
import faulthandler
import json
import os
import resource
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from subprocess import DEVNULL, PIPE, Popen
from typing import Any, Protocol

from core.base.errors import UserError
from core.base.files import ROOT

# Limits in seconds of the child's processor time, which does not depend on the machine's load:
START_S = 60.0  # for its imports
WALL_S = 600.0  # a limit of wall-clock time for a question or the imports
MEMORY_BYTES = 4 << 30  # address space of the child


class Cached(Protocol):
    """A function with a cache, such as functools.lru_cache makes."""

    def cache_clear(self) -> None: ...


class Child:
    """A child process that runs the `module`. It starts at the first question, and again if it has
    ended. Errors call it by its `title`. `env` replaces its environment variables."""

    def __init__(self, module: str, title: str, env: Mapping[str, str] | None = None) -> None:
        self.module = module
        self.title = title
        self.env = env
        self.has_ended = False
        self.cached: list[Cached] = []  # functions whose results depend on the child
        self._lock = threading.Lock()
        self._process: Popen[str] | None = None
        _CHILDREN.append(self)
        atexit.register(self._stop)

    def ask(self, *question: Any) -> Any:
        """Return the child's answer to a `question`, a list for JSON (see `serve`). Return None if
        the child ends first. Threads may call it, but the child answers one question at a time.
        Raises UserError if the child does not start."""
        with self._lock:
            if self.has_ended:
                return None
            if self._process is None or self._process.poll() is not None:
                self._stop()
                self._start()
            assert self._process and self._process.stdin and self._process.stdout
            try:
                self._process.stdin.write(json.dumps(question) + "\n")
                self._process.stdin.flush()
                reply = self._process.stdout.readline()
            except OSError:  # the child ended before it could read the request
                reply = ""
            except BaseException:  # an interrupt: the next question would read this reply
                self._stop()
                raise
            if not reply:
                self._stop()
            return json.loads(reply) if reply else None

    def end(self) -> None:
        """End the child, even during a question. Later questions have no answer."""
        self.has_ended = True
        if process := self._process:  # without the lock: its holder waits for this process
            process.kill()

    def restore(self) -> None:
        """Let the child start again after `end`, and drop cached results, which may be missing
        because of `end`."""
        if not self.has_ended:
            return
        self.has_ended = False
        for function in self.cached:
            function.cache_clear()

    def _start(self) -> None:
        self._process = Popen(  # set early, because `end` may be called during the imports
            [sys.executable, "-m", self.module],
            cwd=ROOT,
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            text=True,
            env=self.env,
        )
        assert self._process.stdout
        if not self._process.stdout.readline():
            self._stop()
            raise UserError(
                f"{self.title} does not start. To see why, run: python -m {self.module}"
            )

    def _stop(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None


_CHILDREN: list[Child] = []


@asynccontextmanager
async def stopping_children() -> AsyncIterator[None]:
    """End all children if the block is cancelled. Otherwise asyncio would wait for a hung child. If
    an earlier block was cancelled, first restore the children, so that undecided answers are judged
    again."""
    for child in _CHILDREN:
        child.restore()
    try:
        yield
    except asyncio.CancelledError:
        for child in _CHILDREN:
            child.end()
        raise


def serve(prepare: Callable[[], Callable[..., Any]]) -> None:
    """Run the child. Prepare within START_S, and write the line "ready". Then answer each JSON line
    [word, …, seconds] with the result of the prepared function for the words."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries' output must not be read as a reply
    with ending_after(START_S):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        answer = prepare()
    print("ready", file=replies, flush=True)
    for line in sys.stdin:
        *words, deadline = json.loads(line)
        with ending_after(deadline):
            reply = json.dumps(answer(*words))
        print(reply, file=replies, flush=True)


@contextmanager
def ending_after(seconds: float) -> Iterator[None]:
    """End this process if the block uses `seconds` of processor time. The kernel's signal works
    even if Python hangs. In any case, a C thread ends the process after WALL_S of wall-clock time,
    for example if the block only waits."""
    faulthandler.dump_traceback_later(WALL_S, exit=True)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    yield
    signal.setitimer(signal.ITIMER_PROF, 0)
    faulthandler.cancel_dump_traceback_later()
