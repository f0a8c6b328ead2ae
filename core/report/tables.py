"""The figures of a run as text, from its results JSON alone."""

import math
from collections.abc import Sequence
from typing import Any

from core.errors import one_line


def interval(estimate: dict[str, Any]) -> str:
    """A rate in percent with its 95% interval: "87.5 [78.1, 96.9]"."""
    if estimate["value"] is None:
        return "-"
    return f"{100 * estimate['value']:.1f} [{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"


def numbers(document: dict[str, Any]) -> list[int]:
    """By step, over how many problems its accuracies are, where that is not all problems at each step: of a partial
    run, those that got so far. Else nothing."""
    found = [step["mean_accuracy"]["n"] for step in document["metrics"]["steps"]]
    return found if set(found) - {document["problem_set"]["n"]} else []


def over(document: dict[str, Any]) -> str:
    """The same in words: "n=6 to 2"; "" where all problems are in each step."""
    counted = numbers(document)
    if not counted:
        return ""
    return f"n={max(counted)}" + (f" to {min(counted)}" if min(counted) < max(counted) else "")


def shift(difference: float, low: float, high: float) -> str:
    """A difference of rates in points with its interval, where it has one: "+1.5 [-0.3, +3.2]"."""
    if math.isnan(low):
        return f"{100 * difference:+.1f}"
    return f"{100 * difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def spent_tokens(count: int | None, is_partly: bool = False) -> str:
    """A number of tokens; `is_partly`: those of some completions are not in it, for nobody has counted them."""
    return "unknown" if count is None else f"{'≥ ' if is_partly else ''}{count:,}"


def chance(p: float) -> str:
    """A p-value: "0.012", or "< 0.001"."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def table(document: dict[str, Any]) -> str:
    """The steps of a run as text: accuracies in percent with 95% intervals over problems, tokens (of solutions
    + of verifications), seconds summed over requests; n, where not all problems are in each step."""
    steps, counted = document["metrics"]["steps"], numbers(document)
    counts = {"cut": "truncated", "doubtful": "doubtful", "failed": "failed"}
    if any(s.get("undecided") for s in steps):
        counts["undecided"] = "undecided"
    rows = [["t", *(["n"] if counted else []), "mean accuracy", "majority accuracy", "tokens", "request s", *counts]]
    for i, s in enumerate(steps):
        spent = spent_tokens(s["completion_tokens"], is_partly=bool(s.get("uncounted")))
        if s["verification_tokens"] != 0:
            spent += f" + {spent_tokens(s['verification_tokens'])}"
        rows.append(
            [
                str(s["step"]),
                *([str(counted[i])] if counted else []),
                interval(s["mean_accuracy"]),
                interval(s["majority_accuracy"]),
                spent,
                f"{s['generation_seconds']:,.0f}",
                *(str(s.get(count, 0)) for count in counts.values()),
            ]
        )
    return aligned(rows)


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """A table as text: the first of `rows` is its head."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def pass_table(document: dict[str, Any]) -> str:
    """Unbiased pass@k of the last step, one line per k; n, where it is not over all problems."""
    found = document["metrics"]["steps"][-1]["pass_at_k"]
    n = f"  n={counted[-1]}" if (counted := numbers(document)) else ""
    return "\n".join(f"pass@{k}  {interval(estimate)}{n}" for k, estimate in found.items())


def title(document: dict[str, Any]) -> str:
    """What was run on what: stands over every table and plot."""
    model, problems = one_line(document["model"]["name"], 200), one_line(document["problem_set"]["name"], 200)
    engine, n = one_line(document["engine"]["kind"], 200), document["problem_set"]["n"]
    return f"{one_line(document['experiment'], 200)}: {model} ({engine}) on {problems}, n={n}"
