"""Draw figures for papers and READMEs with matplotlib. The path's suffix selects PNG or SVG."""

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

from core.base.files import write_atomically
from core.base.terminal import cut
from core.report.tables import POINTS, SHARES, is_of_proofs, over, runs_of, title

BLUE, ORANGE = "#1f5fa8", "#b35806"
COLORS = (BLUE, ORANGE, "#3a7d44", "#7b4fa3", "#8a6d00", "#b3325f")
MARKS, DASHES = "os^Dv*P", ("-", "--", ":")  # with COLORS, these distinguish 18 results, also in grey


def plot(document: dict[str, Any], path: Path) -> None:
    """Draw a run: points of proofs, or accuracy against steps, waits or samples (pass@k), with 95% intervals."""
    if is_of_proofs(document):
        return worth(document, path)
    steps = document["metrics"]["steps"]
    with _figure([document], path) as axes:
        waits = steps[0].get("waits", [])
        if len(steps) > 1:
            t = [s["step"] for s in steps]
            _curve(axes, t, [s["majority_accuracy"] for s in steps], "majority", ORANGE, "s--")
            _curve(axes, t, [s["mean_accuracy"] for s in steps], "mean (pass@1)", BLUE, "o-")
            axes.set_xlabel("step t")
        elif waits:
            _curve(axes, [w["waits"] for w in waits], [w["mean_accuracy"] for w in waits], "mean (pass@1)", BLUE, "o-")
            axes.set_xlabel("waits")
        else:
            found, voted = steps[0]["pass_at_k"], steps[0]["majority_accuracy"]
            _curve(axes, [int(k) for k in found], list(found.values()), "pass@k", BLUE, "o-")
            n = document["config"].get("N", len(found))
            axes.errorbar(
                [n], [100 * voted["value"]], _bars([voted]), fmt="s", color=ORANGE, capsize=3, label=f"majority of {n}"
            )
            axes.set_xlabel("samples k")
        _whole_steps(axes)
        if len(steps) > 1 and any(s.get("stage") for s in steps) and len(steps) <= 16:
            axes.set_xticks(
                [s["step"] for s in steps], [cut(s.get("stage", ""), 24) for s in steps], rotation=30, ha="right"
            )
            axes.set_xlabel("step")


def worth(document: dict[str, Any], path: Path) -> None:
    """Draw points of proofs against steps. For a single step, also draw the shares of good and full proofs."""
    proofs = document["metrics"]["proofs"]
    steps = [step for step in document["metrics"]["steps"] if step["mean_accuracy"]["n"]]
    with _figure([document], path) as axes:
        axes.set_ylabel("%")
        if len(steps) > 1:
            _curve(axes, [s["step"] for s in steps], [s["mean_accuracy"] for s in steps], POINTS, BLUE, "o-")
            axes.set_xlabel("step t")
            _whole_steps(axes)
        elif proofs["points"]["n"]:
            shares = [proofs[name] for name in SHARES]
            axes.errorbar(range(len(shares)), [100 * of["value"] for of in shares], _bars(shares), fmt="o", capsize=3)
            axes.set_xticks(range(len(shares)), list(SHARES.values()))
            axes.set_xlim(-0.5, len(shares) - 0.5)
            axes.set_xlabel("proofs of the last populations")


def frontier(documents: Sequence[dict[str, Any]], path: Path) -> None:
    """Draw a curve for each document with token counts: accuracy of the vote or points, against tokens per problem."""
    has_bands = len(documents) <= len(COLORS)  # more bands would hide each other
    with _figure(documents, path, has_bands=has_bands) as axes:
        for n, document in enumerate(documents):
            steps = document["metrics"]["steps"]
            if any(step[kind] is None for step in steps for kind in ("completion_tokens", "verification_tokens")):
                continue  # the server did not count tokens
            sums: list[float] = []
            for step in steps:
                spent = step["completion_tokens"] + step["verification_tokens"]
                sums.append((sums[-1] if sums else 0) + spent / document["problem_set"]["n"] / runs_of(document))
            style, color = _style(n)
            label = " ".join(filter(None, (document["experiment"], over(document))))
            found = [step["majority_accuracy"] for step in steps]
            graded = [(x, of) for x, of in zip(sums, found, strict=True) if of["n"]]
            _curve(axes, [x for x, _ in graded], [of for _, of in graded], label, color, style, has_bands)
        axes.set_xlabel("completion tokens per problem")
        axes.set_ylabel(POINTS if all(map(is_of_proofs, documents)) else "majority accuracy, %")


