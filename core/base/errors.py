"""Report errors that the user can fix, also in arguments: one line, status 2 or 1, and no
traceback. Bugs still raise.

If a command's output can't be written, for example to a closed pipe or a full disk, the output is
dropped. The command continues, because the results matter more."""

import argparse
import atexit
import errno
import gc
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from core.base.terminal import cut, say

LONGEST_LINE = 2000  # characters
MORE_FILES = (
    "run ulimit -n 4096 first (in a new shell if this one refuses), or set a lower CONCURRENCY"
)


class UserError(Exception):
    """An error in the input or the environment. The message names the error and its remedy."""

    status = 2  # the command's exit status


class Parser(argparse.ArgumentParser):
    """A parser for the arguments of scripts/`prog`. Unlike argparse, it raises UserError for an
    invalid argument."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. For help: bash scripts/{self.prog} --help")


class RunFailed(UserError):
    """An error that ends a valid command, for example if every completion failed. Its exit status
    is 1."""

    status = 1


class RowError(UserError):
    """A fault of a row in a problem file. harness/problems/faults.py reports rows with the same
    `fault` together.

    "in lines 3 and 4" follows the `fault`, such as "the answer is empty". The `advice` says what to
    do. `cell` shows the faulty cell of this row, or is ""."""

    def __init__(self, fault: str, advice: str, cell: str = "") -> None:
        shown = f" ({cell})" if cell else ""
        super().__init__(f"{fault}{shown}. {advice}")
        self.fault = fault
        self.advice = advice
        self.cell = cell


class RedirectRefused(UserError):
    """A redirect to another server. The message shows only origins, because the rest of an address
    may be private."""

    def __init__(self, here: str, there: str) -> None:
        super().__init__(
            f"the server at {here} redirects to {one_line(there, 200)}. We refuse that, because "
            "the other server would get the key and the prompts. If you trust it, put its address "
            "into BASE_URL, GRADER_URL, SCORER_URL or the card"
        )


def one_line(text: str, limit: int = LONGEST_LINE) -> str:
    """Return `text` on one line of at most `limit` characters. Unprintable characters become
    escapes."""
    text = " ".join(text[: limit + 1].split())
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return cut(text, limit)


def first_cause(error: BaseException) -> BaseException:
    """Return `error`, or the error to report if it is a group of failed tasks: the first bug, else
    the first error."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    errors = [first_cause(member) for member in error.exceptions]
    bugs = [member for member in errors if not isinstance(member, UserError)]
    return (bugs or errors)[0]


class Output:
    """A text stream that writes to `stream`, and drops all text after its first error. `lost` is
    this error or None."""

    def __init__(self, stream: Any) -> None:
        self.lost: OSError | None = None
        self._stream = stream

    def write(self, text: str) -> int:
        # characters that the locale's encoding lacks are escaped
        encoding = self._stream.encoding or "utf-8"
        encodable = text.encode(encoding, "backslashreplace").decode(encoding)
        self._try(self._stream.write, encodable)
        return len(text)

    def flush(self) -> None:
        self._try(self._stream.flush)

    def _try(self, act: Any, *args: str) -> None:
        try:
            act(*args)
        except OSError as error:  # from now on, buffered and new text goes to the null device
            self.lost = self.lost or error
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def guarded_output() -> Iterator[Output]:
    """Replace standard output and error by Output streams during the block. Yields the stream of
    standard output."""
    streams = (sys.stdout, sys.stderr)
    output = Output(sys.stdout)
    errors = Output(sys.stderr)
    sys.stdout = output
    sys.stderr = errors
    try:
        yield output
    finally:
        output.flush()
        errors.flush()
        sys.stdout, sys.stderr = streams


@contextmanager
def command() -> Iterator[None]:
    """Wrap the body of a command. A UserError, or too many open files, becomes one line on standard
    error. The status is 2, or 1 for RunFailed. Ctrl-C gives 130. If output can't be written, the
    command continues (see _output_lost)."""
    # saves 0.25 s at exit, because Python then skips a search for reference cycles
    atexit.register(gc.freeze)
    with guarded_output() as output:
        end: SystemExit | None = None
        try:
            yield
        except UserError as error:
            notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
            end = _failed(f"{error}{notes}", error.status)
        except KeyboardInterrupt:
            print("stopped", file=sys.stderr)
            end = SystemExit(130)
        except SystemExit as exit_:
            end = exit_
        except (OSError, BaseExceptionGroup) as error:
            first = first_cause(error)
            if not isinstance(first, OSError) or first.errno != errno.EMFILE:
                raise
            end = _failed(f"too many open files: {MORE_FILES}", 2)
        output.flush()
        if output.lost and not (end and end.code):
            end = _output_lost(output.lost)
    if end:
        raise end from None


def _failed(message: str, status: int) -> SystemExit:
    say("error: " + one_line(message), sys.stderr)
    return SystemExit(status)


def _output_lost(error: OSError) -> SystemExit:
    """Return the SystemExit of a command that lost standard output. The status is 141 for a closed
    pipe, else 1."""
    if isinstance(error, BrokenPipeError):
        return SystemExit(128 + signal.SIGPIPE)
    reason = error.strerror or error
    return _failed(f"cannot write to standard output ({reason}). All files are saved", 1)
