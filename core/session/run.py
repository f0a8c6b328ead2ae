"""The door to one run: from an experiment's file (`run`) and from Python (`solve`); and what stands before it, the
server, the problems and the journal."""

import asyncio
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from core import constants
from core.base import interrupts as interrupts  # for experiments that lie elsewhere; see core/__init__.py
from core.base import terminal
from core.base.errors import UserError, command, one_line
from core.base.files import results_dir
from core.base.prices import shown
from core.base.signals import Stop
from core.constants import Asking, C, Constants, Paid, Waiting, identity
from core.engines import cards, environment
from core.engines.cards import Card
from core.engines.need import Need
from core.engines.server import Server
from core.engines.start import graders_server, serving
from core.generate.budget import Purse
from core.generate.journal import Journal, content_key
from core.grading.answers import by_answer
from core.grading.ungraded import ungraded
from core.problems import sets
from core.problems.check import check
from core.problems.sets import ProblemSet
from core.results.data import Results
from core.session.experiment import Experiment, show
from core.session.runs import Runs
from core.types import ANSWERS, EITHER, PROOFS, Grader, Problem, Scaffold

ROOM = 1024  # tokens a prompt may take before a cap is called too large for the server's context


def run(scaffold: Scaffold[C], namespace: Mapping[str, Any], grader: Grader = by_answer) -> None:
    """Run the experiment whose file's globals are `namespace`, with NAME=value overrides from the command line. A
    `grader` that asks a model asks the run's own, or the server at GRADER_URL. Ends the process: status 0, 1 (every
    completion failed), 2 (a user's error) or 130 (stopped)."""
    with command():
        stop = Stop()
        name = Path(namespace["__file__"]).stem
        config = constants.of_command(scaffold.constants, namespace)
        folder = results_dir()
        runs = Runs(name, config, folder)
        with (
            started(name, config, need_of(scaffold, config), taken_by(grader), instead=scaffold.for_proofs) as (
                server,
                chosen,
            ),
            open_journal(folder / "journal" / f"{name}.jsonl") as journal,
        ):
            grades_at = graders_server()
            with open_purse(journal, config, server, chosen.sha256, grades_at) as purse:
                for called, each, where in runs:
                    experiment = Experiment(called, scaffold, each, server, chosen, where, grader, grades_at, purse)
                    runs.ended(experiment.finish(journal, stop), experiment.document)
        show(runs.document, runs.path)


async def solve(
    scaffold: Scaffold[C],
    problems: str | Sequence[Problem | Mapping[str, Any]],
    *,
    name: str = "",
    grader: Grader = by_answer,
    folder: Path | str | None = None,
    **given: Any,
) -> Results:
    """Run `scaffold` on `problems` from Python, with constants like N=4; what comes back is what a results file holds.

    `problems`: the name of a set, the path of a file, or problems: Problem objects, or dicts with "problem" and
    "answer". The server is chosen as for any run, completions are journaled, and results saved as `name` (by default
    the scaffold's) in `folder`. Raises UserError (also for a wrong constant) and RunFailed; cancelled or broken off, it
    saves what there is. For a script without a loop: `solve_sync`.
    """
    if not isinstance(scaffold, Scaffold):
        raise UserError(f"{scaffold!r:.60} is no scaffold. Give one, such as core.scaffolds.rsa.RSA")
    name = name or getattr(scaffold.run, "__name__", "python")
    named = None
    if not isinstance(problems, str):
        named = ProblemSet("given", problems_of(problems, taken_by(grader)), "given in Python")
    chosen_by = {"PROBLEMS": problems} if isinstance(problems, str) else {}
    config = constants.read(scaffold.constants, {}, [f"{key}={value}" for key, value in (given | chosen_by).items()])
    folder = Path(folder) if folder else results_dir()
    runs = Runs(name, config, folder)
    with (
        started(name, config, need_of(scaffold, config), taken_by(grader), named, scaffold.for_proofs) as (
            server,
            chosen,
        ),
        open_journal(folder / "journal" / f"{name}.jsonl") as journal,
    ):
        grades_at = graders_server()
        with open_purse(journal, config, server, chosen.sha256, grades_at) as purse:
            for called, each, where in runs:
                experiment = Experiment(called, scaffold, each, server, chosen, where, grader, grades_at, purse)
                try:
                    await experiment.ask_all(journal)
                    path = experiment.ended()
                except BaseException:
                    experiment.save(complete=False)
                    raise
                runs.ended(path, experiment.document)
        return Results(runs.path)


