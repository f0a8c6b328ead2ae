"""Compute the number of completions and tokens of an experiment from its constants, for each kind of completion."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from core.constants import Asking, Constants
from core.plan.lengths import FORCED_TOKENS, Lengths, Sample
from core.plan.roofline import Kind, Load
from core.types import ELICITED_TOKENS, Bounded, Sampling

OTHERS = ("others",)  # the kind of all completions other than RSA's solutions and verifications


def loads(config: Asking, count: int, lengths: Lengths, planned: Bounded) -> list[Load]:
    """Return the requests of `count` problems, one load for each kind of request. If the scaffold's max_completions
    allows more, the last load has the rest. The estimate assumes one solution in each of their prompts, and with
    ELICIT=1 that each solution is continued."""
    known: dict[str, Any] = vars(config)
    steps: int = known.get("T", 0)
    cap, sampling = config.MAX_TOKENS, Sampling.of(config, answer_type="integer")
    forced, is_elicited = sampling.answer_tokens, bool(sampling.elicit)
    more = sampling.elicited_tokens if is_elicited else forced
    result: list[Load] = []
    before = 0.0  # mean length of the previous step's solutions
    for t in range(steps + 1):
        solutions = lengths.solutions[min(t, len(lengths.solutions) - 1)]
        prompt = lengths.prompt
        if t > 0:
            carried = {
                "answer": min(lengths.answer, before),
                "tail": min(float(known.get("CARRY_TOKENS", 0)), before),
                "full": before,
            }[carry(config)]
            prompt += known.get("K", 0) * carried
        before = float(np.minimum(solutions, cap).mean())
        result.append(_load((t,), count * known.get("N", 1), prompt, solutions, cap, more, is_elicited))
        if t < steps and "VERIFY_MODE" in known:
            seen = lengths.prompt + min(lengths.answer, cap)
            times = count * known["N"]
            if known["VERIFY_MODE"] == "p_true":  # one token, without thinking
                result.append(Load(("verify", t), times, seen, np.ones(1)))
            else:
                times *= known["VERIFY_SAMPLES"]
                checks, most = lengths.verifications, known["VERIFY_TOKENS"]
                result.append(_load(("verify", t), times, seen, checks, most, forced))
    if (rest := count * planned.max_completions(config) - sum(load.count for load in result)) > 0:
        prompt = lengths.prompt + min(lengths.answer, before)
        result.append(_load(OTHERS, rest, prompt, lengths.solutions[-1], cap, more, is_elicited))
    return result


def _load(kind: Kind, count: int, prompt: float, sample: Sample, cap: int, forced: int, is_all: bool = False) -> Load:
    """Return a load whose truncated completions, or all of them, get another request for `forced` tokens."""
    cut = 1.0 if is_all else float((sample >= cap).mean()) if forced else 0.0
    return Load(kind, count, prompt, np.minimum(sample, cap), cut, min(forced, FORCED_TOKENS))


def at_most(config: Constants, expected: Sequence[Load], count: int, statement: float) -> tuple[int, int]:
    """Return the most prompt and completion tokens of one run on `count` problems, if every completion is truncated and
    every prompt has the longest candidates. `statement` is the mean tokens of a statement with instructions."""
    known: dict[str, Any] = vars(config)
    steps, n = known.get("T", 0), count * known.get("N", 1)
    cap, forced = config.MAX_TOKENS, config.ANSWER_TOKENS
    forced = forced or config.ELICIT * ELICITED_TOKENS  # a completion is forced or elicited, not both
    answer, whole = max(cap, forced), cap + forced
    carried = {"answer": answer, "tail": min(known.get("CARRY_TOKENS", 0), whole), "full": whole}[carry(config)]

    def most(requests: int, prompt: float, most_new: int) -> tuple[float, float]:
        again = (bool(forced) + config.WAITS) * (prompt + most_new)  # such requests repeat the prompt and the thinking
        return requests * (prompt + again), requests * (most_new + forced)

    kinds = [most(n, statement, cap), most(n * steps, statement + known.get("K", 0) * carried, cap)]
    if known.get("VERIFY_MODE") == "p_true":
        kinds.append((n * steps * (statement + answer), n * steps))
    elif "VERIFY_MODE" in known:
        kinds.append(most(n * steps * known["VERIFY_SAMPLES"], statement + answer, known["VERIFY_TOKENS"]))
    rest = sum(load.count for load in expected if load.kind == OTHERS)
    kinds.append(most(rest, statement + max(1, known.get("K", 1)) * carried, cap))
    prompts, completions = (sum(column) for column in zip(*kinds, strict=True))
    return round(prompts), round(completions)


def at_cap(config: Constants, lengths: Lengths) -> Lengths:
    """Return `lengths` with every completion truncated. The answers that aggregation reads keep their length."""
    full, checks = np.array([float(config.MAX_TOKENS)]), np.array([float(vars(config).get("VERIFY_TOKENS", 1))])
    return replace(lengths, solutions=(full,), verifications=checks)


def carry(config: Asking) -> str:
    return str(vars(config).get("CARRY", "answer"))
