"""What a user can put right: said in one line, exit status 2, no traceback. A bug of ours still raises."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


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
