"""Ask a model about many items in one session, and grade many proofs. Equal items share their
requests. A request depends on the item, the prompt, SEED and the sampling. A repeated command uses
the journal's replies."""

from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from core import command_line, constants
from core.base import seeds, signals
from core.base.errors import RunFailed, UserError, command
from core.base.prices import Prices, format_dollars
from core.base.stats import mean_by_problem
from core.base.terminal import short
from core.constants import A, Asking, Paid, Reasoning, Waiting, constant
from core.engines import environment, reasoning
from core.engines.need import Need
from core.engines.protocol import Server
from core.engines.wanted import GRADER
from core.generate import Generator
from core.grader_server import grading_server
from core.types import CHARACTERS, MAX_POINTS, Ask, Completion, Message, Problem, Sampling
from harness.plan.lengths import VERIFY_MEDIAN_TOKENS
from harness.plan.work import Requests
from harness.results.proof_points import undelivered
from harness.session.bar import Bar
from harness.session.checks import check_context
from harness.session.round import Round
from harness.session.session import Session
from labs.proofs import proofs, rubric
from labs.proofs.proofs import Points
from labs.proofs.rubric import Prompt

AHEAD = 4  # items in progress for each request that may be in flight
# approximate tokens of a grader's prompt without the problem, its texts and the proof
INSTRUCTIONS = 300

T = TypeVar("T")
R = TypeVar("R")


class AskingConstants(Paid, Waiting, Reasoning, Asking):
    """The constants of all commands of this lab."""

    closed = MappingProxyType({"ANSWER_TOKENS": 0, "RUNS": 1})  # removed constants
    GRADER: str = constant(
        "",
        "grader's card or .toml file, a model of the server at GRADER_URL or BASE_URL, or a hub "
        "model (default: GRADER_URL or GRADER_MODEL, else a run's server)",
    )


class GraderConstants(AskingConstants):
    """The constants of grade.sh and 20_grader."""

    GRADES: int = constant(
        1, "number of gradings per proof (their mean and spread are reported)", 1, 64
    )


def recorded(config: AskingConstants, unused: Collection[str] = ()) -> dict[str, Any]:
    """Return the constants for results, without `unused` ones and without EFFORT and TEMPLATE if
    the card decides them."""
    of_card = [name for name in reasoning.NAMES if reasoning.is_of_card(config, name)]
    names = constants.rules(type(config))
    return {name: getattr(config, name) for name in names if name not in (*unused, *of_card)}


@contextmanager
def on_file(kind: type[A], argv: Sequence[str], about: str, usage: str) -> Iterator[A]:
    """Wrap a command whose first argument names its input. Yields the constants, as session.command
    does."""
    with command():
        if command_line.asks_for_help(argv):
            print(command_line.help_text(kind, {"__doc__": about}))
            raise SystemExit(0)
        if not argv or "=" in argv[0] or argv[0].startswith("-"):
            raise UserError(usage)
        signals.catch()
        yield constants.read(kind, {}, with_card(kind, argv[1:]))


def with_card(kind: type[A], words: Sequence[str]) -> list[str]:
    """Return the constants of the grader's card as words such as "N=4", and then `words`, which
    have precedence."""
    named = getattr(constants.read(kind, {}, words), "GRADER", "")
    with environment.choosing(named):
        has_own_server = environment.has_own_grader(named)
        card = environment.second(GRADER).card if has_own_server else environment.card()
    return [*(f"{name}={value}" for name, value in card.constants_of(kind).items()), *words]


@contextmanager
def graders_server(config: AskingConstants) -> Iterator[Server]:
    """Yield the grader's server, and start it if necessary. Raises UserError if no server can take
    the requests."""
    reasoning.check(config)
    with grading_server(config.GRADER, Need(1, config.MAX_TOKENS, 0)) as server:
        server = reasoning.configured(server, config)
        check_context(server, config)
        yield server


