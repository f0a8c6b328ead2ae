"""A session: the constants, server, problems, journal, budget and stop of a command in one object.

`open` it (`open_on_problems` for a run on a problem set), and ask the model about `each` of many things. Whatever is
asked goes through the journal, so that a stopped command goes on when it is given again.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from core import constants
from core.base import errors, terminal
from core.base.errors import foremost, one_line
from core.base.prices import shown
from core.base.signals import Stop
from core.constants import A, Asking, C, Constants, Paid
from core.engines import cards, environment
from core.engines.need import Need
from core.engines.server import Server
from core.engines.start import graders_server, serving
from core.generate.budget import Budget
from core.generate.generator import Generator
from core.generate.journal import Journal
from core.grading.answers import by_answer
from core.grading.judge import stopping_judge
from core.grading.ungraded import ungraded
from core.problems import sets
from core.problems.sets import ProblemSet
from core.session.bar import Bar
from core.session.checks import check_context, check_kind, check_prices
from core.types import ANSWERS, EITHER, PROOFS, Bounded, Completion, Grader

B = TypeVar("B")
A_co = TypeVar("A_co", bound=Asking, covariant=True)
R = TypeVar("R")
T = TypeVar("T")
_NONE: Any = None


@dataclass(frozen=True)
class Session(Generic[A_co]):
    """The parts of a command that all its requests share. Results go into `folder`. `grades_at`: the server that a
    grader asks, if it is another one. Without a `stop`, it runs in an event loop of others, who cancel it there."""

    name: str
    config: A_co
    folder: Path
    journal: Journal
    stop: Stop | None = None
    server: Server = _NONE  # one that serves its own weights gets it by `at`
    problems: ProblemSet = _NONE
    budget: Budget | None = None
    grades_at: Server | None = None
    kept: int = 0  # completions in the journal when it was opened

    @property
    def limit(self) -> int:
        """Return how many requests may be in flight."""
        return self.config.CONCURRENCY or self.server.limit

    @property
    def made(self) -> int:
        """Count the completions made in this session; the others came from the journal."""
        return len(self.journal) - self.kept

    @property
    def spent(self) -> float | None:
        """Return the dollars spent by now; None if no price is known."""
        return self.budget.spent if self.budget else None

    def but(self, **changes: Any) -> "Session[Any]":
        """Return the same session with other fields, such as a name and constants of its own for a part."""
        return replace(self, **changes)

    def at(self, server: Server) -> "Session[A_co]":
        """Return the same session at another `server`. Raises UserError if the constants do not fit it."""
        check_context(server, self.config)
        return replace(self, server=server)

    def asked(self, work: Coroutine[Any, Any, R], kept: str) -> R:
        """Run `work` to its end. If it is stopped, report what is `kept` and end the process with status 130."""
        with stopped(lambda: kept):
            return asyncio.run(work)

    def generator(self, server: Server, bar: Bar, count: Callable[[Completion, bool], None]) -> Generator:
        """Make the generator that asks a `server` for this session."""
        limit, own = self.limit if server is self.server else server.limit, self.config
        return Generator(
            server, self.journal, limit, own.TIMEOUT, count, own.STALL_SECONDS, say=bar.write, budget=self.budget
        )

    async def each(
        self,
        items: Iterable[T],
        one: Callable[[T, Generator, B], Coroutine[Any, Any, R]],
        bar: Bar,
        places: int,
        so_far: Callable[[Iterator[R]], str],
        beside: AbstractAsyncContextManager[B],
        *,
        content: Callable[[T], Hashable] | None = None,
        count: Callable[[Completion, bool], None] | None = None,
        stage: str = "",
    ) -> list[R]:
        """Return the results of `one(item, generator, own)` for all items, in order.

        At most `places` items are in progress. Items of equal `content` are asked about once. `beside` is entered for
        as long as the server is asked, and gives `own`. The `bar` shows `so_far(results)` and the `stage`; `count` is
        told of every completion. If several fail, the error of the foremost is raised.
        """

        def arrived(completion: Completion, is_new: bool) -> None:
            bar.arrived(completion, is_new)
            if count:
                count(completion, is_new)

        async def kept(key: Hashable, item: T, own: B) -> None:
            try:
                results[key] = await one(item, generator, own)
            finally:
                free.release()

        def shown_so_far() -> str:
            return so_far(results[key] for key in keys if key in results)

        generator, free = self.generator(self.server, bar, arrived), asyncio.Semaphore(places)
        keys: list[Hashable] = []
        begun: set[Hashable] = set()
        results: dict[Hashable, R] = {}
        try:
            with self.stop.cancelling() if self.stop else nullcontext():
                async with (
                    stopping_judge(),
                    generator,
                    bar.beating(generator, shown_so_far, stage),
                    beside as own,
                    asyncio.TaskGroup() as group,
                ):
                    for place, item in enumerate(items):
                        keys.append(key := content(item) if content else place)
                        if key not in begun:
                            begun.add(key)
                            await free.acquire()
                            group.create_task(kept(key, item, own))
        except BaseExceptionGroup as group_of_errors:
            raise foremost(group_of_errors) from None
        return [results[key] for key in keys]


@contextmanager
def command(
    kind: type[A], namespace: Mapping[str, Any], instead_of_problems: str = "", more_help: str = ""
) -> Iterator[tuple[str, A, Stop]]:
    """Wrap the body of an experiment that is run as a command: give the name of the file whose globals are `namespace`,
    its constants with NAME=value overrides from the command line, and the stop. Other arguments as constants.of_command
    takes them. Ends the process: status 0, 1 (every completion failed), 2 (a user's error) or 130 (stopped)."""
    with errors.command():
        stop = Stop()
        config = constants.of_command(kind, namespace, instead_of_problems, more_help)
        yield Path(namespace["__file__"]).stem, config, stop


@contextmanager
def stopped(kept: Callable[[], str]) -> Iterator[None]:
    """If the block is stopped, report what is `kept` and end the process with status 130."""
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError):
        line = kept()
        with suppress(OSError):  # the terminal may be what was lost
            print(f"\nstopped; {line}. Run the same command again to go on.", flush=True)
        raise SystemExit(130) from None


