"""The policy: a model proposes tactics for a state, each with the summed log probability of its tokens.

The CANDIDATES of a state are single requests. Their names, and so their seeds, follow from the theorem, the text of the
state and a number: the same state is answered in the same way whenever it is met, by searches with and without an
energy too, and a server shares the prefix among them.
"""

import asyncio
import hashlib
import re
import textwrap
from collections import Counter

from core.base.errors import UserError
from core.types import Ask, Completion, Message
from labs.lean.constants import LeanConstants
from labs.lean.search import Candidate, Failed, TooLong, merged
from labs.lean.theorem import State

ASKED = """Lean 4 proof state:
{state}

Write the next tactic, and nothing else."""

# What is counted: requests, and why some of them gave no tactic of their own.
REQUESTS, FAILED, CUT, EMPTY, UNSUMMED, REPEATED = "requests", "failed", "cut off", "empty", "no sum", "repeated"

OVERFLOW = "context overflow"  # how the error begins of a prompt that the server's context does not hold

_FENCED = re.compile(r"\s*```(?:(?:lean4?|tactics?)(?![^\s`]))?(.*?)(?:```)?", re.DOTALL)


def asked(state: str) -> list[Message]:
    """The messages that ask for a tactic: what a policy is trained on, too."""
    return [{"role": "user", "content": ASKED.format(state=state)}]


def tactic_in(text: str) -> str:
    """Return the tactic in a model's text: without code fences, the space around it and the indentation that all its
    lines share. "" if there is none."""
    fenced = _FENCED.fullmatch(text.rstrip())
    text = textwrap.dedent((fenced[1] if fenced else text).strip("\n")).strip()
    is_quoted = len(text) > 2 and text[0] == text[-1] == "`" and "`" not in text[1:-1]
    return text[1:-1].strip() if is_quoted else text


class Policy:
    """Propose tactics for the states of one theorem, by `ask`. `counts`: requests, and what came of some."""

    def __init__(self, theorem: str, ask: Ask, config: LeanConstants) -> None:
        self.theorem, self.config, self._ask = theorem, config, ask
        self.counts: Counter[str] = Counter()
        self._is_summed = False  # whether any completion had its sum

    async def __call__(self, state: State) -> list[Candidate]:
        """Return different tactics, the likeliest first. Raises TooLong for a state that the server's context does not
        hold, Failed if every request failed, and UserError for a model whose log probabilities are not given."""
        made = await asyncio.gather(*(self._one(state.pp, number) for number in range(self.config.CANDIDATES)))
        self.counts[REQUESTS] += len(made)
        errors = [each.error for each in made if each.error]
        self.counts[FAILED] += len(errors)
        if len(errors) == len(made):
            overflows = all(error.startswith(OVERFLOW) for error in errors)
            raise (TooLong if overflows else Failed)(errors[0])
        said = [each for each in made if not each.error]
        self._is_summed = self._is_summed or any(each.logprob is not None for each in said)
        if not self._is_summed and any(_said(each).strip() for each in said):
            raise UserError(
                "the policy's server does not give the log probabilities of all tokens that it counts (logprobs), and "
                "the search orders states by them. Serve the model with SGLang, vLLM or llama.cpp, without "
                'never = ["logprobs"] in its card'
            )
        found = [candidate for each in said if (candidate := self._candidate(each))]
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

    def _candidate(self, made: Completion) -> Candidate | None:
        """None, counted, for a completion without a tactic that can be ordered."""
        tactic = tactic_in(_said(made).removeprefix(self.config.OPENING))
        if self.config.ENDS == "line":  # for a server that does not heed the stop
            tactic = tactic.partition("\n")[0].rstrip()
        if tactic and not made.truncated and made.logprob is not None:
            return tactic, made.logprob
        self.counts[CUT if made.truncated else EMPTY if not tactic else UNSUMMED] += 1
        return None


def _said(made: Completion) -> str:
    """A server that splits off thinking may take for it all that a model says which does not think."""
    return made.text or made.thinking
