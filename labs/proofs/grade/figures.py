"""Count graded proofs, gradings, missing grades and costs. The module core/results/points.py evaluates the points."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from core.base.prices import Prices, shown
from core.base.terminal import short
from core.report import tables
from core.results.model import total
from core.results.points import NOT_DELIVERED
from core.types import Completion
from labs.proofs.grade.asking import Item
from labs.proofs.proofs import BY_GRADER, BY_MATH_VERIFY, UNREADABLE, Points


def figures(items: Iterable[Item], points: Sequence[Points], prices: Prices | None) -> dict[str, Any]:
    """Return the counts of a grading, and the mean spread. `points` are the results for the proofs `items`."""
    spreads = [each.spread for each in _distinct(points) if each.spread is not None]
    return {
        **counts(points, prices),
        "problems": len({item.problem.id for item in items}),
        "by_math_verify": sum(each.by == BY_MATH_VERIFY for each in points),
        "self_evaluations": sum(each.left_out > 0 for each in points),
        "spread": sum(spreads) / len(spreads) if spreads else None,
    }


def counts(points: Sequence[Points], prices: Prices | None) -> dict[str, Any]:
    """Count proofs with a grade, proofs without a grade, gradings, tokens and dollars."""
    asked = _distinct(points)
    gradings = [grading for each in asked for grading in each.gradings if each.by == BY_GRADER]
    ungraded = Counter(each.ungraded for each in points)
    return {
        "proofs": len(points),
        "graded": sum(each.grade is not None for each in points),
        "not_delivered": {why: ungraded[why] for why in NOT_DELIVERED if ungraded[why]},
        "missing": dict(Counter(each.why for each in points if each.worth is None)),
        "gradings": len(gradings),
        "missing_gradings": dict(Counter(each.why or UNREADABLE for each in gradings if each.points is None)),
        "asked_again": sum(len(each.calls) - 1 for each in gradings),
        **cost([call for each in asked for call in each.calls], prices),
    }


def _distinct(points: Sequence[Points]) -> list[Points]:
    """Return each object once, because equal proofs share one Points object."""
    return list({id(each): each for each in points}.values())


def fields(points: Points, prices: Prices | None) -> dict[str, Any]:
    """Return the fields of a graded proof, by their names in results (core/report/jsonl.py has the names in lines)."""
    return {
        "grade": points.grade,
        "worth": points.worth,
        "ungraded": points.why,
        "graded_by": points.by if points.gradings else None,
        "grades": [each.points for each in points.gradings],
        "spread": points.spread,
        "reasons": [each.reason for each in points.gradings],
        "scheme": points.scheme,
        "self_evaluation_left_out": points.left_out,
        "grade_cost": cost(points.calls, prices),
    }


def cost(calls: Sequence[Completion], prices: Prices | None) -> dict[str, float | None]:
    """Return the tokens and dollars of `calls`. Failed calls count as free.
    A figure is None if the server did not count all its tokens. Dollars are also None without `prices`."""
    counted = [call.counted for call in calls if not call.error]
    return {
        "input_tokens": total([prompt for prompt, _, _ in counted]),
        "output_tokens": total([written for _, _, written in counted]),
        "cost": total([prices.dollars(each) for each in counted]) if prices else None,
    }


def described(of: dict[str, Any]) -> list[str]:
    """Return the lines of text that describe the result of `figures`."""
    lines = [f"{of['graded']:,} of {of['proofs']:,} proofs of {of['problems']:,} problems have a grade"]
    lines += tables.lacking(of)
    if of["by_math_verify"]:
        lines.append(f"answers that math-verify decided without the grader: {of['by_math_verify']:,}")
    if of["self_evaluations"]:
        lines.append(f"proofs whose self-evaluation was hidden from the grader: {of['self_evaluations']:,}")
    if of["spread"] is not None:
        lines.append(f"mean standard deviation of a proof's gradings: {of['spread']:.2f} points")
    missing = of["missing_gradings"]
    bad = f", {sum(missing.values()):,} of them missing ({tables.listed(missing)})" if missing else ""
    lines.append(f"{of['gradings']:,} gradings{bad}, {of['asked_again']:,} retries, {took(of)}")
    return lines


def took(of: Mapping[str, Any]) -> str:
    """Return a text with the tokens and dollars of `cost`."""
    tokens = [
        "tokens not counted" if of[name] is None else f"{short(int(of[name]))} tokens {verb}"
        for name, verb in (("input_tokens", "read"), ("output_tokens", "written"))
    ]
    return ", ".join([*dict.fromkeys(tokens), *([] if of["cost"] is None else [shown(of["cost"])])])
