"""Score candidates: `score` sets `self_score` of each candidate with an answer text.

SCORES has one row for each value of the constant SCORE. A new score is one file and one row.

- "verdict": self-verification. The model judges the answer text (whatever CARRY is), thinks, and is
  asked for a last line "Verdict: True" or "Verdict: False". The score is the mean of the readable
  verdicts among VERIFY_SAMPLES, in [0, 1].
- "p_true": self-verification without thinking. The score is P(True) from one token's logprobs
  (arXiv 2207.05221).
- "confidence": the confidence of the candidate's own tokens (confidence.py).
- "reward": the score of a reward model (reward.py).

An unreadable verdict is None. If all are None, so is the score.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from core import prompts
from core.base.errors import UserError
from core.client.logprobs import ONE_TOKEN, word_share
from core.constants import Constants, constant
from core.rsa import Score
from core.types import (
    CONFIDENCE,
    P_TRUE,
    REWARD,
    SCORER,
    Ask,
    Member,
    Message,
    Population,
    Problem,
)
from harness.scaffolds import confidence, reward
from harness.scaffolds.common import UNREADABLE
from harness.scaffolds.confidence import Confident
from harness.scaffolds.reward import Rewarded
from harness.scaffolds.stated import read_verdict

VERDICT = "verdict"

Names = tuple[str | int, ...]


class Judging(NamedTuple):
    """A way to judge a text: the request for a text, the beginning of a forced reply, and the score
    of a reply."""

    messages: Callable[[Problem, str], list[Message]]
    opening: str
    read: Callable[[str], float | None]


VERDICTS = Judging(prompts.verify, prompts.VERDICT, read_verdict)


async def verify_one(
    problem: Problem,
    ask: Ask,
    config: Any,
    judging: Judging,
    member: Member,
    text: str,
    names: Sequence[Names],
) -> None:
    """Request a judgement of `text` under each of the `names`. Set `side_calls`, `verdicts` and
    `self_score` (the mean verdict) of `member`, and note unreadable verdicts. `config` has
    VERIFY_TOKENS."""
    messages = judging.messages(problem, text)
    is_token = getattr(config, "SCORE", "") == P_TRUE
    changes: dict[str, Any] = {
        "max_tokens": config.VERIFY_TOKENS,
        "answer_opening": judging.opening,
    }
    if is_token:
        changes = {**ONE_TOKEN, "opening": prompts.VERDICT}
    if getattr(config, "VERIFIER", "") == SCORER:
        changes["to"] = SCORER
    replies = await asyncio.gather(*(ask(messages, *name, **changes) for name in names))
    if is_token:
        verdicts = [p_true(reply.logprobs) for reply in replies]
    else:
        verdicts = [judging.read(reply.text) for reply in replies]
    readable = [verdict for verdict in verdicts if verdict is not None]
    unreadable = len(verdicts) - len(readable)
    member.side_calls = replies
    member.verdicts = verdicts
    member.self_score = sum(readable) / len(readable) if readable else None
    member.notes += [UNREADABLE] * unreadable


def verdict_count(config: Any) -> int:
    """Return VERIFY_SAMPLES, but 1 for P(True), because a repeated request gives the same
    probability."""
    return 1 if config.SCORE == P_TRUE else int(config.VERIFY_SAMPLES)


async def verify(
    problem: Problem,
    population: Population,
    t: int,
    ask: Ask,
    config: Any,
    judging: Judging = VERDICTS,
) -> None:
    """Set `self_score` (None: unreadable), `verdicts` and `side_calls` of each member with an
    answer. `t`: the step."""

    async def judged(i: int, member: Member) -> None:
        names: list[Names] = [("verify", t, i, j) for j in range(verdict_count(config))]
        await verify_one(problem, ask, config, judging, member, member.completion.text, names)

    written = ((i, member) for i, member in enumerate(population) if member.completion.text)
    await asyncio.gather(*(judged(i, member) for i, member in written))


def p_true(logprobs: Mapping[str, float]) -> float | None:
    """Return P(True) / (P(True) + P(False)), summed over their spellings, or None if `logprobs` has
    neither word."""
    return word_share(logprobs, "True", "False")


class Scoring(NamedTuple):
    """A way to score a population. `requests` returns how many requests a member needs. If
    `thinks`, they write up to VERIFY_TOKENS tokens each, else one. `changes` are fields of Sampling
    in the requests for solutions. `stage` names a population with scores."""

    score: Score
    requests: Callable[[Any], int]
    thinks: bool = False
    changes: Mapping[str, Any] = {}
    stage: str = "scored"


SCORES = {
    VERDICT: Scoring(verify, verdict_count, thinks=True, stage="verified"),
    P_TRUE: Scoring(verify, verdict_count, stage="verified"),
    CONFIDENCE: Scoring(confidence.score, lambda config: 0, changes={"confidences": True}),
    REWARD: Scoring(reward.score, lambda config: 1),
}


class Verifying(Constants, Confident, Rewarded):
    SCORE: str = constant(
        VERDICT,
        "score of a candidate: verdicts of the model, P(True), the confidence of its tokens, or a "
        "reward model at SCORER_URL",
        choices=tuple(SCORES),
    )
    VERIFY_TOKENS: int = constant(
        8192, "token cap of one verdict, thinking included (1 for p_true)", 1, 1_000_000
    )
    VERIFY_SAMPLES: int = constant(
        1, "verdicts per candidate, or 1 for p_true (the score is their mean)", 1, 64
    )
    VERIFIER: str = constant(
        "model",
        "the model that verifies: the run's, or the one at SCORER_URL (scorer)",
        choices=("model", SCORER),
    )

    def check(self) -> None:
        super().check()
        if self.VERIFIER == SCORER and self.SCORE == CONFIDENCE:
            raise UserError(
                "VERIFIER=scorer has no effect on SCORE=confidence, which asks no second model. "
                "Set VERIFIER=model, or SCORE=verdict"
            )


async def score(
    problem: Problem, population: Population, t: int, ask: Ask, config: Verifying
) -> None:
    """Set `self_score` of each member with an answer, as SCORE says. `t`: the step."""
    await SCORES[config.SCORE].score(problem, population, t, ask, config)


def score_requests(config: Verifying) -> int:
    """Return the number of requests that score a member."""
    return SCORES[config.SCORE].requests(config)


def solving(ask: Ask, config: Verifying) -> Ask:
    """Return the function that asks for solutions. Its replies have all that SCORE needs of
    them."""
    return partial(ask, **SCORES[config.SCORE].changes)
