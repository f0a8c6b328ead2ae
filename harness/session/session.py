"""Define the session of a command: its constants, server, problems, journal and budget, checked
before any request.

`open` yields a session, and `open_on_problems` the session of a run on a problem set.
`Session.each` asks the model about many items. The journal stores finished completions, so the same
command continues after a stop."""

import asyncio
import re
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from core import constants
from core.base import errors, signals, terminal
from core.base.errors import UserError, foremost, one_line
from core.base.prices import shown
from core.client.budget import Budget
from core.client.journal import Journal
from core.constants import BOXED, A, Asking, C, Constants, Paid, Part
from core.engines import cards, environment
from core.engines.cards import Card
from core.engines.need import Need
from core.engines.protocol import Server
from core.eval import by_answer
from core.generate import Generator, sampling_unsent
from core.grading.sympy_process import stopping_judge
from core.grading.ungraded import ungraded
from core.server import graders_server, serving
from core.types import ANSWERS, EITHER, PROOFS, Bounded, Completion, Grader, Sampling, Scaffold
from harness import framing
from harness.problems import sets
from harness.problems.sets import ProblemSet
from harness.session.bar import Bar

B = TypeVar("B")
A_co = TypeVar("A_co", bound=Asking, covariant=True)
R = TypeVar("R")
T = TypeVar("T")
_NONE: Any = None
ROOM = 1024  # tokens of the context that are reserved for the prompt


@dataclass(frozen=True)
class Session(Generic[A_co]):
    """The parts of a command that all its requests share. `grades_at` is the grader's own server,
    or None."""

    name: str
    config: A_co
    folder: Path
    journal: Journal
    server: Server = _NONE  # a session that starts its server later sets this with `at`
    problems: ProblemSet = _NONE
    budget: Budget | None = None
    grades_at: Server | None = None
    kept: int = 0  # completions in the folder's journals at the beginning of the session

    @property
    def limit(self) -> int:
        """The limit of requests in flight."""
        return self.config.CONCURRENCY or self.server.limit

    @property
    def new(self) -> int:
        """The number of completions that this session has added to the journal."""
        return len(self.journal) - self.kept

    @property
    def spent(self) -> float | None:
        """The dollars that the experiment has spent so far, or None if prices are unknown."""
        # hides the rounding errors of a sum
        return round(self.journal.paid, 9) if self.budget else None

    def but(self, **changes: Any) -> "Session[Any]":
        """Return a copy of the session with changed fields."""
        return replace(self, **changes)

    def at(self, server: Server) -> "Session[A_co]":
        """Return a session with another `server`. Raises UserError if the constants do not fit the
        server."""
        check_context(server, self.config)
        return replace(self, server=server)

    def asked(self, work: Coroutine[Any, Any, R], kept: str = "finished completions are kept") -> R:
        """Run the coroutine `work` and return its result. If a signal stops it, print `kept` or the
        stop's notes, and end the process with status 130."""
        with stopped(lambda: kept):
            return signals.run(work)

    def generator(
        self, server: Server, bar: Bar, count: Callable[[Completion, bool], None]
    ) -> Generator:
        limit, own = self.limit if server is self.server else server.limit, self.config
        return Generator(
            server,
            self.journal,
            limit,
            own.TIMEOUT,
            count,
            own.STALL_SECONDS,
            say=bar.write,
            budget=self.budget,
        )

    async def each(
        self,
        items: Iterable[T],
        one: Callable[[T, Generator, B], Coroutine[Any, Any, R]],
        bar: Bar,
        places: int,
        so_far: Callable[[Iterable[R]], str],
        context: AbstractAsyncContextManager[B],
        *,
        count: Callable[[Completion, bool], None] | None = None,
    ) -> list[R]:
        """Call `one(item, generator, own)` for each item, and return the results in the order of
        the items.

        At most `places` calls run at the same time. `context` is entered before the calls, and
        yields `own`. The `bar` shows the text `so_far(results)`. `count(completion, is_new)` is
        called for each completion (default: the bar's). If several calls fail, a bug is raised
        rather than a UserError."""

        async def kept(place: int, item: T, own: B) -> None:
            try:
                results[place] = await one(item, generator, own)
            finally:
                free.release()

        generator, free = (
            self.generator(self.server, bar, count or bar.arrived),
            asyncio.Semaphore(places),
        )
        results: dict[int, R] = {}
        try:
            async with (
                stopping_judge(),
                generator,
                bar.beating(generator, lambda: so_far(results.values())),
                context as own,
                asyncio.TaskGroup() as group,
            ):
                for place, item in enumerate(items):
                    await free.acquire()
                    group.create_task(kept(place, item, own))
        except BaseExceptionGroup as group_of_errors:
            raise foremost(group_of_errors) from None
        return [results[place] for place in sorted(results)]


