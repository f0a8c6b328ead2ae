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
    return [(column.head, column.meaning) for column in columns if column.meaning]


def legend(columns: Iterable[Column], *about: str) -> str:
    """Join the meanings of `columns`, then `about`, in one line."""
    return BETWEEN.join([*map(": ".join, meanings(columns)), *filter(None, about)])


@dataclass(frozen=True)
class Table:
    """A title, and columns of equal length."""

    title: str
    columns: Sequence[Column]
    # for each row: the names of results to open, by link text
    opens: Sequence[Mapping[str, str]] = ()
    marks: Sequence[str] = ()  # for each row: a label on the page
    about: str = ""  # the end of the legend, about all figures

    def text(self, width: int = 0) -> str:
        """Format the title and the body within `width` (0: any width)."""
        return f"{wrapped(self.title, width=width)}\n\n{self.body(width)}"

    def body(self, width: int = 0) -> str:
        """Format the columns that fit into `width`, and a line that names the omitted columns."""
        return self._fitted(width)[1]

    def legend(self, width: int = 0) -> str:
        """Explain the columns that fit into `width`, a row for each, and all figures in the last
        row."""
        return "\n".join(
            filter(None, [labelled(meanings(self._fitted(width)[0])), wrapped(self.about)])
        )

    def _fitted(self, width: int) -> tuple[list[Column], str]:
        """Choose the columns that fit into `width`, and format them. Columns of zeros are omitted
        first."""
        shown, left_out = [each for each in self.columns if not each.is_on_page], list[Column]()

        def drawn() -> str:
            cells = zip(*(column.cells for column in shown), strict=True)
            return aligned([[column.head for column in shown], *cells])

        text = drawn()
        while 0 < width < max(map(len, text.splitlines())) and any(column.rank for column in shown):
            left_out.append(max(shown, key=lambda column: (column.is_nothing, column.rank)))
            shown.remove(left_out[-1])
            text = drawn()
        if left_out:
            text += wrapped(
                f"\n(no room for: {', '.join(column.head for column in left_out)})", " ", width
            )
        return shown, text

    def markdown(self) -> str:
        columns = [column for column in self.columns if not column.is_on_page]
        heads = [column.head for column in columns]
        lines = [
            heads,
            ["---"] * len(heads),
            *zip(*(column.cells for column in columns), strict=True),
        ]
        escaped = (
            [cell.replace("\\", "\\\\").replace("|", "\\|") for cell in line] for line in lines
        )
        return f"**{self.title}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in escaped)

    def page(self, numbers: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return the table for the page, without columns of zeros. `numbers` maps results to
        numbers, for links."""
        zeros = [column for column in self.columns if column.is_nothing and not column.is_time]
        named = [f"0 in all rows: {', '.join(column.head for column in zeros)}"] if zeros else []
        shown = [column for column in self.columns if column not in zeros]
        known = numbers or {}
        return {
            "title": self.title,
            "heads": [column.head for column in shown],
            "meanings": [column.meaning for column in shown],
            "rows": [
                list(row)
                for row in zip(
                    *(column.cells_page or column.cells for column in shown), strict=True
                )
            ],
            "legend": legend(shown, self.about, *named),
            "marks": list(self.marks),
            "links": [
                [[word, known[name]] for word, name in row.items() if name in known]
                for row in self.opens
            ],
        }
