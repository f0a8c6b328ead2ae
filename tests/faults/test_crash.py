"""Runs killed with SIGKILL at random moments. Once a completion's line is in the journal, its
requests must never be sent again. A kill may lose the completions in flight or just arrived.
"""

import json
import random
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from core.constants import SWEEP
from tests.conftest import ended, run, start
from tests.fakes.server import ScriptedServer
from tests.faults.conftest import (
    IN_FLIGHT,
    SEED,
    TOTAL,
    Recorder,
    begin,
    end,
    finish,
    kill,
    records,
    seeds,
    wait,
    wait_for_lines,
    whole,
)
from tests.helpers.processes import eventually
from tests.helpers.runs import timeless


class Chain:
    """Runs that are killed again and again and then finished, until there were enough kills."""

    def __init__(self, name: str, folder: Path, undisturbed: Path, recorder: Recorder) -> None:
        self.rng = random.Random(f"{SEED} {name}")
        self.name, self.folder, self.undisturbed, self.recorder = (
            name,
            folder,
            undisturbed,
            recorder,
        )
        self.kills = self.runs = self.starts = 0

    def go(self, kills: int, seconds: float) -> None:
        """Kill so often. `seconds`: the time of a run that finds everything in its journal."""
        while self.kills < kills:
            self.runs += 1
            folder = self.folder / f"{self.name}-{self.runs}"
            while self.kills < kills and self._killed(folder, seconds):
                pass
            if self.kills == kills:
                self._resume(folder)
            assert whole(folder) == whole(self.undisturbed)

    def _resume(self, folder: Path) -> None:
        before, run = seeds(folder), self._key()
        finish(folder, BASE_URL=self.recorder.url, API_KEY=run)
        assert not before & {request.seed for request in self.recorder.of(run)}, (
            "asked for what was finished"
        )

    def _key(self) -> str:
        self.starts += 1
        # the recorder is shared by all tests
        return f"{self.folder.name}-{self.name}-{self.starts}"

    def _killed(self, folder: Path, seconds: float) -> bool:
        """Start or resume the run and kill it at a random moment; False if it ended before."""
        before, run = records(folder), self._key()
        process = begin(folder, BASE_URL=self.recorder.url, API_KEY=run)
        if len(before) < TOTAL and self.rng.random() < 0.6:
            wait_for_lines(process, folder, min(TOTAL, len(before) + self.rng.randint(1, 12)))
            wait(process, self.rng.uniform(0, 0.1))
        else:
            wait(process, self.rng.uniform(0, seconds if len(before) < TOTAL else 2 * seconds))
        if is_killed := process.poll() is None:
            kill(process)
        else:
            status, _, err = end(process)
            assert status == 0, err
        after = records(folder)
        assert after[: len(before)] == before, "what was finished stays as it was"
        asked = self.recorder.of(run)
        finished = {record["completion"]["seed"] for record in before}
        assert not finished & {request.seed for request in asked}, "asked for what was finished"
        lost = {request.seed for request in asked} - seeds(folder)
        assert len(lost) <= IN_FLIGHT, "more is owed again than was in flight"
        self.kills += is_killed
        return is_killed


@pytest.mark.parametrize(
    ("kills", "chains"), [(2, 1), pytest.param(100, 2, marks=pytest.mark.faults)]
)
def test_killed_at_random_moments(
    kills: int, chains: int, tmp_path: Path, undisturbed: Path, recorder: Recorder
) -> None:
    began = time.monotonic()
    finish(undisturbed, BASE_URL=recorder.url, API_KEY="repeated")
    seconds = time.monotonic() - began
    assert not recorder.of("repeated")
    every = [Chain(f"chain{i}", tmp_path, undisturbed, recorder) for i in range(chains)]
    with ThreadPoolExecutor(chains) as pool:
        list(pool.map(lambda chain: chain.go(kills // chains, seconds), every))
    assert sum(chain.kills for chain in every) == kills


RACE = ("BLOCK=2", "BUDGET=3", "ALPHA=0.5", "ENTRIES=01_greedy,02_rsa_basic_4,13_best_of_4")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("02_rsa_basic_sweep", ("02_rsa_basic", "N=2,3,4", "K=2", "T=1", SWEEP)),
        ("27_race", ("27_race", *RACE)),
    ],
)
def test_a_sweep_and_a_race_killed_twice_end_as_undisturbed(
    name: str, words: tuple[str, ...], server: ScriptedServer, tmp_path: Path
) -> None:
    (tmp_path / "ones.json").write_text(
        json.dumps([{"problem": f"Find {i}.", "answer": 1} for i in range(5)])
    )
    found, asked, chosen = (
        [],
        [],
        (*words, f"CONCURRENCY={IN_FLIGHT}", f"PROBLEMS={tmp_path / 'ones.json'}"),
    )
    for kills, folder in ((0, tmp_path / "undisturbed"), (2, tmp_path / "killed")):
        begin, where = len(server.asked), {"BASE_URL": server.url, "RESULTS_DIR": str(folder)}
        in_flight = list[str]()
        for number in range(1, kills + 1):
            server.life = len(server.asked) + 9  # the completions of this start
            process = start(*chosen, **where)
            assert eventually(lambda: len(server.asked) > server.life)
            assert eventually(partial(_has_lines, folder / "journal" / f"{name}.jsonl", 9 * number))
            process.send_signal(signal.SIGKILL)
            status, _, err = ended(process)
            assert status == -signal.SIGKILL, err
            with server.lock:  # a request of the killed process may still be read
                in_flight += server.asked[server.life :]
        server.life = 10**9
        status, _, err = run(*chosen, **where)
        assert status == 0, err
        asked.append(Counter(server.asked[begin:]) - Counter(in_flight))
        found.append(_results(folder / name))
    assert found[0] == found[1] and len(found[0]) > 3
    assert asked[0] == asked[1] and set(asked[0].values()) == {1}, (
        "only requests in flight were sent again"
    )


def _has_lines(path: Path, count: int) -> bool:
    return path.read_bytes().count(b"\n") == count


def _results(folder: Path) -> dict[str, Any]:
    """Return the newest results and the table of a sweep or race, without figures that depend on
    time or cache."""
    found: dict[str, Any] = {
        path.name: json.loads(path.read_text())
        for path in folder.glob("*.json")
        if "." not in path.stem
    }
    for document in found.values():
        # the repository may change meanwhile
        document["provenance"] = document["provenance"]["prompts_sha256"]
    lines = map(json.loads, (folder / "table.jsonl").read_text().splitlines())
    found["table"] = [
        {key: of for key, of in line.items() if key not in ("made", "path", "read")}
        for line in lines
    ]
    return {name: timeless(of) for name, of in found.items()}
