"""A small run of STaR with the embedded model and the real training, and all that it leaves but for
times."""

import json
from pathlib import Path
from typing import Any

from core.base.files import sha256
from labs.star import record as rounds
from labs.star.record import Record
from labs.training.stages import NAME
from tests.conftest import run
from tests.labs.training import helpers as training

# as the golden case, with a second round
SMALL = ("LIMIT=6", "ROUNDS=2", "TRIES=2", "SEEDS=63", "EPOCHS=1")
TIMES = ("started", "ended", "seconds", "provenance", "peak_memory")


def star(results: Path, *overrides: str, **changes: str) -> tuple[int, str, str]:
    changes = {"TRAIN_PYTHON": str(training.PYTHON)} | changes  # setup.sh is not asked again
    return run("21_star", *overrides, RESULTS_DIR=str(results), **changes)


def record(results: Path, label: str = "seed0") -> Record:
    return rounds.read(results / "21_star" / label / NAME)


def timeless(value: Any) -> Any:
    """The same without what the clock decides."""
    if isinstance(value, dict):
        return {name: timeless(of) for name, of in value.items() if name not in TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def outcome(results: Path) -> dict[str, Any]:
    """All that a run has come to but for times: traces and weights, bit by bit."""
    folder = results / "21_star"
    found: dict[str, Any] = {
        str(path.relative_to(folder)): sha256(path)
        for ending in ("traces.jsonl", "model.gguf")
        for path in folder.rglob(ending)
    }
    return found | {"record": timeless(record(results).rounds)}


def changed(folder: Path, label: str = "seed0", **head: Any) -> dict[str, Any]:
    """Change the head of a record, and return it."""
    path = folder / label / NAME
    document: dict[str, Any] = json.loads(path.read_text()) | head
    path.write_text(json.dumps(document))
    return document
