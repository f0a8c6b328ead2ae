"""Draw figures for papers and READMEs with matplotlib. The path's suffix selects PNG or SVG."""

import math
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from core.base.files import write_atomically
from core.base.terminal import cut
from harness.report.tables import POINTS, SHARES, is_of_proofs, over, runs_of, title
from harness.results.cost_meter import UNITS, Meter

BLUE, ORANGE = "#1f5fa8", "#b35806"
COLORS = (BLUE, ORANGE, "#3a7d44", "#7b4fa3", "#8a6d00", "#b3325f")
# with COLORS, these distinguish 18 results, also in grey
MARKS, DASHES = "os^Dv*P", ("-", "--", ":")
CAPTIONED = ("N=", "K=", "T=", "TEMPERATURE=", "SEED=", "RUNS=")  # constants below a figure
Document = dict[str, Any]  # the head of results
Axis = tuple[str, Sequence[Any]]  # a label and the values
Points = Iterable[tuple[float, dict[str, Any]]]  # values of x and estimates


def plot(document: Document, path: Path) -> None:
    """Draw a run: points of proofs, or accuracy against steps, waits or samples (pass@k), with 95%
    intervals."""
    steps, proofs = document["metrics"]["steps"], document["metrics"].get("proofs")
    with _figure([document], path, "", "%" if proofs else "accuracy, %") as axes:
        if proofs:
            steps = [step for step in steps if step["mean_accuracy"]["n"]]
        _whole_numbers(axes)
        if len(steps) > 1:
            axes.set_xlabel("step t")
            if not proofs:
                _draw(
                    axes,
                    [(s["step"], s["majority_accuracy"]) for s in steps],
                    "majority",
                    "s--",
                    ORANGE,
                )
            name = POINTS if proofs else "mean (pass@1)"
            _draw(axes, [(s["step"], s["mean_accuracy"]) for s in steps], name, "o-", BLUE)
            if any(s.get("stage") for s in steps) and len(steps) <= 16:
                names = [cut(s.get("stage", ""), 24) for s in steps]
                axes.set_xticks([s["step"] for s in steps], names, rotation=30, ha="right")
        elif proofs and proofs["points"]["n"]:
            shares = [(n, proofs[name]) for n, name in enumerate(SHARES)]
            _draw(axes, shares, "", "o", BLUE, "bars", capsize=3)
            axes.set_xticks(range(len(shares)), list(SHARES.values()))
            axes.set_xlim(-0.5, len(shares) - 0.5)
            axes.set_xlabel("proofs of the last populations")
        elif waits := steps and steps[0].get("waits"):
            _draw(
                axes,
                [(each["waits"], each["mean_accuracy"]) for each in waits],
                "mean (pass@1)",
                "o-",
                BLUE,
            )
            axes.set_xlabel("waits")
        elif steps and not proofs:
            found = steps[0]["pass_at_k"]
            _draw(axes, [(int(k), estimate) for k, estimate in found.items()], "pass@k", "o-", BLUE)
            n = document["config"].get("N", len(found))
            _draw(
                axes,
                [(n, steps[0]["majority_accuracy"])],
                f"majority of {n}",
                "s",
                ORANGE,
                "bars",
                capsize=3,
            )
            axes.set_xlabel("samples k")


def curves(
    documents: Sequence[Document], lines: Sequence[tuple[str, Points]], path: Path, x: str, y: str
) -> None:
    """Draw a curve for each name in `lines`. Intervals are only drawn for few curves. `x` and `y`
    label the axes."""
    intervals = "band" if len(lines) <= len(COLORS) else ""  # more bands would hide each other
    with _figure(documents, path, x, y, has_intervals=bool(intervals)) as axes:
        for n, (name, points) in enumerate(lines):
            _draw(axes, points, name, *_style(n), intervals)
        _whole_numbers(axes)


