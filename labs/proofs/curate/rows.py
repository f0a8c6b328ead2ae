"""The rows of a problem file and, in the order they came in, of the new file beside it: each as it was, with the
columns that a tool has found out."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import write_atomically
from core.base.prices import Prices
from core.problems.columns import cells_of, listed, names_in, plain, text_of, understood
from core.problems.rows import FIX, read_rows
from labs.proofs.curate.tool import Told, Tool
from labs.proofs.grade.figures import cost_of
from labs.proofs.grade.lines import is_foreign


class Rows:
    """The first `limit` rows of the file in `path` (0: all), for `tool`."""

    def __init__(self, path: Path, tool: Tool, limit: int = 0) -> None:
        """Raises UserError where the file can't be read or has not the columns that are asked about, and where the new
        file would take the place of another."""
        self.path, self.name, self._tool = path, path.stem, tool
        self.out = path.with_suffix(f".{tool.name}.jsonl")
        if is_foreign(self.out, tool.beside):
            raise UserError(f"{self.out} exists, and is not of {tool.name}.sh. Move it away")
        found = read_rows(path)[: limit or None]
        if not found:
            raise UserError(f"{path} holds no rows. Give one with problem and solution at least")
        self._rows = [_kept(where, row) for where, row in found]
        all_texts = map(_texts, self._rows)
        self.texts = [{place: texts[place] for place in tool.places} for texts in all_texts]  # what prompts show
        for (where, row), texts in zip(found, self.texts, strict=True):
            if not texts["problem"]:
                raise UserError(
                    f"{where} needs {listed('problem')}, a text that is not empty. Fields found: {names_in(row)}"
                )
        if not any(texts["solution"] for texts in self.texts):
            raise UserError(f"{path} has no {listed('solution')} in any row. Fields found: {names_in(self._rows[0])}")

    def write(self, told: Sequence[Told], prices: Prices | None, by: str) -> Path:
        """Every row with what was `told` about it `by` a model; whole or not at all. Raises UserError."""
        write_atomically(self.out, self._lines(told, prices, by))
        return self.out

    def _lines(self, told: Sequence[Told], prices: Prices | None, by: str) -> Iterator[bytes]:
        for row, each in zip(self._rows, told, strict=True):
            columns = each.columns or dict.fromkeys(self._tool.columns)
            beside = (each.trouble, each.reply, cost_of(each.counted, prices), by if each.attempts else None)
            whole = {**row, **columns, **dict(zip(self._tool.beside, beside, strict=True))}
            yield json.dumps(whole, ensure_ascii=True).encode() + b"\n"


def _kept(where: str, row: Any) -> dict[str, Any]:
    """The row as JSON can hold it. Raises UserError."""
    if not isinstance(row, dict):
        raise UserError(f"{where} is no object. A row has columns like problem and solution")
    try:
        return dict(plain(row))
    except ValueError as error:
        raise UserError(f"{where} can't be kept ({error}). {FIX}") from None


def _texts(row: dict[str, Any]) -> dict[str, str]:
    """What a row holds for the places of prompts. `candidates` are other people's solutions and comments, as AI-MO/aops
    has them; `path`, where the problem was posted, may be a column or a field of `metadata`."""
    said = understood(row)
    cells = cells_of(row)
    metadata = cells.get("metadata")
    path = cells.get("path") or (metadata.get("path") if isinstance(metadata, Mapping) else None)
    posts = cells.get("candidates")
    listed = [text for post in posts if (text := text_of(post))] if isinstance(posts, list) else [text_of(posts)]
    return {
        "problem": text_of(said.get("problem")),
        "solution": text_of(said.get("solution")),
        "candidates": "\n\n".join(f"Post {number}:\n{text}" for number, text in enumerate(filter(None, listed), 1)),
        "path": text_of(path),
    }
