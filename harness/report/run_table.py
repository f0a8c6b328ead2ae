"""Format a run as text: the table of its steps, and below it points, waits and verification."""

from collections.abc import Callable
from typing import Any

from core.base.errors import one_line
from core.base.prices import format_dollars as dollars
from core.base.terminal import columns, wrapped
from harness.report.table import NONE, Cell, Column, Table
from harness.report.tables import (
    NOT_GRADED,
    POINTS,
    accuracy_or_score,
    interval,
    is_of_proofs,
    is_priced,
    lines_on_missing_grades,
    numbers,
    over_runs,
    points_by_group,
    points_table,
    runs_of,
    shift,
    spent,
    title,
    written_by,
)
from harness.results.model import has_scores, total
from harness.results.warnings import is_ungraded

Step = dict[str, Any]  # the metrics of a step
FULL_SCORE = "full score"
HIGH = 0.1  # the page marks counts above this share of the completions


def steps_table(document: dict[str, Any]) -> Table:
    """Tabulate the steps of a run: accuracies, tokens, cost, seconds and counts of completions.

    A new column is one call of `add`, and its field in harness/results/model.py and schema.json.
    """
    table = _Columns(document)
    _add_names(table)
    _add_rates(table)
    _add_costs(table)
    _add_counts(table)
    return Table(title(document), table.columns, legend_end=table.legend_end)


