"""Format the figures of a run as text and tables, from its results JSON."""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate, chain
from typing import Any

from core.base.errors import one_line
from core.base.prices import shown as dollars
from core.base.terminal import columns, cut, short, wrapped
from core.types import GOOD, MAX_POINTS
from harness.report.table import NONE, Cell, Column, Table
from harness.results.model import total
from harness.results.points import CUT_OFF
from harness.results.warnings import is_ungraded

NOT_GRADED = "not graded"
ONE_RUN = {"RUNS": 1}  # single runs lack this constant
# The metrics of graded proofs by their names in harness/results/points.py. Proofs have no vote and no
# accuracy.
POINTS = f"mean points, % of {MAX_POINTS}"
SHARES = {"points": POINTS, "good": f"{GOOD} points or more", "full": f"{MAX_POINTS} points"}


def interval(estimate: dict[str, Any]) -> str:
    """Format a rate in percent with its 95% interval: "87.5 [78.1, 96.9]"."""
    if estimate["value"] is None:
        return NONE
    return (
        f"{100 * estimate['value']:.1f} [{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"
    )


def numbers(document: dict[str, Any]) -> list[int]:
    """Count the problems in each step's accuracy. Return [] if no step lacks problems, or without
    grades."""
    if is_ungraded(document):
        return []
    found = [step["mean_accuracy"]["n"] for step in document["metrics"]["steps"]]
    return found if set(found) - {document["problem_set"]["n"]} else []


def over(document: dict[str, Any]) -> str:
    """Format the `numbers` of problems: "n=6 to 2", or "" if all problems are in each step."""
    counted = numbers(document)
    if is_of_proofs(document):  # the figure omits ungraded steps
        counted = [n for n in counted if n]
    if not set(counted) - {document["problem_set"]["n"]}:
        return ""
    return f"n={max(counted)}" + (f" to {min(counted)}" if min(counted) < max(counted) else "")


def shift(difference: float, low: float, high: float) -> str:
    """Format a difference of rates in percentage points with its interval, if known: "+1.5 [-0.3,
    +3.2]"."""
    if math.isnan(low):
        return f"{100 * difference:+.1f}"
    return f"{100 * difference:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}]"


def spent(
    amount: float | None, form: Callable[[float], str] = "{:,}".format, uncounted: int | None = 0
) -> str:
    """Format a number of tokens, or with `dollars` a cost. A number of `uncounted` requests adds
    "≥"."""
    return "unknown" if amount is None else f"{'≥ ' if uncounted else ''}{form(amount)}"


def over_runs(over: dict[str, Any]) -> str:
    """Format mean and standard deviation over runs in percent: "83.8 ± 2.1"."""
    return f"{100 * over['mean']:.1f} ± {100 * over['std']:.1f}"


def runs_of(document: dict[str, Any]) -> int:
    """Count the runs in the results."""
    return len(document["runs"]["seeds"]) if document.get("runs") else 1


def merged(document: dict[str, Any]) -> str:
    """Name the merge, for example "mean of 3 runs". Return "" for a single run."""
    words = {"mean": "mean of", "max": "best of each problem in", "min": "worst of each problem in"}
    how = (document.get("runs") or {}).get("by")
    return (
        f"{words.get(how, 'from')} {runs_of(document)} runs"
        if how and runs_of(document) > 1
        else ""
    )


