"""Stop a command by signals. A first SIGTERM or SIGHUP acts like Ctrl-C. Ignored signals (nohup)
stay ignored."""

import asyncio
import os
import signal
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

R = TypeVar("R")

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPING = b"\nstopping. Press Ctrl-C again to quit at once\n"


class _Stop:
    """The signal handler of a command. Its first signal raises KeyboardInterrupt, or cancels the
    coroutine of `run`. A later Ctrl-C ends the process at once with status 130. The journal stays
    valid, and servers that we started end too. Other later signals are ignored, because timeout,
    Slurm and terminals often send two signals for one stop."""

    task: asyncio.Task[Any] | None = None  # the task of `run`
    has_come = False

    def __call__(self, number: int, _: FrameType | None) -> None:
        if not self.has_come:
            self.has_come = True
            with suppress(OSError):  # the terminal may be closed
                os.write(2, STOPPING)
            if self.task is None or self.task.done():
                raise KeyboardInterrupt
            self.task.get_loop().call_soon_threadsafe(self.task.cancel)
        elif number == signal.SIGINT:
            os._exit(130)


_stop = _Stop()


def catch() -> None:
    """Let the next of STOPS stop this command."""
    global _stop
    _stop = _Stop()
    for sign in STOPS:
        if signal.getsignal(sign) is not signal.SIG_IGN:
            signal.signal(sign, _stop)


def run(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine as asyncio.run does. The first signal cancels it."""

    async def cancellable() -> R:
        _stop.task = asyncio.current_task()
        if _stop.task and _stop.has_come:  # and a package has swallowed the KeyboardInterrupt
            _stop.task.cancel()
        return await work

    return asyncio.run(cancellable())


@contextmanager
def held() -> Iterator[None]:
    """Hold back STOPS until the block ends, then raise the first that came. Outside the main
    thread, do nothing. A signal mask would not suffice: another thread (numpy starts some) may
    receive a signal for the main thread."""
    # Python runs signal handlers only in this thread
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []
    handlers = {
        sign: signal.signal(sign, lambda number, _: caught.append(number)) for sign in STOPS
    }
    try:
        yield
    finally:
        for sign, handler in handlers.items():
            signal.signal(sign, handler)
    if caught:
        signal.raise_signal(caught[0])
