"""How long completions and prompts are: measured by earlier runs of the model, else assumed, and then said so."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import UserError, one_line
from core.files import amount, read_json

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

Sample = NDArray[np.float64]


def log_normal(median: float) -> Sample:
    """The assumed distribution, as SAMPLE quantiles of equal weight."""
    z = [NormalDist().inv_cdf((i + 0.5) / SAMPLE) for i in range(SAMPLE)]
    return np.asarray(median * np.exp(SPREAD * np.array(z)), dtype=np.float64)


@dataclass(frozen=True)
class Lengths:
    """Tokens of completions and prompts. `solutions[t]` samples step t, its last entry all later steps. `assumed`:
    the fields that no results told. `cap`: what solutions were cut off at when they were measured. `speed`: seconds of
    the whole engine per completion token, the least and the most of any step; None where not measured."""

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
    found: list[tuple[tuple[bool, bool, str], str, Lengths]] = []
    for path in sorted(folder.glob("*.json")):
        try:
            data = read_json(path, "results", "")
            if data["schema"] == 1 and data["model"]["name"] == model and (lengths := _lengths(path.name, data)):
                rank = (data["experiment"] == experiment, bool(data["complete"]), str(data["started"]))
                found.append((rank, one_line(path.name), lengths))
        except (UserError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
            continue  # some other file, which is not ours to judge
    if not found:
        return None
    found.sort(key=lambda entry: entry[:2], reverse=True)
    best = found[0][2]
    for field in best.assumed:
        for _, name, other in found:
            if field not in other.assumed:
                left = tuple(each for each in best.assumed if each != field)
                told: dict[str, Any] = {field: getattr(other, field)}
                best = replace(best, source=f"{best.source}; {field} from {name}", assumed=left, **told)
                break
    return replace(best, source=f"{best.source}; assumed: {', '.join(best.assumed)}") if best.assumed else best


def _lengths(name: str, data: Mapping[str, Any]) -> Lengths | None:
    """What one results document tells; None where it has too few completions, or no counts of tokens."""
    by_step: dict[int, list[dict[str, Any]]] = {}
    for step in (step for problem in data["problems"] for step in problem["steps"]):
        made = [m for m in step["members"] if "error" not in m]
        by_step.setdefault(step["step"], []).extend(made)
        for each in (each for m in made for each in (m, *_checks(m))):
            for count in ("prompt_tokens", "completion_tokens", "seconds"):
                amount(each[count])
    cap, concurrency = amount(data["config"]["MAX_TOKENS"]), amount(data["engine"]["concurrency"])
    steps = [by_step[t] for t in sorted(by_step) if len(by_step[t]) >= FEWEST]
    members = [m for step in steps for m in step]
    if not _tokens(members):
        return None
    whole = [m for m in members if "unforced" not in m]  # a forced answer's prompt holds its own thinking
    prompt = float(np.mean([m["prompt_tokens"] for m in whole if not m["parents"]] or PROMPT_TOKENS))
    carried = [(m["prompt_tokens"] - prompt) / len(m["parents"]) for m in whole if m["parents"]]
    if data["config"].get("CARRY") != "answer":
        carried = []
    checks = [c["completion_tokens"] for m in members for c in _checks(m)]
    if data["config"].get("VERIFY_MODE") != "verdict":
        checks = []
    cut = sum(m["finish_reason"] == "length" for m in members) / len(members)
    told = {"verifications": len(checks) >= FEWEST, "answer": len(carried) >= FEWEST}
    speeds = [_seconds(step) / concurrency / _tokens(step) for step in steps if _tokens(step)]
    return Lengths(
        tuple(_sample(step) for step in steps),
        np.maximum(1.0, checks) if told["verifications"] else ASSUMED.verifications,
        prompt,
        max(0.0, float(np.mean(carried))) if told["answer"] else ASSUMED.answer,
        one_line(
            f"measured: {name} ({len(members):,} completions on {data['problem_set']['name']}, {cut:.0%} of them cut "
            f"off at {cap:,})"
        ),
        tuple(field for field, is_told in told.items() if not is_told),
        cap if cut else math.inf,
        (min(speeds), max(speeds)),
    )


def _checks(member: Mapping[str, Any]) -> list[dict[str, Any]]:
    return list(member.get("checks", []))


def _sample(members: Sequence[Mapping[str, Any]]) -> Sample:
    return np.array([max(1, m["completion_tokens"]) for m in members], dtype=np.float64)


def _tokens(members: Sequence[Mapping[str, Any]]) -> int:
    return sum(each["completion_tokens"] for m in members for each in (m, *_checks(m)))


def _seconds(members: Sequence[Mapping[str, Any]]) -> float:
    return float(sum(each["seconds"] for m in members for each in (m, *_checks(m))))