def chance(p: float) -> str:
    """Format a p-value: "0.012", or "< 0.001"."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def is_of_proofs(document: dict[str, Any]) -> bool:
    """Return whether results contain graded proofs."""
    return document["metrics"].get("proofs") is not None


def worths(proofs: dict[str, Any]) -> Table:
    """Tabulate the points of proofs for all problems, over runs, and by group. `proofs` is a field
    of the metrics."""
    runs = proofs.get("runs")
    rows = [("all", proofs)]
    if runs:
        rows.append((f"{len(runs['points']['values'])} runs", runs))
    for name, groups in proofs["groups"].items():
        rows += [(f"{name} {one_line(group, 40)}", of) for group, of in groups.items()]
    shown = [
        Column("", [name for name, _ in rows]),
        Column("problems", ["" if of is runs else str(of["points"]["n"]) for _, of in rows]),
        *(
            Column(
                head, [over_runs(of[name]) if of is runs else interval(of[name]) for _, of in rows]
            )
            for name, head in SHARES.items()
        ),
    ]
    about = f"in %, with 95% intervals over problems, from {proofs['proofs']:,} proofs"
    about += " of all runs. Runs: mean ± standard deviation over the runs" if runs else ""
    return Table("Points of the last populations", shown, about=about)


def points_table(proofs: dict[str, Any]) -> str:
    """Format the points of proofs, then the tokens of right and wrong proofs. Return "" without
    grades."""
    if not proofs["points"]["n"]:
        return ""
    table = worths(proofs)
    return "\n".join([table.body(), "", wrapped(table.about), *written_by(proofs)])


def written_by(proofs: dict[str, Any]) -> list[str]:
    """Format a line for right and a line for wrong proofs with their mean tokens. Omit lines
    without known tokens."""
    lines = []
    for kind, few in (("right", f"{GOOD} points or more"), ("wrong", "fewer, truncated or empty")):
        of = proofs["written"][kind]
        if of["thinking"] is not None:
            tokens = f"{of['thinking']:,.0f} thinking + {of['answer']:,.0f} answer, by characters"
            lines.append(f"mean tokens of the {of['proofs']:,} {kind} proofs ({few}): {tokens}")
    return lines


def lacking(of: dict[str, Any]) -> list[str]:
    """Format a line for proofs that count as 0 and a line for missing grades, with counts by
    reason."""
    lines = []
    if counts := of["not_delivered"]:
        lines.append(f"not graded, and counted as 0 points: {listed(counts)}")
    if counts := of["missing"]:
        lines.append(f"grade missing, and not counted: {listed(counts)}")
    return lines


def listed(counts: dict[str, int]) -> str:
    """Join counts and their reasons into one text."""
    return ", ".join(
        f"{n:,} {one_line(why, 60).replace(CUT_OFF, 'truncated')}" for why, n in counts.items()
    )


def is_priced(document: dict[str, Any]) -> bool:
    """Return whether costs are known."""
    return bool(document.get("prices")) and any(
        s.get("cost") is not None for s in document["metrics"]["steps"]
    )


def final(document: dict[str, Any]) -> str:
    """Summarise a run: "final: majority 88.3 [80.1, 94.0], +22.9 over step 0's vote, 175k tokens,
    119 s". If all completions of the last step failed, the accuracy is left out."""
    figures, runs = document["metrics"], runs_of(document)
    first, last = (figures["steps"][place]["majority_accuracy"] for place in (0, -1))
    name, before = (
        (f"{POINTS}:", "step 0") if is_of_proofs(document) else ("majority", "step 0's vote")
    )
    is_lost = 0 < figures["steps"][-1]["completions"] == figures["steps"][-1]["failed"]
    parts = [f"final: {NOT_GRADED if is_ungraded(document) else f'{name} {interval(last)}'}"]
    if is_lost:
        parts = ["final: the last step has no reply"]
    if over := figures["steps"][-1].get("runs"):
        parts.append(f"over {runs} runs {over_runs(over['majority_accuracy'])}")
    if len(figures["steps"]) > 1 and None not in (first["value"], last["value"]) and not is_lost:
        parts.append(f"{100 * (last['value'] - first['value']):+.1f} over {before}")
    tokens = figures["tokens"]["completion"]
    written = f"{spent(tokens, short)} tokens"
    parts.append(f"{written} in {runs} runs" if runs > 1 else written)
    if is_priced(document):
        partly = any(step.get("uncounted") for step in figures["steps"])
        parts.append(spent(figures.get("cost"), dollars, partly))
    return ", ".join([*parts, f"{figures['seconds']:,.0f} s"])


