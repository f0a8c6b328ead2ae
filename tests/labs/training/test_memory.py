"""The estimate of a training's memory, beside what a GPU measured, and what a process has taken."""

import subprocess
import sys

import pytest

from core.base.files import ROOT
from core.engines.shape import QED_NANO
from labs.training.starts import needed

GIB = 2**30


@pytest.mark.parametrize(
    ("rank", "tokens", "given_out"),
    # GiB on an H100: docs/benchmarks.md
    [(16, 8192, 11.4), (16, 16_384, 14.5), (0, 8192, 70.4), (0, 16_384, 73.7)],
)
def test_a_gpus_estimate_is_above_what_was_measured_and_not_by_much(
    rank: int, tokens: int, given_out: float
) -> None:
    assert given_out + 0.5 < needed(QED_NANO, rank, tokens, "cuda") / GIB < 1.35 * given_out
    assert needed(QED_NANO, rank, tokens, "cuda") < 79.2 * GIB  # of the card that trained it


def test_the_peak_is_of_the_process_itself_and_not_of_the_one_that_started_it() -> None:
    held = bytearray(100 * 2**20)
    program = "from labs.training.outcome import peak_memory; print(peak_memory())"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert 2**22 < int(done.stdout) < len(held)
