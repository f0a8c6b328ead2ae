"""The figures of a run as text, from its results JSON alone."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from core.base.errors import one_line
from core.base.prices import shown as dollars
from core.base.terminal import aligned, short, wrapped
from core.results.warnings import is_ungraded
from core.types import GOOD, MAX_POINTS

NOT_GRADED = "not graded"
NONE = "-"  # a cell without a value
# What proofs are worth, by the names of core/results/points.py. Nobody votes on proofs, and none is accurate or not.
POINTS = f"mean points / {MAX_POINTS}"
SHARES = {"points": POINTS, "good": f"{GOOD} points or more", "full": f"{MAX_POINTS} points"}


def interval(estimate: dict[str, Any]) -> str:
    """A rate in percent with its 95% interval: "87.5 [78.1, 96.9]"."""
    if estimate["value"] is None:
        return "-"
    return f"{100 * estimate['value']:.1f} [{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"


def numbers(document: dict[str, Any]) -> list[int]:
    """By step, over how many problems its accuracies are, where that is not all problems at each step: of a partial
    run, those that got so far. Else nothing."""
    if is_ungraded(document):
        return []
    found = [step["mean_accuracy"]["n"] for step in document["metrics"]["steps"]]
    return found if set(found) - {document["problem_set"]["n"]} else []


def over(document: dict[str, Any]) -> str:
    """The same in words: "n=6 to 2"; "" where all problems are in each step."""
    counted = numbers(document)
    if is_of_proofs(document):  # steps that nobody graded are not drawn
        counted = [n for n in counted if n]
    if not set(counted) - {document["problem_set"]["n"]}:
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


def spent_dollars(cost: float | None, is_partly: bool = False) -> str:
    """The same of money."""
    return "unknown" if cost is None else f"{'≥ ' if is_partly else ''}{dollars(cost)}"


def over_runs(over: dict[str, Any]) -> str:
    """A metric of several runs in percent: their mean, and the standard deviation between them: "83.8 ± 2.1"."""
    return f"{100 * over['mean']:.1f} ± {100 * over['std']:.1f}"


def runs_of(document: dict[str, Any]) -> int:
    """From how many runs the results were merged; 1: from none."""
    return len(document["runs"]["seeds"]) if document.get("runs") else 1


def merged(document: dict[str, Any]) -> str:
    """The same in words, "" of a single run: "mean of 3 runs"."""
    words = {"mean": "mean of", "max": "best of each problem in", "min": "worst of each problem in"}
    how = (document.get("runs") or {}).get("by")
    return f"{words.get(how, 'from')} {runs_of(document)} runs" if how and runs_of(document) > 1 else ""


def chance(p: float) -> str:
    """A p-value: "0.012", or "< 0.001"."""
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


@dataclass(frozen=True)
class Column:
    """A column of a table that is to fit a terminal."""

    head: str
    cells: list[str]
    short: str = ""  # its head where there is little room
    rank: int = 0  # of those that do not fit, the highest goes first; 0: none does
    cells_short: list[str] = field(default_factory=list)  # its cells if there is little room

    @property
    def is_nothing(self) -> bool:
        return all(cell == "0" for cell in self.cells)


def table(document: dict[str, Any], columns: int = 0) -> str:
    """The steps of a run as text: accuracies in percent with 95% intervals over problems (of several runs, also their
    mean and standard deviation over those), tokens (of solutions
    + of verifications), seconds summed over requests; n, where not all problems are in each step. At most so many
    `columns` wide (0: as wide as it gets): what is 0 everywhere goes first, then the seconds; a line says so."""
    steps, counted = document["metrics"]["steps"], numbers(document)
    counts = {"cut": "truncated", "unread": "unread", "doubtful": "doubtful", "failed": "failed"}
    if is_of_proofs(document) or is_ungraded(document):
        del counts["unread"]  # a proof states no answer
    if any(s.get("undecided") for s in steps):
        counts["undecided"] = "undecided"
    has_names = any(s.get("stage") for s in steps)
    numbered = [f"{s['step']} {one_line(s.get('stage', ''), 40)}".strip() for s in steps]
    made = [Column("step" if has_names else "t", numbered)]
    if counted:
        made.append(Column("graded" if is_of_proofs(document) else "n", [str(n) for n in counted]))
    if is_ungraded(document):
        made.append(Column("grades", [NOT_GRADED] * len(steps)))
    elif is_of_proofs(document):
        made.append(Column(POINTS, [interval(s["mean_accuracy"]) for s in steps]))
        if any(s.get("runs") for s in steps):
            cells = [over_runs(s["runs"]["mean_accuracy"]) if s.get("runs") else "-" for s in steps]
            made.append(Column("points, runs", cells))
    else:
        for head in ("mean", "majority"):
            made.append(Column(f"{head} accuracy", [interval(s[f"{head}_accuracy"]) for s in steps], head))
    if steps and all(s.get("runs") for s in steps) and not is_of_proofs(document):
        for head in ("mean", "majority"):
            made.append(Column(f"{head}, runs", [over_runs(s["runs"][f"{head}_accuracy"]) for s in steps]))
    made.append(Column("tokens", [_spent(s) for s in steps], rank=1))
    if is_priced(document):
        costs = [spent_dollars(s.get("cost"), is_partly=bool(s.get("uncounted"))) for s in steps]
        made.append(Column("cost", costs, rank=1))
    made.append(Column("request s", [f"{s['generation_seconds']:,.0f}" for s in steps], rank=2))
    made += [Column(head, [str(s.get(name, 0)) for s in steps], rank=1) for head, name in counts.items()]
    return fitted(made, columns)


def is_of_proofs(document: dict[str, Any]) -> bool:
    """Whether results hold proofs that are graded."""
    return document["metrics"].get("proofs") is not None


def points_table(proofs: dict[str, Any]) -> str:
    """What proofs are worth (the metrics' field `proofs`): over all problems, from run to run, and by split, level and
    category; then the tokens of right and of wrong ones. "" where no grade is there."""
    if not proofs["points"]["n"]:
        return ""
    runs = proofs.get("runs")
    rows = [["", "problems", *SHARES.values()], ["all", *_shares(proofs)]]
    if runs:
        rows.append([f"{len(runs['points']['values'])} runs", "", *(over_runs(runs[name]) for name in SHARES)])
    for name, groups in proofs["groups"].items():
        rows += [[f"{name} {one_line(group, 40)}", *_shares(of)] for group, of in groups.items()]
    made = f"{proofs['proofs']:,} proofs" + (" of all runs" if runs else "")
    lines = [aligned(rows), "", wrapped(f"in %, with 95% intervals over problems; {POINTS}: of {made}")]
    if runs:
        lines.append("runs: mean ± standard deviation over them")
    return "\n".join([*lines, *written_by(proofs)])


def _shares(of: dict[str, Any]) -> list[str]:
    return [str(of["points"]["n"]), *(interval(of[name]) for name in SHARES)]


def written_by(proofs: dict[str, Any]) -> list[str]:
    """The mean tokens of right and of wrong proofs, a line each; nothing where none are known."""
    lines = []
    for kind, few in (("right", f"{GOOD} points or more"), ("wrong", "fewer, and not delivered")):
        of = proofs["written"][kind]
        if of["thinking"] is not None:
            told = f"{of['thinking']:,.0f} thinking + {of['answer']:,.0f} answer, by characters"
            lines.append(f"tokens of the {of['proofs']:,} {kind} ones ({few}): {told}")
    return lines


def lacking(of: dict[str, Any]) -> list[str]:
    """Which proofs have no grade, of those that `of` counts; a line for each kind."""
    lines = []
    if counts := of["not_delivered"]:
        lines.append(f"not graded, and counted as 0 points: {listed(counts)}")
    if counts := of["missing"]:
        lines.append(f"missing, and counted nowhere: {listed(counts)}")
    return lines


def listed(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {one_line(why, 60)}" for why, count in counts.items())


def is_priced(document: dict[str, Any]) -> bool:
    """Whether results know what tokens cost."""
    return bool(document.get("prices")) and any(s.get("cost") is not None for s in document["metrics"]["steps"])


def _spent(step: dict[str, Any]) -> str:
    spent = spent_tokens(step["completion_tokens"], is_partly=bool(step.get("uncounted")))
    return spent + (f" + {spent_tokens(step['verification_tokens'])}" if step["verification_tokens"] != 0 else "")


def fitted(made: Sequence[Column], columns: int) -> str:
    """The table of these columns, as many of them as fit, and a line that names the others."""
    shown, zeros, left_out = list(made), list[Column](), list[Column]()

    def drawn(is_short: bool) -> str:
        heads = [column.short if is_short and column.short else column.head for column in shown]
        cells = [(is_short and column.cells_short) or column.cells for column in shown]
        return aligned([heads, *zip(*cells, strict=True)])

    def fits(text: str) -> bool:
        return not columns or max(map(len, text.splitlines())) <= columns

    if not fits(text := drawn(is_short=False)):
        zeros = [column for column in shown if column.rank and column.is_nothing]
        shown = [column for column in shown if column not in zeros]
        text = drawn(is_short=False)
    if not fits(text):
        text = drawn(is_short=True)
    while not fits(text) and (least := max(shown, key=lambda column: column.rank)).rank:
        shown.remove(least)
        left_out.append(least)
        text = drawn(is_short=True)
    notes = []
    if zeros:
        notes.append(f"0 in all rows: {', '.join(column.head for column in zeros)}")
    if left_out:
        notes.append(f"no room for: {', '.join(column.head for column in left_out)}")
    return text + (wrapped(f"\n({'; '.join(notes)})", " ", columns) if notes else "")


def final(document: dict[str, Any]) -> str:
    """What a run came to, in a line: "final: majority 88.3 [80.1, 94.0], +22.9 over step 0's vote, 175k tokens, 119 s".
    Of a run of one step, there is nothing to be over; of proofs that nobody has graded, it says so."""
    figures = document["metrics"]
    first, last = figures["steps"][0], figures["steps"][-1]
    name, before = (POINTS, "step 0") if is_of_proofs(document) else ("majority", "step 0's vote")
    voted = f"{name} {interval(last['majority_accuracy'])}"
    said = [f"final: {NOT_GRADED if is_ungraded(document) else voted}"]
    if over := last.get("runs"):
        said.append(f"over {runs_of(document)} runs {over_runs(over['majority_accuracy'])}")
    if last is not first and None not in (first["majority_accuracy"]["value"], last["majority_accuracy"]["value"]):
        gain = last["majority_accuracy"]["value"] - first["majority_accuracy"]["value"]
        said.append(f"{100 * gain:+.1f} over {before}")
    tokens = figures["tokens"]["completion"]
    spent = "unknown tokens" if tokens is None else f"{short(tokens)} tokens"
    said.append(f"{spent} in {runs_of(document)} runs" if runs_of(document) > 1 else spent)
    if is_priced(document):
        partly = any(step.get("uncounted") for step in figures["steps"])
        said.append(spent_dollars(figures.get("cost"), is_partly=partly))
    said.append(f"{figures['seconds']:,.0f} s")
    return ", ".join(said)


# What the columns of a table are, in the order of the legend.
MEANINGS = {
    "step": "step: its number, and what the scaffold does in it",
    "t": "t: the step",
    "n": "n: problems that got so far",
    "graded": "graded: problems whose proofs of that step have grades",
    "grades": "grades: what proofs are worth, when somebody has graded them",
    "mean accuracy": "mean accuracy: of all members",
    "majority accuracy": "majority accuracy: of their vote",
    POINTS: f"{POINTS}: what proofs are worth, of all members",
    "points, runs": "points, runs: mean ± standard deviation of the runs' means",
    "mean, runs": "mean, runs: mean ± standard deviation of the runs' mean accuracies",
    "majority, runs": "majority, runs: the same of their votes",
    "tokens": "tokens: written by solutions (+ by checks on them)",
    "cost": "cost: of all these tokens, at the prices of the model's card",
    "request s": "request s: seconds summed over requests",
    "cut": "cut: hit the cap",
    "unread": "unread: a reply in which no answer could be found or read",
    "doubtful": "doubtful: read with a doubt, which the results name",
    "failed": "failed: no reply",
    "undecided": "undecided: no verdict of the grader, counted as wrong",
}


def legend(table: str) -> str:
    """What stands in `table`: all of its columns."""
    head = table.partition("\n")[0]
    heads = set(re.split(" {2,}", head.strip()))
    known = [said for name, said in MEANINGS.items() if heads & {name, name.removesuffix(" accuracy")}]
    what = "points" if POINTS in head else "accuracies" if "mean" in head else ""
    return "; ".join([*known, *([f"{what} in %, with 95% intervals over problems"] if what else [])])


def waits_table(document: dict[str, Any]) -> str:
    """Accuracy against waits, of each step in which any member waited; "" where there is none: of all members after so
    many waits at most, what that gains over none (paired by problem), how many of them waited as often, and what they
    had written by then."""
    steps = [step for step in document["metrics"]["steps"] if step.get("waits")]
    rows = [
        [
            str(step["step"]),
            str(after["waits"]),
            interval(after["mean_accuracy"]),
            shift(gain["value"], gain["low"], gain["high"]) if (gain := after.get("gain")) else "",
            f"{after['waited']:,} of {step['completions']:,}" if after["waits"] else "",
            "unknown" if (spent := after["completion_tokens"]) is None else f"{spent / step['problems']:,.0f}",
        ]
        for step in steps
        for after in step["waits"]
    ]
    heads = ["t", "waits", "mean accuracy", "gain over none", "waited", "tokens a problem"]
    from_here = 0 if len(steps) > 1 else 1
    if not rows:
        return ""
    return f"{aligned([row[from_here:] for row in (heads, *rows)])}\n\n{wrapped(WAITS_LEGEND)}"


WAITS_LEGEND = (
    "waits: the answer after so many, or after the last where thinking waited less often; gain over none: paired by "
    "problem; waited: members that waited as often; tokens a problem: all written up to there, earlier answers too"
)


def pass_table(document: dict[str, Any]) -> str:
    """Unbiased pass@k of the last step, one line per k; n, where it is not over all problems."""
    found = document["metrics"]["steps"][-1]["pass_at_k"]
    n = f"  n={counted[-1]}" if (counted := numbers(document)) else ""
    return "\n".join(f"pass@{k}  {interval(estimate)}{n}" for k, estimate in found.items())


def title(document: dict[str, Any]) -> str:
    """What was run on what: stands over every table and plot."""
    model, problems = one_line(document["model"]["name"], 200), one_line(document["problem_set"]["name"], 200)
    engine, n = one_line(document["engine"]["kind"], 200), document["problem_set"]["n"]
    said = f"{one_line(document['experiment'], 200)}: {model} ({engine}) on {problems}, n={n}"
    return ", ".join(filter(None, [said, merged(document)]))


@dataclass(frozen=True)
class Table:
    """`opens`: for each row what it leads to on the page, results by a word; `marks`: what is special about it."""

    title: str
    columns: list[Column]
    opens: list[dict[str, str]] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)

    def text(self, width: int = 0) -> str:
        """At most so wide (0: as wide as it gets); a line says what found no room."""
        return f"{wrapped(self.title, width=width)}\n\n{fitted(self.columns, width)}"

    def markdown(self) -> str:
        heads = [column.head for column in self.columns]
        lines = [heads, ["---"] * len(heads), *self._rows()]
        return f"**{self.title}**\n\n" + "\n".join(f"| {' | '.join(map(_in_markdown, line))} |" for line in lines)

    def page(self, numbers: Mapping[str, int]) -> dict[str, Any]:
        """As the page takes it; `numbers`: of results there, by name. Others have no link."""
        return {
            "title": self.title,
            "heads": [column.head for column in self.columns],
            "rows": self._rows(),
            "marks": self.marks,
            "links": [[[word, numbers[name]] for word, name in row.items() if name in numbers] for row in self.opens],
        }

    def _rows(self) -> list[list[str]]:
        return [list(row) for row in zip(*(column.cells for column in self.columns), strict=True)]


def _in_markdown(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|")
