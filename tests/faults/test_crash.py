"""Runs killed with SIGKILL at random moments. Once a completion's line is in the journal, its requests must never be
sent again. A kill may lose the completions in flight or just arrived.
"""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.conftest import (
    CAP,
    FIGURES,
    IN_FLIGHT,
    SEED,
    TOTAL,
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
from tests.faults.recorder import Recorder


class Chain:
    """Runs that are killed again and again and then finished, until there were enough kills."""

    def __init__(self, name: str, folder: Path, undisturbed: Path, recorder: Recorder) -> None:
        self.rng = random.Random(f"{SEED} {name}")
        self.name, self.folder, self.undisturbed, self.recorder = name, folder, undisturbed, recorder
        self.kills: Counter[str] = Counter()  # by the stage of the run
        self.lost = self.wasted = self.runs = self.starts = 0

    def go(self, kills: int, seconds: float) -> None:
        """Kill so often. `seconds`: the time of a run that finds everything in its journal."""
        while self.kills.total() < kills:
            self.runs += 1
            folder = self.folder / f"{self.name}-{self.runs}"
            while self.kills.total() < kills and self._killed(folder, seconds):
                pass
            if self.kills.total() == kills:
                self._resume(folder)
            assert whole(folder) == whole(self.undisturbed)

    def _resume(self, folder: Path) -> None:
        before, run = seeds(folder), self._key()
        finish(folder, BASE_URL=self.recorder.url, API_KEY=run)
        assert not before & {request.seed for request in self.recorder.of(run)}, "asked for what was finished"

    def _key(self) -> str:
        self.starts += 1
        return f"{self.folder.name}-{self.name}-{self.starts}"  # the recorder is shared by all tests

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
        if is_killed:
            doing = "at its end" if len(after) == TOTAL else "generating" if asked else "starting"
            self.kills[doing] += 1
            self.lost += len(lost)
            self.wasted += sum(  # the other answers were incomplete, or had to be forced
                request.finish_reason == "stop" or (request.finish_reason is not None and request.tokens < CAP)
                for request in asked
                if request.seed in lost
            )
        return is_killed


def kill_and_resume(kills: int, chains: int, folder: Path, undisturbed: Path, recorder: Recorder) -> None:
    began = time.monotonic()
    finish(undisturbed, BASE_URL=recorder.url, API_KEY="repeated")
    seconds = time.monotonic() - began
    assert not recorder.of("repeated")
    every = [Chain(f"chain{i}", folder, undisturbed, recorder) for i in range(chains)]
    with ThreadPoolExecutor(chains) as pool:
        list(pool.map(lambda chain: chain.go(kills // chains, seconds), every))
    counts = sum((chain.kills for chain in every), Counter[str]())
    runs, lost, wasted = (sum(getattr(chain, name) for chain in every) for name in ("runs", "lost", "wasted"))
    FIGURES.append(
        f"SIGKILL: {counts.total()} kills ({dict(counts)}) in {runs} runs of {TOTAL} completions; {lost} completions "
        f"in flight were lost, {wasted} of them answered but not yet written; no written one was asked for again"
    )
    assert counts.total() == kills


def test_killed_at_two_moments(tmp_path: Path, undisturbed: Path, recorder: Recorder) -> None:
    kill_and_resume(2, 1, tmp_path, undisturbed, recorder)


@pytest.mark.faults
def test_killed_at_a_hundred_moments(tmp_path: Path, undisturbed: Path, recorder: Recorder) -> None:
    kill_and_resume(100, 2, tmp_path, undisturbed, recorder)
