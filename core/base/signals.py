"""Stop a command by signals. A first SIGTERM or SIGHUP acts like Ctrl-C. Ignored signals (nohup) stay ignored."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STOPPING = b"\nstopping. Press Ctrl-C again to quit at once\n"


def _interrupt() -> None:
    raise KeyboardInterrupt


class Stop:
    """A signal handler. The first signal raises KeyboardInterrupt, or cancels the task that runs in `cancelling`.
    A later Ctrl-C ends the process at once with status 130. The journal stays valid, and servers that we started end
    too. Other later signals are ignored, because timeout, Slurm and terminals often send two signals for one stop."""

    def __init__(self) -> None:
        self._first: Callable[[], object] = _interrupt
        self._has_come = False
        for sign in STOPS:
            if signal.getsignal(sign) is not signal.SIG_IGN:
                signal.signal(sign, self._stop)

    def _stop(self, number: int, _: FrameType | None) -> None:
        if not self._has_come:
            self._has_come = True
            with suppress(OSError):  # the terminal may be closed
                os.write(2, STOPPING)
            self._first()
        elif number == signal.SIGINT:
            os._exit(130)

    @contextmanager
    def cancelling(self) -> Iterator[None]:
        """Let the first signal cancel the current task. Raises KeyboardInterrupt if a signal came before the block."""
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
    """Hold back STOPS until the block ends, then raise the first that came. Outside the main thread, do nothing. A
    signal mask would not suffice: another thread (numpy starts some) may receive a signal for the main thread."""
    caught: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()  # Python runs signal handlers only in this thread
    before = {sign: signal.signal(sign, lambda number, _: caught.append(number)) for sign in STOPS if is_main}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
    for number in caught[:1]:
        signal.raise_signal(number)
