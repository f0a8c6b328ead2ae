"""Signals that stop a command: a lost connection or a job's end is like Ctrl-C. Those that were ignored before (nohup)
stay ignored.

A run (`Stop`) saves what it has at the first and ends at once at a second; what holds servers (`stop_once`) ends them
at the first and ignores the others, for no process may be left behind. `ignored` and `held` shield what must not be
interrupted."""

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from core.base import interrupts

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# SIGTERM and SIGHUP often come in pairs that mean one (from timeout, Slurm, a terminal and its shell); Ctrl-C never.
ECHO_SECONDS = 1.0
STOPPING = b"\nstopping; Ctrl-C again leaves at once\n"


def _handle(handler: Any) -> None:
    for sign in STOPS:
        if signal.getsignal(sign) is not signal.SIG_IGN:
            signal.signal(sign, handler)


def _interrupt() -> None:
    raise KeyboardInterrupt


class Stop:
    """From when it is made, the first signal raises KeyboardInterrupt, or cancels the task of `cancelling`. A second
    one, whatever hangs, ends the process with status 130: what is in the journal is whole, and the servers we started
    end with us. A first one that somebody swallowed raises when this is made, or at `cancelling`."""

    def __init__(self) -> None:
        self._first: Callable[[], object] = _interrupt
        self._at: float | None = None  # when the first came
        _handle(self._stop)
        if interrupts.was_heard():
            raise KeyboardInterrupt

    def _stop(self, number: int, _: FrameType | None) -> None:
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
        if self._at is not None:
            raise KeyboardInterrupt
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        cancel = task.cancel
        self._first = lambda: loop.call_soon_threadsafe(cancel)
        try:
            yield
        finally:
            self._first = _interrupt


def stop_once() -> None:
    """From now on, the first signal raises KeyboardInterrupt, and the others count for nothing: a second one (Slurm
    signals a script and its children) would interrupt the cleaning up after the first."""

    def interrupt(*_: object) -> None:
        for sign in STOPS:
            signal.signal(sign, signal.SIG_IGN)
        raise KeyboardInterrupt

    _handle(interrupt)


@contextmanager
def ignored() -> Iterator[None]:
    """While the block runs, signals count for nothing."""
    before = {sign: signal.signal(sign, signal.SIG_IGN) for sign in STOPS}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


@contextmanager
def held() -> Iterator[None]:
    """Signals wait until the block ends, in whichever thread that runs. A mask does not do it: another thread (numpy
    has some) takes the signal then, and Python raises in the main one all the same."""
    caught: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()  # Python runs handlers there alone
    honoured = [sign for sign in STOPS if signal.getsignal(sign)]
    before = {sign: signal.signal(sign, lambda number, _: caught.append(number)) for sign in honoured if is_main}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
    for number in caught[:1]:
        signal.raise_signal(number)