def frontier(documents: Sequence[Document], path: Path) -> None:
    """Draw a curve for each document with token counts: accuracy of the vote or points, against
    tokens per problem."""
    lines = []
    for document in documents:
        points, spent = [], 0.0
        for step in document["metrics"]["steps"]:
            counts = step["completion_tokens"], step["verification_tokens"]
            if None in counts:  # the server did not count tokens
                break
            spent += sum(counts) / document["problem_set"]["n"] / runs_of(document)
            points.append((spent, step["majority_accuracy"]))
        else:
            label = " ".join(filter(None, (document["experiment"], over(document))))
            lines.append((label, [(x, estimate) for x, estimate in points if estimate["n"]]))
    what = POINTS if all(map(is_of_proofs, documents)) else "majority accuracy, %"
    curves(documents, lines, path, "completion tokens per problem", what)


def matched(
    document: Document,
    rows: Sequence[tuple[str, float, dict[str, Any]]],
    path: Path,
    meter: Meter,
    what: str,
) -> None:
    """Draw `what` against the budget for each scaffold. `rows` are (scaffold, budget, estimate)."""
    with _figure([document] * 2, path, f"budget per problem, {UNITS[meter.unit]}", what) as axes:
        for n, name in enumerate(dict.fromkeys(name for name, *_ in rows)):
            points = [
                (budget * 1.025**n, estimate) for other, budget, estimate in rows if other == name
            ]
            _draw(axes, points, name, *_style(n), "bars", elinewidth=0.7)
        axes.set_xscale("log", base=2)
        budgets = sorted({budget for _, budget, _ in rows})
        axes.set_xticks(budgets, [meter.shown(budget) for budget in budgets], parse_math=False)
        axes.minorticks_off()


def swept(
    document: Document,
    points: Sequence[tuple[str, float, dict[str, Any], bool]],
    path: Path,
    what: str,
) -> None:
    """Draw `what` against tokens for the runs of a sweep. `points` are (name, tokens, estimate,
    whether on the front). Intervals and names are only drawn for the front."""
    from matplotlib.ticker import LogLocator

    with _figure([document] * 2, path, "completion tokens per problem", what) as axes:
        others = [(x, estimate) for _, x, estimate, is_on_front in points if not is_on_front]
        front = [(name, x, estimate) for name, x, estimate, is_on_front in points if is_on_front]
        _draw(axes, others, "other runs", "o", BLUE, "")
        best = [(x, estimate) for _, x, estimate in front]
        _draw(axes, best, "front", "s--", ORANGE, "bars", capsize=3, elinewidth=0.8)
        for name, x, estimate in front:
            at, offset = (x, 100 * estimate["value"]), (4, -4)
            axes.annotate(
                name, at, offset, textcoords="offset points", va="top", fontsize=7, parse_math=False
            )
        axes.set_xscale("log")
        axes.margins(x=0.15)  # room for the names
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        axes.minorticks_off()


def race(
    document: Document, lines: Sequence[tuple[str, list[dict[str, Any]]]], first: str, path: Path
) -> None:
    """Draw how the confidence sequences of a race close. Each of `lines` is an entry's name and its
    differences from the entry `first` after each problem, until its drop. If there are many, draw
    only the upper ends."""
    intervals = "band" if len(lines) <= len(COLORS) else ""
    value, what = (
        ("difference", "accuracy") if intervals else ("high", "highest plausible accuracy")
    )
    x, y = (
        "problems. A line ends when its entry is dropped",
        f"{what} minus {cut(first, 40)}, points",
    )
    with _figure([document] * 2, path, x, y, has_intervals=False) as axes:
        for n, (name, of) in enumerate(lines):
            points = [(place, {**each, "value": each[value]}) for place, each in enumerate(of, 1)]
            _draw(axes, points, name, *_style(n), intervals, markevery=[-1])
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set_ylim(-102, 102)
        _whole_numbers(axes)


