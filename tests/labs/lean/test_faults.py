"""Test expert iteration with kills and failing parts, with the real policy, real Lean and real
training."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from core.base.errors import RunFailed
from core.base.files import sha256
from core.client.journal import Journal
from core.engines.need import Need
from harness.session.session import Session
from labs.lean import burnqed, outcome, served, trajectories
from labs.lean.constants import LeanConstants
from labs.lean.energy import guided
from labs.lean.search import ERROR
from labs.lean.searching import Searching
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain
from labs.training.served import Weights, embedding
from tests.conftest import ROOT, environment, heed_signals
from tests.faults.conftest import PIPES, SEED, Popen, end, wait
from tests.helpers.once import once
from tests.helpers.processes import eventually
from tests.labs.lean.embedding import Refusing
from tests.labs.lean.embedding import asked as asked_of
from tests.labs.lean.forests import head, kept
from tests.labs.lean.small import HELD_OUT, LEARNED, TIMES, below, born, written
from tests.labs.training import helpers as training

NAME = "24_lean_iteration"
FEW = ("TRAIN_NODES=16", "EPOCHS=1", "MAX_NODES=8", "HARVEST=4", "STEPS=20")
SMALL = (*FEW, "GO=1", "SKIP_BASELINE=1", "NUM_WORKERS=1")
SEARCHES = ("trajectories", "noisy", "eval", "eval_energy")
pytestmark = [pytest.mark.usefixtures("lean"), training.needed]

Moment = Callable[[Path], bool]  # of an iteration's folder: whether it has come so far
MOMENTS: dict[str, Moment] = {
    "start": lambda own: True,
    "searching": lambda own: any(own.glob("trajectories/*.json")),
    "training": lambda own: (own / "model.log").exists(),
    "embedding": lambda own: (own / "eval_no_energy.json").exists(),
    "training the energy": lambda own: (own / "energy.log").exists(),
    "evaluating": lambda own: any(own.glob("eval_energy/*.json")),
}


@pytest.fixture(scope="module")
def theorems(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the constants that name the files of theorems, which are the same for all runs."""
    folders = [tmp_path_factory.mktemp(name) for name in ("learned", "held-out")]
    first, second = (
        written(folder, *of) for folder, of in zip(folders, (LEARNED, HELD_OUT), strict=True)
    )
    return [f"TRAIN_{first}", second]


def begin(results: Path, theorems: Sequence[str], number: int = 0) -> Popen:
    """Start an iteration in its own process group."""
    args = [
        f"experiments/{NAME}.py",
        *theorems,
        *SMALL,
        f"ITERATION={number}",
        f"MAX_ITERATION={number}",
    ]
    own: Any = PIPES | {
        "env": environment(RESULTS_DIR=str(results)),
        "cwd": ROOT,
        "start_new_session": True,
    }
    return subprocess.Popen([sys.executable, *args], **own, preexec_fn=heed_signals)


def finish(results: Path, theorems: Sequence[str], number: int = 0) -> None:
    before = done(results, number)
    status, _, err = end(begin(results, theorems, number))
    assert status == 0 and "Unknown child" not in err, err
    after = done(results, number)
    assert {name: after[name] for name in before} == before, "what was done is done again"


def own(results: Path, number: int = 0) -> Path:
    return results / "lean" / f"iteration_{number}"


def asked(results: Path) -> list[str]:
    """Return the keys of the whole lines in the journal."""
    path = results / "journal" / f"{NAME}.jsonl"
    content = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [json.loads(line)["key"] for line in content.splitlines()]


def done(results: Path, number: int = 0) -> dict[str, Any]:
    """Return what must not change: ended searches with their times, the trained policy and energy,
    and the journal."""
    files = [path for part in SEARCHES for path in own(results, number).glob(f"{part}/*.json")]
    files += own(results, number).glob("energy/energy.safetensors")
    with suppress(OSError, ValueError):
        record = json.loads((own(results, number) / "record.json").read_text())
        files += own(results, number).glob("model/model.gguf") if "trained" in record else []
    state: dict[str, Any] = {
        str(path.relative_to(results)): path.stat().st_mtime_ns for path in files
    }
    return state | dict.fromkeys(asked(results), "asked")


def built(results: Path, number: int = 0) -> dict[str, Any]:
    """Return the results of an iteration without times. Digits of log probabilities may depend on
    batches."""
    folder = own(results, number)
    state: dict[str, Any] = {
        name: sha256(folder / name)
        for name in (
            "pairs.jsonl",
            "taught.jsonl",
            "model/model.gguf",
            "energy/energy.safetensors",
            "proofs.json",
        )
    }
    for name in filter(lambda name: (folder / name).exists(), ("eval_no_energy.json", "eval.json")):
        figures = json.loads((folder / name).read_text())
        state[name] = json.dumps({key: value for key, value in figures.items() if key not in TIMES})
    for name in SEARCHES:
        if (folder / name).is_dir():
            rows = trajectories.read(folder / name).drop_columns(["timestamp_ms"]).to_pylist()
            state[f"{name}, logprob"] = [row.pop("llm_log_prob") for row in rows]
            state[name] = rows
    keys = asked(results)
    assert len(set(keys)) == len(keys), "asked twice"
    return state | {"asked": sorted(keys)}