@contextmanager
def command(
    kind: type[A], namespace: Mapping[str, Any], more_help: str = ""
) -> Iterator[tuple[str, A]]:
    """Wrap the body of an experiment that runs as a command. Yields OUT or the file's name, the
    constants. `namespace` contains the globals of the experiment's file, and `more_help` ends its
    --help. If the body fails, the process ends with status 1 (RunFailed), 2 (other UserErrors) or
    130 (stopped)."""
    with errors.command(), environment.setting(**kind.settings()):
        signals.catch()
        config = constants.of_command(
            kind, {**namespace, **environment.card().constants_of(kind)}, more_help
        )
        yield named(config, Path(namespace["__file__"]).stem), config


def named(config: Part, default: str) -> str:
    """Return the name of the results: OUT, or else `default`. Raises UserError if OUT is no
    name."""
    if (out := getattr(config, "OUT", "")) and not re.fullmatch(r"\w[\w-]{0,79}", out):
        raise UserError(
            f"OUT={out:.60} is no name. Give letters, digits, _ and -. RESULTS_DIR names the folder"
        )
    return out or default


@contextmanager
def stopped(kept: Callable[[], str]) -> Iterator[None]:
    """Wrap a block. If a signal stops it, print the notes on the stop (by default `kept()`), and
    end the process with status 130."""
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError) as stop:
        line = ", ".join(getattr(stop, "__notes__", ())) or kept()
        with suppress(OSError):  # the terminal may be closed
            print(f"\nstopped ({line}). Run the same command again to continue.", flush=True)
        raise SystemExit(130) from None


@contextmanager
def open(
    name: str,
    config: A,
    folder: Path,
    server: Server | None = None,
    *,
    opening: Sequence[tuple[str, str]] = (),
    journal: Path | None = None,
    is_private: bool = False,
    grades_at: Server | None = None,
) -> Iterator[Session[A]]:
    """Print the rows `opening` (label, text) and open a session. `journal` replaces
    `folder`/journal/`name`.jsonl. If `is_private`, only its owner may read a new journal. Raises
    UserError for a bad journal or unknown price."""
    if opening:
        if of_card := environment.card().constants_in(config):
            opening = [*opening, ("constants", of_card)]
        print(
            name,
            terminal.labelled([(label, one_line(text)) for label, text in opening]),
            sep="\n",
            flush=True,
        )
    with Journal(journal or folder / "journal" / f"{name}.jsonl", is_private) as kept:
        if lines := kept.damaged:
            note = (
                f"note: {kept.path} has {len(lines)} damaged lines (the first is line {lines[0]}). "
            )
            terminal.say(f"{note}Lost replies are requested again if needed", sys.stderr)
        budget = None
        if isinstance(config, Paid) and any(
            each.card.price for each in (server, grades_at) if each
        ):
            budget = Budget(kept, config.MAX_DOLLARS)
            if config.MAX_DOLLARS and kept.paid:
                print(
                    f"MAX_DOLLARS={config.MAX_DOLLARS:g}: {shown(kept.paid)} is already spent",
                    flush=True,
                )
        yield Session(
            name, config, folder, kept, server or _NONE, _NONE, budget, grades_at, len(kept)
        )


