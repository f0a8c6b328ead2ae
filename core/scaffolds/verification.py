"""Self-verification: the model judges the answer text of each candidate (whatever CARRY is), with a score in [0, 1].

With VERIFY_MODE = "verdict", the model thinks and is asked for a last line "Verdict: True" or "Verdict: False". The
score is the mean of the readable verdicts among VERIFY_SAMPLES. With "p_true", the model does not think. The score is
P(True) from one token's logprobs (arXiv 2207.05221). An unreadable verdict is None. If all are None, so is the score.
"""

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from core.constants import Constants, constant
from core.scaffolds import prompts
from core.types import Ask, Completion, Message, Population, Problem

TOP_LOGPROBS = 20  # number of likely tokens to search for True and False, the most that servers return

# P(True) needs the model's own probabilities of a token. SGLang applies sampling parameters to them, so these are off.
ONE_TOKEN = {"max_tokens": 1, "opening": prompts.VERDICT, "top_logprobs": TOP_LOGPROBS}
ONE_TOKEN |= {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "min_p": 0.0}

_STATED = re.compile(
    # *+ never backtracks, so the search takes linear time on long white space
    r"verdict\s*+[:=]?+[\s*_`$]*+(?:\\boxed\{)?+(?:\\text\{)?+[\s*_`]*+(true|false)\b",
    re.IGNORECASE,
)
_LAST_LINE = re.compile(r"[\s*_`$]*+(?:\\boxed\{)?+(?:\\text\{)?+(true|false)[}\s*_`$.]*+", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Verifying(Constants):
    VERIFY_MODE: str = constant("verdict", "method of verifying a candidate", choices=("verdict", "p_true"))
    VERIFY_TOKENS: int = constant(8192, "token cap of one verdict, thinking included (1 for p_true)", 1, 1_000_000)
    VERIFY_SAMPLES: int = constant(1, "verdicts per candidate, or 1 for p_true (the score is their mean)", 1, 64)


def verdicts(config: Verifying) -> int:
    """Return VERIFY_SAMPLES, but 1 for P(True), because a repeated request gives the same probability."""
    return 1 if config.VERIFY_MODE == "p_true" else config.VERIFY_SAMPLES


class Judging(NamedTuple):
    """A way to judge a text: the request for a text, the beginning of a forced reply, and the score of a reply."""

    messages: Callable[[Problem, str], list[Message]]
    opening: str
    read: Callable[[str], float | None]


async def verify(
    problem: Problem, population: Population, t: int, ask: Ask, config: Verifying, judging: Judging | None = None
) -> None:
    """Set `self_score` (None: unreadable), `verdicts` and `side_calls` of each member with an answer. `t`: the step."""
    build, opening, read = judging or VERDICTS

    async def judge(i: int, j: int) -> tuple[Completion, float | None]:
        messages = build(problem, population[i].completion.text)
        if config.VERIFY_MODE == "p_true":
            check = await ask(messages, "verify", t, i, j, **ONE_TOKEN)
            return check, p_true(check.logprobs)
        check = await ask(messages, "verify", t, i, j, max_tokens=config.VERIFY_TOKENS, answer_opening=opening)
        return check, read(check.text)

    async def judge_member(i: int) -> None:
        member = population[i]
        judged = await asyncio.gather(*(judge(i, j) for j in range(verdicts(config))))
        member.side_calls = [check for check, _ in judged]
        member.verdicts = [verdict for _, verdict in judged]
        readable = [verdict for verdict in member.verdicts if verdict is not None]
        member.self_score = sum(readable) / len(readable) if readable else None

    await asyncio.gather(*(judge_member(i) for i, member in enumerate(population) if member.completion.text))


def read_verdict(text: str) -> float | None:
    """Return 1.0 for True, 0.0 for False, or None. The last "Verdict: …" counts, or else a last line of one word."""
    stated = _STATED.findall(text)
    if not stated:
        lines = text.strip().splitlines()
        alone = _LAST_LINE.fullmatch(lines[-1]) if lines else None
        if alone is None:
            return None
        stated = [alone.group(1)]
    return 1.0 if stated[-1].lower() == "true" else 0.0


def p_true(logprobs: Mapping[str, float]) -> float | None:
    """Return P(True) / (P(True) + P(False)), summed over their spellings, or None if `logprobs` has neither word."""
    mass = {"true": 0.0, "false": 0.0}
    for token, logprob in logprobs.items():
        word = token.strip(" \n\t\"'*_▁Ġ").lower()
        if word in mass:
            mass[word] += math.exp(min(0.0, logprob))
    total = mass["true"] + mass["false"]
    return mass["true"] / total if total > 0 else None


VERDICTS = Judging(prompts.verify, prompts.VERDICT, read_verdict)
