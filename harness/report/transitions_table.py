"""Tabulate a run's transitions for the terminal and the page, with a verdict in words."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from core.base.errors import one_line
from core.base.stats import Estimate
from core.base.terminal import columns, wrapped
from core.client.journal import Archive
from core.types import GOOD
from harness.report.data import Results
from harness.report.table import NONE, Column, Table
from harness.report.tables import interval, is_of_proofs, percent, shift, title
from harness.results import transitions
from harness.results.find import archive
from harness.results.model import MemberResult, has_scores
from harness.results.transitions import Aggregation, Diversity, Transitions

CLOSE = 0.1  # an interval of a difference within this distance from 0 shows no relevant difference
UNGRADED = (
    "not graded, so it is unknown which aggregations are right. Grade it with scripts/grade.sh"
)
NO_PARENTS = "no candidate was written from others, so there are no transitions"
INTERVALS = "with 95% intervals over problems"


@dataclass(frozen=True)
class Report:
    """The tables of a run's transitions, and a line on them. `has_parents` is False if no candidate
    was written from others."""

    tables: Sequence[Table]
    line: str
    has_parents: bool = True

    def page(self) -> dict[str, Any] | None:
        """Return the report for the page, or None without parents."""
        if not self.has_parents:
            return None
        return {"tables": [table.page() for table in self.tables], "line": self.line}


def report(run: Results, journals: Archive | None = None) -> Report:
    """Tabulate the transitions of a run. Without `journals`, texts are not compared."""

    def text_of(member: MemberResult) -> str | None:
        record = journals.record(member.key) if journals else None
        return record.completion.text if record else None

    figures = transitions.of_run(run.problems, text_of)
    if figures.aggregations:
        tables = [_table(run, figures)]
        if figures.diversity:
            tables.append(_diversity_table(figures.diversity))
        return Report(tables, f"{verdict(figures.aggregations)} {_turned(figures)}")
    if figures.ungraded:
        return Report([], UNGRADED)
    return Report([], NO_PARENTS, has_parents=False)


def text(runs: Sequence[Results]) -> str:
    """Format the transitions of runs for the terminal, with one legend."""
    parts: list[str] = []
    legend: list[str] = []
    width = columns()
    for run in runs:
        with archive(run.path, run.head.experiment) as journals:
            tabulated = report(run, journals)
        if not tabulated.tables:
            parts.append(wrapped(f"{run.name}: {tabulated.line}"))
            continue
        main, *others = tabulated.tables
        parts += [wrapped(title(run.document)), main.body(width), wrapped(tabulated.line)]
        parts += [table.text(width) for table in others]
        legend = [table.legend(width) for table in tabulated.tables]
    return "\n\n".join([*parts, *legend])


def markdown(runs: Sequence[Results]) -> str:
    """Format the transitions of runs in Markdown."""
    parts: list[str] = []
    for run in runs:
        with archive(run.path, run.head.experiment) as journals:
            tabulated = report(run, journals)
        parts.append(title(run.document))
        for table in tabulated.tables:
            parts += [table.markdown(), table.legend_end]
        parts.append(tabulated.line)
    return "\n\n".join(filter(None, parts))


# --- the tables ---


def _table(run: Results, figures: Transitions) -> Table:
    """Tabulate the aggregations by the number of their right parents, then all aggregations."""
    by_right_parents = figures.by_right_parents
    names = [f"{right} of {parents}" for parents, right in by_right_parents]
    rows = list(by_right_parents.values())
    if len(rows) > 1:
        names.append("all")
        rows.append(list(figures.aggregations))
    has_votes = figures.aggregations[0].vote is not None
    has_texts = any(row.repeats_text is not None for row in figures.aggregations)
    table = [
        Column("right parents", names, "parents that are right, of the candidates in the prompt"),
        _column("count", "aggregations, which are written from such parents", rows, _count),
        _column("right", "share of the aggregations that are right", rows, _right),
    ]
    if has_votes:
        meaning = "the parents' vote, if a tie scores its share of right answers"
        table.append(_column("vote", meaning, rows, _vote))
    table.append(_column("random", "a parent drawn at random", rows, _one_parent))
    if has_votes:
        meaning = "share whose answer equals a parent's answer"
        table.append(_column("same answer", meaning, rows, _same_answer, rank=1))
    if has_texts:
        meaning = "share whose text after thinking equals a parent's text"
        table.append(_column("same text", meaning, rows, _same_text, rank=3))
    if has_votes:
        meaning = "right ones among the answers that no parent gave"
        table.append(_column("new right", meaning, rows, _new_and_right, rank=2))
    return Table("Transitions", table, legend_end=_legend_end(run, figures.ungraded))


def _column(
    head: str,
    meaning: str,
    rows: Sequence[Sequence[Aggregation]],
    read: Callable[[Sequence[Aggregation]], str],
    rank: int = 0,
) -> Column:
    return Column(head, [read(row) for row in rows], meaning, rank)


def _count(row: Sequence[Aggregation]) -> str:
    return f"{len(row):,}"


def _right(row: Sequence[Aggregation]) -> str:
    return _share(row, lambda aggregation: aggregation.is_right)


def _vote(row: Sequence[Aggregation]) -> str:
    return percent(_mean([aggregation.vote or 0.0 for aggregation in row]))


def _one_parent(row: Sequence[Aggregation]) -> str:
    return percent(_mean([aggregation.one_parent for aggregation in row]))


def _same_answer(row: Sequence[Aggregation]) -> str:
    return _share(row, lambda aggregation: aggregation.repeats_answer)


def _same_text(row: Sequence[Aggregation]) -> str:
    return _share(row, lambda aggregation: aggregation.repeats_text)


def _new_and_right(row: Sequence[Aggregation]) -> str:
    new = [aggregation for aggregation in row if aggregation.is_new]
    right = sum(aggregation.is_right for aggregation in new)
    return f"{right:,} of {len(new):,}"


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _share(row: Sequence[Aggregation], read: Callable[[Aggregation], bool | None]) -> str:
    """Format the share of aggregations for which `read` is True. Those with None are left out."""
    values = []
    for aggregation in row:
        value = read(aggregation)
        if value is not None:
            values.append((aggregation.problem, float(value)))
    return interval(transitions.mean_share(values).to_json()) if values else NONE


def _legend_end(run: Results, ungraded: int) -> str:
    """Explain which candidates are right, and which are not counted."""
    parts = [f"shares of aggregations in %, {INTERVALS}"]
    if is_of_proofs(run.document):
        parts.append(f"a proof is right with {GOOD} points or more")
    elif has_scores(run.document):
        parts.append("an answer is right with a score of 1. Unread answers are wrong")
    else:
        parts.append("unread answers are wrong")
    if run.head.runs:
        parts.append("all runs are counted, and the runs of a problem are one cluster")
    if ungraded:
        parts.append(f"not counted, because a grade is missing: {ungraded:,} aggregations")
    return ". ".join(part[0].upper() + part[1:] for part in parts)


def _diversity_table(rows: Sequence[Diversity]) -> Table:
    names = [f"{row.step} {one_line(row.stage, 40)}".strip() for row in rows]
    distinct = [_number(row.distinct) for row in rows]
    table = [
        Column("step", names),
        Column("problems", [str(row.distinct.n) for row in rows]),
        Column("candidates", [f"{row.members:.3g}" for row in rows], "mean of the populations"),
        Column("distinct answers", distinct, f"mean over problems, {INTERVALS}"),
    ]
    return Table("Diversity", table)


def _number(estimate: Estimate) -> str:
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


# --- the verdict ---


def _turned(figures: Transitions) -> str:
    """Count the aggregations of wrong parents that are right, and of right parents that are
    wrong."""
    from_wrong = [item for item in figures.aggregations if item.right_parents == 0]
    from_right = [item for item in figures.aggregations if item.right_parents == item.parents]
    won = sum(item.is_right for item in from_wrong)
    lost = sum(not item.is_right for item in from_right)
    return (
        f"Wrong turned into right in {won:,} of {len(from_wrong):,} aggregations of wrong parents, "
        f"and right into wrong in {lost:,} of {len(from_right):,} of right parents."
    )


def verdict(aggregations: Sequence[Aggregation]) -> str:
    """Judge by intervals whether aggregations of parents that disagree are right more often than a
    parent drawn at random, and than the parents' vote."""
    if all(aggregation.parents == 1 for aggregation in aggregations):
        return _against_parents(aggregations, _OF_ONE)
    mixed = [aggregation for aggregation in aggregations if aggregation.is_mixed]
    if not mixed:
        return (
            "No aggregation had both right and wrong parents, so these results do not show whether "
            "the model aggregates."
        )
    return f"{_against_parents(mixed, _OF_SEVERAL)}{_against_vote(mixed)}"


