"""Functions that several scaffolds share: notes on faults, a choice between two candidates, a
knock-out."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from core.base import seeds
from core.constants import Carrying, constant
from core.prompts import carried, request, worded
from core.types import (
    Ask,
    Completion,
    Member,
    Message,
    NamedPopulation,
    Population,
    Populations,
    Problem,
)
from harness.scaffolds.stated import read_choice

SELECT = worded("""Problem:
{problem}

Candidate 1:
{first}

Candidate 2:
{second}

Exactly one of <the two|these two proofs> is to be kept. <Compare them step by step and decide \
which is more likely to be correct, or more nearly complete where both are.|Check each step by \
step for errors and gaps, and decide which proves more of what is asked; where both prove all of \
it, which leaves less unsaid.> End with one line: "Better: 1" or "Better: 2".""")

BETTER = "Better:"

# Notes on faults that a scaffold has handled. Results contain each text and how often it occurred.
EMPTY = "empty candidate"
CUT = "truncated candidate"
UNREADABLE = "unreadable verdict"
INVALID_SELECTION = "invalid selection"
UNASSESSED = "no self-assessment"
EMPTY_REPORT = "empty report"
EMPTY_SUMMARY = "empty summary"
CUT_SUMMARY = "truncated summary"


class Selecting(Carrying):
    SELECT_TOKENS: int = constant(
        8192, "token cap of one selection, thinking included", 1, 1_000_000
    )


def text_of(completion: Completion, config: Carrying) -> str:
    """Return the part of a candidate that other requests see (see `carried`), or "" for white
    space."""
    return carried(completion, config).strip()


def again(member: Member, *parents: int, **more: Any) -> Member:
    """Return a member with the completion of `member`, which an earlier population contains. `more`
    are its fields."""
    return Member(member.completion, list(parents), carried_over=True, **more)


async def candidate(
    ask: Ask,
    config: Carrying,
    messages: list[Message],
    *names: str | int,
    parents: Sequence[int] = (),
) -> Member:
    """Request a candidate under these `names`, and return it as a member with a note if it is empty
    or truncated."""
    completion = await ask(messages, *names)
    notes: list[str] = []
    if not text_of(completion, config):
        notes = [EMPTY]
    elif completion.truncated:
        notes = [CUT]
    return Member(completion, list(parents), notes=notes)


def latest_with_text(before: Member, new: Member, index: int = 0) -> Member:
    """Return the member that continues a chain: `new`, or `before` if only `before` has an answer.
    `index` is the index of `before` in its population. If `before` continues, its side calls are
    all completions of `new`."""
    if new.completion.text.strip() or not before.completion.text.strip():
        return new
    notes = list(new.notes)
    if EMPTY not in notes:
        notes.append(EMPTY)
    return again(before, index, side_calls=[*new.side_calls, new.completion], notes=notes)


def ranking(problem: Problem, config: Carrying, keys: Sequence[tuple[float, ...]]) -> list[int]:
    """Return the indices of `keys`, the highest key first. Random lots break ties. An index has the
    same lot whenever the pool has the same size."""
    lots = seeds.rng(config.SEED, problem.id, "lots").random(len(keys))
    return sorted(range(len(keys)), key=lambda i: (*keys[i], lots[i]), reverse=True)


def best_of_pool(pool: Sequence[Member], index: int, newest: Sequence[Member]) -> Member:
    """Return the pool's member at `index` as the best so far. Its parent is itself, if it belongs
    to the newest population, which ends the pool."""
    parent = index - (len(pool) - len(newest))
    if parent < 0:
        return again(pool[index])
    return again(pool[index], parent)


async def choose(
    problem: Problem,
    ask: Ask,
    config: Selecting,
    candidates: Sequence[Completion],
    *names: str | int,
) -> Member:
    """Choose the better of two candidates. The prompt's order is random, because models prefer
    certain positions. An empty one loses without a request. If both are empty or the reply is
    unreadable, the winner is random."""
    rng = seeds.rng(config.SEED, problem.id, "choose", *names)
    is_swapped = bool(rng.integers(2))
    coin = int(rng.integers(2))
    first, second = (text_of(completion, config) for completion in candidates)
    if not (first and second):
        winner = coin
        if first or second:
            winner = 0 if first else 1
        return Member(candidates[winner], [winner], carried_over=True, notes=[EMPTY])
    if is_swapped:
        first, second = second, first
    messages = request(SELECT, problem, first=first, second=second)
    reply = await ask(messages, *names, max_tokens=config.SELECT_TOKENS, answer_opening=BETTER)
    better = read_choice(reply.text, "better", 2)
    notes: list[str] = []
    if better is None:
        winner = coin
        notes = [INVALID_SELECTION]
    else:
        winner = 1 - better if is_swapped else better
    return Member(candidates[winner], [winner], side_calls=[reply], carried_over=True, notes=notes)


async def single_elimination(
    problem: Problem, ask: Ask, config: Selecting, members: Population, name: str
) -> Populations:
    """Yield the remaining `members` after each round of a pairwise knock-out, in random order. Each
    round pairs neighbours. The last of an odd number advances without a pair. QED-Nano's code also
    shuffles between rounds."""
    number = 0
    while len(members) > 1:
        completions = [member.completion for member in members]
        pairs = [completions[i : i + 2] for i in range(0, len(members) - 1, 2)]
        choices = (
            choose(problem, ask, config, pair, name, number, i) for i, pair in enumerate(pairs)
        )
        remaining: list[Member] = []
        for i, winner in enumerate(await asyncio.gather(*choices)):
            parent = 2 * i + winner.parents[0]
            remaining.append(replace(winner, parents=[parent]))
        if len(members) % 2:
            last = len(members) - 1
            remaining.append(again(members[last], last))
        rng = seeds.rng(config.SEED, problem.id, "shuffle", name, number)
        members = [remaining[i] for i in rng.permutation(len(remaining))]
        number += 1
        yield NamedPopulation(f"knock-out {number}", members)
