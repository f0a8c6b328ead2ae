"""Functions that several scaffolds share: notes on faults, scores, a choice between two candidates, and a knock-out."""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field

from core.base import seeds
from core.constants import Carrying, constant
from core.scaffolds.prompts import request
from core.types import Ask, Completion, Member, Message, Population, Problem, Stage, Wording, carried

SELECT = Wording(
    answer="""Problem:
{problem}

Candidate 1:
{first}

Candidate 2:
{second}

Exactly one of the two is to be kept. Compare them step by step and decide which is more likely to be correct, or more \
nearly complete where both are. End with one line: "Better: 1" or "Better: 2".""",
    proof="""Problem:
{problem}

Candidate 1:
{first}

Candidate 2:
{second}

Exactly one of these two proofs is to be kept. Check each step by step for errors and gaps, and decide which proves \
more of what is asked; where both prove all of it, which leaves less unsaid. End with one line: "Better: 1" or \
"Better: 2".""",
)

BETTER = "Better:"

# Notes on faults that a scaffold has handled. Results contain each text and how often it occurred.
EMPTY = "empty candidate"
CUT = "truncated candidate"
UNREADABLE = "unreadable verdict"
INVALID_SELECTION = "invalid selection"
UNASSESSED = "no self-assessment"
CUT_REPORT = "truncated report"
EMPTY_SUMMARY = "empty summary"
CUT_SUMMARY = "truncated summary"
UNACCEPTED = "never accepted"
EMPTY_REPORT = "empty report"
NO_APPROACHES = "unreadable approaches"
FAILED_PLAN = "failed plan"
NO_CALL = "no tool call"
UNKNOWN_TOOL = "unknown tool"
BAD_ARGUMENTS = "bad tool arguments"
NO_CALLS_LEFT = "tool call beyond the last"
EMPTY_SUBMISSION = "empty submission"
BY_RULE = "submitted by rule"

# Rejects a number that begins a range or a choice, such as "5-6" or "1 or 2".
single = r"(?![ \t]*+(?:or|and|to|[-–/&])[ \t]*+(?:candidate[ \t]*+)?+\d)"

_BETTER = re.compile(rf"better\s*+[:=]?+[\s*_`]*+(?:\\boxed\{{)?+(?:candidate\s*+)?+([12])\b{single}", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Selecting(Carrying):
    SELECT_TOKENS: int = constant(8192, "token cap of one selection, thinking included", 1, 1_000_000)


def has_text(member: Member, config: Carrying) -> bool:
    return bool(carried(member.completion, config).strip())


def notes_on(completion: Completion, config: Carrying) -> list[str]:
    """Return the notes on a new candidate: [EMPTY] if it has no text, else [CUT] if it is truncated, else []."""
    if not carried(completion, config).strip():
        return [EMPTY]
    return [CUT] if completion.truncated else []


async def candidate(
    ask: Ask, config: Carrying, messages: list[Message], *names: str | int, parents: Sequence[int] = ()
) -> Member:
    """Request a candidate under these `names`, and return it as a member with its notes."""
    completion = await ask(messages, *names)
    return Member(completion, list(parents), notes=notes_on(completion, config))


def latest_with_text(before: Member, new: Member, place: int = 0) -> Member:
    """Return the member that continues a chain: `new`, or `before` if only `before` has an answer. `place` is the index
    of `before` in its population. If `before` continues, its side calls are all completions of `new`."""
    if new.completion.text.strip() or not before.completion.text.strip():
        return new
    notes = new.notes if EMPTY in new.notes else [*new.notes, EMPTY]
    calls = [*new.side_calls, new.completion]
    return Member(before.completion, [place], side_calls=calls, carried_over=True, notes=notes)


def stated_score(text: str, word: str, allowed: Sequence[float]) -> float | None:
    """Return the last number after `word` in `text` (a colon is optional), or None if it is missing or not `allowed`.
    A fraction is multiplied by the largest allowed number: if this number is 7, "7/7" is read as 7."""
    number = rf"(\d{{1,6}}+(?:\s*+/\s*+\d{{1,6}}+|\.\d{{1,6}}+)?+|\.\d{{1,6}}+)(?!\.*+\d){single}"
    found = re.findall(rf"{re.escape(word)}\s*+[:=]?+[\s*_`$]*+(?:\\boxed\{{)?+\s*+{number}", text, re.IGNORECASE)
    if not found:
        return None
    above, _, below = found[-1].partition("/")
    if below and int(below) == 0:
        return None
    value = float(above) / float(below) * max(allowed) if below else float(above)
    return next((score for score in allowed if abs(score - value) < 1e-9), None)


def select(problem: Problem, first: str, second: str) -> list[Message]:
    """Build a request to choose the better of two candidates, with a last line "Better: 1" or "Better: 2"."""
    return request(SELECT, problem, first=first.strip(), second=second.strip())


def read_selection(text: str) -> int | None:
    """Return 0 if the last selection in `text` is "Better: 1", 1 for "Better: 2", or None if there is no selection."""
    stated = _BETTER.findall(text)
    return int(stated[-1]) - 1 if stated else None


@dataclass
class Choice:
    """A choice between texts: the winner's index, the completions of its requests, and notes on faults."""

    winner: int
    side_calls: list[Completion] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


async def choose(problem: Problem, ask: Ask, config: Selecting, texts: tuple[str, str], *names: str | int) -> Choice:
    """Choose the better of two texts. Their order in the prompt is random, because models prefer certain positions.
    An empty text loses without a request. If both texts are empty or the reply is unreadable, the winner is random."""
    rng = seeds.rng(config.SEED, problem.id, "choose", *names)
    swapped, coin = bool(rng.integers(2)), int(rng.integers(2))
    spoken = [bool(text.strip()) for text in texts]
    if not all(spoken):
        return Choice(spoken.index(True) if any(spoken) else coin, notes=[EMPTY])
    messages = select(problem, *(texts[::-1] if swapped else texts))
    completion = await ask(messages, *names, max_tokens=config.SELECT_TOKENS, answer_opening=BETTER)
    better = read_selection(completion.text)
    if better is None:
        return Choice(coin, [completion], [INVALID_SELECTION])
    return Choice(1 - better if swapped else better, [completion])


async def single_elimination(
    problem: Problem, ask: Ask, config: Selecting, members: Population, name: str
) -> AsyncIterator[Population]:
    """Yield the remaining `members` after each round of a pairwise knock-out, in random order. Each round pairs
    neighbours. The last of an odd number advances without a pair. QED-Nano's code also shuffles between rounds."""
    number = 0
    while len(members) > 1:
        texts = [carried(member.completion, config) for member in members]
        pairs = zip(texts[::2], texts[1::2], strict=False)
        choosing = (choose(problem, ask, config, pair, name, number, i) for i, pair in enumerate(pairs))
        left = []
        for i, choice in enumerate(await asyncio.gather(*choosing)):
            place = 2 * i + choice.winner
            kept = members[place].completion
            left.append(Member(kept, [place], side_calls=choice.side_calls, carried_over=True, notes=choice.notes))
        if len(members) % 2:
            left.append(Member(members[-1].completion, [len(members) - 1], carried_over=True))
        left = [left[i] for i in seeds.rng(config.SEED, problem.id, "shuffle", name, number).permutation(len(left))]
        number += 1
        yield Stage(f"knock-out {number}", left)
        members = left