@contextmanager
def open(
    name: str,
    config: A,
    stop: Stop | None,
    folder: Path,
    server: Server | None = None,
    *,
    opening: str = "",
    journal: Path | None = None,
    is_private: bool = False,
    grades_at: Callable[[], Server | None] = lambda: None,
) -> Iterator[Session[A]]:
    """Print the `opening` line and open a session, with the journal of its `name` or another path. `is_private`: only
    the owner may read that. Raises UserError."""
    if opening:
        print(terminal.wrapped(opening), flush=True)
    with open_journal(journal or folder / "journal" / f"{name}.jsonl", is_private) as kept:
        session = Session(name, config, folder, kept, stop, grades_at=grades_at(), kept=len(kept))
        if not server:
            yield session
            return
        budget = budget_of(kept, config, server, session.grades_at) if isinstance(config, Paid) else None
        yield session.but(server=server, budget=budget)


@contextmanager
def open_on_problems(
    name: str,
    config: C,
    stop: Stop | None,
    folder: Path,
    planned: Bounded,
    grader: Grader | None = None,
    named: ProblemSet | None = None,
) -> Iterator[Session[C]]:
    """Open the session of the experiment `name` with a scaffold, or several, on the `named` problems or those of the
    constant PROBLEMS, and print its opening line. The `grader` may ask a server of its own; None: it is chosen for the
    problems. Raises UserError."""
    wanted, instead = taken_by(grader), getattr(planned, "for_proofs", "")
    # Read before a server starts for it.
    if named is None and config.PROBLEMS not in cards.NONE.own_sets:
        named = sets.load(config.PROBLEMS, wanted)
    if named:
        check_kind(name, named, wanted, instead)
    if (card := environment.card()).base_url:
        check_prices(card, card.model, config)  # before anything is asked of it
    with serving(need_of(planned, config)) as server:
        chosen = named or sets.load(server.card.own_sets[config.PROBLEMS], wanted)
        check_kind(name, chosen, wanted, instead)
        chosen = chosen.first(config.LIMIT)
        check_context(server, config)
        if note := server.card.advice(config):
            print(note, file=sys.stderr)
        opening = _opening(name, server, chosen, is_default=named is None)
        second = graders_server if grader else lambda: None
        with open(name, config, stop, folder, server, opening=opening, grades_at=second) as session:
            yield session.but(problems=chosen)


def need_of(planned: Bounded, config: Constants) -> Need:
    """Compute what the longest request of a run holds."""
    return Need(planned.texts_shown(config), config.MAX_TOKENS, config.ANSWER_TOKENS)


def taken_by(grader: Grader | None) -> str:
    """Return what a grader takes: ANSWERS, PROOFS, or EITHER if that is unknown."""
    return ANSWERS if grader is by_answer else PROOFS if grader is ungraded else EITHER


@contextmanager
def open_journal(path: Path, is_private: bool = False) -> Iterator[Journal]:
    """The journal in `path`; prints which lines are damaged and, at the end, which records were not completions."""
    with Journal(path, is_private) as journal:
        if journal.damaged:
            places = f"{len(journal.damaged)} damaged lines, the first is line {journal.damaged[0]}"
            print(f"note: {journal.path} has {places}; their completions are made again", file=sys.stderr)
        try:
            yield journal
        finally:
            if doubted := journal.doubted:
                key, why = next(iter(doubted.items()))
                print(
                    f"note: {len(doubted)} records in {path.parent} are whole and no completions (the first: {key}, "
                    f"{one_line(why, 200)}); these are made again",
                    file=sys.stderr,
                )


def budget_of(journal: Journal, config: Paid, server: Server, grades_at: Server | None = None) -> Budget | None:
    """Make the budget of all that the `journal` has as paid; None if no price is known. Prints what is spent already.
    Raises UserError if there is a limit and the server that grades has no prices."""
    if grades_at:
        check_prices(grades_at.card, grades_at.model, config)
    if not (server.card.price or (grades_at and grades_at.card.price)):
        return None
    if config.MAX_DOLLARS and journal.paid:
        print(f"MAX_DOLLARS={config.MAX_DOLLARS:g}: {shown(journal.paid)} is spent already", flush=True)
    return Budget(journal, config.MAX_DOLLARS)


def _opening(name: str, server: Server, chosen: ProblemSet, is_default: bool) -> str:
    """One line: engine, model and problem set, and why."""
    card = ": ".join(filter(None, (server.card.name, server.card.about)))
    what = f"{server.model} (card {card})" if card else f"model {server.model}"
    why_set = "its default set" if is_default else "as asked"
    seeds = "; it ignores seeds, so that SEED decides only which candidates are drawn" if server.seeds is False else ""
    return one_line(
        f"{name}: {what} on {len(chosen.problems)} problems of {chosen.name} ({why_set}), "
        f"engine {server.kind} at {server.base_url} because {server.why}{seeds}"
    )
