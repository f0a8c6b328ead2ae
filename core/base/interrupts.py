"""Imported first by whatever is run as a command: from then on Ctrl-C is one word, also while the rest is imported."""

import os
import signal
import sys
import threading
from types import FrameType, TracebackType

_heard = False


def _hear(sign: int, frame: FrameType | None) -> None:
    global _heard
    _heard = True
    signal.default_int_handler(sign, frame)


def was_heard() -> bool:
    """Whether Ctrl-C has come. Who asks once the imports are done, and hears yes, was kept from it by a package that
    swallowed the exception, as callbacks of Python's own do."""
    return _heard


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ctrl-C outside of `command` (core/base/errors.py), while Python still reads the imports, is one word too. Python
    then ends itself with SIGINT, which a shell shows as status 130. Packages written in C make an ImportError of it."""
    if issubclass(kind, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
    elif _heard and issubclass(kind, ImportError):
        print("stopped", file=sys.stderr, flush=True)
        os._exit(128 + signal.SIGINT)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _uncaught
is_main = threading.current_thread() is threading.main_thread()
if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, _hear)
