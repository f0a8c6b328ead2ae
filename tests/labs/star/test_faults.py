"""STaR on a disk that fills up as it samples, trains and swaps, and its controls with more rounds
than before: the real embedded model, the real training."""

import os
import random
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.star import record as rounds
from tests.conftest import ended, run, start
from tests.helpers.disks import fill, mounted
from tests.labs.star.helpers import SMALL, outcome, star

Moment = Callable[[Path], bool]
MOMENTS: tuple[Moment, ...] = (
    lambda results: any(results.glob("journal/21_star.jsonl")),
    lambda results: any(results.glob("21_star/seed0/round1/*.log")),
    lambda results: any(results.glob("21_star/seed0/round1/trained")),
    lambda results: any(results.glob("21_star/seed0/round2/*.log")),
)


@pytest.mark.faults
def test_a_disk_that_fills_up_is_one_line_each_time_and_nothing_is_lost(
    whole: Path, tmp_path: Path
) -> None:
    with mounted(tmp_path / "disk", "16m") as disk:
        for is_there in MOMENTS:
            process = start("21_star", *SMALL, RESULTS_DIR=str(disk))
            while process.poll() is None and not is_there(disk):
                time.sleep(0.005)
            ballast = fill(disk, 0)
            status, _, err = ended(process)
            ballast.unlink()
            assert "Traceback" not in err and (status, err.count("error: ")) in ((2, 1), (0, 0)), (
                err
            )
        status, _, err = star(disk, *SMALL)
        assert status == 0, err
        assert outcome(disk) == outcome(whole)


@pytest.mark.faults
def test_controls_with_more_rounds_keep_what_they_have_trained(tmp_path: Path) -> None:
    results = tmp_path / "results"

    def out_of(*overrides: str) -> str:
        small = ("ARMS=round_1_again", "RUNS=1", "LIMIT=8", "TRIES=2", "SEEDS=63", "EPOCHS=1")
        status, out, err = run("22_star_controls", *small, *overrides, RESULTS_DIR=str(results))
        assert status == 0, err
        return out

    out_of("ROUNDS=2")
    out = out_of("ROUNDS=3")
    assert (
        "belonged to" not in out
        and "round 2: training on" not in out
        and out.count("round 3: training on") == 2
    )
    arms = rounds.records(results / "22_star_controls")
    asked = [
        [of["trained"]["tokens_asked"] for of in each.rounds[1:]]
        for each in arms
        if "again" in each.label
    ]
    took = [
        [of["trained"]["tokens"] for of in each.rounds[1:]] for each in arms if "star" in each.label
    ]
    assert asked == took and len(asked[0]) == 3


@pytest.mark.faults
def test_killed_ten_times_anywhere_it_comes_to_the_same_files(tmp_path: Path) -> None:
    whole, results = tmp_path / "whole", tmp_path / "results"
    began = time.monotonic()
    assert star(whole, *SMALL)[0] == 0
    took = time.monotonic() - began
    rng = random.Random(int(os.environ.get("FAULTS_SEED", "0")))
    for sign in (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL) * 2:
        process = start("21_star", *SMALL, RESULTS_DIR=str(results))
        time.sleep(rng.uniform(0, took))
        process.send_signal(sign)
        _, _, err = ended(process)
        assert "Traceback" not in err and "error: " not in err, err
    assert star(results, *SMALL)[0] == 0
    assert outcome(results) == outcome(whole)
