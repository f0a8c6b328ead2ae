"""Draw figures for papers and READMEs with matplotlib. The path's suffix selects PNG or SVG."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from core.base import signals
from core.base.files import write_atomically
from core.base.terminal import cut
from harness.report.overlaps import BAND, separate
from harness.report.tables import (
    POINTS,
    SHARES,
    accuracy_or_score,
    is_of_proofs,
    over,
    runs_of,
    title,
)
from harness.results.cost_meter import UNITS, Meter
from harness.results.model import has_scores

BLUE, ORANGE = "#1f5fa8", "#b35806"
COLORS = (BLUE, ORANGE, "#3a7d44", "#7b4fa3", "#8a6d00", "#b3325f")
# with COLORS, these distinguish 18 results, also in grey
MARKS, DASHES = "os^Dv*P", ("-", "--", ":")
CAPTIONED = ("N=", "K=", "T=", "TEMPERATURE=", "SEED=", "RUNS=")  # constants below a figure
LOW = 10.0  # percent
TITLE = 80  # characters in a line of the title
Document = dict[str, Any]  # the head of results
Axis = tuple[str, Sequence[Any]]  # a label and the values
Points = Iterable[tuple[float, dict[str, Any]]]  # values of x and estimates


def plot(document: Document, path: Path, curve: Sequence[Document] = ()) -> None:
    """Draw a run: points of proofs, or accuracy against steps, waits or samples (pass@k), with 95%
    intervals. `curve` are the votes of the first samples (harness/report/votes.py)."""
    proofs = document["metrics"].get("proofs")
    steps = document["metrics"]["steps"]
    if proofs:
        steps = [step for step in steps if step["mean_accuracy"]["n"]]
    unit = "%" if proofs else f"{accuracy_or_score(document)}, %"
    with _figure([document], path, "", unit) as axes:
        _whole_numbers(axes)
        if len(steps) > 1:
            _draw_steps(axes, steps, POINTS if proofs else _mean(document))
        elif proofs:
            if proofs["points"]["n"]:
                _draw_points(axes, proofs)
        elif steps and steps[0].get("waits"):
            _draw_waits(axes, steps[0]["waits"], _mean(document))
        elif steps:
            _draw_pass_at_k(axes, steps[0], document, curve)


def _mean(document: Document) -> str:
    """Name the mean over members. Pass@1 counts only the full score."""
    return "mean score" if has_scores(document) else "mean (pass@1)"


def _draw_steps(axes: Any, steps: Sequence[Document], mean: str) -> None:
    """Draw the means with the label `mean`, and the votes unless the steps have proofs."""
    axes.set_xlabel("step t")
    means = [(step["step"], step["mean_accuracy"]) for step in steps]
    _draw(axes, means, mean, "o-", BLUE)
    if mean != POINTS:
        votes = [(step["step"], step["majority_accuracy"]) for step in steps]
        _draw(axes, votes, "majority", "s--", ORANGE)
    has_stages = any(step.get("stage") for step in steps)
    if has_stages and len(steps) <= 16:
        numbers = [step["step"] for step in steps]
        names = [cut(step.get("stage", ""), 24) for step in steps]
        axes.set_xticks(numbers, names, rotation=30, ha="right")


def _draw_points(axes: Any, proofs: dict[str, Any]) -> None:
    shares = [(number, proofs[name]) for number, name in enumerate(SHARES)]
    _draw(axes, shares, "", "o", BLUE, "bars", capsize=3)
    axes.set_xticks(range(len(shares)), list(SHARES.values()))
    axes.set_xlim(-0.5, len(shares) - 0.5)
    axes.set_xlabel("proofs of the last populations")


def _draw_waits(axes: Any, waits: Sequence[dict[str, Any]], mean: str) -> None:
    means = [(wait["waits"], wait["mean_accuracy"]) for wait in waits]
    _draw(axes, means, mean, "o-", BLUE)
    axes.set_xlabel("waits")


def _draw_pass_at_k(
    axes: Any, step: Document, document: Document, curve: Sequence[Document]
) -> None:
    """Draw pass@k and the vote, and the mean score if there are grades between 0 and 1."""
    rates = [(int(k), rate) for k, rate in step["pass_at_k"].items()]
    are_scores = has_scores(document)
    _draw(axes, rates, "pass@k (full score)" if are_scores else "pass@k", "o-", BLUE)
    if are_scores:
        mean = [(1, step["mean_accuracy"])]
        _draw(axes, mean, "mean score", "^", COLORS[2], "bars", capsize=3)
    if curve:
        votes = [(point["samples"], point["majority_accuracy"]) for point in curve]
        _draw(axes, votes, "majority of the first k", "s--", ORANGE)
    else:
        n = document["config"].get("N", len(rates))
        vote = [(n, step["majority_accuracy"])]
        _draw(axes, vote, f"majority of {n}", "s", ORANGE, "bars", capsize=3)
    axes.set_xlabel("samples k")


def curves(
    documents: Sequence[Document], lines: Sequence[tuple[str, Points]], path: Path, x: str, y: str
) -> None:
    """Draw a curve for each name in `lines`. Intervals are only drawn for few curves. `x` and `y`
    label the axes."""
    has_intervals = len(lines) <= len(COLORS)  # more bands would hide each other
    with _figure(documents, path, x, y, has_intervals=has_intervals) as axes:
        for number, (name, points) in enumerate(lines):
            _draw(axes, points, name, *_style(number), "band" if has_intervals else "")
        _whole_numbers(axes)


def frontier(
    documents: Sequence[Document], all_votes: Sequence[Sequence[Document]], path: Path
) -> None:
    """Draw a curve for each document with token counts: accuracy of the vote or points, against
    tokens per problem. `all_votes` has the votes of the first samples of each document."""
    lines = []
    for document, votes in zip(documents, all_votes, strict=True):
        points = _of_votes(document, votes) if votes else _against_tokens(document)
        if points is not None:
            label = " ".join(filter(None, (document["experiment"], over(document))))
            lines.append((label, points))
    name = "score" if any(map(has_scores, documents)) else "accuracy"
    y = POINTS if all(map(is_of_proofs, documents)) else f"majority {name}, %"
    curves(documents, lines, path, "completion tokens per problem", y)


def _of_votes(
    document: Document, votes: Sequence[Document]
) -> list[tuple[float, dict[str, Any]]] | None:
    """Return the votes' estimates with the tokens of their samples for a problem, or None if the
    server did not count tokens."""
    points = []
    count = document["problem_set"]["n"] * runs_of(document)
    for vote in votes:
        if vote["tokens"] is None:
            return None
        points.append((vote["tokens"] / count, vote["majority_accuracy"]))
    return points


def _against_tokens(document: Document) -> list[tuple[float, dict[str, Any]]] | None:
    """Return the graded steps' estimates with the tokens so far of a problem, or None if the server
    did not count tokens."""
    points = []
    tokens = 0.0
    problems = document["problem_set"]["n"]
    runs = runs_of(document)
    for step in document["metrics"]["steps"]:
        solutions = step["completion_tokens"]
        side_calls = step["verification_tokens"]
        if solutions is None or side_calls is None:
            return None
        tokens += (solutions + side_calls) / problems / runs
        if step["majority_accuracy"]["n"]:
            points.append((tokens, step["majority_accuracy"]))
    return points


def equal_compute(
    document: Document,
    rows: Sequence[tuple[str, float, dict[str, Any]]],
    path: Path,
    meter: Meter,
    metric: str,
) -> None:
    """Draw `metric` against the budget for each scaffold. `rows` are (scaffold, budget,
    estimate)."""
    x = f"budget per problem, {UNITS[meter.unit]}"
    with _figure([document] * 2, path, x, metric) as axes:
        for number, name in enumerate(dict.fromkeys(name for name, *_ in rows)):
            points = []
            for scaffold, budget, estimate in rows:
                if scaffold == name:  # a little to the right, so that no bar hides another
                    points.append((budget * 1.025**number, estimate))
            _draw(axes, points, name, *_style(number), "bars", elinewidth=0.7)
        axes.set_xscale("log", base=2)
        budgets = sorted({budget for _, budget, _ in rows})
        axes.set_xticks(budgets, [meter.format(budget) for budget in budgets], parse_math=False)
        axes.minorticks_off()


def swept(
    document: Document,
    points: Sequence[tuple[str, float, dict[str, Any], bool]],
    path: Path,
    metric: str,
) -> None:
    """Draw `metric` against tokens for the runs of a sweep. `points` are (name, tokens, estimate,
    whether on the front). Intervals and names are only drawn for the front."""
    from matplotlib.ticker import LogLocator

    with _figure([document] * 2, path, "completion tokens per problem", metric) as axes:
        rest = [(x, estimate) for _, x, estimate, is_on_front in points if not is_on_front]
        front = [(x, estimate) for _, x, estimate, is_on_front in points if is_on_front]
        _draw(axes, rest, "other runs", "o", BLUE, "")
        _draw(axes, front, "front", "s--", ORANGE, "bars", capsize=3, elinewidth=0.8)
        for name, x, estimate, is_on_front in points:
            if is_on_front:
                _name_point(axes, name, (x, 100 * estimate["value"]))
        axes.set_xscale("log")
        axes.margins(x=0.15)  # room for the names
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        axes.minorticks_off()


def _name_point(axes: Any, name: str, point: tuple[float, float]) -> None:
    """Write a name to the right below its point. The name of a low point, which would lie on the
    axis, is to the left above it."""
    is_low = point[1] < LOW
    axes.annotate(
        name,
        point,
        (-4, 4) if is_low else (4, -4),
        textcoords="offset points",
        ha="right" if is_low else "left",
        va="bottom" if is_low else "top",
        fontsize=7,
        parse_math=False,
    )


def race(
    document: Document, lines: Sequence[tuple[str, list[dict[str, Any]]]], first: str, path: Path
) -> None:
    """Draw how the confidence sequences of a race close. Each of `lines` is an entry's name and its
    differences from the entry `first` after each problem, until its drop. If there are many, draw
    only the upper ends."""
    has_bands = len(lines) <= len(COLORS)
    end = "difference" if has_bands else "high"
    unit = accuracy_or_score(document)
    metric = unit if has_bands else f"highest plausible {unit}"
    x = "problems. A line ends when its entry is dropped"
    y = f"{metric} minus {cut(first, 40)}, points"
    with _figure([document] * 2, path, x, y, has_intervals=False) as axes:
        for number, (name, differences) in enumerate(lines):
            points = []
            for problems, estimate in enumerate(differences, 1):
                points.append((problems, estimate | {"value": estimate[end]}))
            intervals = "band" if has_bands else ""
            _draw(axes, points, name, *_style(number), intervals, markevery=[-1])
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set_ylim(-102, 102)
        _whole_numbers(axes)


def grid(
    document: Document,
    x: Axis,
    y: Axis,
    cells: Sequence[Sequence[float]],
    path: Path,
    darkest: float,
    label: str = "",
) -> None:
    """Draw a map with a row of `cells` for each value of `y`, and nan for an empty cell. `x` and
    `y` are a label and its values. The value `darkest` has the darkest color. With a `label`, cells
    have a decimal, and the map has a color bar."""
    x_label, x_values = x
    y_label, y_values = y
    height = 4.4 if label else 5.2
    form = ".1f" if label else ",.0f"
    with _figure(
        [document] * 2, path, x_label, y_label, map_height=height, has_intervals=False
    ) as axes:
        aspect = "auto" if label else "equal"
        image = axes.imshow(cells, "Blues", origin="lower", aspect=aspect, vmin=0, vmax=darkest)
        for row, values in enumerate(cells):
            for column, value in enumerate(values):
                if not math.isnan(value):
                    color = "white" if value > 0.6 * darkest else "black"
                    style = {"ha": "center", "va": "center", "color": color, "fontsize": 8}
                    axes.text(column, row, f"{value:{form}}", **style)
        axes.set_xticks(range(len(x_values)), [str(value) for value in x_values])
        axes.set_yticks(range(len(y_values)), [str(value) for value in y_values])
        if label:
            axes.figure.colorbar(image, label=label)


def _style(number: int) -> tuple[str, str]:
    """Return the marker with the line style, and the color, of a curve by its number."""
    mark = MARKS[number % len(MARKS)]
    dash = DASHES[number // len(COLORS) % len(DASHES)]
    return mark + dash, COLORS[number % len(COLORS)]


@contextmanager
def _figure(
    documents: Sequence[Document],
    path: Path,
    x: str,
    y: str,
    map_height: float = 0,
    has_intervals: bool = True,
) -> Iterator[Any]:
    """Yield the axes of a figure with the labels `x` and `y`, then add title and caption and write
    it. `map_height` is in inches, 0 for no map."""
    with signals.held():  # a signal would make the import fail with another error
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, map_height or 4.4), dpi=150, layout="constrained")
    axes.set_xlabel(x, parse_math=False)  # names may contain dollar signs
    axes.set_ylabel(y, parse_math=False)
    try:
        yield axes
        if not map_height:
            _finish_curves(axes)
        axes.set_title(_heading(documents), fontsize=9, loc="left", parse_math=False)
        figure.supxlabel(_caption(documents, has_intervals), fontsize=7, color="#555555")
        image = BytesIO()
        # Without a date and with fixed ids, the same results give the same SVG.
        with matplotlib.rc_context({"svg.hashsalt": "qed-rsa", "svg.fonttype": "none"}):
            metadata = {"Date": None} if path.suffix == ".svg" else {}
            figure.savefig(image, format=path.suffix[1:], metadata=metadata)
    finally:
        pyplot.close(figure)
    write_atomically(path, image.getvalue())


def _finish_curves(axes: Any) -> None:
    """Set the range of percentages unless a figure has set its own, add grid and legend, and
    separate equal curves."""
    if axes.get_autoscaley_on():
        axes.set_ylim(-2, 102)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    _, names = axes.get_legend_handles_labels()
    if len(names) > 4:
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))  # outside
    elif names:
        axes.legend(frameon=False, loc="best")
    separate(axes)  # after the legend, whose lines stay whole


def _draw(
    axes: Any,
    points: Points,
    label: str,
    style: str,
    color: str,
    intervals: str = "band",
    **more: Any,
) -> None:
    """Draw estimates in percent, and their intervals as a "band", as "bars" or not at all ("")."""
    points = list(points)
    x = [position for position, _ in points]
    y = [100 * estimate["value"] for _, estimate in points]
    low = [100 * estimate["low"] for _, estimate in points]
    high = [100 * estimate["high"] for _, estimate in points]
    bars = np.abs(np.subtract([low, high], [y])) if intervals == "bars" else None
    axes.errorbar(x, y, bars, fmt=style, color=color, label=label, markersize=5, **more)
    if intervals == "band":
        fill = {"facecolor": (color, 0.12), "edgecolor": (color, 0.7), "linewidth": 0.8}
        axes.fill_between(x, low, high, label=BAND, **fill)


def _whole_numbers(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _heading(documents: Sequence[Document]) -> str:
    """Return the title of a single result, or the common title of several. If they differ, say
    so."""
    titles = {title(document) for document in documents}
    if len(documents) > 1:
        titles = {heading.partition(": ")[2] for heading in titles}
    heading = titles.pop() if len(titles) == 1 else "results of several models or sets"
    return textwrap.fill(heading, TITLE)


def _caption(documents: Sequence[Document], has_intervals: bool) -> str:
    """Name the important constants that all documents share, and what a reader must know."""
    first = documents[0]
    constants = []
    for name, value in first["config"].items():
        words = f"{name}={value}"
        is_shared = all(document["config"].get(name) == value for document in documents)
        if is_shared and words.startswith(CAPTIONED):
            constants.append(words)
    parts = [", ".join(constants)]
    if has_intervals:
        parts.append("intervals: 95% over problems")
    if any(document["model"].get("embedded") for document in documents):
        parts.append("demonstration model, not QED-Nano")
    if not all(document["complete"] for document in documents):
        parts.append("partial run")
    problems = over(first) if len(documents) == 1 else ""
    if problems:
        name = "scores" if has_scores(first) else "accuracies"
        if is_of_proofs(first):
            name = "figures"
        parts.append(f"{name} over {problems} problems")
    return " · ".join(filter(None, parts))