@dataclass(frozen=True)
class Words:
    """The sentences of a verdict on a difference, with a place for it."""

    better: str
    equal: str
    worse: str
    unclear: str

    def choose(self, gain: Estimate) -> str:
        """Choose the sentence by the interval alone."""
        if gain.low > 0:
            words = self.better
        elif gain.high < 0:
            words = self.worse
        elif max(-gain.low, gain.high) <= CLOSE:
            words = self.equal
        else:
            words = self.unclear
        difference = shift(gain.value, gain.low, gain.high)
        return words.format(f"({difference} points, n={gain.n})")


_MIXED = "If some parents are right and some are wrong, an aggregation is right"
_OF_SEVERAL = Words(
    f"{_MIXED} more often than a parent drawn at random {{}}: the model aggregates.",
    f"{_MIXED} as often as a parent drawn at random {{}}: the model copies, it does not aggregate.",
    f"{_MIXED} less often than a parent drawn at random {{}}: aggregation does harm.",
    "These results do not show whether the model aggregates. If some parents are right and some "
    "are wrong, the difference from a parent drawn at random is too uncertain {}.",
)
_OF_ONE = Words(
    "A candidate is right more often than its parent {}: refinement helps.",
    "A candidate is right as often as its parent {}: refinement has no effect.",
    "A candidate is right less often than its parent {}: refinement does harm.",
    "These results do not show whether refinement helps. The difference from the parent is too "
    "uncertain {}.",
)
_OF_VOTE = Words(
    " Such an aggregation is right more often than the parents' vote {}.",
    " Such an aggregation is right as often as the parents' vote {}.",
    " The parents' vote is right more often {}.",
    " The difference from the parents' vote is too uncertain {}.",
)


def _against_parents(aggregations: Sequence[Aggregation], words: Words) -> str:
    chances = [aggregation.one_parent for aggregation in aggregations]
    return words.choose(transitions.gain(aggregations, chances))


def _against_vote(aggregations: Sequence[Aggregation]) -> str:
    """Return "" without votes, or if votes are right as often as a parent drawn at random."""
    votes = [aggregation.vote for aggregation in aggregations if aggregation.vote is not None]
    chances = [aggregation.one_parent for aggregation in aggregations]
    if not votes or votes == chances:
        return ""
    return _OF_VOTE.choose(transitions.gain(aggregations, votes))
