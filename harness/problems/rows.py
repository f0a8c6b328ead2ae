"""Read the rows of problem files (.json, .jsonl, .csv or .tsv with a header, .parquet). Errors name
the location of a row."""

import csv
import hashlib
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from core.base.errors import RowError, UserError
from core.base.files import no_number, opened, parse_json, read_lines, read_text
from harness.problems.columns import is_usual
from harness.problems.faults import Faults

WHAT, REMEDY, FIX = "problem file", "Check its path", "Correct the file"
SEPARATORS = (",", ";", "\t")  # Excel writes ";" in countries with a decimal comma
QUOTE = 'Add the missing cells, and put quotes (") around a cell that contains a separator'

Rows = list[tuple[str, Any]]  # (location, row)
Wanted = Callable[[str], bool]  # returns whether to read the column with this name
ROWS_AT_ONCE = 4096  # rows of a parquet file that are converted together

# Published CSV files that lack one quote: the sha256 of the text, and the position of the quote in
# characters. Without the quote, a row would lose a column and take the next column as its answer.
MISSING_QUOTES = {
    # answerbench_v2.csv of IMO-AnswerBench, before the answer of imo-bench-algebra-036
    # (google-deepmind/superhuman #13)
    "275877a9d988d85278fad3a5f8a41d7f83393a60bf259531ec0a5161e6b21cf9": 13618,
}


def read_rows(path: Path, wanted: Wanted | None = None) -> Rows:
    """Return the rows of a file in order, with only the `wanted` columns. Raises UserError for an
    unreadable file."""
    return list(stream_rows(path, wanted))


def stream_rows(path: Path, wanted: Wanted | None = None) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a file as `read_rows` does. Files of JSON lines and parquet are read part
    by part."""
    kind = path.suffix.lower()
    if kind not in READERS:
        raise UserError(
            f"the problem set {str(path)!r:.200} is not a {ENDINGS} file. "
            "For a data set on the hub, give hub:owner/name"
        )
    rows = _parquet(path, wanted) if kind == PARQUET else READERS[kind](path)
    for location, row in rows:
        if wanted and isinstance(row, dict):
            row = {name: cell for name, cell in row.items() if wanted(name)}
        yield location, row


def _jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the rows up to the first line that is not valid JSON. Then raise UserError with all
    such lines."""
    faults = Faults()
    for number, line in enumerate(read_lines(path, WHAT, REMEDY), 1):
        if not line.strip():
            continue
        location = f"{path}, line {number}"
        row = None
        with faults.caught(location):
            row = _of_line(line)
        if not faults:
            yield location, row
    faults.check()


def _of_line(line: str) -> Any:
    """Return the value of a line of JSON. Raises RowError if it is not valid."""
    try:
        return json.loads(line, parse_constant=no_number)
    except json.JSONDecodeError as error:
        reason = f"{error.msg}, column {error.pos + 1}"
    except (ValueError, RecursionError) as error:
        reason = str(error)
    raise RowError("the text is not valid JSON", "Write one object on each line", reason)


def _json(path: Path) -> Iterable[tuple[str, Any]]:
    """Read a list of rows. A file that begins with an object has JSON lines, whatever its name."""
    text = read_text(path, WHAT, REMEDY)
    if text.lstrip().startswith("{"):
        return _jsonl(path)
    rows = parse_json(text, f"{WHAT} {path}", FIX)
    if not isinstance(rows, list):
        raise UserError(f"{WHAT} {path} must be a list of problems")
    return [(f"{path}, problem {number}", row) for number, row in enumerate(rows, 1)]


def _csv(path: Path) -> Rows:
    """Read a CSV file strictly, because a shifted cell could become the reference answer. Empty
    cells become None, and blank lines are skipped."""
    text = read_text(path, WHAT, REMEDY)
    digest = hashlib.sha256(text.encode()).hexdigest()
    if digest in MISSING_QUOTES:
        position = MISSING_QUOTES[digest]
        text = f'{text[:position]}"{text[position:]}'
    records = _records(text, path)
    names = _names(records, path)
    rows: Rows = []
    faults = Faults()
    for line, cells in records:
        location = f"{path}, line {line}"
        if len(cells) == len(names):
            row = {name: cell or None for name, cell in zip(names, cells, strict=True)}
            rows.append((location, row))
        elif cells:
            fault = f"the number of cells is not {len(names)}, as in the header,"
            faults.add(location, RowError(fault, QUOTE, str(len(cells))))
    faults.check()
    return rows


def _names(records: Iterator[tuple[int, list[str]]], path: Path) -> list[str]:
    """Return the names in the first of the records. Raises UserError for a repeated name."""
    _, header = next(records, (1, []))
    names = [name.strip() for name in header]
    repeated = [f"{name!r:.80}" for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise UserError(
            f"{WHAT} {path} has several columns named {', '.join(repeated)}. Rename all but one"
        )
    return names


def _records(text: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line and the cells of each record of a CSV text. Raises UserError if the text
    is not valid."""
    reader = csv.reader(io.StringIO(text), delimiter=_separator(text), strict=True)
    line = 1
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise UserError(f"{WHAT} {path}, line {line} is not valid CSV ({error}). {FIX}") from None


def _separator(text: str) -> str:
    """Return the separator that splits the header into the most usual names of columns, else into
    the most columns."""

    def columns(separator: str) -> tuple[int, int]:
        try:
            header = next(csv.reader(io.StringIO(text), delimiter=separator, strict=True), [])
        except csv.Error:
            return 0, 0
        usual = [name for name in header if is_usual(name)]
        return len(usual), len(header)

    return max(SEPARATORS, key=columns)


def _parquet(path: Path, wanted: Wanted | None = None) -> Iterator[tuple[str, Any]]:
    import pyarrow.parquet  # imported here, because it takes half a second

    number = 0
    with opened(path, WHAT, REMEDY) as content:
        try:
            file = pyarrow.parquet.ParquetFile(content, pre_buffer=False)
            names = file.schema_arrow.names
            if len(set(names)) < len(names):
                raise ValueError("several columns have the same name")
            columns = None if wanted is None else [name for name in names if wanted(name)]
            # Use no threads: pyarrow's thread pool crashes the process (SIGABRT) if it is alive
            # when Python ends.
            for batch in file.iter_batches(ROWS_AT_ONCE, columns=columns, use_threads=False):
                for row in batch.to_pylist():
                    number += 1
                    yield f"{path}, row {number}", row
        except (
            pyarrow.ArrowException,
            OSError,
            ValueError,
            LookupError,
            TypeError,
            ArithmeticError,
        ) as error:
            raise UserError(
                f"{WHAT} {path} is not a readable parquet file ({error}). Replace the file"
            ) from None


PARQUET = ".parquet"
ENDINGS = ".json, .jsonl, .csv, .tsv or .parquet"
# in this order for the hub
READERS: dict[str, Callable[..., Iterable[tuple[str, Any]]]] = {
    PARQUET: _parquet,
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".tsv": _csv,
    ".json": _json,
}
