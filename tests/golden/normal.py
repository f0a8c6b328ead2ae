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
    "started", "ended", "made", "seconds", "generation_seconds", "seconds_to_proof", (
        "timestamp_ms"
    ), (
        "concurrency"
    ),
    "cached", "cached_tokens", "reused", "reused_by", "git_commit", "git_dirty", "python", (
        "packages"
    ), (
        "platform"
    ),
    "cpus", "gpu", "version", "versions", "peak_memory", "device", "run", "created", "path", (
        "flops"
    ), (
        "read_cold"
    ),
    "models",
}  # fmt: skip
# Words of a resumed run only.
REUSE = re.compile(
    " from the journal were matched only by |came from the journal$|completions reused$"
)
# Columns of printed tables with times, shares of time, or figures that a server's cache decides.
TIMED = {
    "s", "request s", "path s", "training s", "s to a proof", "s in all", "read", "read_cold", (
        "flops"
    ), (
        "Lean"
    ),
    "policy", "energy", "acceptance", "loss", "cached",
}  # fmt: skip
# Models before any training. The output of others differs between processors in the last digits.
UNTRAINED = re.compile(
    r"qed-rsa-embedded@b0673c7f8f72|qed-rsa-lean-policy-trained@58ef999a9717|scripted|strict"
)
# Files and keys that follow from trained weights: their keys are pinned, not their values.
TRAINED_FILES = re.compile(
    r"round[1-9]\d*(-sampled)?\.json|train\.json"
    r"|iteration_\d+/(before|eval|eval_energy|eval_before_energy|noisy|orders|energy|embeddings)/"
    r"|iteration_\d+/(eval_no_energy|eval|proofs)\.json|iteration_[1-9]"
)
TRAINED_KEYS = {
    "trained", "evaluated", "guided", "guided_before", "gain", "best", "ended_by", "comparison", (
        "last"
    ), (
        "energy"
    ),
    "noisy", "orders", "figures",
}  # fmt: skip
COUNTS = {"counts", "failures", "reasons", "dropped", "malformed"}  # objects whose keys vary
NEVER_PINNED = (".png", ".gguf", ".log", ".safetensors", ".checkpoint", ".lock", ".npz")
# printed before the first training
TRAINS = re.compile(r": training on \d+ | embedded \d[\d,]* states")
FLOAT = re.compile(r"-?\d+\.\d+(?:e[+-]?\d+)?")


def json_text(value: Any, indent: int = 0) -> str:
    """Format JSON with one line for each entry that fits into 240 characters."""
    flat = json.dumps(value, ensure_ascii=False, sort_keys=True)
    if len(flat) <= 240 or not isinstance(value, dict | list) or not value:
        return flat
    pad = " " * (indent + 1)
    if isinstance(value, list):
        return (
            "[\n"
            + ",\n".join(pad + json_text(each, indent + 1) for each in value)
            + "\n"
            + " " * indent
            + "]"
        )
    lines = (
        f"{pad}{json.dumps(key)}: {json_text(each, indent + 1)}"
        for key, each in sorted(value.items())
    )
    return "{\n" + ",\n".join(lines) + "\n" + " " * indent + "}"


