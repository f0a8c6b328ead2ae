"""Measure the lengths of completions and prompts in an earlier run of the model, or assume them."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from core.base.errors import UserError, one_line
from core.base.files import amount
from harness.results import read
from harness.results.model import Head, MemberResult, ProblemResult

# Assumptions until a run measures the lengths, because no lengths of QED-Nano on AIME are
# published. Reasoning models have roughly log-normal lengths. With this median, a solution has 7.6k
# tokens on average under a cap of 16,384. The 1,440 completions of 02_rsa_basic then have 11M
# tokens, as in the project's first estimate for an RTX 4090.
MEDIAN_TOKENS = 6400  # tokens of a solution with its thinking
VERIFY_MEDIAN_TOKENS = 3000  # tokens of a verification
SPREAD = 0.8  # standard deviation of a length's logarithm
PROMPT_TOKENS = 200  # tokens of a statement with instructions
ANSWER_TOKENS = 700  # tokens of a solution after its thinking, which aggregation reads
# tokens of an answer that is forced at the cap (or ANSWER_TOKENS, if it is lower)
FORCED_TOKENS = 64
SAMPLE = 400  # points that represent a distribution
FEWEST = 8  # least number of measured completions that replaces an assumption
# errors for a file of another program, or without a cap
FOREIGN = (UserError, KeyError, ValueError)

Sample = NDArray[np.float64]


def log_normal(median: float) -> Sample:
    """Return the assumed distribution of lengths in tokens, as SAMPLE quantiles of equal weight."""
    z = [NormalDist().inv_cdf((i + 0.5) / SAMPLE) for i in range(SAMPLE)]
    return np.asarray(median * np.exp(SPREAD * np.array(z)), dtype=np.float64)


@dataclass(frozen=True)
class Lengths:
    """Lengths of completions and prompts in tokens. `solutions[t]` is a sample for step t. The last
    sample is also for all later steps. `speed` is the minimum and the maximum over the steps of the
    mean seconds per completion token, or None if it was not measured."""

    solutions: tuple[Sample, ...]
    verifications: Sample
    prompt: float = PROMPT_TOKENS
    answer: float = ANSWER_TOKENS
    source: str = "assumed, not measured"
    speed: tuple[float, float] | None = None


ASSUMED = Lengths((log_normal(MEDIAN_TOKENS),), log_normal(VERIFY_MEDIAN_TOKENS))


def measured(folder: Path, model: str, *names: str) -> Lengths | None:
    """Return the lengths in one results file of `model`, or None without a usable file. Files of an
    earlier name in `names` (OUT or an experiment) come first, then complete results, then newer
    files."""
    ranked: list[tuple[tuple[list[bool], bool, str], Path]] = []
    for path in folder.glob("*.json"):
        with suppress(*FOREIGN):
            head, _ = read.read(path)
            if head.model["name"] == model:
                ranked.append(
                    (
                        ([head.experiment == each for each in names], head.complete, head.started),
                        path,
                    )
                )
    for _, path in sorted(ranked, reverse=True):
        with suppress(*FOREIGN):
            if found := _lengths(path.name, *read.read(path)):
                return found
    return None


def _lengths(name: str, head: Head, problems: Iterable[ProblemResult]) -> Lengths | None:
    """Return the lengths in a results file, or None if it has too few counted completions, or
    prompts unlike RSA's."""
    by_step = defaultdict[int, list[MemberResult]](list)
    for problem in problems:
        for step in problem.steps:
            by_step[step.step] += [m for m in step.members if m.error is None and m.is_counted]
    config = head.config
    cap, concurrency = amount(config["MAX_TOKENS"]), amount(head.engine["concurrency"])
    steps = [of for _, of in sorted(by_step.items()) if len(of) >= FEWEST]
    members, speeds = [m for step in steps for m in step], []
    for of in steps:
        calls = [call for m in of for call in m.calls if call.is_counted]
        if written := concurrency * sum(call.completion_tokens or 0 for call in calls):
            speeds.append(sum(call.seconds for call in calls) / written)
    if not speeds or ("T" not in config and any(m.parents for m in members)):
        return None  # only RSA's prompts are known
    # The prompts of forced answers and waits contain their own thinking.
    whole = [m for m in members if m.unforced is None and not m.before_waits]
    prompt = float(np.mean([m.prompt_tokens or 0 for m in whole if not m.parents] or PROMPT_TOKENS))
    carried = [((m.prompt_tokens or 0) - prompt) / len(m.parents) for m in whole if m.parents]
    checks = [
        call.completion_tokens or 0 for m in members for call in m.side_calls if call.is_counted
    ]
    has_checks = config.get("VERIFY_MODE") == "verdict" and len(checks) >= FEWEST
    has_candidates = config.get("CARRY") == "answer" and len(carried) >= FEWEST
    lacking = ["verifications"] * (not has_checks) + ["candidates"] * (not has_candidates)
    cut = sum(m.finish_reason == "length" for m in members) / len(members)
    source = f"measured: {name} ({len(members):,} completions on {head.problem_set['name']}, "
    source += f"{cut:.0%} of them truncated at {cap:,})" + (
        f". Assumed: {', '.join(lacking)}" if lacking else ""
    )
    return Lengths(
        tuple(np.array([max(1.0, m.completion_tokens or 0) for m in step]) for step in steps),
        np.maximum(1.0, checks) if has_checks else ASSUMED.verifications,
        prompt,
        max(0.0, float(np.mean(carried))) if has_candidates else ASSUMED.answer,
        one_line(source),
        (min(speeds), max(speeds)),
    )
