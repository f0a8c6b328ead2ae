"""Format the figures of a run as text and tables, from its results JSON."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from core.base.errors import one_line
from core.base.terminal import cut, wrapped
from core.types import GOOD, MAX_POINTS
from harness.report.table import NONE, Column, Table
from harness.results.model import has_scores
from harness.results.proof_points import CUT_OFF
from harness.results.warnings import is_ungraded

NOT_GRADED = "not graded"
ONE_RUN = {"RUNS": 1}  # single runs lack this constant
# The metrics of graded proofs by their names in harness/results/proof_points.py. Proofs have no
# vote and no accuracy.
POINTS = f"mean points, % of {MAX_POINTS}"
SHARES = {"points": POINTS, "good": f"{GOOD} points or more", "full": f"{MAX_POINTS} points"}
MERGE_NAMES = {
    "mean": "mean of",
    "max": "best of each problem in",
    "min": "worst of each problem in",
}


def accuracy_or_score(document: dict[str, Any]) -> str:
    """Name the figure of a run with answers: "accuracy", or "score" if there are grades between 0
    and 1."""
    return "score" if has_scores(document) else "accuracy"


def percent(share: float) -> str:
    """Format a share in percent: "87.5"."""
    return f"{100 * share:.1f}"


def interval(estimate: dict[str, Any]) -> str:
    """Format a rate in percent with its 95% interval: "87.5 [78.1, 96.9]"."""
    value = estimate["value"]
    if value is None:
        return NONE
    low = percent(estimate["low"])
    high = percent(estimate["high"])
    return f"{percent(value)} [{low}, {high}]"


def numbers(document: dict[str, Any]) -> list[int]:
    """Count the problems in each step's accuracy. Return [] if no step lacks problems, or without
    grades."""
    if is_ungraded(document):
        return []
    counts = [step["mean_accuracy"]["n"] for step in document["metrics"]["steps"]]
    whole = document["problem_set"]["n"]
    return counts if any(count != whole for count in counts) else []


def over(document: dict[str, Any]) -> str:
    """Format the `numbers` of problems: "n=6 to 2", or "" if all problems are in each step."""
    counts = numbers(document)
    if is_of_proofs(document):  # the figure omits ungraded steps
        counts = [count for count in counts if count]
    whole = document["problem_set"]["n"]
    if all(count == whole for count in counts):
        return ""
    highest = max(counts)
    lowest = min(counts)
    return f"n={highest}" if lowest == highest else f"n={highest} to {lowest}"


def shift(difference: float, low: float, high: float) -> str:
    """Format a difference of rates in percentage points with its interval, if known: "+1.5 [-0.3,
    +3.2]"."""
    if math.isnan(low):
        return signed(difference)
    return f"{signed(difference)} [{signed(low)}, {signed(high)}]"


def signed(share: float) -> str:
    """Format a difference of shares in percentage points: "+1.5"."""
    return f"{100 * share:+.1f}"


def spent(
    amount: float | None, form: Callable[[float], str] = "{:,}".format, uncounted: int | None = 0
) -> str:
    """Format a number of tokens, or with `dollars` a cost. A number of `uncounted` requests adds
    "≥"."""
    if amount is None:
        return "unknown"
    return f"≥ {form(amount)}" if uncounted else form(amount)


def over_runs(over: dict[str, Any]) -> str:
    """Format mean and standard deviation over runs in percent: "83.8 ± 2.1"."""
    mean = percent(over["mean"])
    std = percent(over["std"])
    return f"{mean} ± {std}"


def runs_of(document: dict[str, Any]) -> int:
    """Count the runs in the results."""
    runs = document.get("runs")
    return len(runs["seeds"]) if runs else 1


def merged(document: dict[str, Any]) -> str:
    """Name the merge, for example "mean of 3 runs". Return "" for a single run."""
    runs = runs_of(document)
    rule = (document.get("runs") or {}).get("by")
    if not rule or runs == 1:
        return ""
    return f"{MERGE_NAMES.get(rule, 'from')} {runs} runs"


