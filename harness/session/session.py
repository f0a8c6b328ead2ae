"""Define the session of a command: its constants, server, problems, framing, journal and budget,
checked before any request.

`open` yields a session, and `open_on_problems` the session of a run on a problem set. The journal
stores finished completions, so the same command continues after a stop."""

import asyncio
import re
import sys
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from core import command_line
from core.base import errors, signals, terminal
from core.base.errors import UserError, one_line
from core.base.prices import format_dollars
from core.client.budget import Budget
from core.client.journal import Journal
from core.constants import A, Asking, C, ConstantGroup, Constants, Paid
from core.engines import cards, environment, reasoning
from core.engines.cards import Card
from core.engines.need import Need
from core.engines.protocol import Server
from core.engines.wanted import GRADER, SCORER
from core.generate import Generator, load_client
from core.grader_server import second_server
from core.server import serving
from core.types import EITHER, Bounded, Completion, Grader
from harness import framing
from harness.framing import Framing
from harness.problems import sets
from harness.problems.sets import ProblemSet
from harness.session import checks
from harness.session.bar import Bar
from harness.session.rows import first_rows, plan_of, special_rows

A_co = TypeVar("A_co", bound=Asking, covariant=True)
R = TypeVar("R")
_NONE: Any = None


@dataclass(frozen=True)
class Session(Generic[A_co]):
    """The parts of a command that all its requests share, resolved once.

    `framing` is the text around problems (None: not read yet). `scorer` is the server of
    SCORER_MODEL, which answers `ask(…, to="scorer")`, or None. `grader` is the server of
    GRADER_MODEL, which answers a grader's requests, or None.
    `journaled_before` counts the completions in the folder's journals when the session was
    opened. `configured` has the server with the values of EFFORT and TEMPLATE that its experiments
    have asked for so far."""

    name: str
    config: A_co
    folder: Path
    journal: Journal
    server: Server = _NONE  # a session that starts its server later sets this by with_server
    problems: ProblemSet = _NONE
    budget: Budget | None = None
    framing: Framing | None = None
    scorer: Server | None = None
    grader: Server | None = None
    journaled_before: int = 0
    configured: list[Server] = field(default_factory=list)

    @property
    def limit(self) -> int:
        """The limit of requests in flight."""
        return self.config.CONCURRENCY or self.server.limit

    @property
    def new(self) -> int:
        """The number of completions that this session has added to the journal."""
        return len(self.journal) - self.journaled_before

    @property
    def spent(self) -> float | None:
        """The dollars that the experiment has spent so far, or None if prices are unknown."""
        # hides the rounding errors of a sum
        return round(self.journal.paid, 9) if self.budget else None

    def with_changes(self, **changes: Any) -> "Session[Any]":
        """Return a copy of the session with changed fields."""
        return replace(self, **changes)

    def with_server(self, server: Server) -> "Session[A_co]":
        """Return a session with another `server`. Raises UserError if the constants do not fit the
        server."""
        framed = framing.from_config(self.config, server.card, earlier=self.framing)
        checks.check_context(server, self.config, framed)
        return replace(self, server=server, framing=framed)

    def server_for(self, config: Asking) -> Server:
        """Return the server with the effort and the template of `config`. Each pair is probed
        once."""
        server = reasoning.configured(self.server, config, self.configured)
        if server is not self.server and server not in self.configured:
            self.configured.append(server)
        return server

    def check(self, config: Asking) -> None:
        """Raise UserError if other constants, of a part of the command, do not fit its servers."""
        framed = framing.from_config(config, self.server.card, earlier=self.framing)
        checks.check_context(self.server, config, framed)
        checks.check_scorer(self.scorer, config)

    def run_until_stopped(
        self, work: Coroutine[Any, Any, R], note: str = "finished completions are kept"
    ) -> R:
        """Run the coroutine `work` and return its result. If a signal stops it, print `note` or the
        stop's notes, and end the process with status 130."""
        with stopped(lambda: note):
            return signals.run(work)

    def generator(
        self, server: Server, bar: Bar, count: Callable[[Completion, bool], None]
    ) -> Generator:
        """Return a client of one of the session's servers. `count(completion, is_new)` is called
        for each completion."""
        generator = Generator(
            server,
            self.journal,
            self.limit if server is self.server else server.limit,
            self.config.TIMEOUT,
            count,
            self.config.STALL_SECONDS,
            say=bar.write,
            budget=self.budget,
        )
        generator.trials.top_logprobs = checks.logprobs_of(self.config, server is self.scorer)
        # only the results of a run on problems record this trial
        has_results = self.problems is not None
        generator.trials.compares_seeds = has_results and server is self.server
        return generator


