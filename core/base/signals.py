"""Stop a command by signals: SIGTERM and SIGHUP act like Ctrl-C. Signals that were ignored (nohup) stay ignored."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPING = b"\nstopping; press Ctrl-C again to quit at once\n"


def _interrupt() -> None:
    raise KeyboardInterrupt


class Stop:
    """A handler of signals: the first raises KeyboardInterrupt, or cancels the task in `cancelling`.
    A second Ctrl-C ends the process with status 130: the journal is whole, and our servers end with us. A second signal
    of another kind is ignored, because timeout, Slurm and terminals often send two that mean one."""

    def __init__(self) -> None:
        self._first: Callable[[], object] = _interrupt
        self._has_come = False
        for sign in STOPS:
            if signal.getsignal(sign) is not signal.SIG_IGN:
                signal.signal(sign, self._stop)

    def _stop(self, number: int, _: FrameType | None) -> None:
        if not self._has_come:
            self._has_come = True
            with suppress(OSError):  # the terminal may be gone
                os.write(2, STOPPING)
            self._first()
        elif number == signal.SIGINT:
            os._exit(130)

    @contextmanager
    def cancelling(self) -> Iterator[None]:
        """Let the first signal cancel the current task while the block runs. Raises KeyboardInterrupt if one came."""
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
    """Hold back signals until the block ends, in any thread. A signal mask does not suffice: another thread (numpy has
    some) takes the signal, and Python raises in the main one."""
    caught: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()  # Python runs handlers in this thread only
    before = {sign: signal.signal(sign, lambda number, _: caught.append(number)) for sign in STOPS if is_main}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
    for number in caught[:1]:
        signal.raise_signal(number)
