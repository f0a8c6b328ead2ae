"""Declare tables once for text, Markdown and the page, with the meaning of each column."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.base.terminal import aligned, labelled, wrapped

NONE = "-"  # a cell without a value
BETWEEN = " · "  # separates the parts of a line
ZEROS = "0 in all rows"  # begins the names of columns of zeros
# a cell of the page: its text, or its text, its hint and a flag that marks the cell
Cell = str | tuple[str, str, bool]


@dataclass(frozen=True)
class Column:
    """A column with its cells."""

    head: str
    cells: Sequence[str]
    meaning: str = ""  # for the legend
    rank: int = 0  # columns of high rank are omitted first, of rank 0 never
    cells_page: Sequence[Cell] = ()  # the cells on the page
    is_on_page: bool = False  # True if only the page shows the column
    is_time: bool = False  # True for seconds, which are shown even if all are 0

    @property
    def is_nothing(self) -> bool:
        """True if all cells are 0, and the column is no time and may be omitted."""
        may_be_omitted = self.rank > 0 and not self.is_time
        return may_be_omitted and all(cell == "0" for cell in self.cells)


def split(columns: Iterable[Column]) -> tuple[list[Column], str]:
    """Split `columns` into columns of zeros and others. Return the others, and a text that names
    the columns of zeros, or ""."""
    others: list[Column] = []
    zeros: list[str] = []
    for column in columns:
        if column.is_nothing:
            zeros.append(column.head)
        else:
            others.append(column)
    if not zeros:
        return others, ""
    names = ", ".join(zeros)
    return others, f"{ZEROS}: {names}"


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
        """Format the columns that fit into `width`. Below them, name the columns of zeros, and the
        omitted columns."""
        _, text = self._fitted(width)
        return text

    def legend(self, width: int = 0) -> str:
        """Explain the columns that fit into `width`, a row for each, and all figures in the last
        row."""
        columns, _ = self._fitted(width)
        parts = [labelled(meanings(columns)), wrapped(self.legend_end)]
        return "\n".join(filter(None, parts))

    def _printed(self) -> tuple[list[Column], str]:
        """Return the columns that are not only for the page, as `split` does."""
        printed = [column for column in self.columns if not column.is_on_page]
        return split(printed)

    def _fitted(self, width: int) -> tuple[list[Column], str]:
        """Choose the columns that fit into `width`, and format them with the lines below them."""
        columns, zeros = self._printed()
        omitted: list[str] = []
        text = _drawn(columns)
        while 0 < width < _width(text):
            least = max(columns, key=lambda column: column.rank)
            if least.rank == 0:
                break
            columns.remove(least)
            omitted.append(least.head)
            text = _drawn(columns)
        lines = [text]
        if zeros:
            lines.append(wrapped(zeros, " ", width))
        if omitted:
            names = ", ".join(omitted)
            lines.append(wrapped(f"(no room for: {names})", " ", width))
        return columns, "\n".join(lines)

    def markdown(self) -> str:
        """Format the table in Markdown, with a line that names the columns of zeros."""
        columns, zeros = self._printed()
        heads = [column.head for column in columns]
        rule = ["---"] * len(heads)
        rows = [heads, rule, *_rows(columns)]
        lines = []
        for row in rows:
            cells = " | ".join(_escaped(cell) for cell in row)
            lines.append(f"| {cells} |")
        body = "\n".join(lines)
        title = f"**{self.title}**" if self.title else ""
        parts = [title, body, zeros]
        return "\n\n".join(filter(None, parts))

    def page(self, numbers: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return the table for the page, without columns of zeros. `numbers` maps results to
        numbers, for links."""
        columns, zeros = split(self.columns)
        cells = [column.cells_page or column.cells for column in columns]
        return {
            "title": self.title,
            "heads": [column.head for column in columns],
            "meanings": [column.meaning for column in columns],
            "rows": [list(row) for row in zip(*cells, strict=True)],
            "legend": legend(columns, self.legend_end, zeros),
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
