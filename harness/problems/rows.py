"""Read the rows of problem files (.json, .jsonl, .csv with a header, .parquet). Errors name the
location of a row."""

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import opened, parse_json, read_lines, read_text

WHAT, REMEDY, FIX = "problem file", "Check its path", "Correct the file"

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
            f"the problem set {str(path)!r:.200} is not a .json, .jsonl, .csv or .parquet file. "
            "For a data set on the hub, give hub:owner/name"
        )
    rows = _parquet(path, wanted) if kind == PARQUET else READERS[kind](path)
    for location, row in rows:
        if wanted and isinstance(row, dict):
            row = {name: cell for name, cell in row.items() if wanted(name)}
        yield location, row


def _jsonl(path: Path) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(read_lines(path, WHAT, REMEDY), 1):
        if line.strip():
            location = f"{path}, line {number}"
            yield location, parse_json(line, f"{WHAT} {location}", FIX)


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
    cells become None."""
    text = read_text(path, WHAT, REMEDY)
    digest = hashlib.sha256(text.encode()).hexdigest()
    if digest in MISSING_QUOTES:
        position = MISSING_QUOTES[digest]
        text = f'{text[:position]}"{text[position:]}'
    reader = csv.DictReader(io.StringIO(text), strict=True)
    rows: Rows = []
    line = 1  # the first line of a row, which may have several
    try:
        names = [name.strip() for name in reader.fieldnames or ()]
        for name, times in Counter(names).items():
            if times > 1:
                raise UserError(
                    f"{WHAT} {path} has several columns named {name!r:.80}. Rename all but one"
                )
        reader.fieldnames = names
        line = reader.line_num + 1
        for row in reader:
            location = f"{path}, line {line}"
            line = reader.line_num + 1
            if None in row or None in row.values():
                raise UserError(f"{location} has more or fewer cells than the header. {FIX}")
            rows.append((location, {name: cell or None for name, cell in row.items()}))
    except csv.Error as error:
        raise UserError(f"{WHAT} {path}, line {line} is not valid CSV ({error}). {FIX}") from None
    return rows


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
# in this order for the hub
READERS: dict[str, Callable[..., Iterable[tuple[str, Any]]]] = {
    PARQUET: _parquet,
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".json": _json,
}
