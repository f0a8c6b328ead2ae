"""Imported first by whatever is run as a command: from then on Ctrl-C is one word, also while the rest is imported."""

import sys
from types import TracebackType


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ctrl-C outside of `command`, while Python still reads the imports, is one word too. Python then ends itself with
    SIGINT, which a shell shows as status 130."""
    if issubclass(kind, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _uncaught