def steps_table(document: dict[str, Any]) -> Table:
    """Tabulate the steps of a run: accuracies, tokens, cost, seconds and counts of completions.

    A new column is one call of `add`, and its field in harness/results/model.py and schema.json.
    """
    steps, columns = document["metrics"]["steps"], list[Column]()
    counts = (total([step["completion_tokens"], step["verification_tokens"]]) for step in steps)
    sums = accumulate(counts, lambda *both: total(both))
    steps = [step | {"so_far": so_far} for step, so_far in zip(steps, sums, strict=True)]
    is_graded, are_proofs = not is_ungraded(document), is_of_proofs(document)
    answers, points = is_graded and not are_proofs, is_graded and are_proofs

    def has(name: str) -> bool:
        return any(step.get(name) for step in steps)

    def add(
        head: str, meaning: str, read: Callable[[Any], str], when: bool = True, **more: Any
    ) -> None:
        if when:
            columns.append(Column(head, [read(step) for step in steps], meaning, **more))

    def add_runs(head: str, meaning: str, name: str, when: bool) -> None:
        meaning = f"mean ± standard deviation of the runs' {meaning}"
        add(
            head,
            meaning,
            lambda of: over_runs(of["runs"][name]) if of.get("runs") else NONE,
            when and has("runs"),
        )

    def add_count(name: str, meaning: str, when: bool = True, head: str = "", **more: Any) -> None:
        """Add a count of completions. The page shows it as a share of the step's completions."""
        counts = [(step.get(name, 0), step["completions"]) for step in steps]
        shares: list[Cell] = [
            (f"{100 * n / (whole or 1):.1f}%", f"{n} of {whole}", n > 0.1 * (whole or 1))
            for n, whole in counts
        ]
        add(
            head or name,
            meaning,
            lambda step: str(step.get(name, 0)),
            when,
            rank=1,
            cells_page=shares,
            **more,
        )

    def named(step: dict[str, Any]) -> str:
        return f"{step['step']} {one_line(step.get('stage', ''), 40)}".strip()

    def tokens(step: dict[str, Any]) -> str:
        text = spent(step["completion_tokens"], uncounted=step.get("uncounted"))
        more = step["verification_tokens"]
        return f"{text} + {spent(more)}" if more != 0 else text

    def best_pass(step: dict[str, Any]) -> str:
        found = step["pass_at_k"]
        return f"pass@{(k := list(found)[-1])} {interval(found[k])}" if found else NONE

    most = document["problem_set"]["n"] * runs_of(document)
    add("step", "its number, and the scaffold's name for it", named, has("stage"))
    add("step", "its number", named, not has("stage"))
    head, meaning = (
        ("graded", "problems with graded proofs")
        if are_proofs
        else ("n", "problems in the accuracies")
    )
    add(head, meaning, lambda step: str(step["mean_accuracy"]["n"]), bool(numbers(document)))
    add(
        "grades",
        "the points of proofs, once they are graded",
        lambda step: NOT_GRADED,
        not is_graded,
    )
    add(
        POINTS,
        "mean over the proofs of all members",
        lambda step: interval(step["mean_accuracy"]),
        points,
    )
    add_runs("points, runs", "means", "mean_accuracy", points)
    add(
        "mean accuracy",
        "mean over all members",
        lambda step: interval(step["mean_accuracy"]),
        answers,
    )
    add(
        "majority accuracy",
        "accuracy of the members' vote",
        lambda of: interval(of["majority_accuracy"]),
        answers,
    )
    add_runs("mean, runs", "mean accuracies", "mean_accuracy", not are_proofs)
    add_runs("majority, runs", "votes", "majority_accuracy", not are_proofs)
    add("pass@k", "mean chance that any of k members is right", best_pass, answers, is_on_page=True)
    add("tokens", "completion tokens of solutions (+ of side calls)", tokens, rank=1)
    add(
        "tokens so far",
        "of all steps up to this step",
        lambda of: spent(of["so_far"]),
        is_on_page=True,
    )
    meaning = "of prompt and completion tokens at the prices in the model card"
    add(
        "cost",
        meaning,
        lambda of: spent(of.get("cost"), dollars, of.get("uncounted")),
        is_priced(document),
        rank=1,
    )
    meaning = "summed over requests"
    add(
        "seconds",
        meaning,
        lambda step: f"{step['generation_seconds']:,.0f}",
        rank=2,
        is_time=True,
    )
    add_count("truncated", "completions that hit the token cap")
    add_count("forced", "truncated completions that were forced to answer", is_on_page=True)
    add_count("elicited", "answers of replies that ended without one (ELICIT=1)", has("elicited"))
    add_count("unread", "replies without a readable answer", answers, head="no answer")
    add_count("doubtful", "answers whose reading or verdict is in doubt")
    add_count("failed", "completions without a reply")
    add_count("undecided", "answers without a verdict in time, counted as wrong", has("undecided"))
    has_fewer = any(step["problems"] != most for step in steps)
    add(
        "problems",
        "with members in the step",
        lambda of: str(of["problems"]),
        has_fewer,
        is_on_page=True,
    )
    unit = "points" if points else "accuracies" if answers else ""
    return Table(
        title(document),
        columns,
        about=f"{unit} in %, with 95% intervals over problems" if unit else "",
    )


