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
from core.types import Bounded, Sampling
from harness.plan.lengths import FORCED_TOKENS, Lengths, Sample, log_normal
from harness.plan.roofline import Kind, Load

OTHERS = ("others",)  # the kind of all completions other than RSA's solutions and verifications


def loads(config: Asking, count: int, lengths: Lengths, planned: Bounded) -> list[Load]:
    """Return the requests of `count` problems, one load for each kind of request.

    RSA's solutions and verifications are known. If the scaffold's max_completions allows more, the
    last load has the rest. The estimate assumes one solution in each of their prompts, and with
    ELICIT=1 that each solution is continued. At most, every completion is truncated and continued,
    and every prompt has the longest candidates.
    """
    known: dict[str, Any] = vars(config)
    steps, n, k, cap = (
        known.get("T", 0),
        count * known.get("N", 1),
        known.get("K", 0),
        config.MAX_TOKENS,
    )
    sampling = Sampling.of(config, answer_type="integer")
    more = sampling.elicited_tokens if sampling.elicit else sampling.answer_tokens
    longest_answer, longest = max(cap, more), cap + more

    def load(
        kind: Kind,
        requests: int,
        prompt: float,
        longest_prompt: float,
        sample: Sample,
        new: int = cap,
    ) -> Load:
        """Return a load. Truncated completions and elicited solutions get another request for a few
        tokens."""
        is_check = kind[0] == "verify"
        forced = sampling.answer_tokens if is_check else more
        cut = (
            1.0
            if sampling.elicit and not is_check
            else float((sample >= new).mean())
            if forced
            else 0.0
        )
        # such requests repeat prompt and thinking
        again = (bool(forced) + sampling.waits) * (longest_prompt + new)
        most = longest_prompt + again, new + forced
        return Load(
            kind, requests, prompt, np.minimum(sample, new), cut, min(forced, FORCED_TOKENS), most
        )

    def carried(answer: float, whole: float) -> float:
        """Return the tokens that a prompt shows of a candidate with these tokens."""
        parts = {"answer": answer, "tail": min(known.get("CARRY_TOKENS", 0), whole), "full": whole}
        return float(parts[known.get("CARRY", "answer")])

    result: list[Load] = []
    before = 0.0  # mean length of the previous step's solutions
    for t in range(steps + 1):
        solutions = lengths.solutions[min(t, len(lengths.solutions) - 1)]
        shown, most_shown = (
            carried(min(lengths.answer, before), before),
            carried(longest_answer, longest),
        )
        shown, most_shown = (k * each if t else 0 for each in (shown, most_shown))
        result.append(load((t,), n, lengths.prompt + shown, lengths.prompt + most_shown, solutions))
        before = float(np.minimum(solutions, cap).mean())
        if t < steps and "VERIFY_MODE" in known:
            seen, most_seen = (
                lengths.prompt + min(lengths.answer, cap),
                lengths.prompt + longest_answer,
            )
            if known["VERIFY_MODE"] == "p_true":  # one token, without thinking
                result.append(Load(("verify", t), n, seen, np.ones(1), most=(most_seen, 1)))
            else:
                times, new = n * known["VERIFY_SAMPLES"], known["VERIFY_TOKENS"]
                result.append(
                    load(("verify", t), times, seen, most_seen, lengths.verifications, new)
                )
    if (rest := count * planned.max_completions(config) - sum(each.count for each in result)) > 0:
        prompt, most = min(lengths.answer, before), max(1, k) * carried(longest_answer, longest)
        result.append(
            load(
                OTHERS, rest, lengths.prompt + prompt, lengths.prompt + most, lengths.solutions[-1]
            )
        )
    return result


def at_cap(config: Constants, lengths: Lengths) -> Lengths:
    """Return `lengths` with every completion truncated. The answers that aggregation reads keep
    their length."""
    full, checks = (
        np.array([float(config.MAX_TOKENS)]),
        np.array([float(vars(config).get("VERIFY_TOKENS", 1))]),
    )
    return replace(lengths, solutions=(full,), verifications=checks)


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
        return Load(
            (self.kind,), self.count, self.prompt, np.minimum(sample, self.cap), most=(0, self.cap)
        )


@dataclass(frozen=True)
class Work:
    """The work of a task: its `requests`, and at most `trained` tokens of training. `of` describes
    it in a few words. `rows` are further rows of the plan."""

    of: str
    requests: tuple[Requests, ...]
    trained: float = 0
    rows: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Task(Generic[A]):
    """A task that can be run and planned. `work` computes its work from constants and a card, or
    raises UserError."""

    constants: type[A]
    work: Callable[[A, Card], Work]
