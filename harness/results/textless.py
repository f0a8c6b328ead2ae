"""Write results without texts, to publish them where their problems may not be published.

The files keep what every figure is counted from: answers, grades, parents and tokens. report.sh and
compare.sh read them. Keys of the journal are zeros, so no reply is found by them."""

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.base.files import write_atomically
from harness.results import read

NO_KEY = "0" * 32
TABLES = ("table.txt", "table.jsonl")  # of a comparison, or the first one of a run of STaR
# fields with texts of the problem set, of replies or of graders, wherever they occur
TEXTS = {
    "columns",
    "details",
    "grading_scheme",
    "guidelines",
    "notes",
    "reasons",
    "solution",
}


def write(paths: Sequence[Path], folder: Path) -> list[Path]:
    """Write the results in `paths` without texts to files of the same names in `folder`. Results of
    a comparison get a folder of its name, with its tables. Return the files. Raises UserError."""
    written = []
    for path in paths:
        target = folder
        if path.with_name(TABLES[0]).is_file():
            target = folder / path.parent.name
            target.mkdir(parents=True, exist_ok=True)
            for table in TABLES:
                if path.with_name(table).is_file():
                    shutil.copyfile(path.with_name(table), target / table)
        _, head, problems = read.read_raw(path)
        rows = (row for row, _ in problems)
        written.append(target / path.name)
        write_atomically(written[-1], _lines(head, rows))
    return written


def _lines(head: Mapping[str, Any], rows: Iterator[dict[str, Any]]) -> Iterator[bytes]:
    """Yield the document with one line per problem. The paths of the user's files become their
    names."""
    config = dict(head["config"])
    for name, value in config.items():
        if name == "PROBLEMS" or (isinstance(value, str) and Path(value).is_absolute()):
            config[name] = Path(value).name
    yield _compact({**head, "config": config})[:-1] + b',"problems":['
    separator = b"\n"
    for row in rows:
        yield separator + _compact(_textless(row) | {"statement": ""})
        separator = b",\n"
    yield b"\n]}\n"


def _textless(part: Any) -> Any:
    """Return a part of a row without texts and keys."""
    if isinstance(part, list):
        return [_textless(entry) for entry in part]
    if not isinstance(part, dict):
        return part
    fields = {name: _textless(value) for name, value in part.items() if name not in TEXTS}
    if "key" in fields:
        fields["key"] = NO_KEY
    return fields


def _compact(document: Any) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