@contextmanager
def open_on_problems(
    name: str,
    config: C,
    folder: Path,
    planned: Bounded,
    grader: Grader | None = None,
    named: ProblemSet | None = None,
) -> Iterator[Session[C]]:
    """Open the session of the experiment `name`, and print its model, problems, engine and plan.
    The problems are the first LIMIT of `named`, or of the set PROBLEMS. `planned` is a scaffold or
    a comparison. The `grader` may have its own server, and decides the kinds of problems
    (taken_by). Raises UserError for other kinds."""
    wanted, card = taken_by(grader), environment.card()
    shots = framing.of(config, card).tokens  # before a download, so that errors are reported early
    is_default = named is None and config.PROBLEMS in cards.NONE.own_sets

    def loaded(card: Card) -> ProblemSet:
        found = named or sets.load(card.own_sets.get(config.PROBLEMS, config.PROBLEMS), wanted)
        check_kind(name, found, wanted, getattr(planned, "for_proofs", ""))
        framing.of(config, card, found.first(config.LIMIT).problems)
        return found.first(config.LIMIT)

    # Unless the server's card decides, read the problems first, so that errors in them are reported
    # early.
    chosen = None if is_default else loaded(card)
    if card.base_url:
        check_prices(card, card.model, config)  # before the first request
    with serving(need_of(planned, config, shots)) as server:
        chosen = chosen or loaded(server.card)
        check_context(server, config)
        is_graded = bool(grader) and wanted == EITHER
        opening = _opening(config, server, chosen, planned, is_default, is_graded)
        if second := graders_server() if grader else None:
            check_prices(second.card, second.model, config)
        with open(name, config, folder, server, opening=opening, grades_at=second) as session:
            yield session.but(problems=chosen)


def need_of(planned: Bounded, config: Constants, shots: int = 0) -> Need:
    """Return the size of the longest request in a run of `planned`. `shots` are the tokens of its
    Framing."""
    return Need(planned.texts_shown(config), config.MAX_TOKENS, config.ANSWER_TOKENS, shots)


def taken_by(grader: Grader | None) -> str:
    """Return the kind of problems that a grader accepts: ANSWERS, PROOFS, or EITHER for another
    grader or None."""
    return ANSWERS if grader is by_answer else PROOFS if grader is ungraded else EITHER


def check_kind(name: str, chosen: ProblemSet, wanted: str, instead: str = "") -> None:
    """Raise UserError if the experiment `name` can't use the `chosen` problems. Its grader accepts
    the kind `wanted`. Its scaffold accepts proofs if `instead` is "". Otherwise `instead` names a
    scaffold that does."""
    if wanted == (ANSWERS if chosen.asks_for_proofs else PROOFS):
        other, kind = ("18_proofs", "proofs") if wanted == ANSWERS else ("19_answers", "answers")
        raise UserError(
            f"{name} takes {wanted}, but {chosen.name} has {kind}. Run bash scripts/run.sh {other} "
            "PROBLEMS=…"
        )
    if chosen.asks_for_proofs and instead:
        raise UserError(
            f"this scaffold counts equal answers, but {chosen.name} asks for proofs, which have no "
            f"answers. Use the scaffold {instead} (SCAFFOLD={instead})"
        )


def check_prices(card: Card, model: str, config: Paid) -> None:
    """Raise UserError if MAX_DOLLARS is set but the price of the `model` is unknown."""
    if not config.MAX_DOLLARS or card.price:
        return
    where = (
        f"the card {card.name} of {model} has no table [price]"
        if card.name
        else f"{model} has no card"
    )
    raise UserError(
        f"MAX_DOLLARS={config.MAX_DOLLARS:g} needs the price of tokens, but {where}. Add the price "
        "to a card of this model (see data/models/template.toml), or set MAX_DOLLARS=0"
    )


