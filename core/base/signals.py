"""Signals that stop a command: a lost connection or a job's end is like Ctrl-C. Those that were ignored before (nohup)
stay ignored."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPING = b"\nstopping; Ctrl-C again leaves at once\n"


def _interrupt() -> None:
    raise KeyboardInterrupt


class Stop:
    """From when it is made, the first signal raises KeyboardInterrupt, or cancels the task of `cancelling`. A second
    Ctrl-C, whatever hangs, ends the process with status 130: what is in the journal is whole, and the servers we
    started end with us. Other signals often come in pairs that mean one (from timeout, Slurm, a terminal and its
    shell), and their second is ignored."""

    def __init__(self) -> None:
        self._first: Callable[[], object] = _interrupt
        self._has_come = False
        for sign in STOPS:
            if signal.getsignal(sign) is not signal.SIG_IGN:
                signal.signal(sign, self._stop)

    def _stop(self, number: int, _: FrameType | None) -> None:
        if not self._has_come:
            self._has_come = True
            with suppress(OSError):  # the terminal may be what was lost
                os.write(2, STOPPING)
            self._first()
        elif number == signal.SIGINT:
            os._exit(130)

    @contextmanager
    def cancelling(self) -> Iterator[None]:
        """While the block runs, the first signal cancels the task that it runs in. If somebody swallowed it before,
        raises KeyboardInterrupt."""
        if self._has_come:
            raise KeyboardInterrupt
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        assert task is not None
        cancel = task.cancel
        self._first = lambda: loop.call_soon_threadsafe(cancel)
        try:
            yield
        finally:
            self._first = _interrupt


@contextmanager
def held() -> Iterator[None]:
    """Signals wait until the block ends, in whichever thread that runs. A mask does not do it: another thread (numpy
    has some) takes the signal then, and Python raises in the main one all the same."""
    caught: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()  # Python runs handlers there alone
    before = {sign: signal.signal(sign, lambda number, _: caught.append(number)) for sign in STOPS if is_main}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
    for number in caught[:1]:
        signal.raise_signal(number)
