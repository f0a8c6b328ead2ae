"""Remove from a run's files and output everything that a clock, a machine, a version or a checkout
decides."""

import base64
import gzip
import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet

# Keys that a clock, a machine, a version, a checkout, the order of arrival or the journal decides.
LEFT_OUT = {
    "cached",
    "cached_tokens",
    "concurrency",
    "cpus",
    "created",
    "device",
    "ended",
    "flops",
    "generation_seconds",
    "git_commit",
    "git_dirty",
    "gpu",
    "made",
    "models",
    "packages",
    "path",
    "peak_memory",
    "platform",
    "python",
    "read_cold",
    "reused",
    "reused_by",
    "run",
    "seconds",
    "seconds_to_proof",
    "started",
    "timestamp_ms",
    "version",
    "versions",
}
# Words of a resumed run only.
REUSE = re.compile(
    " from the journal were matched only by |came from the journal$|completions reused$"
)
# Columns of printed tables with times, or figures that a server's cache decides.
TIMED = {"seconds", "path s", "read", "read_cold", "flops", "cached"}
# Lines right below a table's rows.
BELOW = re.compile(r"0 in all rows: |\(no room for: ")
# Models before any training. The output of others differs between processors in the last digits.
UNTRAINED = re.compile(
    r"qed-rsa-embedded@b0673c7f8f72|qed-rsa-lean-policy-trained@58ef999a9717|scripted|strict"
)
# Files and keys that follow from trained weights: their keys are pinned, not their values.
TRAINED_FILES = re.compile(
    r"round[1-9]\d*(-(sampled|rsa|vote))?\.json|train\.json"
    r"|iteration_\d+/(before|eval|eval_energy|eval_before_energy|noisy|orders|energy|embeddings)/"
    r"|iteration_\d+/(eval_no_energy|eval|proofs)\.json|iteration_[1-9]"
)
TRAINED_KEYS = {
    "best",
    "comparison",
    "ended_by",
    "energy",
    "evaluated",
    "figures",
    "gain",
    "guided",
    "guided_before",
    "last",
    "noisy",
    "orders",
    "trained",
}
COUNTS = {"counts", "failures", "reasons", "dropped", "malformed"}  # objects whose keys vary
NEVER_PINNED = (".png", ".gguf", ".log", ".safetensors", ".checkpoint", ".lock", ".npz")
FLOAT = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


def json_text(value: Any, indent: int = 0) -> str:
    """Format JSON with one line for each entry that fits into 240 characters."""
    flat = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(flat) <= 240 or not isinstance(value, dict | list) or not value:
        return flat
    pad = " " * (indent + 1)
    if isinstance(value, list):
        lines = [json_text(entry, indent + 1) for entry in value]
        first, last = "[", "]"
    else:
        lines = [
            f"{json.dumps(key)}: {json_text(entry, indent + 1)}"
            for key, entry in sorted(value.items())
        ]
        first, last = "{", "}"
    body = ",\n".join(pad + line for line in lines)
    return f"{first}\n{body}\n{' ' * indent}{last}"


def shape(value: Any) -> Any:
    """Replace values by the names of their types, which do not depend on the last digits of
    weights."""
    if isinstance(value, dict):
        shapes = {}
        for key, entry in value.items():
            if key not in LEFT_OUT:
                shapes[key] = "counts" if key in COUNTS else shape(entry)
        return shapes
    if isinstance(value, list):
        return "list"
    if isinstance(value, str):
        return "text"
    if isinstance(value, bool):
        return "bool"
    return "number or null"


