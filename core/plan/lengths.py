"""How long completions and prompts are: measured by earlier runs of the model, else assumed, and then said so."""

import math
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base.errors import UserError, one_line
from core.base.files import amount
from core.results import read
from core.results.model import CallCost, Head, MemberResult, ProblemResult

# Assumed until a run has measured them. Lengths are log-normal, as those of reasoning models nearly are. The median
# makes the mean 7.6k tokens under a cap of 16,384: 11M in the 1,440 completions of 02_rsa_basic, what the project's
# first estimate for an RTX 4090 supposed. No length of QED-Nano on AIME is published.
MEDIAN_TOKENS = 6400  # of a solution, thinking included
VERIFY_MEDIAN_TOKENS = 3000  # of a verification
SPREAD = 0.8  # standard deviation of a length's logarithm
PROMPT_TOKENS = 200  # statement and instructions
ANSWER_TOKENS = 700  # of a solution after thinking, as aggregation sees it
FORCED_TOKENS = 64  # of an answer that is forced at the cap, where ANSWER_TOKENS allow as many
SAMPLE = 400  # points that stand for a distribution
FEWEST = 8  # measured completions that replace an assumption
MOST = 5000  # completions of one results file that are looked at, and files: a run must start at once
MOST_FILES = 20
FOREIGN = (UserError, KeyError, ValueError)  # no file of ours, or no cap in it

Sample = NDArray[np.float64]


def log_normal(median: float) -> Sample:
    """The assumed distribution, as SAMPLE quantiles of equal weight."""
    z = [NormalDist().inv_cdf((i + 0.5) / SAMPLE) for i in range(SAMPLE)]
    return np.asarray(median * np.exp(SPREAD * np.array(z)), dtype=np.float64)


@dataclass(frozen=True)
class Lengths:
    """Tokens of completions and prompts. `solutions[t]` samples step t, its last entry all later steps. `assumed`:
    the fields that no results measured. `cap`: what solutions were cut off at when they were measured. `speed`: seconds
    of the whole engine per completion token, the least and the most of any step; None where not measured."""

    solutions: tuple[Sample, ...]
    verifications: Sample
    prompt: float = PROMPT_TOKENS
    answer: float = ANSWER_TOKENS
    source: str = "assumed, not measured"
    assumed: tuple[str, ...] = ("verifications", "answer")
    cap: float = math.inf
    speed: tuple[float, float] | None = None


ASSUMED = Lengths((log_normal(MEDIAN_TOKENS),), log_normal(VERIFY_MEDIAN_TOKENS))


def measured(folder: Path, model: str, experiment: str = "") -> Lengths | None:
    """Lengths from the results of `model` in `folder`, of any experiment; None where there are none. Results of
    `experiment` go first, then complete ones, then the newest. What the first lack comes from the others, or stays
    assumed."""
    ranked: list[tuple[tuple[bool, bool, str], Path]] = []
    for path in folder.glob("*.json"):
        with suppress(*FOREIGN):
            head, _ = read.read(path)
            if head.model["name"] == model:
                ranked.append(((head.experiment == experiment, head.complete, head.started), path))
    best: Lengths | None = None
    for _, path in sorted(ranked, reverse=True)[:MOST_FILES]:
        with suppress(*FOREIGN):
            if other := _lengths(path.name, *read.read(path)):
                best = best or other
                found: dict[str, Any] = {
                    name: getattr(other, name) for name in best.assumed if name not in other.assumed
                }
                left = tuple(name for name in best.assumed if name not in found)
                source = "".join([best.source, *(f"; {name} from {one_line(path.name)}" for name in found)])
                best = replace(best, source=source, assumed=left, **found)
        if best and not best.assumed:
            return best
    return best and replace(best, source=f"{best.source}; assumed: {', '.join(best.assumed)}")


def _lengths(name: str, head: Head, problems: Iterable[ProblemResult]) -> Lengths | None:
    """What the first problems of a results file measure; None where it has too few completions, or no counts of
    tokens."""
    by_step: dict[int, list[MemberResult]] = {}
    seen = 0
    for problem in problems:
        for step in problem.steps:
            made = [m for m in step.members if m.cost.error is None and m.cost.is_counted]
            by_step.setdefault(step.step, []).extend(made)
            seen += len(step.members)
        if seen >= MOST:
            break
    config = head.config
    cap, concurrency = amount(config["MAX_TOKENS"]), amount(head.engine["concurrency"])
    steps = [by_step[t] for t in sorted(by_step) if len(by_step[t]) >= FEWEST]
    members = [m for step in steps for m in step]
    if not _tokens(members) or not concurrency or ("T" not in config and any(m.parents for m in members)):
        return None  # a scaffold that is not RSA reads and writes other things
    # What is forced or waits is asked for with its own thinking.
    whole = [m for m in members if m.unforced is None and not m.before_waits]
    prompt = float(np.mean([m.cost.prompt_tokens or 0 for m in whole if not m.parents] or PROMPT_TOKENS))
    carried = [((m.cost.prompt_tokens or 0) - prompt) / len(m.parents) for m in whole if m.parents]
    if config.get("CARRY") != "answer":
        carried = []
    checks = [call.completion_tokens or 0 for m in members for call in _side_calls(m)]
    if config.get("VERIFY_MODE") != "verdict":
        checks = []
    cut = sum(m.cost.finish_reason == "length" for m in members) / len(members)
    measured = {"verifications": len(checks) >= FEWEST, "answer": len(carried) >= FEWEST}
    speeds = [_seconds(step) / concurrency / _tokens(step) for step in steps if _tokens(step)]
    return Lengths(
        tuple(_sample(step) for step in steps),
        np.maximum(1.0, checks) if measured["verifications"] else ASSUMED.verifications,
        prompt,
        max(0.0, float(np.mean(carried))) if measured["answer"] else ASSUMED.answer,
        one_line(
            f"measured: {name} ({len(members):,} completions on {head.problem_set['name']}, {cut:.0%} of them cut "
            f"off at {cap:,})"
        ),
        tuple(field for field, is_measured in measured.items() if not is_measured),
        cap if cut else math.inf,
        (min(speeds), max(speeds)),
    )


def _calls(members: Sequence[MemberResult]) -> list[CallCost]:
    return [call for m in members for call in (m.cost, *_side_calls(m))]


def _side_calls(member: MemberResult) -> list[CallCost]:
    return [call for call in member.side_calls if call.is_counted]


def _sample(members: Sequence[MemberResult]) -> Sample:
    return np.array([max(1, m.cost.completion_tokens or 0) for m in members], dtype=np.float64)


def _tokens(members: Sequence[MemberResult]) -> int:
    return sum(call.completion_tokens or 0 for call in _calls(members))


def _seconds(members: Sequence[MemberResult]) -> float:
    return float(sum(call.seconds for call in _calls(members)))
