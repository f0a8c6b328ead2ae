"""A small run of STaR with the embedded model and the real training, and all that it leaves but for
times."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.base.files import sha256
from labs.star import record as rounds
from labs.star.aggregation import evaluate
from labs.star.aggregation.evaluate import RSA, VOTE
from labs.star.record import Record
from labs.training.stages import NAME
from tests.conftest import run
from tests.helpers import reports
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


def learnt(folder: Path, counted: bool = True) -> Path:
    """Write an experiment that learns to aggregate, as reports.rounds does. In round 0 the
    aggregations of some problems are wrong. If not `counted`, the server counted no tokens."""
    own = reports.rounds(folder, "learn-seed0", rounds=1, name="29_learn_to_aggregate")
    first, last = changed(own, "learn-seed0")["rounds"]
    last["trained"]["trained_tokens"] = 2000
    before = _measured(folder, own, first, counted, lost=(0, 1, 2))
    after = _measured(folder, own, last, counted, lost=())
    last["evaluated"]["rsa"]["gain"] = evaluate.change(before, after, -1)
    changed(own, "learn-seed0", rounds=[first, last])
    journal = folder / "journal"
    (journal / "02_rsa_basic.jsonl").replace(journal / f"{own.name}.jsonl")
    return own


def _measured(
    folder: Path, own: Path, round_: dict[str, Any], counted: bool, lost: Sequence[int]
) -> list[Path]:
    """Write the results of RSA and of a vote for a round, and add their figures to `round_`. Return
    RSA's path."""
    evaluated = round_["evaluated"]
    evaluated["sampled_accuracy"] = None
    paths = {}
    for kind, T in ((VOTE, 0), (RSA, 2)):  # RSA's journal contains the keys of the vote
        reports.results(folder, problems=8, T=T, lost=lost, counted=counted)
        path = own / f"{evaluated['greedy']}-{kind}.json"
        document = json.loads((folder / "02_rsa_basic.json").read_text())
        path.write_text(json.dumps(document | {"experiment": path.stem}))
        (folder / "02_rsa_basic.json").unlink()
        paths[kind] = path
    figures = evaluate.figures([paths[RSA]], [paths[VOTE]])
    figures["results"] = paths[RSA].stem
    figures["files"] = {kind: [path.stem] for kind, path in paths.items()}
    evaluated["rsa"] = figures
    return [paths[RSA]]
