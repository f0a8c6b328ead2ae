"""Signals that stop a command: the first one lets it save what it has, a second one ends it at once."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# SIGTERM and SIGHUP often come in pairs that mean one (from timeout, Slurm, a terminal and its shell); Ctrl-C never.
ECHO_SECONDS = 1.0
STOPPING = b"\nstopping; Ctrl-C again leaves at once\n"


def _interrupt() -> None:
    raise KeyboardInterrupt


class Stop:
    """Heeds the signals that stop a command from when it is made: a lost connection or a job's end is like Ctrl-C. One
    that was ignored before (nohup) stays ignored.

    The first raises KeyboardInterrupt, or cancels the task of `cancelling`. A second one, whatever hangs, ends the
    process with status 130: what is in the journal is whole, and the servers we started end with us.
    """

    def __init__(self) -> None:
        self._first: Callable[[], object] = _interrupt
        self._at: float | None = None  # when the first came
        for sign in STOPS:
            if signal.getsignal(sign) is not signal.SIG_IGN:
                signal.signal(sign, self._heed)

    def _heed(self, number: int, _: FrameType | None) -> None:
        if self._at is None:
            self._at = time.monotonic()
            with suppress(OSError):  # the terminal may be what was lost
                os.write(2, STOPPING)
            self._first()
        elif number == signal.SIGINT or time.monotonic() - self._at > ECHO_SECONDS:
            os._exit(130)

    @contextmanager
    def cancelling(self) -> Iterator[None]:
        """While the block runs, the first signal cancels the task that it runs in."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        cancel = task.cancel
        self._first = lambda: loop.call_soon_threadsafe(cancel)
        try:
            yield
        finally:
            self._first = _interrupt