def matched(
    document: dict[str, Any],
    rows: Sequence[tuple[str, float, dict[str, Any]]],
    path: Path,
    unit: str,
    amount: Callable[[float], str],
    what: str,
) -> None:
    """Draw `what` against the budget for each scaffold. `rows` are (scaffold, budget, estimate)."""
    with _figure([document] * 2, path) as axes:
        for n, name in enumerate(dict.fromkeys(name for name, *_ in rows)):
            of = [(budget * 1.025**n, estimate) for other, budget, estimate in rows if other == name]
            x, y, bars = [at for at, _ in of], [100 * e["value"] for _, e in of], _bars([e for _, e in of])
            style, color = _style(n)
            axes.errorbar(x, y, bars, fmt=style, color=color, label=name, elinewidth=0.7, markersize=5)
        axes.set_xscale("log", base=2)
        budgets = sorted({budget for _, budget, _ in rows})
        axes.set_xticks(budgets, [amount(budget) for budget in budgets], parse_math=False)
        axes.minorticks_off()
        axes.set_xlabel(f"budget per problem, {unit}")
        axes.set_ylabel(what)


def swept(
    document: dict[str, Any], points: Sequence[tuple[str, float, dict[str, Any], bool]], path: Path, what: str
) -> None:
    """Draw `what` against tokens for the runs of a sweep. `points` are (name, tokens, estimate, whether on the front).
    Intervals and names are only drawn for the front."""
    from matplotlib.ticker import LogLocator

    with _figure([document] * 2, path) as axes:
        others = [(x, 100 * of["value"]) for _, x, of, is_on_front in points if not is_on_front]
        axes.plot(
            *(zip(*others, strict=True) if others else ([], [])), "o", color=BLUE, label="other runs", markersize=4
        )
        front = [(name, x, of) for name, x, of, is_on_front in points if is_on_front]
        at, bars = [100 * of["value"] for _, _, of in front], _bars([of for _, _, of in front])
        style: dict[str, Any] = {"fmt": "s--", "color": ORANGE, "capsize": 3, "markersize": 5, "elinewidth": 0.8}
        axes.errorbar([x for _, x, _ in front], at, bars, label="front", **style)
        for (name, x, _), y in zip(front, at, strict=True):
            axes.annotate(name, (x, y), (4, -4), textcoords="offset points", va="top", fontsize=7, parse_math=False)
        axes.set_xscale("log")
        axes.margins(x=0.15)  # room for the names
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 5, 7)))
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        axes.minorticks_off()
        axes.set_xlabel("completion tokens per problem")
        axes.set_ylabel(what)


def grid(
    document: dict[str, Any],
    names: tuple[str, str],
    down: Sequence[Any],
    across: Sequence[Any],
    means: Sequence[Sequence[float]],
    path: Path,
    what: str,
) -> None:
    """Draw a map of `what`: `means` for each value of the first constant (`down`) and of the second (`across`)."""
    with _figure([document] * 2, path, map_height=4.4, has_bands=False) as axes:
        shown = [[100 * mean for mean in row] for row in means]
        drawn = axes.imshow(shown, "Blues", origin="lower", aspect="auto", vmin=0, vmax=100)
        for y, row in enumerate(shown):
            for x, mean in enumerate(row):
                if mean == mean:
                    color = "white" if mean > 60 else "black"
                    axes.text(x, y, f"{mean:.1f}", ha="center", va="center", color=color, fontsize=8)
        axes.set_xticks(range(len(across)), [str(value) for value in across])
        axes.set_yticks(range(len(down)), [str(value) for value in down])
        axes.set_ylabel(names[0])
        axes.set_xlabel(names[1])
        axes.figure.colorbar(drawn, label=what)


def race(document: dict[str, Any], lines: Sequence[tuple[str, list[dict[str, Any]]]], first: str, path: Path) -> None:
    """Draw how the confidence sequences of a race close. Each of `lines` is an entry's name and its differences
    from the entry `first` after each problem, until its drop. If there are many, draw only the upper ends."""
    has_bands = len(lines) <= len(COLORS)
    with _figure([document] * 2, path, has_bands=False) as axes:
        for n, (name, of) in enumerate(lines):
            (style, color), x = _style(n), range(1, len(of) + 1)
            shown = [{**each, "value": each["difference" if has_bands else "high"]} for each in of]
            _curve(axes, x, shown, name, color, style, has_bands, markevery=[-1])
        axes.axhline(0, color="black", linewidth=0.8)
        axes.set_ylim(-102, 102)
        axes.set_xlabel("problems. A line ends when its entry is dropped")
        what = "accuracy" if has_bands else "highest plausible accuracy"
        axes.set_ylabel(f"{what} minus {cut(first, 40)}, points", parse_math=False)
        _whole_steps(axes)


def rounds(
    document: dict[str, Any], lines: Sequence[tuple[str, Sequence[tuple[int, dict[str, Any]]]]], path: Path
) -> None:
    """Draw accuracy over rounds of training. Each of `lines` is a run's name and its (round, estimate) pairs."""
    has_bands = len(lines) <= len(COLORS)
    with _figure([document], path, has_bands=has_bands) as axes:
        for n, (name, of) in enumerate(lines):
            style, color = _style(n)
            _curve(axes, [x for x, _ in of], [estimate for _, estimate in of], name, color, style, has_bands)
        axes.set_xlabel("round")
        axes.set_ylabel("right at temperature 0, %")
        _whole_steps(axes)


