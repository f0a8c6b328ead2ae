"""Propose tactics for a state with a model, each with the summed log probability of its tokens.

The policy sends CANDIDATES requests for a state, each for one tactic. A request's seed depends only
on SEED, the theorem, the state's text and the request's number. So equal states of a theorem get
equal requests.
"""

import asyncio
import hashlib
import re
import textwrap
from collections import Counter

from core.base.errors import UserError
from core.types import Ask, Completion, Message
from labs.lean.constants import LeanConstants
from labs.lean.search import Candidate, Failed, merged
from labs.lean.theorem import State

ASKED = """Lean 4 proof state:
{state}

Write the next tactic, and nothing else."""

# Names of counts: all requests, and the reasons why some add no tactic.
REQUESTS, FAILED, CUT, EMPTY, UNSUMMED, REPEATED = (
    "requests",
    "failed",
    "cut off",
    "empty",
    "no sum",
    "repeated",
)

OVERFLOW = "context overflow"  # how the error begins if a prompt exceeds the server's context

_FENCED = re.compile(r"\s*```(?:(?:lean4?|tactics?)(?![^\s`]))?(.*?)(?:```)?", re.DOTALL)


def asked(state: str) -> list[Message]:
    """Return the messages that request a tactic for a state, in searches and in training."""
    return [{"role": "user", "content": ASKED.format(state=state)}]


def tactic_in(text: str) -> str:
    """Return the tactic in a model's reply, without code fences, surrounding space and common
    indentation."""
    fenced = _FENCED.fullmatch(text.rstrip())
    text = textwrap.dedent((fenced[1] if fenced else text).strip("\n")).strip()
    is_quoted = len(text) > 2 and text[0] == text[-1] == "`" and "`" not in text[1:-1]
    return text[1:-1].strip() if is_quoted else text


class Policy:
    """A policy that proposes tactics for the states of one theorem. `counts`: requests by
    result."""

    def __init__(self, theorem: str, ask: Ask, config: LeanConstants) -> None:
        self.theorem, self.config, self._ask = theorem, config, ask
        self.counts: Counter[str] = Counter()
        self._is_summed = False  # whether any completion had a summed log probability

    async def __call__(self, state: State) -> list[Candidate] | Failed:
        """Return different tactics, the likeliest first, or Failed if all requests fail. Raises
        UserError if the server returns no logprobs."""
        completions = await asyncio.gather(
            *(self._one(state.pp, number) for number in range(self.config.CANDIDATES))
        )
        self.counts[REQUESTS] += len(completions)
        errors = [each.error for each in completions if each.error]
        self.counts[FAILED] += len(errors)
        if len(errors) == len(completions):
            return Failed(
                errors[0], is_too_long=all(error.startswith(OVERFLOW) for error in errors)
            )
        answered = [each for each in completions if not each.error]
        self._is_summed = self._is_summed or any(each.logprob is not None for each in answered)
        if not self._is_summed and any(_text(each).strip() for each in answered):
            raise UserError(
                "the policy's server does not return the log probabilities (logprobs) of all "
                "tokens, which the search "
                "needs. Serve the model with SGLang, vLLM or llama.cpp, and make sure that its "
                "card does not contain "
                'never = ["logprobs"]'
            )
        found = [candidate for each in answered if (candidate := self._candidate(each))]
        unique = merged(found)
        self.counts[REPEATED] += len(found) - len(unique)
        return sorted(unique, key=lambda candidate: (-candidate[1], candidate[0]))

    async def _one(self, state: str, number: int) -> Completion:
        name = hashlib.sha256(state.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return await self._ask(
            asked(state),
            *("tactic", self.theorem, name, number),
            temperature=self.config.TEMPERATURE,
            max_tokens=self.config.MAX_TOKENS,
            answer_tokens=0,
            waits=0,
            opening=self.config.OPENING,
            stop="\n" if self.config.ENDS == "line" else "",
            sum_logprobs=True,
        )

    def _candidate(self, completion: Completion) -> Candidate | None:
        """Return a completion's tactic and log probability. If either is missing, count why and
        return None."""
        tactic = tactic_in(_text(completion).removeprefix(self.config.OPENING))
        if self.config.ENDS == "line":  # for a server that ignores the stop text
            tactic = tactic.partition("\n")[0].rstrip()
        if tactic and not completion.truncated and completion.logprob is not None:
            return tactic, completion.logprob
        self.counts[CUT if completion.truncated else EMPTY if not tactic else UNSUMMED] += 1
        return None


def _text(completion: Completion) -> str:
    # A server that separates thinking may classify a model's whole reply as thinking.
    return completion.text or completion.thinking