def assert_same(one: Path, other: Path, number: int = 0) -> None:
    """Assert that two results folders are equal."""
    first, second = (built(results, number) for results in (one, other))
    assert first.keys() == second.keys()
    for name in first:
        assert first[name] == (
            pytest.approx(second[name], abs=1e-4) if "logprob" in name else second[name]
        ), name


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, theorems: list[str]) -> Path:
    """Return the results of an undisturbed iteration."""

    def make(results: Path) -> None:
        finish(results, theorems)

    return once(tmp_path_factory, "iteration", make)


def killed(
    results: Path, theorems: Sequence[str], moment: Moment, seconds: float = 0.0, number: int = 0
) -> bool:
    """Run the iteration up to `seconds` after a moment, and kill it; return False if it ended
    before. Assert that no process is left, and that finished work is unchanged."""
    before = done(results, number)
    process = begin(results, theorems, number)
    while process.poll() is None and not moment(own(results, number)):
        time.sleep(0.002)
    wait(process, seconds)
    if process.poll() is not None:
        status, _, err = end(process)
        assert status == 0, err
        return False
    os.kill(process.pid, signal.SIGSTOP)  # it starts nothing while we look
    started = {pid: born(pid) for pid in below(process.pid)}
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert eventually(
        lambda: not any(when and born(pid) == when for pid, when in started.items())
    ), "left behind"
    after = done(results, number)
    assert {name: after[name] for name in before} == before, "what was done is done again"
    return True


@pytest.mark.faults
@pytest.mark.parametrize("kills", [2, 30])
def test_killed_at_random_moments(
    kills: int, whole: Path, theorems: list[str], tmp_path: Path
) -> None:
    """Finish each run in the end, until there are enough kills."""
    rng, count, runs = random.Random(f"{SEED} anywhere"), 0, 0
    while count < kills:
        results, runs = tmp_path / str(runs), runs + 1
        while count < kills:
            # Towards one stage or another, for the first takes half of the time by the clock.
            moment = rng.choice(list(MOMENTS.values()))
            if not killed(results, theorems, moment, rng.choice((0.0, 1.0, 6.0)) * rng.random()):
                break
            count += 1
        finish(results, theorems)
        assert_same(results, whole)


def helping(whole: Path, results: Path) -> None:
    """Copy iteration 0, and record that its energy helps."""
    shutil.copytree(whole, results)
    path = own(results) / "record.json"
    record = json.loads(path.read_text())
    record["guided"]["gain"]["low"] = 0.1
    path.write_text(json.dumps(record))


@pytest.mark.faults
def test_an_energy_that_helps_guides_the_next_searches_and_a_kill_changes_nothing(
    whole: Path, theorems: list[str], tmp_path: Path
) -> None:
    helping(whole, tmp_path / "once")
    helping(whole, tmp_path / "killed")
    finish(tmp_path / "once", theorems, 1)
    for number, is_guided in ((0, False), (1, True)):
        rows = trajectories.read(own(tmp_path / "once", number) / "trajectories").to_pylist()
        starts = [row["ebm_score"] is not None for row in rows if not row["state_id"]]
        assert len(starts) == len(LEARNED) and set(starts) == {is_guided}
        assert is_guided or all(row["ebm_score"] is None for row in rows)
    assert killed(tmp_path / "killed", theorems, MOMENTS["searching"], number=1)
    finish(tmp_path / "killed", theorems, 1)
    assert_same(tmp_path / "killed", tmp_path / "once", 1)


def test_embeddings_that_stop_in_a_guided_search_are_one_line_and_the_search_is_owed_again(
    lean: Toolchain, tmp_path: Path
) -> None:
    theorems = [Theorem(*each) for each in LEARNED[:3]]
    config = LeanConstants(MAX_NODES=8, CANDIDATES=4, MAX_TOKENS=64, NUM_WORKERS=1)
    with (
        served.policy(Need(0, 64, 0), tmp_path) as server,
        embedding(Weights(burnqed.POLICY), tmp_path) as embeds,
        Journal(tmp_path / "journal.jsonl") as journal,
    ):
        proxy = Refusing(embeds.base_url)
        through = replace(embeds, base_url=proxy.url)
        width = asked_of(embeds, lambda asking: asking(["⊢ p"])).shape[1]
        guidance = guided(kept(tmp_path / "energy", head(width), embeds.identity), through)

        def found(folder: str) -> list[dict[str, Any]]:
            session = Session("", config, tmp_path, journal, server)
            searching = Searching(session, lean, tmp_path / folder, guidance)
            return [asdict(each) | {"seconds": 0} for each in searching.of(theorems)]

        undisturbed = found("undisturbed")
        assert not any(each["reason"] == ERROR for each in undisturbed)
        proxy.left = 3
        with pytest.raises(RunFailed, match="503"):
            found("disturbed")
        proxy.left = 10**9
        assert len(list((tmp_path / "disturbed").glob("*.json"))) < len(theorems)
        assert found("disturbed") == undisturbed
        path = outcome.path_of(tmp_path / "disturbed", theorems[0].name)
        path.write_text(json.dumps(json.loads(path.read_text()) | {"reason": ERROR}))
        assert found("disturbed") == undisturbed
        proxy.close()
