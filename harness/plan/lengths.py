"""Measure the lengths of completions and prompts in an earlier run of the model, or assume them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from core.base.errors import UserError, one_line
from core.base.files import checked_amount
from harness.results import read
from harness.results.model import CallCost, Head, MemberResult, ProblemResult

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
    standard = NormalDist()
    scores = np.array([standard.inv_cdf((i + 0.5) / SAMPLE) for i in range(SAMPLE)])
    return np.asarray(median * np.exp(SPREAD * scores), dtype=np.float64)


@dataclass(frozen=True)
class Lengths:
    """Lengths of completions and prompts in tokens. `solutions[t]` is a sample for step t. The last
    sample is also for all later steps. `speed` is the minimum and the maximum over the steps of the
    mean seconds per completion token, or None if it was not measured. `engine` is the kind of the
    engine that was measured, or ""."""

    solutions: tuple[Sample, ...]
    verifications: Sample
    prompt: float = PROMPT_TOKENS
    answer: float = ANSWER_TOKENS
    source: str = "assumed, not measured"
    speed: tuple[float, float] | None = None
    engine: str = ""


ASSUMED = Lengths((log_normal(MEDIAN_TOKENS),), log_normal(VERIFY_MEDIAN_TOKENS))


def measured(folder: Path, model: str, *names: str) -> Lengths | None:
    """Return the lengths in one results file of `model`, or None without a usable file. Files of an
    earlier name in `names` (OUT or an experiment) come first, then complete results, then newer
    files."""
    ranked = []
    for path in folder.glob("*.json"):
        with suppress(*FOREIGN):
            head, _ = read.read(path)
            if head.model["name"] == model:
                is_named = [head.experiment == name for name in names]
                ranked.append((is_named, head.complete, head.started, path))
    for *_, path in sorted(ranked, reverse=True):
        with suppress(*FOREIGN):
            head, problems = read.read(path)
            lengths = _lengths(path.name, head, problems)
            if lengths:
                return lengths
    return None


def _lengths(name: str, head: Head, problems: Iterable[ProblemResult]) -> Lengths | None:
    """Return the lengths in a results file, or None if it has too few counted completions, or
    prompts unlike RSA's."""
    steps = _steps(problems)
    members = [member for step in steps for member in step]
    speeds = _speeds(steps, checked_amount(head.engine["concurrency"]))
    if not speeds:
        return None
    if "T" not in head.config and any(member.parents for member in members):
        return None  # only RSA's prompts are known
    # The prompts of forced answers and waits contain their own thinking.
    plain = [member for member in members if member.unforced is None and not member.before_waits]
    first_prompts = [member.prompt_tokens or 0 for member in plain if not member.parents]
    prompt = float(np.mean(first_prompts or PROMPT_TOKENS))
    candidates = _candidates(plain, prompt)
    verifications = _verifications(members)
    has_candidates = head.config.get("CARRY") == "answer" and len(candidates) >= FEWEST
    has_checks = head.config.get("SCORE") == "verdict" and len(verifications) >= FEWEST
    lacking = []
    if not has_checks:
        lacking.append("verifications")
    if not has_candidates:
        lacking.append("candidates")
    return Lengths(
        solutions=tuple(_sample(step) for step in steps),
        verifications=np.maximum(1.0, verifications) if has_checks else ASSUMED.verifications,
        prompt=prompt,
        answer=max(0.0, float(np.mean(candidates))) if has_candidates else ASSUMED.answer,
        source=_source(name, head, members, lacking),
        speed=(min(speeds), max(speeds)),
        engine=str(head.engine.get("kind", "")),
    )


def _steps(problems: Iterable[ProblemResult]) -> list[list[MemberResult]]:
    """Return the counted completions of each step that has enough of them."""
    by_step = defaultdict[int, list[MemberResult]](list)
    for problem in problems:
        for step in problem.steps:
            counted = [member for member in step.members if member.is_counted]
            by_step[step.step] += [member for member in counted if member.error is None]
    return [by_step[t] for t in sorted(by_step) if len(by_step[t]) >= FEWEST]


def _speeds(steps: Iterable[Sequence[MemberResult]], concurrency: float) -> list[float]:
    """Return the mean seconds per completion token of each step. A run with fewer members than
    `concurrency` keeps fewer requests in flight, about one a member."""
    speeds = []
    for members in steps:
        calls: list[CallCost] = []
        for member in members:
            calls += [call for call in member.calls if call.is_counted]
        in_flight = min(concurrency, len(members))
        written = in_flight * sum(call.completion_tokens or 0 for call in calls)
        if written:
            speeds.append(sum(call.seconds for call in calls) / written)
    return speeds


def _candidates(members: Iterable[MemberResult], prompt: float) -> list[float]:
    """Return the mean tokens of a candidate in each aggregation. `prompt` is the length of a prompt
    without candidates."""
    lengths = []
    for member in members:
        if member.parents:
            more = (member.prompt_tokens or 0) - prompt
            lengths.append(more / len(member.parents))
    return lengths


def _verifications(members: Iterable[MemberResult]) -> list[float]:
    """Return the tokens of each counted side call."""
    lengths: list[float] = []
    for member in members:
        counted = [call for call in member.side_calls if call.is_counted]
        lengths += [call.completion_tokens or 0 for call in counted]
    return lengths


def _sample(members: Iterable[MemberResult]) -> Sample:
    return np.array([max(1.0, member.completion_tokens or 0) for member in members])


def _source(name: str, head: Head, members: Sequence[MemberResult], lacking: Sequence[str]) -> str:
    """Describe the results that were measured, and the lengths that they lack."""
    cut = sum(member.finish_reason == "length" for member in members) / len(members)
    problems = head.problem_set["name"]
    cap = checked_amount(head.config["MAX_TOKENS"])
    source = (
        f"measured: {name} ({len(members):,} completions on {problems}, {cut:.0%} of them "
        f"truncated at {cap:,})"
    )
    if lacking:
        source += f". Assumed: {', '.join(lacking)}"
    return one_line(source)
