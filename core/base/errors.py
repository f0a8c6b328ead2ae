"""What a user can put right: said in one line, exit status 2, no traceback. A bug of ours still raises."""

import atexit
import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from core.base import limits, output, terminal

LONGEST_LINE = 2000  # characters


class UserError(Exception):
    """Bad input or a bad environment. The message says what is wrong and what to do about it."""

    status = 2  # with which a command ends


class RunFailed(UserError):
    """The command was right, and the run came to nothing: no completion of it is usable."""

    status = 1


class Elsewhere(UserError):
    """A server sends requests on to another one."""

    def __init__(self, here: str, there: str) -> None:
        """The origins (scheme, host and port); whatever else an address holds is not shown."""
        super().__init__(
            f"the server at {here} sends requests on to {one_line(there, 200)}, which would be given our key and "
            "the prompts; that is refused. If it is the server you mean, set BASE_URL to its address"
        )


def one_line(text: str, most: int = LONGEST_LINE) -> str:
    """`text` on one line of at most `most` characters, fit for any terminal: a server's words, or a file's, may hold
    what clears a screen, turns the direction of writing or can't be encoded. Such characters become escapes."""
    text = " ".join(text[: most + 1].split())
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= most else text[: most - 1] + "…"


def foremost(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """One of the errors that ended tasks beside each other, a bug before a user's error: the tasks beside it fared the
    same."""
    found: list[BaseException] = []
    for error in errors.exceptions:
        found.append(foremost(error) if isinstance(error, BaseExceptionGroup) else error)
    return next((error for error in found if not isinstance(error, UserError)), found[0])


@contextmanager
def command() -> Iterator[None]:
    """Wrap the body of a command: a UserError becomes one line on standard error and exit status 2 (RunFailed: 1);
    Ctrl-C, status 130. Output that nobody takes does not end the body."""
    atexit.register(gc.freeze)  # as it ends Python looks for cycles in all it has imported: a quarter of a second
    with output.kept() as shown:
        end: SystemExit | None = None
        try:
            yield
        except UserError as error:
            width = terminal.columns_of(sys.stderr)  # in a file, one line whatever its length
            print(terminal.wrapped("error: " + one_line(str(error)), "  ", width), file=sys.stderr)
            end = SystemExit(error.status)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            end = SystemExit(130)
        except SystemExit as asked:
            end = asked
        except (OSError, BaseExceptionGroup) as error:
            if not limits.are_short(error):
                raise
            print(f"error: no more files may be open; {limits.short_of()}", file=sys.stderr)
            end = SystemExit(2)
        shown.flush()
        if shown.lost and not (end and end.code):
            end = SystemExit(_unshown(shown.lost))
    if end:
        raise end from None


def _unshown(why: OSError) -> int:
    """The status of a command that did all it should and could not show it, as other programs have it: that of SIGPIPE
    where the reader of a pipe has left, which is nothing to speak of, else 1."""
    if isinstance(why, BrokenPipeError):
        return 128 + signal.SIGPIPE
    told = why.strerror or why
    print(f"error: standard output can't be written ({told}); what was to be saved is saved", file=sys.stderr)
    return 1
