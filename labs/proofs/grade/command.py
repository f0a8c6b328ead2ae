"""The parts that commands share which ask a grader about a file: reading their arguments, and the grader's server."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from core import constants
from core.base.errors import UserError, command
from core.base.signals import Stop
from core.constants import A
from core.engines.need import Need
from core.engines.server import Server
from core.engines.start import grading_server
from core.session.checks import check_context
from labs.proofs.grade.each import AskingConstants


@contextmanager
def on_file(
    kind: type[A], argv: Sequence[str], about: str, usage: str, refused: tuple[str, ...], why: str
) -> Iterator[tuple[A, Stop]]:
    """Wrap the body of a command on a file, `argv[0]`: give its constants and the stop, as session.command does. The
    constants `refused` have no effect, `why` says the reason."""
    with command():
        if constants.asks_for_help(argv):
            print(constants.explained(kind, {"__doc__": about}))
            raise SystemExit(0)
        if not argv or "=" in argv[0] or argv[0].startswith("-"):
            raise UserError(usage)
        if given := [word for word in argv[1:] if word.startswith(refused)]:
            raise UserError(f"{given[0]:.60} says nothing here: {why}")
        stop = Stop()
        yield constants.read(kind, {}, argv[1:]), stop


@contextmanager
def graders_server(config: AskingConstants) -> Iterator[Server]:
    """Serve the model that is asked, with room for the requests. Raises UserError."""
    with grading_server(config.GRADER, Need(1, config.MAX_TOKENS, 0)) as server:
        check_context(server, config)
        yield server