class Command(NamedTuple, Generic[A]):
    """A command that runs an experiment: the name of its results, its constants, and the model card
    that MODEL names."""

    name: str
    config: A
    card: Card


@contextmanager
def run_command(
    kind: type[A], namespace: Mapping[str, Any], more_help: str = ""
) -> Iterator[Command[A]]:
    """Wrap the body of an experiment that runs as a command. Yields its name (OUT or the file's
    name), constants and card. `namespace` contains the globals of the experiment's file, and
    `more_help` ends its --help. If the body fails, the process ends with status 1 (RunFailed), 2
    (other UserErrors) or 130 (stopped)."""
    with errors.command(), environment.setting(**kind.settings()):
        signals.catch()
        card = environment.card()
        of_card = card.constants_of(kind)
        config = command_line.read_constants(kind, {**namespace, **of_card}, more_help)
        yield Command(named(config, Path(namespace["__file__"]).stem), config, card)


@contextmanager
def command(
    kind: type[A], namespace: Mapping[str, Any], more_help: str = ""
) -> Iterator[tuple[str, A]]:
    """Wrap the body of a command as `run_command` does. Yields only the name and the constants."""
    with run_command(kind, namespace, more_help) as run:
        yield run.name, run.config


def named(config: ConstantGroup, default: str) -> str:
    """Return the name of the results: OUT, or else `default`. Raises UserError if OUT is no
    name."""
    out = getattr(config, "OUT", "")
    if out and not re.fullmatch(r"\w[\w-]{0,79}", out):
        raise UserError(
            f"OUT={out:.60} is no name. Give letters, digits, _ and -. RESULTS_DIR names the folder"
        )
    return out or default


@contextmanager
def stopped(note: Callable[[], str]) -> Iterator[None]:
    """Wrap a block. If a signal stops it, print the notes on the stop (by default `note()`), and
    end the process with status 130."""
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError) as stop:
        line = ", ".join(getattr(stop, "__notes__", ())) or note()
        with suppress(OSError):  # the terminal may be closed
            print(f"\nstopped ({line}). Run the same command again to continue.", flush=True)
        raise SystemExit(130) from None


@contextmanager
def open_session(
    name: str,
    config: A,
    folder: Path,
    server: Server | None = None,
    *,
    rows: Sequence[tuple[str, str]] = (),
    journal: Path | None = None,
    is_private: bool = False,
    card: Card | None = None,
) -> Iterator[Session[A]]:
    """Print the `rows` (label, text) and open a session. `journal` replaces
    `folder`/journal/`name`.jsonl. If `is_private`, only its owner may read a new journal. `card`
    is MODEL's card, if it is known already. Raises UserError for a bad journal or unknown price."""
    if rows:
        of_card = (card or environment.card()).constants_in(config)
        _print_rows(name, [*rows, ("constants", of_card)] if of_card else rows)
    path = journal or folder / "journal" / f"{name}.jsonl"
    with Journal(path, is_private) as opened:
        if lines := opened.damaged:
            terminal.say(
                f"note: {opened.path} has {len(lines)} damaged lines (the first is line "
                f"{lines[0]}). Lost replies are requested again if needed",
                sys.stderr,
            )
        session = Session(
            name, config, folder, opened, server or _NONE, journaled_before=len(opened)
        )
        yield _with_budget(session, server)


def _print_rows(name: str, rows: Sequence[tuple[str, str]]) -> None:
    table = terminal.labelled([(label, one_line(text)) for label, text in rows])
    print(name, table, sep="\n", flush=True)


def _with_budget(session: Session[A], server: Server | None) -> Session[A]:
    """Return the session with a budget if the requests to the `server` have prices."""
    config = session.config
    if session.budget or not isinstance(config, Paid) or server is None or not server.card.price:
        return session
    if config.MAX_DOLLARS and session.journal.paid:
        print(
            (
                f"MAX_DOLLARS={config.MAX_DOLLARS:g}: {format_dollars(session.journal.paid)} is "
                "already spent"
            ),
            flush=True,
        )
    return session.with_changes(budget=Budget(session.journal, config.MAX_DOLLARS))


