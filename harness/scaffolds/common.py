"""Functions that several scaffolds share: notes on faults, a choice between two candidates, a
knock-out."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from core.base import seeds
from core.constants import Carrying, constant
from core.prompts import request, worded
from core.types import (
    Ask,
    Completion,
    Member,
    Message,
    Population,
    Populations,
    Problem,
    Stage,
    carried,
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
    notes = [CUT] if completion.truncated else []
    return Member(
        completion, list(parents), notes=notes if text_of(completion, config) else [EMPTY]
    )


def latest_with_text(before: Member, new: Member, place: int = 0) -> Member:
    """Return the member that continues a chain: `new`, or `before` if only `before` has an answer.
    `place` is the index of `before` in its population. If `before` continues, its side calls are
    all completions of `new`."""
    if new.completion.text.strip() or not before.completion.text.strip():
        return new
    notes = new.notes if EMPTY in new.notes else [*new.notes, EMPTY]
    return again(before, place, side_calls=[*new.side_calls, new.completion], notes=notes)


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
    swapped, coin = bool(rng.integers(2)), int(rng.integers(2))
    texts = [text_of(each, config) for each in candidates]
    if not all(texts):
        winner = coin if not any(texts) else int(not texts[0])
        return Member(candidates[winner], [winner], carried_over=True, notes=[EMPTY])
    first, second = texts[::-1] if swapped else texts
    messages = request(SELECT, problem, first=first, second=second)
    reply = await ask(messages, *names, max_tokens=config.SELECT_TOKENS, answer_opening=BETTER)
    better = read_choice(reply.text, "better", 2)
    winner = coin if better is None else 1 - better if swapped else better
    notes = [INVALID_SELECTION] if better is None else []
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
        pairs = (completions[i : i + 2] for i in range(0, len(members) - 1, 2))
        winners = await asyncio.gather(
            *(choose(problem, ask, config, pair, name, number, i) for i, pair in enumerate(pairs))
        )
        left = [
            replace(winner, parents=[2 * i + winner.parents[0]]) for i, winner in enumerate(winners)
        ]
        if len(members) % 2:
            left.append(again(members[-1], len(members) - 1))
        members = [
            left[i]
            for i in seeds.rng(config.SEED, problem.id, "shuffle", name, number).permutation(
                len(left)
            )
        ]
        number += 1
        yield Stage(f"knock-out {number}", members)