def points(document: dict[str, Any], way: str, table: Sequence[Sequence[int]], path: Path) -> None:
    """Draw the points by a grader with the prompt `way` against the points by people.

    `table[people][grader]` counts proofs. On the diagonal, both agree. Above the diagonal, the grader gives more.
    """
    with _figure([document] * 2, path, map_height=5.2, has_bands=False) as axes:
        most = max(map(max, table)) or 1
        axes.imshow([[row[given] for row in table] for given in range(len(table))], "Blues", origin="lower", vmax=most)
        for people, row in enumerate(table):
            for given, count in enumerate(row):
                if count:
                    color = "white" if count > most / 2 else "black"
                    axes.text(people, given, f"{count:,}", ha="center", va="center", color=color, fontsize=8)
        axes.set_xlabel("points by people")
        axes.set_ylabel(f"points by the grader, prompt {cut(way, 40)}", parse_math=False)


def _bars(estimates: Sequence[dict[str, Any]]) -> list[list[float]]:
    """Return the lengths of the intervals below and above their estimates, in percent."""
    return [[100 * abs(e["value"] - e[end]) for e in estimates] for end in ("low", "high")]


def _style(n: int) -> tuple[str, str]:
    """Return the marker with the line style, and the color, of curve number `n`."""
    return MARKS[n % len(MARKS)] + DASHES[n // len(COLORS) % len(DASHES)], COLORS[n % len(COLORS)]


@contextmanager
def _figure(
    documents: Sequence[dict[str, Any]], path: Path, map_height: float = 0, has_bands: bool = True
) -> Iterator[Any]:
    """Yield the axes of a figure, then add title and caption and write it. `map_height` is in inches, 0 for no map."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, map_height or 4.4), dpi=150, layout="constrained")
    try:
        yield axes
        if not map_height:
            if not axes.get_ylabel():
                axes.set_ylabel("accuracy, %")
            if axes.get_autoscaley_on():
                axes.set_ylim(-2, 102)
            axes.grid(alpha=0.25)
            axes.spines[["top", "right"]].set_visible(False)
            if names := axes.get_legend_handles_labels()[1]:
                outside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
                axes.legend(frameon=False, **(outside if len(names) > 4 else {"loc": "best"}))
        axes.set_title(_heading(documents), fontsize=9, loc="left", parse_math=False)  # names may contain dollar signs
        figure.supxlabel(_caption(documents, has_bands=has_bands and not map_height), fontsize=7, color="#555555")
        drawn = BytesIO()
        # Without a date and with fixed ids, the same results give the same SVG.
        with matplotlib.rc_context({"svg.hashsalt": "qed-rsa", "svg.fonttype": "none"}):
            metadata = {"Date": None} if path.suffix == ".svg" else {}
            figure.savefig(drawn, format=path.suffix[1:], metadata=metadata)
    finally:
        pyplot.close(figure)
    write_atomically(path, drawn.getvalue())


def _curve(
    axes: Any,
    x: Sequence[float],
    estimates: Sequence[dict[str, Any]],
    label: str,
    color: str,
    style: str,
    has_band: bool = True,
    **more: Any,
) -> None:
    axes.plot(x, [100 * e["value"] for e in estimates], style, color=color, label=label, markersize=5, **more)
    if has_band:
        low, high = ([100 * e[end] for e in estimates] for end in ("low", "high"))
        axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)


def _whole_steps(axes: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _heading(documents: Sequence[dict[str, Any]]) -> str:
    """Return the title of a single result, or the common title of several. If they differ, say so."""
    titles = {title(document) for document in documents}
    if len(documents) > 1:
        titles = {heading.partition(": ")[2] for heading in titles}
    return textwrap.fill(titles.pop() if len(titles) == 1 else "results of several models or sets", 100)


def _caption(documents: Sequence[dict[str, Any]], has_bands: bool) -> str:
    configs = [document["config"] for document in documents]
    alike = [
        f"{name}={configs[0][name]}"
        for name in ("N", "K", "T", "TEMPERATURE", "SEED", "RUNS")
        if name in configs[0] and all(config.get(name) == configs[0][name] for config in configs)
    ]
    marks = [", ".join(alike), *(["intervals: 95% over problems"] if has_bands else [])]
    if any(document["model"].get("embedded") for document in documents):
        marks.append("demonstration model, not QED-Nano")
    if not all(document["complete"] for document in documents):
        marks.append("partial run")
    if len(documents) == 1 and (counted := over(documents[0])):
        marks.append(f"{'figures' if is_of_proofs(documents[0]) else 'accuracies'} over {counted} problems")
    return " · ".join(filter(None, marks))
