"""What a user can put right: said in one line, exit status 2, no traceback. A bug of ours still raises."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class UserError(Exception):
    """Bad input or a bad environment. The message says what is wrong and what to do about it."""


@contextmanager
def command() -> Iterator[None]:
    """Wrap the body of a command: a UserError becomes one line on standard error and exit status 2; Ctrl-C, status
    130."""
    try:
        yield
    except UserError as error:
        print("error: " + " ".join(str(error).split()), file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        raise SystemExit(130) from None


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Ctrl-C outside of `command`, while Python still reads the imports, is one word too. Python then ends itself with
    SIGINT, which a shell shows as status 130."""
    if issubclass(kind, KeyboardInterrupt):
        print("stopped", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


sys.excepthook = _uncaught
