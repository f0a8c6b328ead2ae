"""Register a scaffold, with bounds of what it asks that are counted in a dry run.

In a dry run there is no model: a counting `ask` answers every request with the same text. The scaffold names a reply
that leads to the most requests, unless any text does.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, NamedTuple

from core.base.errors import UserError
from core.constants import C
from core.types import Ask, Completion, Message, Population, Problem, Scaffold, Wording, are_messages

LIMIT = 1_000_000  # requests of one dry run
ROUNDS = 4  # of a dry run, at most
TEXT = "\ue000"  # opens every reply of a dry run, so that a prompt holds one for each text that it shows
PROBLEM = Problem("dry run", "dry run", None)


class Bound(NamedTuple):
    """The most completions that a problem takes, and the most texts that one prompt shows."""

    completions: int
    texts: int


def register(
    run: Callable[[Problem, Ask, C], AsyncIterator[Population]],
    constants: type[C],
    *prompts: str | Wording,
    reply: str = "",
    rounds: str = "",
    linear: Mapping[str, int] | None = None,
    dry: Mapping[str, Any] | None = None,
    bound: Callable[[C], Bound] | None = None,
    roles: str = "",
    for_proofs: str = "",
) -> Scaffold[C]:
    """Return the Scaffold of `run`, whose `max_completions` and `texts_shown` are counted once for each configuration.

    `reply` answers the requests of the dry run: a text that leads to the most requests. `linear` names constants of
    which, from the given value on, each one more takes as many requests as the one before: only so many are run, and
    the rest is computed. `rounds` names the constant that counts rounds: it is linear from ROUNDS on, and texts are
    counted as if there were ROUNDS at least. `dry` changes constants for the dry run, such as a time limit. `bound`
    replaces the dry run if it would be inexact or too long. The others are those of core.types.Scaffold.
    """
    names = [each.name for each in fields(constants)]
    from_here = {**(linear or {}), **({rounds: ROUNDS} if rounds else {})}

    def count(config: dict[str, Any]) -> Bound:
        for name, enough in from_here.items():
            if config[name] > enough:
                less, more = (count(config | {name: number}) for number in (enough - 1, enough))
                beyond = config[name] - enough
                return Bound(*(high + beyond * (high - low) for low, high in zip(less, more, strict=True)))
        return dry_run(run, constants(**config), reply)

    @lru_cache
    def counted(values: tuple[Any, ...]) -> Bound:
        config = dict(zip(names, values, strict=True)) | {"SEED": 0} | dict(dry or {})
        asked = count(config)
        is_short = rounds and config[rounds] < ROUNDS
        return Bound(asked.completions, count(config | {rounds: ROUNDS}).texts) if is_short else asked

    def bound_of(config: C) -> Bound:
        return bound(config) if bound else counted(tuple(getattr(config, name) for name in names))

    return Scaffold(
        run,
        lambda config: bound_of(config).completions,
        lambda config: bound_of(config).texts,
        prompts,
        constants,
        for_proofs,
        roles,
        reply,
    )


def dry_run(run: Callable[[Problem, Ask, C], AsyncIterator[Population]], config: C, reply: str) -> Bound:
    """Count what `run` asks if every reply is `reply`. It has an event loop of its own, in a thread, as the caller may
    run in one. Raises UserError if `run` does not end."""
    ask = _Counting(reply)

    async def consume() -> None:
        populations: Any = run(PROBLEM, ask, config)
        if inspect.iscoroutine(populations):  # no scaffold, which core/session/contract.py reports
            return populations.close()
        async for _ in populations:
            pass

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, consume()).result()
    return Bound(ask.requests, ask.texts)


@dataclass
class _Counting:
    """Counts requests, and the texts in a prompt."""

    reply: str
    requests: int = 0
    texts: int = 0

    async def __call__(self, messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
        self.requests += 1
        if self.requests > LIMIT:
            raise UserError(
                f"a scaffold asks for more than {LIMIT:,} completions in its dry run: register it with a reply that "
                "leads to its end, or with a bound (core/scaffolds/bound.py)"
            )
        if are_messages(messages):
            self.texts = max(self.texts, sum(message["content"].count(TEXT) for message in messages))
        text = f"{TEXT}\n{self.reply}"
        return Completion(str(self.requests), 0, answer=text, finish_reason="stop", completion_tokens=1)
