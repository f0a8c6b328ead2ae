"""List the results in a folder, the newest first: `bash scripts/report.sh`."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from core.base.errors import UserError, one_line
from core.base.terminal import columns, cut, wrapped
from harness.report.table import NONE, Column, Table
from harness.report.tables import NOT_GRADED, interval
from harness.results import read
from harness.results.find import NO_RESULTS, NoResults, comparisons, unfinished
from harness.results.model import Head
from harness.results.warnings import CONTINUES, is_ungraded

LONGEST = 20  # characters of a model's name or a set's name
DATE = "%d %b %H:%M"  # in local time
PARTIAL = ".partial"
LEGEND = (
    "final accuracy: the last step's vote in %, with its 95% interval over problems (for proofs, "
    "the mean points in % of 7)"
)


@dataclass(frozen=True)
class Listing:
    """The results in a folder. `heads` has the head of each file by the name that opens it, the
    newest first. `folders` are the names of comparisons and of labs' runs. `unfinished` comparisons
    have no table yet. `notes` describe unreadable files."""

    folder: Path
    heads: dict[str, Head]
    folders: list[str]
    unfinished: list[str]
    notes: list[str]

    @classmethod
    def of_folder(cls, folder: Path) -> "Listing":
        """Read the heads of all results files. Raises NoResults if there are no results."""
        heads: dict[str, Head] = {}
        notes: list[str] = []
        for path in folder.glob("*.json"):
            try:
                head, _ = read.read(path)
            except UserError as error:
                notes.append(one_line(str(error)))
            else:
                heads[path.stem] = head
        folders = sorted(comparisons(folder))
        # runs of several seeds end with a file of the folder's name
        begun = sorted(unfinished(folder) - heads.keys())
        if not (heads or folders or begun or notes):
            raise NoResults(NO_RESULTS.format(folder))
        newest = sorted(heads, key=lambda name: heads[name].ended, reverse=True)
        return cls(folder, {name: heads[name] for name in newest}, folders, begun, notes)

    def table(self) -> Table:
        """Tabulate the results. If all have one model, the title names it."""
        heads = list(self.heads.values())
        models = [one_line(head.model["name"], 80) for head in heads]
        title = f"Results in {self.folder}, the newest first"
        has_one_model = len(set(models)) == 1
        if has_one_model:
            title += f", of {models[0]}"
        table = [
            Column("result", [one_line(name, 80) for name in self.heads]),
            Column("set", [cut(one_line(head.problem_set["name"]), LONGEST) for head in heads]),
            Column("model", [cut(model, LONGEST) for model in models], rank=1),
            Column("n", [str(head.problem_set["n"]) for head in heads]),
            Column("ended", [_date(head.ended) for head in heads], rank=2),
            Column("final accuracy", [_accuracy(head) for head in heads]),
        ]
        if has_one_model:
            del table[2]
        return Table(title, table, legend_end=LEGEND)

    def lines(self) -> list[str]:
        """Return the lines below the table: partial results, folders, notes and commands."""
        lines = [f"note: {note}" for note in self.notes]
        partial = [name for name in self.heads if name.endswith(PARTIAL)]
        if partial:
            lines.append(f"partial: {', '.join(partial)} ({CONTINUES})")
        if self.folders:
            lines.append(f"comparisons, and runs of several stages: {', '.join(self.folders)}")
        if self.unfinished:
            lines.append(f"without a table yet: {', '.join(self.unfinished)} ({CONTINUES})")
        example = next(iter([*self.heads, *self.folders, *self.unfinished]), "NAME")
        lines.append(f"open one: bash scripts/report.sh {example}")
        if len(self.heads) > 1:
            lines.append("the newest of each name on one page: bash scripts/report.sh --all")
        return lines

    def text(self) -> str:
        """Format the list for the terminal."""
        width = columns()
        lines = [wrapped(line, "  ", width) for line in self.lines()]
        parts = ["\n".join(lines)]
        if self.heads:
            table = self.table()
            parts = [table.text(width), wrapped(table.legend_end, "", width), *parts]
        return "\n\n".join(parts)

    def markdown(self) -> str:
        """Format the table in Markdown."""
        table = self.table()
        return f"{table.markdown()}\n\n{table.legend_end}"


def _date(ended: str) -> str:
    """Format a time of a results file in local time, or return it if it is not one."""
    try:
        return f"{datetime.fromisoformat(ended).astimezone():{DATE}}"
    except ValueError:
        return one_line(ended, 20)


def _accuracy(head: Head) -> str:
    if not head.metrics.steps:
        return NONE
    if is_ungraded(head.document):
        return NOT_GRADED
    return interval(head.document["metrics"]["steps"][-1]["majority_accuracy"])
