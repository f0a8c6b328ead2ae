"""Errors that the user can fix: one line, exit status 2, no traceback. Bugs still raise."""

import atexit
import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from core.base import limits, output
from core.base.terminal import say

LONGEST_LINE = 2000  # characters


class UserError(Exception):
    """A wrong input or environment. The message says what is wrong and how to fix it."""

    status = 2  # exit status of the command


class RunFailed(UserError):
    """A run without any usable completion, although the command was right."""

    status = 1


class Elsewhere(UserError):
    """A redirect to another server, given as origins (scheme, host and port): the rest of an address may be private."""

    def __init__(self, here: str, there: str) -> None:
        super().__init__(
            f"the server at {here} redirects to {one_line(there, 200)}, which would receive our key and the prompts; "
            "that is refused. If you trust that server, set BASE_URL to its address"
        )


def one_line(text: str, most: int = LONGEST_LINE) -> str:
    """Return `text` on one line of at most `most` characters, safe to print: unprintable characters become escapes."""
    text = " ".join(text[: most + 1].split())
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def foremost(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error to report of several parallel tasks: the first bug, else the first error."""
    flat: list[BaseException] = []
    for error in errors.exceptions:
        flat.append(foremost(error) if isinstance(error, BaseExceptionGroup) else error)
    return next((error for error in flat if not isinstance(error, UserError)), flat[0])


@contextmanager
def command() -> Iterator[None]:
    """Wrap the body of a command: a UserError becomes one line on standard error and exit status 2 (RunFailed: 1).
    Ctrl-C ends it with status 130. The body continues if its output can no longer be written."""
    atexit.register(gc.freeze)  # saves a quarter of a second: at its end Python searches all imports for cycles
    with output.kept() as shown:
        end: SystemExit | None = None
        try:
            yield
        except UserError as error:
            end = _failed(str(error), error.status)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            end = SystemExit(130)
        except SystemExit as asked:
            end = asked
        except (OSError, BaseExceptionGroup) as error:
            if not limits.are_short(error):
                raise
            end = _failed(f"too many open files; {limits.short_of()}", 2)
        shown.flush()
        if shown.lost and not (end and end.code):
            end = _unshown(shown.lost)
    if end:
        raise end from None


def _failed(message: str, status: int) -> SystemExit:
    say("error: " + one_line(message), sys.stderr)
    return SystemExit(status)


def _unshown(why: OSError) -> SystemExit:
    """End a finished command whose output was lost: as SIGPIPE if the reader of the pipe left, else with status 1."""
    if isinstance(why, BrokenPipeError):
        return SystemExit(128 + signal.SIGPIPE)
    return _failed(f"cannot write standard output ({why.strerror or why}); all results are saved", 1)
