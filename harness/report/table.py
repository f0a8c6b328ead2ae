"""Declare tables once for text, Markdown and the page, with the meaning of each column."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.base.terminal import aligned, labelled, wrapped

NONE = "-"  # a cell without a value
BETWEEN = " · "  # separates the parts of a line
# a cell of the page: its text, or its text, its hint and a flag that marks the cell
Cell = str | tuple[str, str, bool]


@dataclass(frozen=True)
class Column:
    """A column with its cells."""

    head: str
    cells: Sequence[str]
    meaning: str = ""  # for the legend
    rank: int = 0  # columns of zeros, then of high rank are omitted first, of rank 0 never
    cells_page: Sequence[Cell] = ()  # the cells on the page
    is_on_page: bool = False  # True if only the page shows the column
    is_time: bool = False  # True for seconds, which the page shows even if all are 0

    @property
    def is_nothing(self) -> bool:
        return self.rank > 0 and all(cell == "0" for cell in self.cells)


def meanings(columns: Iterable[Column]) -> list[tuple[str, str]]:
    """List the names and the meanings of `columns` that have a meaning."""
    explained = [column for column in columns if column.meaning]
    return [(column.head, column.meaning) for column in explained]


def legend(columns: Iterable[Column], *endings: str) -> str:
    """Join the meanings of `columns`, then `endings`, in one line."""
    parts = [f"{head}: {meaning}" for head, meaning in meanings(columns)]
    return BETWEEN.join([*parts, *filter(None, endings)])


@dataclass(frozen=True)
class Table:
    """A title, and columns of equal length."""

    title: str
    columns: Sequence[Column]
    # for each row: the names of results to open, by link text
    opens: Sequence[Mapping[str, str]] = ()
    marks: Sequence[str] = ()  # for each row: a label on the page
    legend_end: str = ""  # the end of the legend, about all figures

    def text(self, width: int = 0) -> str:
        """Format the title and the body within `width` (0: any width)."""
        title = wrapped(self.title, width=width)
        return f"{title}\n\n{self.body(width)}"

    def body(self, width: int = 0) -> str:
        """Format the columns that fit into `width`, and a line that names the omitted columns."""
        _, text = self._fitted(width)
        return text

    def legend(self, width: int = 0) -> str:
        """Explain the columns that fit into `width`, a row for each, and all figures in the last
        row."""
        columns, _ = self._fitted(width)
        parts = [labelled(meanings(columns)), wrapped(self.legend_end)]
        return "\n".join(part for part in parts if part)

    def _fitted(self, width: int) -> tuple[list[Column], str]:
        """Choose the columns that fit into `width`, and format them. Columns of zeros are omitted
        first."""
        columns = [column for column in self.columns if not column.is_on_page]
        omitted: list[str] = []
        text = _drawn(columns)
        while 0 < width < _width(text):
            least = max(columns, key=lambda column: (column.is_nothing, column.rank))
            if least.rank == 0:
                break
            columns.remove(least)
            omitted.append(least.head)
            text = _drawn(columns)
        if omitted:
            names = ", ".join(omitted)
            text += wrapped(f"\n(no room for: {names})", " ", width)
        return columns, text

    def markdown(self) -> str:
        columns = [column for column in self.columns if not column.is_on_page]
        heads = [column.head for column in columns]
        rule = ["---"] * len(heads)
        rows = [heads, rule, *_rows(columns)]
        lines = []
        for row in rows:
            cells = " | ".join(_escaped(cell) for cell in row)
            lines.append(f"| {cells} |")
        body = "\n".join(lines)
        return f"**{self.title}**\n\n{body}"

    def page(self, numbers: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return the table for the page, without columns of zeros. `numbers` maps results to
        numbers, for links."""
        columns: list[Column] = []
        zeros: list[str] = []
        for column in self.columns:
            if column.is_nothing and not column.is_time:
                zeros.append(column.head)
            else:
                columns.append(column)
        endings = [self.legend_end]
        if zeros:
            names = ", ".join(zeros)
            endings.append(f"0 in all rows: {names}")
        cells = [column.cells_page or column.cells for column in columns]
        return {
            "title": self.title,
            "heads": [column.head for column in columns],
            "meanings": [column.meaning for column in columns],
            "rows": [list(row) for row in zip(*cells, strict=True)],
            "legend": legend(columns, *endings),
            "marks": list(self.marks),
            "links": [_links(results, numbers or {}) for results in self.opens],
        }


def _links(results: Mapping[str, str], numbers: Mapping[str, int]) -> list[list[str | int]]:
    """Return the link texts of a row, and the numbers of the results that they open."""
    links: list[list[str | int]] = []
    for text, name in results.items():
        number = numbers.get(name)
        if number is not None:
            links.append([text, number])
    return links


def _rows(columns: Sequence[Column]) -> list[Sequence[str]]:
    cells = [column.cells for column in columns]
    return list(zip(*cells, strict=True))


def _escaped(cell: str) -> str:
    """Return a cell for Markdown, in which backslashes and bars have a meaning."""
    cell = cell.replace("\\", "\\\\")
    return cell.replace("|", "\\|")


def _drawn(columns: Sequence[Column]) -> str:
    heads = [column.head for column in columns]
    return aligned([heads, *_rows(columns)])


def _width(text: str) -> int:
    return max(len(line) for line in text.splitlines())
