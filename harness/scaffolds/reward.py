"""Score a solution by a reward model, the second model at SCORER_URL.

An outcome reward model gives one score for the solution. A process reward model gives a score for
each step, and STEP_SCORES combines them. A step is a paragraph, or a line in stepwise.py. The
reward model reads the problem's own statement, as published models were trained, and the
candidate's answer text. It writes no tokens."""

import asyncio
import math
from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from core.constants import ConstantGroup, constant
from core.types import SCORER, Ask, Member, Message, Population, Problem

BREAKS = {"line": "\n", "paragraph": "\n\n"}  # unit of a step -> the text between two steps
UNSCORED = "missing score"  # a note on a candidate
COMBINED: dict[str, Callable[[Sequence[float]], float]] = {
    "last": lambda scores: scores[-1],
    "min": min,
    "prod": math.prod,
    "mean": fmean,
}


class Rewarded(ConstantGroup):
    """The constants of SCORE=reward."""

    STEP_SCORES: str = constant(
        "last",
        "combination of the scores of a solution's steps into its own",
        choices=tuple(COMBINED),
    )


async def score(problem: Problem, population: Population, t: int, ask: Ask, config: Any) -> None:
    """Set `self_score` and `side_calls` of each member with an answer. Without a score, a member
    gets a note. `t`: the step."""
    between = BREAKS[getattr(config, "STEP", "paragraph")]

    async def scored(i: int, member: Member) -> None:
        messages = texts_of(problem, member)
        reply = await ask(messages, "reward", t, i, to=SCORER, reward=between)
        member.side_calls = [reply]
        if reply.scores:
            member.self_score = COMBINED[config.STEP_SCORES](reply.scores)
        else:
            member.notes.append(UNSCORED)

    written = ((i, member) for i, member in enumerate(population) if member.completion.text)
    await asyncio.gather(*(scored(i, member) for i, member in written))


def texts_of(problem: Problem, member: Member) -> list[Message]:
    """Return the messages that a reward model scores: the problem, and the member's answer."""
    return [
        {"role": "user", "content": problem.statement},
        {"role": "assistant", "content": member.completion.text.strip()},
    ]