def check_context(server: Server, config: Asking) -> None:
    """Raise UserError if the constants `config` do not fit the server, its card or its context."""
    card = server.card
    card.sampled(config)
    if isinstance(config, Paid):
        check_prices(server.card, server.model, config)
    given = {name: getattr(config, name, 0) for name in ("WAITS", "ELICIT", "VERIFY_MODE")}
    needs = [
        f"{name}={value}"
        for name, value in given.items()
        if value and value not in ("verdict", "points")
    ]
    if needs and card.continues is False:
        raise UserError(
            f"{needs[0]} needs a server that continues messages, but the card {card.name} says "
            "that its server can't (continues = false). Leave it out, or choose another server"
        )
    if given["VERIFY_MODE"] == "p_true" and "logprobs" in card.never:
        raise UserError(
            f"VERIFY_MODE=p_true needs logprobs, which the card {card.name} never asks for (never)"
        )
    shots, context = framing.of(config, card).tokens, server.context
    ends, room = server.dialect.ends_at_context, (context or 0) - ROOM - shots
    if context and (shots or not ends) and room < (1 if ends else config.MAX_TOKENS):
        of_shots = f", of which SHOTS, SYSTEM and PROMPT take about {shots:,}" if shots else ""
        fewer = (
            f", or set MAX_TOKENS={min(room, context // 2)}"
            if room > 0
            else ", or use fewer shots" * bool(shots)
        )
        raise UserError(
            f"MAX_TOKENS={config.MAX_TOKENS} does not fit the server's context of {context} "
            f"tokens{of_shots}. Serve a longer context{fewer}"
        )


def _opening(
    config: C,
    server: Server,
    chosen: ProblemSet,
    planned: Bounded,
    is_default: bool,
    is_graded: bool,
) -> list[tuple[str, str]]:
    """Return the rows that a run prints first: model, problems, engine and plan."""
    count, each = len(chosen.problems), planned.max_completions(config)
    # comparisons limit tokens, so this is an estimate
    bound = "at most" if isinstance(planned, Scaffold) else "about"
    per = (
        f"problem and run, {count * each * config.RUNS:,}"
        if config.RUNS > 1
        else f"problem, {count * each:,}"
    )
    without = ", without grading" if is_graded else ""
    rows = [
        ("model", server.model + (f" (card {server.card.name})" if server.card.name else "")),
        (
            "problems",
            f"{chosen.name}, n={count}{', the default of this model' if is_default else ''}",
        ),
        ("engine", server.choice),
        ("plan", f"{bound} {each:,} completion{'s' * (each != 1)} per {per} in all{without}"),
    ]
    if unused := environment.unused_revision(server.revision):
        rows.append(
            (
                "revision",
                (
                    f"{unused} (REVISION) has no effect. Only runs that fetch a model of the hub "
                    "use it"
                ),
            )
        )
    if server.card.effort and not server.card.name:
        rows.append(
            (
                "effort",
                f"{server.card.effort} (EFFORT). A chat template that does not know it ignores it",
            )
        )
    if about := framing.of(config, server.card, chosen.problems).about:
        rows.append(("requests", f"with {about}"))
    way, is_elicited = server.card.way(config), getattr(config, "ELICIT", 0)
    if way != BOXED or is_elicited:
        rows.append(
            (
                "answers",
                f"{way} (ANSWER){', asked for once if missing (ELICIT)' if is_elicited else ''}",
            )
        )
    if unsent := sampling_unsent(server, Sampling.of(server.card.sampled(config))):
        rows.append(
            (
                "sampling",
                f"this server's defaults apply for {', '.join(unsent)}, which are not sent",
            )
        )
    if server.seeds is False:
        rows.append(
            (
                "seeds",
                (
                    "ignored by this server. SEED still decides random choices (candidates, ties "
                    "and so on)"
                ),
            )
        )
    return rows