class _Problems(NamedTuple):
    """The choice of a run's problems: the set `given`, or else the set that PROBLEMS names. The
    grader accepts problems of the kind `wanted`."""

    name: str
    config: Constants
    planned: Bounded
    wanted: str
    given: ProblemSet | None

    @property
    def is_default(self) -> bool:
        """True if the model's card decides."""
        return self.given is None and self.config.PROBLEMS in cards.NONE.own_sets

    def load(self, card: Card) -> ProblemSet:
        """Return the first LIMIT problems. Raises UserError if the experiment can't use them."""
        chosen = self.given
        if chosen is None:
            source = card.own_sets.get(self.config.PROBLEMS, self.config.PROBLEMS)
            chosen = sets.load(source, self.wanted)
        instead = getattr(self.planned, "for_proofs", "")
        checks.check_kind(self.name, chosen, self.wanted, instead)
        checks.check_options(chosen, self.config)
        return chosen.first(self.config.LIMIT)


@contextmanager
def open_on_problems(
    run: Command[C],
    folder: Path,
    planned: Bounded,
    grader: Grader | None = None,
    given: ProblemSet | None = None,
    has_scorer: bool = False,
) -> Iterator[Session[C]]:
    """Open the session of an experiment, and print its model, problems, engine and plan.

    The problems are the first LIMIT of the set `given`, or of the set PROBLEMS. `planned` is a
    scaffold or a comparison. The `grader` decides the kinds of problems (taken_by), and may have
    its own server. If `has_scorer`, a part of a comparison asks the scorer. Raises UserError for
    other kinds of problems, and for constants that do not fit them or a server."""
    config, card = run.config, run.card
    has_scorer = has_scorer or checks.asks_scorer(config)
    if has_scorer:
        checks.check_scorer_is_set(config)
    choice = _Problems(run.name, config, planned, checks.taken_by(grader), given)
    # before a download, so that errors are reported early
    framed = framing.from_config(config, card)
    need = need_of(planned, config, framed.tokens)
    # Unless the server's card decides, read the problems first, so that errors in them are reported
    # early.
    waits_for_card = choice.is_default and not card.name
    chosen = None if waits_for_card else choice.load(card)
    if chosen:
        framed = framing.from_config(config, card, chosen.problems, framed)
    if card.base_url:
        checks.check_prices(card, card.model, config)  # before the first request
    load_client()
    reasoning.check(config)
    has_grader = grader is not None and choice.wanted == EITHER
    roles = _roles(has_scorer, has_grader)
    with serving(need) as server, _second_servers(roles, config, need) as second:
        scorer = second.get(SCORER)
        server = reasoning.configured(server, config)
        chosen = chosen or choice.load(server.card)
        framed = framing.from_config(config, server.card, chosen.problems, framed)
        checks.check_context(server, config, framed)
        checks.check_scorer(scorer, config)
        plan = plan_of(planned, config, len(chosen.problems), has_grader)
        rows = first_rows(server, chosen, choice.is_default, plan)
        rows += special_rows(config, server, framed, scorer)
        with open_session(run.name, config, folder, server, rows=rows, card=card) as session:
            grader_server = second.get(GRADER)
            session = _with_budget(_with_budget(session, scorer), grader_server)
            yield session.with_changes(
                problems=chosen, framing=framed, scorer=scorer, grader=grader_server
            )


def _roles(has_scorer: bool, has_grader: bool) -> list[str]:
    """Return the roles of a run's second models."""
    roles = [SCORER] if has_scorer else []
    return [*roles, GRADER] if has_grader else roles


@contextmanager
def _second_servers(
    roles: Sequence[str], config: Constants, need: Need
) -> Iterator[dict[str, Server]]:
    """Yield the servers of the second models by role, without the roles that no variable sets. A
    model without an address is served here. Raises UserError."""
    servers = {}
    with ExitStack() as running:
        for role in roles:
            server = running.enter_context(second_server(role, need))
            if server:
                checks.check_prices(server.card, server.model, config)
                servers[role] = server
        yield servers


def need_of(planned: Bounded, config: Constants, shots: int = 0) -> Need:
    """Return the size of the longest request in a run of `planned`. `shots` are the tokens of its
    Framing."""
    return Need(planned.texts_shown(config), config.MAX_TOKENS, config.ANSWER_TOKENS, shots)
