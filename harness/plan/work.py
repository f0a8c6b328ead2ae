"""Compute the requests of a run: of a scaffold from its constants and the number of problems, or of
another task.

Grading, training in rounds and proof search are tasks. The method `work` of a Task computes their
requests.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic

import numpy as np

from core.constants import A, Asking, Constants
from core.engines.cards import Card
from core.prompts import sampling_for
from core.types import Bounded, Problem
from harness.plan.lengths import FORCED_TOKENS, Lengths, Sample, log_normal
from harness.plan.roofline import Kind, Load
from harness.scaffolds.verification import SCORES

_ANY_PROBLEM = Problem("", "", None)
OTHERS = ("others",)  # the kind of all completions other than RSA's solutions and verifications


def loads_of(config: Asking, count: int, lengths: Lengths, planned: Bounded) -> list[Load]:
    """Return the requests of `count` problems, one load for each kind of request.

    RSA's solutions and the requests for scores are known. If the scaffold's max_completions allows
    more, the last load has the rest. The estimate assumes one solution in each of their prompts,
    and with ELICIT=1 that each solution is continued. At most, every completion is truncated and
    continued, and every prompt has the longest candidates.
    """
    requests = _Requests(config, count, lengths)
    most = count * planned.max_completions(config)
    result = []
    for t in range(requests.steps + 1):
        result.append(requests.solutions(t))
        if t < requests.steps and requests.per_score:
            result.append(requests.scores(t, requests.samples))
    rest = most - sum(load.count for load in result)
    if rest > 0 and not requests.steps and requests.per_score:  # every solution gets a score
        scores = requests.scores(0, most // (1 + requests.per_score))
        result.append(scores)
        rest -= scores.count
    if rest > 0:
        result.append(requests.others(rest))
    return result


class _Requests:
    """The requests of RSA's steps, for `count` problems."""

    def __init__(self, config: Asking, count: int, lengths: Lengths) -> None:
        self._constants: dict[str, Any] = vars(config)
        self._lengths = lengths
        self._cap = config.MAX_TOKENS
        self.samples = count * self._constants.get("N", 1)
        self._candidates = self._constants.get("K", 0)
        self._sampling = sampling_for(_ANY_PROBLEM, config)
        if self._sampling.elicit:
            self._more_tokens = self._sampling.elicited_tokens
        else:
            self._more_tokens = self._sampling.answer_tokens
        # of a candidate after its thinking, and with its thinking
        self._longest_answer = max(self._cap, self._more_tokens)
        self._longest = self._cap + self._more_tokens
        self.steps: int = self._constants.get("T", 0)
        self._scoring = SCORES.get(self._constants.get("SCORE", ""))
        # requests for the score of one solution
        self.per_score = self._scoring.requests(config) if self._scoring else 0

    def solutions(self, t: int) -> Load:
        """Return the solutions of step `t`, which aggregate K candidates if t > 0."""
        prompt = most_prompt = self._lengths.prompt
        if t > 0:
            before = self._mean_solution(t - 1)
            answer = min(self._lengths.answer, before)
            prompt += self._candidates * self._carried(answer, before)
            most_prompt += self._candidates * self._most_carried()
        sample = self._solution_lengths(t)
        return self._load((t,), self.samples, prompt, most_prompt, sample, self._cap)

    def scores(self, t: int, solutions: int) -> Load:
        """Return the requests that score this number of `solutions` of step `t`."""
        prompt = self._lengths.prompt + min(self._lengths.answer, self._cap)
        most_prompt = self._lengths.prompt + self._longest_answer
        count = solutions * self.per_score
        if self._scoring and not self._scoring.thinks:  # one token
            return Load(("verify", t), count, prompt, np.ones(1), at_most=(most_prompt, 1))
        sample = self._lengths.verifications
        cap = self._constants["VERIFY_TOKENS"]
        return self._load(("verify", t), count, prompt, most_prompt, sample, cap)

    def others(self, count: int) -> Load:
        """Return `count` other completions, which follow the last solutions."""
        solution = self._mean_solution(self.steps)
        answer = min(self._lengths.answer, solution)
        is_summary = self._constants.get("CARRY") == "summary"
        prompt = self._lengths.prompt + (solution if is_summary else answer)
        most_prompt = self._lengths.prompt + max(1, self._candidates) * self._most_carried()
        sample = self._lengths.solutions[-1]
        return self._load(OTHERS, count, prompt, most_prompt, sample, self._cap)

    def _solution_lengths(self, t: int) -> Sample:
        measured = self._lengths.solutions
        return measured[min(t, len(measured) - 1)]

    def _mean_solution(self, t: int) -> float:
        return float(np.minimum(self._solution_lengths(t), self._cap).mean())

    def _carried(self, answer: float, whole: float) -> float:
        """Return the tokens that a prompt shows of a candidate with these tokens. A summary is
        assumed to be as long as an answer."""
        carry = self._constants.get("CARRY", "answer")
        if carry in ("answer", "summary"):
            return answer
        if carry == "tail":
            return float(min(self._constants.get("CARRY_TOKENS", 0), whole))
        return whole

    def _most_carried(self) -> float:
        if self._constants.get("CARRY") == "summary":
            return self._longest  # of a candidate whose summary is empty
        return self._carried(self._longest_answer, self._longest)

    def _load(
        self,
        kind: Kind,
        count: int,
        prompt: float,
        most_prompt: float,
        sample: Sample,
        cap: int,
    ) -> Load:
        """Return a load. Truncated completions and elicited solutions get another request for a few
        tokens."""
        is_check = kind[0] == "verify"
        forced = self._sampling.answer_tokens if is_check else self._more_tokens
        if self._sampling.elicit and not is_check:
            cut = 1.0
        elif forced:
            cut = float((sample >= cap).mean())
        else:
            cut = 0.0
        # forced answers and waits repeat prompt and thinking
        repeats = self._sampling.waits + (1 if forced else 0)
        return Load(
            kind,
            count,
            prompt,
            np.minimum(sample, cap),
            cut,
            min(forced, FORCED_TOKENS),
            at_most=(most_prompt + repeats * (most_prompt + cap), cap + forced),
        )


def at_cap(config: Constants, lengths: Lengths) -> Lengths:
    """Return `lengths` with every completion truncated. The answers that aggregation reads keep
    their length."""
    verify_tokens = vars(config).get("VERIFY_TOKENS", 1)
    return replace(
        lengths,
        solutions=(np.array([float(config.MAX_TOKENS)]),),
        verifications=np.array([float(verify_tokens)]),
    )


@dataclass(frozen=True)
class Requests:
    """At most `count` requests of one kind. Each request reads about `prompt` tokens and writes at
    most `cap` tokens. `median` is the assumed median of the written tokens. If it is 0, the
    requests are as long as solutions."""

    kind: str
    count: int
    prompt: float
    cap: int
    median: float = 0

    def load(self, lengths: Lengths) -> Load:
        """Return the requests as a load for the roofline model."""
        sample = log_normal(self.median) if self.median else lengths.solutions[-1]
        written = np.minimum(sample, self.cap)
        return Load((self.kind,), self.count, self.prompt, written, at_most=(0, self.cap))


@dataclass(frozen=True)
class Work:
    """The work of a task: its `requests`, and at most `trained` tokens of training. `title`
    describes it in a few words. `rows` are further rows of the plan."""

    title: str
    requests: tuple[Requests, ...]
    trained: float = 0
    rows: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Task(Generic[A]):
    """A task that can be run and planned. `work` computes its work from constants and a card, or
    raises UserError."""

    constants: type[A]
    work: Callable[[A, Card], Work]
