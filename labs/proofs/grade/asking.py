"""Ask a model about each of many things in a session, and grade each of many proofs.

What is asked follows from the thing, the prompt and SEED alone, so that the journal is the whole resume story here too:
what was answered is never asked again, and a changed prompt, model or SEED asks anew. Equal things are asked about
once.
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from core import constants
from core.base import seeds
from core.base.errors import RunFailed, UserError, command
from core.base.signals import Stop
from core.base.stats import mean_by_problem
from core.constants import A, Asking, Paid, Waiting, constant
from core.engines.need import Need
from core.engines.server import Server
from core.engines.start import grading_server
from core.generate.generator import Generator
from core.plan.lengths import VERIFY_MEDIAN_TOKENS
from core.plan.work import Requests
from core.session.bar import Bar
from core.session.checks import check_context
from core.session.session import Session
from core.types import CHARACTERS, MAX_POINTS, Ask, Completion, Message, Problem, Sampling
from labs.proofs import proofs, rubric
from labs.proofs.proofs import Points
from labs.proofs.rubric import Prompt

AHEAD = 4  # so many things are begun that each request in flight has this many waiting
INSTRUCTIONS = 300  # tokens of a grader's prompt besides the problem, its texts and the proof, about

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class AskingConstants(Paid, Waiting, Asking):
    """The constants of every command that asks a model."""

    closed = MappingProxyType({"ANSWER_TOKENS": 0, "RUNS": 1})  # until the end of issue 33
    GRADER: str = constant("", "model card of who is asked: a name in data/models, or a .toml file; else as for a run")


@dataclass(frozen=True, kw_only=True)
class GraderConstants(AskingConstants):
    """The constants of every command that asks a grader."""

    GRADES: int = constant(1, "gradings of each proof: their mean counts, and their spread is told", 1, 64)


@contextmanager
def on_file(kind: type[A], argv: Sequence[str], about: str, usage: str) -> Iterator[tuple[A, Stop]]:
    """Wrap the body of a command on a file, `argv[0]`: give its constants and the stop, as session.command does."""
    with command():
        if constants.asks_for_help(argv):
            print(constants.explained(kind, {"__doc__": about}))
            raise SystemExit(0)
        if not argv or "=" in argv[0] or argv[0].startswith("-"):
            raise UserError(usage)
        stop = Stop()
        yield constants.read(kind, {}, argv[1:]), stop


@contextmanager
def graders_server(config: AskingConstants) -> Iterator[Server]:
    """Serve the model that is asked, with room for the requests. Raises UserError."""
    with grading_server(config.GRADER, Need(1, config.MAX_TOKENS, 0)) as server:
        check_context(server, config)
        yield server


async def each(
    opened: Session[AskingConstants],
    title: str,
    total: int,
    items: Iterable[T],
    content: Callable[[T], tuple[Any, ...]],
    one: Callable[[T, Ask], Coroutine[Any, Any, R]],
    errors: Callable[[R], Sequence[str | None]],
    so_far: Callable[[Sequence[R]], str],
) -> list[R]:
    """Return `one(item, ask)` of all items, in order.

    `content`: what a result follows from; its first part also decides the seeds, with SEED and the names of a request,
    the last of which is the number of its attempt. `total` requests are planned. `errors`: for each part of a result
    the error that its request ended with, if any. `so_far` describes the results by now for the bar. Raises UserError,
    RunFailed if all requests failed.
    """
    sampling = Sampling.of(opened.server.card.sampled(opened.config))
    with Bar(title, total) as bar:

        async def asked(item: T, generator: Generator, _: None) -> R:
            async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
                if names[-1]:  # asked once more
                    bar.total += 1
                return await generator(messages, seeds.derive(opened.config.SEED, content(item)[0], *names), sampling)

            return await one(item, ask)

        places = 1 + AHEAD * opened.limit
        made = await opened.each(
            items, asked, bar, places, lambda results: so_far(list(results)), nullcontext(), content=content
        )
    ended = [error for result in made for error in errors(result)]
    failed = [error for error in ended if error is not None]
    if failed and len(failed) == len(ended):
        most = max(failed, key=failed.count)
        raise RunFailed(f"every request failed; most often: {most}. Fix that and run the same command again")
    return made


# Proofs


@dataclass(frozen=True)
class Item:
    """A proof to be graded."""

    problem: Problem
    proof: Completion

    def content(self) -> tuple[str, str, str, str | None]:
        """Return what its grade follows from."""
        return self.problem.id, self.problem.statement, self.proof.text, proofs.undelivered(self.proof)


class Proofs(Protocol):
    """A source of proofs, and its name."""

    @property
    def name(self) -> str: ...

    def items(self) -> Iterator[Item]:
        """Yield the proofs, in the same order every time. Raises UserError."""


def checked(source: Proofs, config: GraderConstants, chosen: Prompt | None) -> int:
    """Count the gradings, at most, after a look at every proof. Raises UserError if there are none, or a problem lacks
    what the prompt shows of it: before anything is sent."""
    found, count = set[object](), 0
    for item in source.items():
        count += 1
        rubric.fitting(item.problem, chosen)
        if not proofs.undelivered(item.proof):
            found.add(hash(item.content()))
    if not count:
        raise UserError(f"{source.name} holds no proofs. Give results, or lines of JSON, that have some")
    return len(found) * config.GRADES


async def grade_all(
    source: Proofs, chosen: Prompt | None, total: int, opened: Session[GraderConstants]
) -> list[Points]:
    """Return the points of every proof in `source`, in order. Raises UserError, also if all gradings failed."""
    config = opened.config

    async def one(item: Item, ask: Ask) -> Points:
        return await proofs.grade(item.problem, item.proof, ask, config.GRADES, config.SEED, chosen)

    def errors(made: Points) -> list[str | None]:
        return [grading.calls[-1].error if grading.why == proofs.FAILED else None for grading in made.gradings]

    def so_far(made: Sequence[Points]) -> str:
        known = [each.counted / MAX_POINTS for each in made if each.counted is not None]
        return f"mean {mean_by_problem(known).value * MAX_POINTS:.2f} of {MAX_POINTS}, n={len(known)}" if known else ""

    return await each(opened, f"grade {source.name}", total, source.items(), Item.content, one, errors, so_far)


def planned(count: int, items: Iterable[Item], config: GraderConstants) -> Requests:
    """Return the work of `count` gradings of `items`, whose texts are on average in each prompt."""
    sizes = [
        sum(map(len, (of.statement, of.solution, of.guidelines, of.grading_scheme, item.proof.text)))
        for item in items
        for of in (item.problem,)
    ]
    return requests(count, sum(sizes) / max(1, len(sizes)) / CHARACTERS, config)


def requests(count: int, shown: float, config: GraderConstants) -> Requests:
    """Return `count` gradings that each show texts of so many tokens."""
    return Requests("gradings", count, INSTRUCTIONS + shown, config.MAX_TOKENS, VERIFY_MEDIAN_TOKENS)