def solve_sync(scaffold: Scaffold[C], problems: str | Sequence[Problem | Mapping[str, Any]], **given: Any) -> Results:
    """The same where no event loop runs. Raises UserError where one does."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        raise UserError("an event loop runs here, as in a notebook: await solve(…) in place of solve_sync(…)")
    return asyncio.run(solve(scaffold, problems, **given))


def problems_of(given: Sequence[Problem | Mapping[str, Any]], wanted: str = ANSWERS) -> tuple[Problem, ...]:
    """Problem objects as they are, and rows checked as those of a file. Raises UserError."""
    if given and all(isinstance(each, Problem) for each in given):
        return tuple(each for each in given if isinstance(each, Problem))
    rows = [
        (f"problem {number}", dict(row) if isinstance(row, Mapping) else row) for number, row in enumerate(given, 1)
    ]
    return check(rows, "the list", wanted)


def need_of(scaffold: Scaffold[C], config: C) -> Need:
    """What the longest request of a run holds."""
    return Need(scaffold.texts_shown(config), config.MAX_TOKENS, config.ANSWER_TOKENS)


def taken_by(grader: Grader) -> str:
    """What a grader takes: ANSWERS, PROOFS, or EITHER where nobody knows it."""
    return ANSWERS if grader is by_answer else PROOFS if grader is ungraded else EITHER


@contextmanager
def started(
    name: str,
    config: Constants,
    need: Need,
    wanted: str = ANSWERS,
    named: ProblemSet | None = None,
    instead: str = "",
) -> Iterator[tuple[Server, ProblemSet]]:
    """The server and the problems of the experiment `name`, printed in one line. `wanted`: what its grader takes.
    `named`: the problems, where they are not those that PROBLEMS says. `instead`: what takes proofs where its scaffold
    does not (Scaffold.for_proofs)."""
    # Read before a server starts for it.
    if named is None and config.PROBLEMS not in cards.NONE.own_sets:
        named = sets.load(config.PROBLEMS, wanted)
    if named:
        check_kind(name, named, wanted, instead)
    if (card := environment.card()).base_url:
        check_prices(card, card.model, config)  # before anything is asked of it
    with serving(need) as server:
        chosen = named or sets.load(server.card.own_sets[config.PROBLEMS], wanted)
        check_kind(name, chosen, wanted, instead)
        chosen = chosen.first(config.LIMIT)
        check_context(server, config)
        if note := server.card.advice(config):
            print(note, file=sys.stderr)
        print(terminal.wrapped(_opening(name, server, chosen, is_default=named is None)), flush=True)
        yield server, chosen


def check_kind(name: str, chosen: ProblemSet, wanted: str, instead: str = "") -> None:
    """Raises UserError for problems that the experiment `name` does not take."""
    if chosen.asks_for_proofs and wanted == ANSWERS:
        raise UserError(
            f"{name} compares answers, and {chosen.name} asks for proofs. Have them written by "
            "bash scripts/run.sh 18_proofs PROBLEMS=…, with any SCAFFOLD=…"
        )
    if wanted == PROOFS and not chosen.asks_for_proofs:
        raise UserError(
            f"{name} asks for proofs, and {chosen.name} has answers to compare: bash scripts/run.sh 19_answers "
            'PROBLEMS=…; or say of each problem "answer_type": "proof"'
        )
    if chosen.asks_for_proofs and instead:
        raise UserError(
            f"this scaffold goes by answers that say the same, and the proofs that {chosen.name} asks for have none. "
            f"Take SCAFFOLD={instead}"
        )


@contextmanager
def open_journal(path: Path, is_private: bool = False) -> Iterator[Journal]:
    """The journal in `path`; prints which lines are damaged, which journals disagree and, at the end, which records
    were not completions."""
    with Journal(path, is_private) as journal:
        if journal.damaged:
            places = f"{len(journal.damaged)} damaged lines, the first is line {journal.damaged[0]}"
            print(f"note: {journal.path} has {places}; their completions are made again", file=sys.stderr)
        if journal.differing:
            print(f"note: {journal.disagreement()}", file=sys.stderr)
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


@contextmanager
def open_purse(
    journal: Journal, config: Paid, server: Server, on: str, grades_at: Server | None = None
) -> Iterator[Purse | None]:
    """What the run pays from, where prices are known; its ledger lies beside the `journal`. A run is known by its
    constants, what it is `on` (the hash of its problems) and its model, so that each has a purse of its own, which it
    keeps however often it is stopped. Raises UserError where there is a limit, and no prices of the server that
    grades."""
    if grades_at:
        check_prices(grades_at.card, grades_at.model, config)
    if not (server.card.price or (grades_at and grades_at.card.price)):
        yield None
        return
    run = content_key([identity(config), on, server.identity, server.told])
    with Purse(journal.path.with_suffix(".ledger"), run, config.MAX_DOLLARS) as purse:
        if config.MAX_DOLLARS and purse.spent:
            print(f"MAX_DOLLARS={config.MAX_DOLLARS:g}: {shown(purse.spent)} is spent already", flush=True)
        yield purse


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


def check_prices(card: Card, model: str, config: Paid) -> None:
    """Raises UserError for a limit that can't be kept: nobody knows what the tokens of `model` cost."""
    if not config.MAX_DOLLARS or card.price:
        return
    which = f"the card {card.name} of" if card.name else "no card of"
    has = "has no table [price]" if card.name else "says it"
    raise UserError(
        f"MAX_DOLLARS={config.MAX_DOLLARS:g} can't be kept, for what tokens cost is not known: {which} {model} "
        f"{has}. Write one into a card of this model (data/models/template.toml shows how), or leave out MAX_DOLLARS"
    )