def chance(p: float) -> str:
    """Format a p-value: "0.012", or "< 0.001"."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def is_of_proofs(document: dict[str, Any]) -> bool:
    """Return whether results contain graded proofs."""
    return document["metrics"].get("proofs") is not None


def points_by_group(proofs: dict[str, Any]) -> Table:
    """Tabulate the points of proofs for all problems, over runs, and by group. `proofs` is a field
    of the metrics."""
    runs = proofs.get("runs")
    rows = [_row_of_points("all", proofs)]
    if runs:
        count = len(runs["points"]["values"])
        rows.append([f"{count} runs", "", *(over_runs(runs[share]) for share in SHARES)])
    for column, groups in proofs["groups"].items():
        for name, group in groups.items():
            rows.append(_row_of_points(f"{column} {one_line(name, 40)}", group))
    columns = []
    for number, head in enumerate(["", "problems", *SHARES.values()]):
        columns.append(Column(head, [row[number] for row in rows]))
    legend = f"in %, with 95% intervals over problems, from {proofs['proofs']:,} proofs"
    if runs:
        legend += " of all runs. Runs: mean ± standard deviation over the runs"
    return Table("Points of the last populations", columns, legend_end=legend)


def _row_of_points(name: str, figures: dict[str, Any]) -> list[str]:
    problems = figures["points"]["n"]
    shares = [interval(figures[share]) for share in SHARES]
    return [name, str(problems), *shares]


def points_table(proofs: dict[str, Any]) -> str:
    """Format the points of proofs, then the tokens of right and wrong proofs. Return "" without
    grades."""
    if not proofs["points"]["n"]:
        return ""
    table = points_by_group(proofs)
    return "\n".join([table.body(), "", wrapped(table.legend_end), *written_by(proofs)])


def written_by(proofs: dict[str, Any]) -> list[str]:
    """Format a line for right and a line for wrong proofs with their mean tokens. Omit lines
    without known tokens."""
    lines = []
    meanings = {"right": f"{GOOD} points or more", "wrong": "fewer, truncated or empty"}
    for kind, meaning in meanings.items():
        means = proofs["written"][kind]
        if means["thinking"] is None:
            continue
        count = means["proofs"]
        tokens = f"{means['thinking']:,.0f} thinking + {means['answer']:,.0f} answer"
        lines.append(
            f"mean tokens of the {count:,} {kind} proofs ({meaning}): {tokens}, by characters"
        )
    return lines


def lines_on_missing_grades(proofs: dict[str, Any]) -> list[str]:
    """Format a line for proofs that count as 0 and a line for missing grades, with counts by
    reason."""
    lines = []
    not_delivered = proofs["not_delivered"]
    if not_delivered:
        lines.append(f"not graded, and counted as 0 points: {listed(not_delivered)}")
    missing = proofs["missing"]
    if missing:
        lines.append(f"grade missing, and not counted: {listed(missing)}")
    return lines


def listed(counts: dict[str, int]) -> str:
    """Join counts and their reasons into one text."""
    parts = []
    for reason, count in counts.items():
        words = one_line(reason, 60).replace(CUT_OFF, "truncated")
        parts.append(f"{count:,} {words}")
    return ", ".join(parts)


def is_priced(document: dict[str, Any]) -> bool:
    """Return whether costs are known."""
    if not document.get("prices"):
        return False
    costs = [step.get("cost") for step in document["metrics"]["steps"]]
    return any(cost is not None for cost in costs)


def title(document: dict[str, Any]) -> str:
    """Name experiment, model, engine and problems, as the title of tables and plots."""
    problem_set = document["problem_set"]
    experiment = one_line(document["experiment"], 200)
    model = one_line(document["model"]["name"], 200)
    engine = one_line(document["engine"]["kind"], 200)
    problems = one_line(problem_set["name"], 200)
    parts = [f"{experiment}: {model} ({engine}) on {problems}, n={problem_set['n']}"]
    form = document["config"].get("ANSWER")
    if form:
        parts.append(f"answers read as {one_line(str(form), 20)}")
    merge = merged(document)
    if merge:
        parts.append(merge)
    return ", ".join(parts)


def labels(results: Sequence[Any], limit: int = 80) -> list[str]:
    """Name results by experiment and differing constants, or by file, in at most `limit`
    characters. `results` have the attributes `name` and `head`."""
    names = []
    for result in results:
        experiment = result.head.experiment
        peers = [peer for peer in results if peer.head.experiment == experiment]
        constants = ONE_RUN | result.head.config
        words = [experiment]
        for constant in _differing_constants(peers):
            value = constants.get(constant, "-")
            words.append(f"{constant}={value!s:.40}")
        name = " ".join(words) if len(words) > 1 else result.name
        names.append(cut(one_line(name), limit))
    counts = Counter(names)
    for number, result in enumerate(results):
        if counts[names[number]] > 1:
            names[number] = cut(one_line(result.name), limit)
    return names


def _differing_constants(results: Sequence[Any]) -> list[str]:
    """Name the constants whose values differ between results of one experiment."""
    configs = [ONE_RUN | result.head.config for result in results]
    differing = []
    for name in dict.fromkeys(chain.from_iterable(configs)):
        values = {repr(config.get(name)) for config in configs}
        if len(values) > 1:
            differing.append(name)
    return differing
