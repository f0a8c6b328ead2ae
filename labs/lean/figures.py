"""What searches of many theorems come to: rates with intervals at several budgets, and tables."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median
from typing import Any

from core.base.stats import Paired, mean_by_problem, paired
from core.report.table import Column, Table
from core.report.tables import interval, shift
from labs.lean.outcome import Outcome
from labs.lean.search import REFUSED

LEAST_GAIN = 0.05  # of the rate, by an iteration behind the first: with less, the searches cost more than they give
REMEDY = "Give more MAX_NODES and CANDIDATES, easier THEOREMS, or a MODEL that was taught pairs (docs/lean.md)"
PARTS = ("lean", "policy", "energy", "accept")  # of a search's seconds


def solved(outcomes: Sequence[Outcome], nodes: int) -> list[float]:
    """1 for each theorem whose proof the search had within its first `nodes`, else 0."""
    return [float(outcome.at is not None and outcome.at <= nodes) for outcome in outcomes]


def figures(outcomes: Sequence[Outcome], budgets: Sequence[int]) -> dict[str, Any]:
    """For the record. `solved` by budget, as rates over theorems with their intervals."""
    proved = [outcome for outcome in outcomes if outcome.is_proved]
    unique = [count for outcome in outcomes for count in outcome.unique]
    return {
        "theorems": len(outcomes),
        "solved": {str(nodes): mean_by_problem(solved(outcomes, nodes)).to_json() for nodes in budgets},
        "unique": fmean(unique) if unique else None,
        "proposed": sum(unique),
        "refused": sum(n for of in outcomes for why, n in of.failures.items() if why.startswith(REFUSED)),
        "nodes": sum(outcome.nodes for outcome in outcomes),
        "nodes_to_proof": median(outcome.at or 0 for outcome in proved) if proved else None,
        "seconds_to_proof": median(outcome.seconds["all"] for outcome in proved) if proved else None,
        "longest_proof": max((len(outcome.proof) for outcome in proved), default=None),
        **summed(outcomes),
    }


def summed(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Add up the reasons, failures, requests and seconds of all."""

    def added(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
        total: Counter[str] = Counter()
        for part in parts:
            total.update(part)
        return dict(total.most_common())

    return {
        "reasons": added({of.reason: 1} for of in outcomes if of.reason),
        "failures": added(of.failures for of in outcomes),
        "requests": added(of.counts for of in outcomes),
        "seconds": {name: round(value, 1) for name, value in added(of.seconds for of in outcomes).items()},
    }


def compared(before: Sequence[Outcome], after: Sequence[Outcome], nodes: int) -> Paired:
    """What `after` changes in the rate at `nodes`, paired by theorem. Raises ValueError for other theorems."""
    if [outcome.statement for outcome in before] != [outcome.statement for outcome in after]:
        raise ValueError("other theorems")
    return paired(solved(before, nodes), solved(after, nodes))


def gained(told: dict[str, Any]) -> str:
    """A Paired, as a record has it, in words."""
    return (
        f"{shift(told['difference'], told['low'], told['high'])} points "
        f"({told['wins']} won, {told['losses']} lost, p={told['p']:.2g})"
    )


def rate(made: dict[str, Any], nodes: int) -> str:
    """Of the figures, the rate within so many nodes, in percent with its interval."""
    return interval(made["solved"][str(nodes)])


def as_json(made: dict[str, Any]) -> bytes:
    return json.dumps(made, indent=1).encode() + b"\n"


def baseline(outcomes: Sequence[Outcome], nodes: int, least: float) -> tuple[bool, str]:
    """Judge a baseline: no go if it proves nothing, or if the whole interval of its rate is under `least`."""
    found = mean_by_problem(solved(outcomes, nodes))
    told = f"the baseline solves {interval(found.to_json())}%"
    if found.value and found.high >= least:
        return True, told
    why = f"under {100 * least:.0f}%, so that there is little to learn from" if found.value else "no theorem at all"
    return False, f"{told}, {why}. {REMEDY}"


def risen(gain: dict[str, Any], number: int) -> tuple[bool, str]:
    """Whether an iteration's gain is worth going on, by its paired interval: iteration 0's must be shown to be above 0;
    a later one's may not be shown to be under LEAST_GAIN, for what many searches gain a few cannot show."""
    before = f"iteration {number - 1}" if number else "the baseline"
    if gain["low"] > 0:
        return True, f"iteration {number} is better than {before}"
    if gain["high"] < 0:
        return False, f"iteration {number} is worse than {before}"
    told = f"iteration {number} is not shown to be better than {before}"
    if not number:
        return False, told
    least = f"{100 * LEAST_GAIN:.0f} points"
    if gain["high"] < LEAST_GAIN:
        return False, f"iteration {number} gains less than {least} on {before}"
    return True, f"{told}, and may have gained {least}"


def table(made: dict[str, Any]) -> str:
    """The figures of a search of many theorems, fit to be read."""
    solved = made["solved"]
    rates = [Column("within nodes", list(solved)), Column("solved, %", [interval(rate) for rate in solved.values()])]
    lines = [Table("", rates).body(), ""]
    if made["reasons"]:
        lines.append(f"not proved: {counts(made['reasons'])}")
    if made["failures"]:
        lines.append(f"tactics that came to nothing: {counts(made['failures'])}")
    if made["proposed"]:
        share = made["refused"] / made["proposed"]
        lines.append(f"refused by the guard: {share:.1%} of {made['proposed']:,} proposed tactics")
    if made["nodes_to_proof"] is not None:
        lines.append(
            f"to a proof (median): {made['nodes_to_proof']:.0f} nodes, {made['seconds_to_proof']:.1f} s; "
            f"the longest proof: {made['longest_proof']} tactics"
        )
    if made["unique"] is not None:
        lines.append(f"different tactics that the model proposed in a state, mean: {made['unique']:.2f}")
    whole = sum(made["seconds"].get(part, 0.0) for part in PARTS)
    if whole:
        shares = (f"{part} {100 * made['seconds'].get(part, 0.0) / whole:.0f}%" for part in PARTS)
        lines.append(f"share of the searches' time: {', '.join(shares)}")
    return "\n".join(lines)


def counts(by_name: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in by_name.items())
