"""The table and the plot of a run, from its results JSON alone."""

from io import BytesIO
from pathlib import Path
from typing import Any

from core.errors import one_line
from core.files import write_atomically


def interval(estimate: dict[str, Any]) -> str:
    """A rate in percent with its 95% interval: "87.5 [78.1, 96.9]"."""
    if estimate["value"] is None:
        return "-"
    return f"{100 * estimate['value']:.1f} [{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"


def table(document: dict[str, Any]) -> str:
    """The steps of a run as text: accuracies in percent with 95% intervals over problems, tokens (of solutions
    + of verifications), seconds summed over requests."""
    steps = document["metrics"]["steps"]
    rows = [["t", "mean accuracy", "majority accuracy", "tokens", "request s", "cut", "doubtful", "failed"]]
    for s in steps:
        spent = f"{s['completion_tokens']:,}"
        if s["verification_tokens"]:
            spent += f" + {s['verification_tokens']:,}"
        rows.append(
            [
                str(s["step"]),
                interval(s["mean_accuracy"]),
                interval(s["majority_accuracy"]),
                spent,
                f"{s['generation_seconds']:,.0f}",
                *(str(s[count]) for count in ("truncated", "doubtful", "failed")),
            ]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def pass_table(document: dict[str, Any]) -> str:
    """Unbiased pass@k of the last step, one line per k."""
    found = document["metrics"]["final"]["pass_at_k"]
    return "\n".join(f"pass@{k}  {interval(estimate)}" for k, estimate in found.items())


def title(document: dict[str, Any]) -> str:
    """What was run on what: stands over every table and plot."""
    model, problems = one_line(document["model"]["name"], 200), one_line(document["problem_set"]["name"], 200)
    engine, n = document["engine"]["kind"], document["problem_set"]["n"]
    return f"{document['experiment']}: {model} ({engine}) on {problems}, n={n}"


def plot(document: dict[str, Any], path: Path) -> None:
    """Accuracy over steps (of a single step: pass@k over k) with 95% bands, as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.ticker import MaxNLocator

    steps = document["metrics"]["steps"]
    figure, axes = pyplot.subplots(figsize=(7, 4.4), dpi=150, layout="constrained")

    def curve(x: list[int], estimates: list[dict[str, Any]], label: str, color: str, style: str) -> None:
        y, low, high = ([100 * e[part] for e in estimates] for part in ("value", "low", "high"))
        axes.plot(x, y, style, color=color, label=label, markersize=5)
        axes.fill_between(x, low, high, color=color, alpha=0.15, linewidth=0)

    if len(steps) > 1:
        t = [s["step"] for s in steps]
        curve(t, [s["majority_accuracy"] for s in steps], "majority", "#b35806", "s--")
        curve(t, [s["mean_accuracy"] for s in steps], "mean (pass@1)", "#1f5fa8", "o-")
        axes.set_xlabel("step t")
    else:
        found, voted = steps[0]["pass_at_k"], steps[0]["majority_accuracy"]
        curve([int(k) for k in found], list(found.values()), "pass@k", "#1f5fa8", "o-")
        bars = [[100 * (voted["value"] - voted["low"])], [100 * (voted["high"] - voted["value"])]]
        n = document["config"]["N"]
        axes.errorbar([n], [100 * voted["value"]], bars, fmt="s", color="#b35806", capsize=3, label=f"majority of {n}")
        axes.set_xlabel("samples k")
    axes.set_ylabel("accuracy, %")
    axes.set_ylim(-2, 102)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="best", frameon=False)
    axes.set_title(title(document), fontsize=9, loc="left", parse_math=False)  # a name's dollars are no formula
    figure.supxlabel(_caption(document), fontsize=7, color="#555555")
    drawn = BytesIO()
    figure.savefig(drawn, format="png")
    pyplot.close(figure)
    write_atomically(path, drawn.getvalue())


def _caption(document: dict[str, Any]) -> str:
    config = document["config"]
    shown = ", ".join(f"{name}={config[name]}" for name in ("N", "K", "T", "TEMPERATURE", "SEED") if name in config)
    marks = [shown, "bands: 95% over problems"]
    if document["model"].get("embedded"):
        marks.append("demonstration model, not QED-Nano")
    if not document["complete"]:
        marks.append("partial run")
    return " · ".join(marks)