def grid(
    document: Document,
    x: Axis,
    y: Axis,
    cells: Sequence[Sequence[float]],
    path: Path,
    most: float,
    label: str = "",
) -> None:
    """Draw a map with a row of `cells` for each value of `y`, and nan for an empty cell. `x` and
    `y` are a label and its values. The darkest color is `most`. With a `label`, cells have a
    decimal, and the map has a color bar."""
    form = ".1f" if label else ",.0f"
    with _figure(
        [document] * 2, path, x[0], y[0], map_height=4.4 if label else 5.2, has_intervals=False
    ) as axes:
        aspect = "auto" if label else "equal"
        drawn = axes.imshow(cells, "Blues", origin="lower", aspect=aspect, vmin=0, vmax=most)
        for row, values in enumerate(cells):
            for column, value in enumerate(values):
                if not math.isnan(value):
                    color = "white" if value > 0.6 * most else "black"
                    axes.text(
                        column,
                        row,
                        f"{value:{form}}",
                        ha="center",
                        va="center",
                        color=color,
                        fontsize=8,
                    )
        axes.set_xticks(range(len(x[1])), [str(value) for value in x[1]])
        axes.set_yticks(range(len(y[1])), [str(value) for value in y[1]])
        if label:
            axes.figure.colorbar(drawn, label=label)


def _style(n: int) -> tuple[str, str]:
    """Return the marker with the line style, and the color, of curve number `n`."""
    return MARKS[n % len(MARKS)] + DASHES[n // len(COLORS) % len(DASHES)], COLORS[n % len(COLORS)]


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
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, map_height or 4.4), dpi=150, layout="constrained")
    axes.set_xlabel(x, parse_math=False)  # names may contain dollar signs
    axes.set_ylabel(y, parse_math=False)
    try:
        yield axes
        if not map_height:
            if axes.get_autoscaley_on():
                axes.set_ylim(-2, 102)
            axes.grid(alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
            if names := axes.get_legend_handles_labels()[1]:
                outside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
                axes.legend(frameon=False, **(outside if len(names) > 4 else {"loc": "best"}))
        axes.set_title(_heading(documents), fontsize=9, loc="left", parse_math=False)
        figure.supxlabel(_caption(documents, has_intervals), fontsize=7, color="#555555")
        drawn = BytesIO()
        # Without a date and with fixed ids, the same results give the same SVG.
        with matplotlib.rc_context({"svg.hashsalt": "qed-rsa", "svg.fonttype": "none"}):
            metadata = {"Date": None} if path.suffix == ".svg" else {}
            figure.savefig(drawn, format=path.suffix[1:], metadata=metadata)
    finally:
        pyplot.close(figure)
    write_atomically(path, drawn.getvalue())


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
    x, (y, low, high) = (
        [x for x, _ in points],
        ([100 * e[k] for _, e in points] for k in ("value", "low", "high")),
    )
    bars = np.abs(np.subtract([low, high], [y])) if intervals == "bars" else None
    axes.errorbar(x, y, bars, fmt=style, color=color, label=label, markersize=5, **more)
    if intervals == "band":
        axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)


def _whole_numbers(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _heading(documents: Sequence[Document]) -> str:
    """Return the title of a single result, or the common title of several. If they differ, say
    so."""
    titles = {title(document) for document in documents}
    if len(documents) > 1:
        titles = {heading.partition(": ")[2] for heading in titles}
    return textwrap.fill(
        titles.pop() if len(titles) == 1 else "results of several models or sets", 100
    )


def _caption(documents: Sequence[Document], has_intervals: bool) -> str:
    shared = documents[0]["config"].items()
    alike = [
        f"{name}={value}"
        for name, value in shared
        if all(of["config"].get(name) == value for of in documents)
    ]
    marks = [", ".join(each for each in alike if each.startswith(CAPTIONED))]
    marks += ["intervals: 95% over problems"] if has_intervals else []
    if any(document["model"].get("embedded") for document in documents):
        marks.append("demonstration model, not QED-Nano")
    if not all(document["complete"] for document in documents):
        marks.append("partial run")
    if len(documents) == 1 and (counted := over(documents[0])):
        marks.append(
            f"{'figures' if is_of_proofs(documents[0]) else 'accuracies'} over {counted} problems"
        )
    return " · ".join(filter(None, marks))