def waits_table(document: dict[str, Any]) -> str:
    """Format accuracy against waits for each step with waits. Return "" if no step has waits."""
    steps = [step for step in document["metrics"]["steps"] if step.get("waits")]
    rows = [(step, after) for step in steps for after in step["waits"]]

    def gain(_: Any, of: dict[str, Any]) -> str:
        return (
            shift(found["value"], found["low"], found["high"]) if (found := of.get("gain")) else ""
        )

    def waited(step: dict[str, Any], of: dict[str, Any]) -> str:
        return f"{of['waited']:,} of {step['completions']:,}" if of["waits"] else ""

    def tokens(step: dict[str, Any], of: dict[str, Any]) -> str:
        return (
            "unknown" if (n := of["completion_tokens"]) is None else f"{n / step['problems']:,.0f}"
        )

    declared: list[tuple[str, str, Callable[..., str]]] = [
        ("step", "", lambda step, _: str(step["step"])),
        (
            "waits",
            "answers after this many waits, or a member's last answer",
            lambda _, of: str(of["waits"]),
        ),
        ("mean accuracy", "", lambda _, of: interval(of["mean_accuracy"])),
        ("gain over none", "paired by problem", gain),
        ("waited", "members with this number of waits or more", waited),
        (
            "tokens a problem",
            "completion tokens up to this wait, including earlier answers",
            tokens,
        ),
    ]
    shown = declared if len(steps) > 1 else declared[1:]
    table = Table(
        "", [Column(head, [read(*row) for row in rows], meaning) for head, meaning, read in shown]
    )
    return f"{table.body()}\n\n{table.legend()}" if rows else ""


def text(document: dict[str, Any], has_legend: bool = True) -> str:
    """Format a run for the terminal: its steps, points or pass@k, answers after waits,
    verification, and a legend."""
    table, width, figures = steps_table(document), columns(), document["metrics"]
    parts = [table.text(width)]
    if proofs := figures.get("proofs"):
        parts.append("\n".join([points_table(proofs), *lacking(proofs)]))
    elif len(figures["steps"]) == 1 and not is_ungraded(document):
        n = f"  n={counted[-1]}" if (counted := numbers(document)) else ""
        rates = figures["steps"][-1]["pass_at_k"].items()
        parts.append("\n".join(f"pass@{k}  {interval(estimate)}{n}" for k, estimate in rates))
    parts.append(waits_table(document))
    if (checked := figures.get("verification")) and not is_ungraded(document):
        parts.append(f"verification: {_verification(checked)}")
    return "\n\n".join(filter(None, [*parts, table.legend(width) if has_legend else ""]))


def _verification(checked: dict[str, Any]) -> str:
    if checked["auc"] is None:
        return "no AUC, because it needs scores of both right and wrong candidates"
    text = (
        f"AUC {checked['auc']:.3f} ({checked['right']} right, {checked['wrong']} wrong candidates)"
    )
    if (within := checked["auc_within"])["n"]:
        spread = f"{within['value']:.3f} [{within['low']:.3f}, {within['high']:.3f}]"
        text += f". Within a problem: {spread} (n={within['n']})"
    return text


def title(document: dict[str, Any]) -> str:
    """Name experiment, model, engine and problems, as the title of tables and plots."""
    model, problems = (
        one_line(document["model"]["name"], 200),
        one_line(document["problem_set"]["name"], 200),
    )
    engine, n = one_line(document["engine"]["kind"], 200), document["problem_set"]["n"]
    heading = f"{one_line(document['experiment'], 200)}: {model} ({engine}) on {problems}, n={n}"
    way = document["config"].get("ANSWER")
    return ", ".join(
        filter(
            None, [heading, way and f"answers read as {one_line(str(way), 20)}", merged(document)]
        )
    )


def labels(results: Sequence[Any], most: int = 80) -> list[str]:
    """Name results by experiment and differing constants, or by file, in at most `most` characters.
    `results` have the attributes `name` and `head`."""
    names = []
    for result in results:
        experiment, mine = result.head.experiment, ONE_RUN | result.head.config
        configs = [
            ONE_RUN | each.head.config for each in results if each.head.experiment == experiment
        ]
        differing = [
            name
            for name in dict.fromkeys(chain(*configs))
            if len({repr(of.get(name)) for of in configs}) > 1
        ]
        constants = [f"{name}={mine.get(name, '-')!s:.40}" for name in differing]
        names.append(
            cut(one_line(" ".join([experiment, *constants]) if constants else result.name), most)
        )
    again = Counter(names)
    return [
        name if again[name] == 1 else cut(one_line(r.name), most)
        for r, name in zip(results, names, strict=True)
    ]