class Normal:
    """The rules with the paths of one run. `is_trained`: the run trains weights."""

    def __init__(self, paths: dict[str, str], is_trained: bool) -> None:
        self._paths = paths
        self._is_trained = is_trained

    def text(self, text: str, is_timed: bool = True) -> str:
        """Replace paths and ports in printed text, and times if `is_timed`."""
        for path, name in self._paths.items():
            text = text.replace(path, name)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
        text = re.sub(r"\bport \d+", "port PORT", text)
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\+00:00|Z)?", "TIME", text)
        return self._untimed(text) if is_timed else text

    def _untimed(self, text: str) -> str:
        lines = []
        for line in tables(text.splitlines()):
            if REUSE.search(line) or line.startswith("training: step"):
                continue  # a slow machine prints more lines of progress
            line = re.sub(r"\d[\d.,]*( ?)(s|ms|MB|GB|tok/s|seconds|minutes)\b", r"#\1\2", line)
            line = re.sub(r"\[0\.\d, #|\[\d+\.\d, \d+\.\d\] s", "#", line)
            if self._is_trained:
                line = squeezed(line)
            lines.append(f"{line.rstrip()}\n")
        return "".join(lines)

    def value(self, value: Any) -> Any:
        """Remove from JSON the keys of LEFT_OUT, and all values that follow from trained
        weights."""
        if isinstance(value, dict):
            return self._object(value)
        if isinstance(value, list):
            return [self.value(entry) for entry in value if not _is_reuse(entry)]
        if isinstance(value, str):
            return self.text(value, is_timed=False)
        return value

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        if "heads" in value and "rows" in value:
            value = untimed(value)
        follows_training = self._is_trained and value.get("round") != 0
        entries = {}
        for key, entry in value.items():
            if key in LEFT_OUT:
                continue
            if follows_training and key in TRAINED_KEYS:
                entries[key] = shape(entry)
            else:
                entries[key] = self.value(entry)
        return entries

    def file(self, path: Path, name: str) -> str | None:
        """Read a file of a run as text to pin; None if only its name is pinned."""
        if path.suffix in NEVER_PINNED:
            return None
        if name.startswith("journal/") and path.suffix == ".jsonl":
            return keys(path, self._is_trained)
        value: Any
        if path.suffix == ".html":
            value = page(path)
        elif path.suffix == ".json":
            value = json.loads(path.read_bytes())
        elif path.suffix == ".jsonl":
            value = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        elif path.suffix == ".parquet":
            value = pyarrow.parquet.read_table(path).to_pylist()
        else:
            return self.text(path.read_text(encoding="utf-8"))
        if self._is_trained and TRAINED_FILES.search(name):
            value = shape(value)
        else:
            value = self.value(value)
        return f"{json_text(value)}\n"


def _is_reuse(value: Any) -> bool:
    return isinstance(value, str) and REUSE.search(value) is not None


def squeezed(line: str) -> str:
    """Replace figures, digests of weights and kinds of failures in a line, and squeeze its
    blanks."""
    line = re.sub(r"^([a-z ,]*(?:by reason|by kind)[a-z ]*): .*", r"\1: #", line)
    line = re.sub(r"@[0-9a-f]{12}|(?<=\()[0-9a-f]{12}(?=\))", "@#", line)
    line = re.sub(r"[+-]?\d[\d.,k]*", "#", line)
    line = re.sub(r"[ -]{2,}", " ", line)
    return re.sub(r"(?<= )-(?= |$)", "#", line).strip()


def tables(lines: list[str]) -> list[str]:
    """Blank the columns of TIMED in printed tables. A table's rule of dashes shows where its
    columns are."""
    blanked = list(lines)
    for number, line in enumerate(lines):
        if number == 0 or not re.fullmatch(r"-+( {2,}-+)*", line):
            continue
        spans = [match.span() for match in re.finditer("-+", line)]
        heads = [lines[number - 1][start:end].strip() for start, end in spans]
        if not TIMED & set(heads):
            continue
        last = number
        while last + 1 < len(lines) and lines[last + 1] and not BELOW.match(lines[last + 1]):
            last += 1
        for row in range(number - 1, last + 1):
            cells = []
            for head, (start, end) in zip(heads, spans, strict=True):
                cell = lines[row][start:end]
                if head in TIMED:
                    cell = {number - 1: head, number: "-"}.get(row, "#")
                cells.append(cell)
            blanked[row] = "  ".join(cells)
    return blanked


def untimed(table: dict[str, Any]) -> dict[str, Any]:
    """Blank the columns of TIMED in a table of the page."""
    rows = []
    for row in table["rows"]:
        cells = zip(table["heads"], row, strict=True)
        rows.append(["#" if head in TIMED else cell for head, cell in cells])
    return table | {"rows": rows}


def keys(path: Path, is_trained: bool) -> str:
    """Return the sorted keys of a journal, without completions of trained models."""
    keys = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "key" not in record:  # a payment
            continue
        reply = record.get("completion") or {}
        # old journals name no model
        model = str(reply.get("model") or str(reply.get("origin")).rpartition(", ")[2])
        if not is_trained or UNTRAINED.fullmatch(model):
            keys.append(record["key"])
    return "".join(f"{key}\n" for key in sorted(keys))


def page(path: Path) -> dict[str, Any]:
    """Return the data inside a report's page, by the id of its script element."""
    html = path.read_text(encoding="utf-8")
    elements = re.findall(r'<script type="text/plain" id="([^"]*)">([^<]*)</script>', html)
    return {name: json.loads(gzip.decompress(base64.b64decode(data))) for name, data in elements}


def is_alike(first: str, second: str) -> bool:
    """Return whether two lines differ at most in the last digits of fractions (1e-4), as batches
    change them."""
    if FLOAT.sub("#", first) != FLOAT.sub("#", second):
        return False
    for before, after in zip(FLOAT.findall(first), FLOAT.findall(second), strict=True):
        if abs(float(before) - float(after)) > 1e-4 * max(1.0, abs(float(before))):
            return False
    return True