class _Columns:
    """The columns of a table of steps."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.steps = _with_sums(document["metrics"]["steps"])
        self.is_graded = not is_ungraded(document)
        self.are_proofs = is_of_proofs(document)
        self.has_scores = has_scores(document)
        self.columns: list[Column] = []

    @property
    def has_answers(self) -> bool:
        return self.is_graded and not self.are_proofs

    @property
    def legend_end(self) -> str:
        if not self.is_graded:
            return ""
        unit = "points" if self.are_proofs else _plural(accuracy_or_score(self.document))
        return f"{unit} in %, with 95% intervals over problems"

    def has(self, name: str) -> bool:
        """Return whether the field `name` of any step is known, and not 0 or empty."""
        return any(step.get(name) for step in self.steps)

    def add(self, head: str, meaning: str, read: Callable[[Step], str], **options: Any) -> None:
        """Add a column. `read` returns the cell of a step, and `options` are fields of Column."""
        cells = [read(step) for step in self.steps]
        self.columns.append(Column(head, cells, meaning, **options))

    def add_over_runs(self, head: str, meaning: str, name: str) -> None:
        """Add the mean and standard deviation over merged runs, if there are any."""

        def read(step: Step) -> str:
            return over_runs(step["runs"][name]) if step.get("runs") else NONE

        if self.has("runs"):
            self.add(head, f"mean ± standard deviation of the runs' {meaning}", read)

    def add_count(
        self, name: str, meaning: str, head: str = "", rank: int = 1, **options: Any
    ) -> None:
        """Add a count of completions. The page shows it as a share of the step's completions. With
        `rank` 0, the column is never omitted, unless all counts are 0."""
        shares = [_share(step.get(name, 0), step["completions"]) for step in self.steps]
        options |= {"rank": rank if self.has(name) else 1, "cells_page": shares}
        self.add(head or name, meaning, lambda step: str(step.get(name, 0)), **options)


def _with_sums(steps: list[Step]) -> list[Step]:
    """Return the steps with `so_far`, the tokens of all steps up to this step (None: unknown)."""
    summed = []
    so_far: float | None = 0
    for step in steps:
        so_far = total([so_far, step["completion_tokens"], step["verification_tokens"]])
        summed.append(step | {"so_far": so_far})
    return summed


def _share(count: int, completions: int) -> Cell:
    share = count / (completions or 1)
    return f"{100 * share:.1f}%", f"{count} of {completions}", share > HIGH


def _add_names(table: _Columns) -> None:
    def name(step: Step) -> str:
        return f"{step['step']} {one_line(step.get('stage', ''), 40)}".strip()

    def number(step: Step) -> str:
        return str(step["mean_accuracy"]["n"])

    has_stages = table.has("stage")
    meaning = "its number, and the scaffold's name for it" if has_stages else "its number"
    table.add("step", meaning, name)
    if not numbers(table.document):
        return
    if table.are_proofs:
        table.add("graded", "problems with graded proofs", number)
    else:
        unit = _plural(accuracy_or_score(table.document))
        table.add("n", f"problems in the {unit}", number)


def _add_rates(table: _Columns) -> None:
    def mean(step: Step) -> str:
        return interval(step["mean_accuracy"])

    def majority(step: Step) -> str:
        return interval(step["majority_accuracy"])

    if not table.is_graded:
        table.add("grades", "the points of proofs, once they are graded", lambda step: NOT_GRADED)
    if table.is_graded and table.are_proofs:
        table.add(POINTS, "mean over the proofs of all members", mean)
        table.add_over_runs("points, runs", "means", "mean_accuracy")
    name = accuracy_or_score(table.document)
    if table.has_answers:
        table.add(f"mean {name}", "mean over all members", mean)
        table.add(f"majority {name}", f"{name} of the members' vote", majority)
    if table.has_answers and table.has_scores:
        table.add(FULL_SCORE, "share of members with a score of 1", _full_score)
    if not table.are_proofs:
        table.add_over_runs("mean, runs", f"mean {_plural(name)}", "mean_accuracy")
        table.add_over_runs("majority, runs", "votes", "majority_accuracy")
    if table.has_answers:
        result = "has the full score" if table.has_scores else "is right"
        _add_best_pass(table, result)


def _plural(name: str) -> str:
    return {"accuracy": "accuracies", "score": "scores"}[name]


def _full_score(step: Step) -> str:
    """Format the share of members with a grade of 1, which is pass@1."""
    rates = step["pass_at_k"]
    return interval(rates["1"]) if rates else NONE


def _add_best_pass(table: _Columns, result: str) -> None:
    """Add pass@k for the largest k of each step. The head names k if all steps have the same k.
    `result` describes a passing member."""
    largest = {list(step["pass_at_k"])[-1] for step in table.steps if step["pass_at_k"]}
    has_one_k = len(largest) == 1

    def read(step: Step) -> str:
        rates = step["pass_at_k"]
        if not rates:
            return NONE
        k, rate = list(rates.items())[-1]
        return interval(rate) if has_one_k else f"pass@{k} {interval(rate)}"

    k = min(largest) if has_one_k else "k"
    meaning = f"mean chance that any of {k} members {result}"
    table.add(f"pass@{k}", meaning, read, is_on_page=True)


def _add_costs(table: _Columns) -> None:
    def tokens(step: Step) -> str:
        solutions = spent(step["completion_tokens"], uncounted=step.get("uncounted"))
        side_calls = step["verification_tokens"]
        return solutions if side_calls == 0 else f"{solutions} + {spent(side_calls)}"

    def so_far(step: Step) -> str:
        return spent(step["so_far"])

    def cost(step: Step) -> str:
        return spent(step.get("cost"), dollars, step.get("uncounted"))

    def seconds(step: Step) -> str:
        return f"{step['generation_seconds']:,.0f}"

    table.add("tokens", "completion tokens of solutions (+ of side calls)", tokens, rank=2)
    table.add("tokens so far", "of all steps up to this step", so_far, is_on_page=True)
    if is_priced(table.document):
        meaning = "of prompt and completion tokens at the prices in the model card"
        table.add("cost", meaning, cost, rank=2)
    table.add("seconds", "summed over requests", seconds, rank=3, is_time=True)


def _add_counts(table: _Columns) -> None:
    add = table.add_count
    add("truncated", "completions that hit the token cap", rank=0)
    add("forced", "truncated completions that were forced to answer", is_on_page=True)
    if table.has("elicited"):
        add("elicited", "answers of replies that ended without one (ELICIT=1)")
    if table.has_scores:
        meaning = "members with a score between 0 and 1"
        table.add("partly right", meaning, lambda step: str(step.get("partly_right", 0)), rank=1)
    if table.has_answers:
        add("unread", "replies without a readable answer", head="no answer", rank=0)
    add("doubtful", "answers whose reading or verdict is in doubt")
    add("failed", "completions without a reply", rank=0)
    if table.has("undecided"):
        add("undecided", "answers without a verdict, counted as wrong")
    expected = table.document["problem_set"]["n"] * runs_of(table.document)
    if any(step["problems"] != expected for step in table.steps):
        table.add(
            "problems",
            "with members in the step",
            lambda step: str(step["problems"]),
            is_on_page=True,
        )


def waits_table(document: dict[str, Any]) -> Table | None:
    """Tabulate accuracy against waits for each step with waits. Return None if no step has
    waits."""
    steps = [step for step in document["metrics"]["steps"] if step.get("waits")]
    rows = [(step, wait) for step in steps for wait in step["waits"]]
    if not rows:
        return None

    def add(head: str, meaning: str, read: Callable[[Step, Step], str]) -> None:
        cells = [read(step, wait) for step, wait in rows]
        waits_columns.append(Column(head, cells, meaning))

    waits_columns: list[Column] = []
    if len(steps) > 1:
        add("step", "", lambda step, _: str(step["step"]))
    meaning = "answers after this many waits, or a member's last answer"
    add("waits", meaning, lambda _, wait: str(wait["waits"]))
    mean = f"mean {accuracy_or_score(document)}"
    add(mean, "", lambda _, wait: interval(wait["mean_accuracy"]))
    add("gain over none", "paired by problem", _gain_of_waits)
    add("waited", "members with this number of waits or more", _waited)
    meaning = "completion tokens up to this wait, including earlier answers"
    add("tokens a problem", meaning, _tokens_to_wait)
    return Table("Waits", waits_columns)


def _gain_of_waits(_: Step, wait: Step) -> str:
    gain = wait.get("gain")
    return shift(gain["value"], gain["low"], gain["high"]) if gain else ""


def _waited(step: Step, wait: Step) -> str:
    return f"{wait['waited']:,} of {step['completions']:,}" if wait["waits"] else ""


def _tokens_to_wait(step: Step, wait: Step) -> str:
    tokens = wait["completion_tokens"]
    return "unknown" if tokens is None else f"{tokens / step['problems']:,.0f}"


def text(document: dict[str, Any], has_legend: bool = True) -> str:
    """Format a run for the terminal: its steps, points or pass@k, answers after waits,
    verification, and the unit of all figures. `has_legend` adds a legend of the columns."""
    table = steps_table(document)
    width = columns()
    parts = [table.text(width)]
    proofs = document["metrics"].get("proofs")
    if proofs:
        parts.append("\n".join([points_table(proofs), *lines_on_missing_grades(proofs)]))
    elif _has_one_graded_step(document):
        parts.append(_pass_at_k(document))
    waits = waits_table(document)
    if waits:
        parts.append(f"{waits.body()}\n\n{waits.legend()}")
    parts.append(wrapped(_verification(document)))
    parts.append(table.legend(width) if has_legend else wrapped(table.legend_end))
    return "\n\n".join(filter(None, parts))


def markdown(document: dict[str, Any]) -> str:
    """Format the tables of a run in Markdown, with lines as `text` has them."""
    table = steps_table(document)
    parts = [table.markdown(), table.legend_end]
    proofs = document["metrics"].get("proofs")
    if proofs:
        points = points_by_group(proofs)
        parts += [points.markdown(), points.legend_end]
        parts += [*written_by(proofs), *lines_on_missing_grades(proofs)]
    elif _has_one_graded_step(document):
        rates = document["metrics"]["steps"][-1]["pass_at_k"]
        cells = [Column(f"pass@{k}", [interval(rate)]) for k, rate in rates.items()]
        parts.append(Table("", cells).markdown())
    waits = waits_table(document)
    if waits:
        parts.append(waits.markdown())
    parts.append(_verification(document))
    return "\n\n".join(filter(None, parts))


def _has_one_graded_step(document: dict[str, Any]) -> bool:
    return len(document["metrics"]["steps"]) == 1 and not is_ungraded(document)


def _pass_at_k(document: dict[str, Any]) -> str:
    """Format a line for each k of the last step, with the number of problems if some lack it."""
    counts = numbers(document)
    n = f"  n={counts[-1]}" if counts else ""
    rates = document["metrics"]["steps"][-1]["pass_at_k"]
    lines = [f"pass@{k}  {interval(rate)}{n}" for k, rate in rates.items()]
    if has_scores(document):
        lines.append("(pass@k counts members with the full score)")
    return "\n".join(lines)


def _verification(document: dict[str, Any]) -> str:
    """Format the AUC of self-scores, or return "" without self-scores or grades. If answers have
    scores, only those with the full score are right."""
    verification = document["metrics"].get("verification")
    if not verification or is_ungraded(document):
        return ""
    auc = verification["auc"]
    right = FULL_SCORE if has_scores(document) else "right"
    wrong = "other" if has_scores(document) else "wrong"
    if auc is None:
        return (
            f"verification: no AUC, because it needs scores of both {right} and {wrong} candidates"
        )
    candidates = f"{verification['right']} {right}, {verification['wrong']} {wrong} candidates"
    text = f"verification: AUC {auc:.3f} ({candidates})"
    within = verification["auc_within"]
    if within["n"]:
        spread = f"{within['value']:.3f} [{within['low']:.3f}, {within['high']:.3f}]"
        text += f". Within a problem: {spread} (n={within['n']})"
    return text