def check_context(server: Server, config: Asking) -> None:
    """Raises UserError for what the server would refuse every time. (llama.cpp ends a completion at its context; other
    servers refuse a cap that does not fit it.)"""
    card = server.card
    card.sampled(config)
    if isinstance(config, Paid):
        check_prices(server.card, server.model, config)
    if isinstance(config, Waiting) and config.WAITS and card.continues is False:
        raise UserError(
            f"WAITS={config.WAITS} has the server go on with thinking that has ended, and the card {card.name} says of "
            "its server that it can't go on with a message (continues = false). Give WAITS=0, or take another server"
        )
    if getattr(config, "VERIFY_MODE", "") == "p_true" and (card.continues is False or "logprobs" in card.never):
        why = (
            "it can't go on with one (continues = false)" if card.continues is False else "it gives no logprobs (never)"
        )
        raise UserError(
            f"VERIFY_MODE=p_true opens a verdict for the model and reads the next token's probabilities, and the card "
            f"{card.name} says of its server that {why}. Give VERIFY_MODE=verdict"
        )
    if why := server.dialect.refusal(server, config):
        raise UserError(why)
    if server.context and not server.dialect.ends_at_context and server.context < config.MAX_TOKENS + ROOM:
        raise UserError(
            f"MAX_TOKENS={config.MAX_TOKENS} does not fit the server's context of {server.context} tokens. Give "
            f"MAX_TOKENS={max(1, server.context // 2)}, or serve the model with a longer context"
        )
