"""Tabulate how good the scores of runs are, for the terminal and the page, with a verdict in
words."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from core.base.stats import Estimate
from core.base.terminal import columns, wrapped
from core.types import CONFIDENCE
from harness.report.data import Results
from harness.report.table import NONE, Column, Table
from harness.report.tables import interval, labels
from harness.report.transitions_table import INTERVALS, Words
from harness.results.scores import Part, Scores

NO_SCORES = "no finished candidate has a score and a grade"
TITLE = "How good is the score?"
LEGEND = (
    "AUC: the chance that a right candidate scores above a wrong one (0.5: the score knows "
    "nothing). Within problems: the mean over the problems with both, which decides whether the "
    "score can choose. Pooled: also over pairs of different problems. Best, weighted vote and vote "
    "choose among the same candidates. Agreement: the answer of the best score wins the vote. All "
    f"other figures in %, {INTERVALS}"
)


@dataclass(frozen=True)
class Report:
    """The tables of the scores of a run, and a line on them. There are none without scores."""

    run: Results

    @cached_property
    def scores(self) -> Scores:
        return Scores(self.run.problems)

    @cached_property
    def figures(self) -> dict[str, str]:
        """The figures by their names in the main table."""
        scores = self.scores
        rows = {
            "score": _named(self.run.head.config),
            "candidates": f"{scores.candidates:,} of {scores.problems:,} problems",
            "without a score": f"{scores.unscored:,}",
            "AUC within problems": _area(scores.within()),
            "AUC pooled": _area(scores.pooled()),
            "best score is right": _share(scores.share(lambda choice: choice.best)),
        }
        if scores.has_weights:
            weighted = scores.share(lambda choice: choice.weighted_vote)
            rows["weighted vote is right"] = _share(weighted)
        if scores.has_votes:
            rows["vote is right"] = _share(scores.share(lambda choice: choice.vote))
        rows["random one is right"] = _share(scores.share(lambda choice: choice.random))
        if scores.has_votes:
            rows["agreement with vote"] = _share(scores.share(lambda choice: choice.agreement))
        return rows

    def parts(self, title: str) -> Table:
        """Tabulate the accuracy of candidates by their scores."""
        parts = self.scores.parts()
        return Table(
            title,
            [
                Column("scores", [_span(part) for part in parts]),
                Column("candidates", [f"{part.candidates:,}" for part in parts]),
                Column("right, %", [_share(part.right) for part in parts]),
            ],
        )

    @cached_property
    def line(self) -> str:
        """The verdict."""
        sentences = [_knows(self.scores)]
        if self.scores.has_votes:
            gain = self.scores.gain(lambda choice: choice.best)
            sentences.append(BEST_AND_VOTE.choose(gain))
        if self.scores.has_weights:
            gain = self.scores.gain(lambda choice: choice.weighted_vote)
            sentences.append(WEIGHTED_AND_VOTE.choose(gain))
        return " ".join(sentences)

    def page(self) -> dict[str, Any] | None:
        """Return the report for the page, or None without scores."""
        if not self.scores.choices:
            return None
        tables = [_main_table([self], ["value"]), self.parts("Accuracy by score")]
        return {"tables": [table.page() for table in tables], "line": self.line}


def text(runs: Sequence[Results]) -> str:
    """Format the scores of runs for the terminal: one table with a column for each run, then a
    verdict and the accuracy by score of each run."""
    width = columns()
    parts: list[str] = []
    reports, names = _with_scores(runs)
    if reports:
        main = _main_table(reports, names)
        parts += [main.text(width), wrapped(main.legend_end)]
    for report, name in zip(reports, names, strict=True):
        table = report.parts(f"Accuracy by score: {name}")
        parts += [table.text(width), wrapped(report.line)]
    parts += [wrapped(line) for line in _without_scores(runs, reports)]
    return "\n\n".join(parts)


def markdown(runs: Sequence[Results]) -> str:
    """Format the scores of runs in Markdown."""
    parts: list[str] = []
    reports, names = _with_scores(runs)
    if reports:
        main = _main_table(reports, names)
        parts += [main.markdown(), main.legend_end]
    for report, name in zip(reports, names, strict=True):
        parts += [report.parts(f"Accuracy by score: {name}").markdown(), report.line]
    return "\n\n".join([*parts, *_without_scores(runs, reports)])


def _with_scores(runs: Sequence[Results]) -> tuple[list[Report], list[str]]:
    """Return the reports of the runs with scores, and the names of these runs."""
    reports = [report for report in map(Report, runs) if report.scores.choices]
    return reports, labels([report.run for report in reports], 40)


def _without_scores(runs: Sequence[Results], reports: Sequence[Report]) -> list[str]:
    scored = [report.run for report in reports]
    return [f"{run.name}: {NO_SCORES}" for run in runs if run not in scored]


def _main_table(reports: Sequence[Report], names: Sequence[str]) -> Table:
    """Tabulate the figures, with a column for each run. Rows of zeros and missing figures are left
    out."""
    rows = list(dict.fromkeys(name for report in reports for name in report.figures))
    rows = [row for row in rows if any(report.figures.get(row, "0") != "0" for report in reports)]
    figures = [Column("figure", rows)]
    for number, (report, name) in enumerate(zip(reports, names, strict=True)):
        cells = [report.figures.get(row, NONE) for row in rows]
        figures.append(Column(name, cells, rank=number))
    return Table(TITLE, figures, legend_end=LEGEND)


def _named(config: dict[str, Any]) -> str:
    """Name the score of a run by its constants. Scaffolds without the constant SCORE have one of
    their own."""
    name = str(config.get("SCORE", "its own"))
    if name == CONFIDENCE:
        return f"{name} ({config.get('CONFIDENCE')})"
    return name


def _span(part: Part) -> str:
    low = f"{part.low:.4g}"
    high = f"{part.high:.4g}"
    return low if low == high else f"{low} to {high}"


def _share(estimate: Estimate) -> str:
    return interval(estimate.to_json())


def _area(estimate: Estimate | None) -> str:
    """Format an AUC with its interval and the number of problems."""
    if estimate is None or not estimate.n:
        return NONE
    return f"{estimate.value:.3f} [{estimate.low:.3f}, {estimate.high:.3f}] (n={estimate.n})"


# --- the verdict ---

BEST_AND_VOTE = Words(
    "The best score is right more often than the vote {}.",
    "The best score is right as often as the vote {}.",
    "The vote is right more often than the best score {}.",
    "Whether the best score or the vote is right more often is too uncertain {}.",
)
WEIGHTED_AND_VOTE = Words(
    "The weighted vote is right more often than the vote {}.",
    "The weighted vote is right as often as the vote {}.",
    "The vote is right more often than the weighted vote {}.",
    "Whether the weighted vote or the vote is right more often is too uncertain {}.",
)


def _knows(scores: Scores) -> str:
    """Judge by the interval whether the score tells right from wrong candidates of a problem."""
    area = scores.within()
    if not area.n:
        return "No problem has both right and wrong candidates, so there is no AUC within problems."
    figure = f"(AUC {area.value:.2f} [{area.low:.2f}, {area.high:.2f}], n={area.n})"
    if area.low > 0.5:
        return f"Right candidates of a problem score above wrong ones {figure}."
    if area.high < 0.5:
        return f"Wrong candidates of a problem score above right ones {figure}."
    return f"It is uncertain whether right candidates of a problem score above wrong ones {figure}."