def shape(value: Any) -> Any:
    """Replace values by the names of their types, which do not depend on the last digits of
    weights."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key not in LEFT_OUT}
        return {key: "counts" if key in COUNTS else shape(each) for key, each in kept.items()}
    if isinstance(value, list):
        return "list"
    return (
        "text"
        if isinstance(value, str)
        else "bool"
        if isinstance(value, bool)
        else "number or null"
    )


class Normal:
    """The rules with the paths of one run. `is_trained`: the run trains weights."""

    def __init__(self, paths: dict[str, str], is_trained: bool) -> None:
        self._paths, self._is_trained = paths, is_trained
        self._has_trained = False  # whether training has begun, by a printed line

    def text(self, text: str, is_timed: bool = True) -> str:
        """Replace paths and ports in printed text, and times if `is_timed`."""
        for path, name in self._paths.items():
            text = text.replace(path, name)
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", text)
        text = re.sub(r"\bport \d+", "port PORT", text)
        text = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\+00:00|Z)?", "TIME", text)
        return self._printed(text) if is_timed else text

    def _printed(self, text: str) -> str:
        lines = tables(text.splitlines())
        lines = [
            line for line in lines if not REUSE.search(line) and not line.startswith("training: ")
        ]
        lines = [
            re.sub(r"\d[\d.,]*( ?)(s|ms|MB|GB|tok/s|seconds|minutes)\b", r"#\1\2", line)
            for line in lines
        ]
        lines = [
            re.sub(r"\d+%", "#%", line) if "share of the searches' time" in line else line
            for line in lines
        ]
        lines = [re.sub(r"\[0\.\d, #|\[\d+\.\d, \d+\.\d\] s", "#", line) for line in lines]
        if self._is_trained:
            marks = (n for n, line in enumerate(lines) if TRAINS.search(line))
            at = 0 if self._has_trained else next(marks, len(lines))
            self._has_trained = at < len(lines)
            lines[at:] = [squeezed(line) for line in lines[at:]]
        return "".join(f"{line.rstrip()}\n" for line in lines)

    def value(self, value: Any) -> Any:
        """Remove from JSON the keys of LEFT_OUT, and all values that follow from trained
        weights."""
        if isinstance(value, dict):
            if "heads" in value and "rows" in value:
                value = untimed(value)
            shaped = TRAINED_KEYS if self._is_trained and value.get("round") != 0 else set()
            kept = {key: each for key, each in value.items() if key not in LEFT_OUT}
            return {
                key: shape(each) if key in shaped else self.value(each)
                for key, each in kept.items()
            }
        if isinstance(value, list):
            return [
                self.value(each)
                for each in value
                if not (isinstance(each, str) and REUSE.search(each))
            ]
        return self.text(value, is_timed=False) if isinstance(value, str) else value

    def file(self, path: Path, name: str) -> str | None:
        """Read a file of a run as text to pin; None if only its name is pinned."""
        if path.suffix in NEVER_PINNED:
            return None
        if name.startswith("journal/") and path.suffix == ".jsonl":
            return keys(path, self._is_trained)
        found: Any
        if path.suffix == ".html":
            found = page(path)
        elif path.suffix == ".json":
            found = json.loads(path.read_bytes())
        elif path.suffix == ".jsonl":
            found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        elif path.suffix == ".parquet":
            found = pyarrow.parquet.read_table(path).to_pylist()
        else:
            self._has_trained = True
            return self.text(path.read_text(encoding="utf-8"))
        if self._is_trained and (TRAINED_FILES.search(name) or path.suffix == ".html"):
            return json_text(shape(found)) + "\n"
        return json_text(self.value(found)) + "\n"


def squeezed(line: str) -> str:
    """Replace figures, digests of weights and kinds of failures in a line, and squeeze its
    blanks."""
    line = re.sub(r"^([a-z ,]*(?:by reason|by kind)[a-z ]*): .*", r"\1: #", line)
    line = re.sub(
        r"[+-]?\d[\d.,k]*", "#", re.sub(r"@[0-9a-f]{12}|(?<=\()[0-9a-f]{12}(?=\))", "@#", line)
    )
    return re.sub(r"(?<= )-(?= |$)", "#", re.sub(r"[ -]{2,}", " ", line)).strip()


def tables(lines: list[str]) -> list[str]:
    """Blank the columns of TIMED in printed tables. A table's rule of dashes shows where its
    columns are."""
    blanked = list(lines)
    n = 0
    while n < len(lines):
        if n and re.fullmatch(r"-+( {2,}-+)*", lines[n]):
            spans = [match.span() for match in re.finditer("-+", lines[n])]
            end = n
            while end < len(lines) and lines[end]:
                end += 1
            heads = [lines[n - 1][a:b].strip() for a, b in spans]
            if TIMED & set(heads):
                for row in range(n - 1, end):
                    cells = [lines[row][a:b] for a, b in spans]
                    timed = [head in TIMED for head in heads]
                    blank = ["#" if row > n else "-" if row == n else head for head in heads]
                    blanked[row] = "  ".join(
                        b if t else c for c, b, t in zip(cells, blank, timed, strict=True)
                    )
            n = end
        n += 1
    return blanked


def untimed(table: dict[str, Any]) -> dict[str, Any]:
    """Blank the columns of TIMED in a table of the page."""
    timed = [head in TIMED for head in table["heads"]]
    return table | {
        "rows": [
            ["#" if t else cell for t, cell in zip(timed, row, strict=True)]
            for row in table["rows"]
        ]
    }


def keys(path: Path, is_trained: bool) -> str:
    """Return the sorted keys of a journal, without completions of trained models."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if "key" not in record:  # a payment
            continue
        reply = record.get("completion") or {}
        # old journals name no model
        model = str(reply.get("model") or str(reply.get("origin")).rpartition(", ")[2])
        if not is_trained or UNTRAINED.fullmatch(model):
            found.append(record["key"])
    return "".join(f"{key}\n" for key in sorted(found))


def page(path: Path) -> dict[str, Any]:
    """Return the data inside a report's page, by the id of its script element."""
    found = re.findall(
        r'<script type="text/plain" id="([^"]*)">([^<]*)</script>', path.read_text(encoding="utf-8")
    )
    return {name: json.loads(gzip.decompress(base64.b64decode(packed))) for name, packed in found}


def is_alike(one: str, other: str) -> bool:
    """Return whether two lines differ at most in the last digits of fractions (1e-4), as batches
    change them."""
    if FLOAT.sub("#", one) != FLOAT.sub("#", other):
        return False
    pairs = zip(FLOAT.findall(one), FLOAT.findall(other), strict=True)
    return all(abs(float(a) - float(b)) <= 1e-4 * max(1.0, abs(float(a))) for a, b in pairs)