async def each(
    opened: Session[AskingConstants],
    title: str,
    total: int,
    items: Collection[T],
    content: Callable[[T], tuple[Any, ...]],
    one: Callable[[T, Ask], Coroutine[Any, Any, R]],
    so_far: Callable[[Iterable[R]], str],
) -> list[R]:
    """Return `one(item, ask)` for all items, in order. Items with equal `content` share a result.
    `total` is the number of planned requests. `so_far` describes the results so far. A seed derives
    from `content(item)[0]`, SEED and the names of the request, which end with the attempt. Raises
    RunFailed if all requests failed, and other UserErrors."""
    sampling = Sampling.from_config(opened.server.card.sampled(opened.config))
    errors: list[str | None] = []
    with Bar(title, total) as bar:

        async def asked(item: T, generator: Generator, _: None) -> R:
            async def ask(
                messages: Sequence[Message], *names: str | int, **changes: Any
            ) -> Completion:
                if names[-1]:  # a retry
                    bar.total += 1
                seed = seeds.derive(opened.config.SEED, content(item)[0], *names)
                reply = await generator(messages, seed, sampling)
                errors.append(reply.error)
                return reply

            return await one(item, ask)

        unique = {content(item): item for item in items}
        grading = Round(opened, bar, 1 + AHEAD * opened.limit, so_far)
        found = await grading.run(unique.values(), asked, nullcontext())
    results = dict(zip(unique, found, strict=True))
    failed = [error for error in errors if error is not None]
    if failed and len(failed) == len(errors):
        most = max(failed, key=failed.count)
        raise RunFailed(
            f"every request failed. The most frequent error: {most}. Fix it and run the same "
            "command again"
        )
    return [results[content(item)] for item in items]


@dataclass(frozen=True)
class Item:
    """A proof or an answer to be graded, with its problem."""

    problem: Problem
    proof: Completion

    def content(self) -> tuple[str, Problem, str, str | None]:
        """Return the content that equal items share. They also share the grade."""
        return self.problem.id, self.problem, self.proof.text, undelivered(self.proof)


@dataclass(frozen=True)
class Source:
    """Proofs to grade. `folder` contains the journals. `write(points, about, prices)` writes the
    points of all `items` with the grading's description, and returns a table for the terminal and
    the new files by label."""

    name: str
    folder: Path
    items: Sequence[Item]
    write: Callable[[Sequence[Points], dict[str, Any], Prices | None], tuple[str, dict[str, Path]]]


def checked(
    name: str, items: Sequence[Item], config: GraderConstants, chosen: Prompt | None
) -> int:
    """Return how many gradings `items` need at most. Raises UserError without items, or if no
    prompt fits an item."""
    if not items:
        raise UserError(
            f"{name} contains no proofs. Give results or lines of JSON that contain proofs"
        )
    rubric.check_fits((item.problem for item in items), chosen)
    return len({item.content() for item in items if not undelivered(item.proof)}) * config.GRADES


async def grade_all(
    name: str, items: Sequence[Item], chosen: Prompt | None, opened: Session[GraderConstants]
) -> list[Points]:
    """Return each proof's points, in the order of `items`. Raises RunFailed if all requests failed,
    or UserError."""
    config = opened.config

    async def one(item: Item, ask: Ask) -> Points:
        return await proofs.grade(item.problem, item.proof, ask, config.GRADES, config.SEED, chosen)

    def so_far(results: Iterable[Points]) -> str:
        known = [each.points_share for each in results if each.points_share is not None]
        return (
            f"mean {mean_by_problem(known).value * MAX_POINTS:.2f} of {MAX_POINTS}, n={len(known)}"
            if known
            else ""
        )

    total = checked(name, items, config, chosen)
    return await each(opened, f"grade {name}", total, items, Item.content, one, so_far)


def planned(count: int, items: Sequence[Item], config: GraderConstants) -> Requests:
    """Return the planned requests for `count` gradings. Each prompt is assumed to show an item of
    mean length."""
    names = ("statement", "solution", "guidelines", "grading_scheme")
    sizes = [
        sum(len(getattr(item.problem, name)) for name in names) + len(item.proof.text)
        for item in items
    ]
    return requests(count, sum(sizes) / max(1, len(sizes)) / CHARACTERS, config)


def requests(count: int, format_dollars: float, config: GraderConstants) -> Requests:
    """Return the planned requests for `count` gradings, whose prompts each show texts of `shown`
    tokens."""
    return Requests(
        "gradings", count, INSTRUCTIONS + format_dollars, config.MAX_TOKENS, VERIFY_MEDIAN_TOKENS
    )


def took(of: Mapping[str, Any]) -> str:
    """Return a text with the tokens and dollars of `cost`."""
    tokens = [
        "tokens not counted" if of[name] is None else f"{short(int(of[name]))} tokens {verb}"
        for name, verb in (("input_tokens", "read"), ("output_tokens", "written"))
    ]
    return ", ".join(
        [*dict.fromkeys(tokens), *([] if of["cost"] is None else [format_dollars(of["cost"])])]
    )
