"""Ctrl-C and other signals, once and twice: a stopped run ends within seconds, saves its results,
and can resume."""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from core.base.signals import STOPPING
from tests.conftest import ROOT, environment, heed_signals
from tests.faults.conftest import (
    CONSTANTS,
    NAME,
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

SECONDS = 20.0  # to stop, on a busy machine
SIGNS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


def partial(folder: Path) -> bool:
    """Return whether partial results exist and can be read."""
    path = folder / f"{NAME}.partial.json"
    return path.exists() and not json.loads(path.read_text())["complete"]


@pytest.mark.faults
@pytest.mark.parametrize("sign", SIGNS)
def test_one_signal_at_any_moment_saves_what_there_is(
    tmp_path: Path, undisturbed: Path, sign: signal.Signals
) -> None:
    """The engine is in the run's own process."""
    rng = random.Random(f"{SEED} {sign.name}")
    for _ in range(4):
        before = len(records(tmp_path))
        process = begin(tmp_path)
        if rng.random() < 0.7:
            wait_for_lines(process, tmp_path, min(TOTAL, before + rng.randint(1, 15)))
        wait(process, rng.uniform(0, 2))
        process.send_signal(sign)
        status, out, err = end(process, SECONDS)
        # -sign: during the imports; 0: at the end
        assert status in (130, -sign, 0), (status, err)
        if "Run the same command again to continue" in out:
            assert partial(tmp_path) and status == 130 and STOPPING.decode().strip() in err
    assert finish(tmp_path) == whole(undisturbed)


def test_ctrl_c_once_takes_no_new_work_and_twice_leaves_a_save_that_hangs(
    tmp_path: Path, undisturbed: Path, recorder: Recorder
) -> None:
    """The file is a pipe without a reader, so the save hangs."""
    earlier = (undisturbed / f"{NAME}.json").read_bytes()
    (tmp_path / f"{NAME}.json").write_bytes(earlier)
    stuck = tmp_path / f".{NAME}.partial.json.new"
    os.mkfifo(stuck)
    process = begin(tmp_path, BASE_URL=recorder.url, API_KEY="stopped-twice")
    wait_for_lines(process, tmp_path, 10)
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    wait(process, 2)
    assert process.poll() is None, "the save does not hang: this test tests nothing"
    assert max(request.at for request in recorder.of("stopped-twice")) < sent + 1
    process.send_signal(signal.SIGINT)
    status, _, err = end(process, SECONDS)
    assert status == 130 and STOPPING.decode().strip() in err
    assert (tmp_path / f"{NAME}.json").read_bytes() == earlier
    stuck.unlink()
    kept = seeds(tmp_path)
    assert len(kept) >= 10 and finish(tmp_path, BASE_URL=recorder.url, API_KEY="goes-on") == whole(
        undisturbed
    )
    assert not kept & {request.seed for request in recorder.of("goes-on")}


@pytest.mark.faults
def test_a_judge_that_hangs_does_not_hold_a_run_that_is_stopped(tmp_path: Path) -> None:
    rows = [{"problem": f"What is 1/2 + 1/{n}?", "answer": f"{n + 2}/{2 * n}"} for n in range(3, 9)]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    process = begin(
        tmp_path, "LIMIT=0", "T=20", "MAX_TOKENS=160", f"PROBLEMS={tmp_path / 'mine.jsonl'}"
    )
    judges: list[int] = []
    while process.poll() is None and not judges:
        judges = [
            pid
            for pid in children(process.pid)
            if b"core.grading.sympy_process" in command_line(pid)
        ]
        time.sleep(0.02)
    assert judges, end(process)
    os.kill(judges[0], signal.SIGSTOP)
    wait(process, 3)
    process.send_signal(signal.SIGINT)
    status, _, err = end(process, SECONDS)
    assert status == 130 and partial(tmp_path), err


def children(parent: int) -> list[int]:
    tasks = Path(f"/proc/{parent}/task")
    return [int(pid) for task in tasks.glob("*") for pid in (task / "children").read_text().split()]


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.faults
def test_a_terminal_that_is_gone_stops_a_run_and_what_there_is_is_saved(
    tmp_path: Path, undisturbed: Path
) -> None:
    """As if a connection is lost: the kernel sends SIGHUP, and then every write to the terminal
    fails."""
    ours, theirs = pty.openpty()
    args = [sys.executable, "-c", TERMINAL, f"experiments/{NAME}.py", *CONSTANTS]
    env = environment(RESULTS_DIR=str(tmp_path))
    process = subprocess.Popen(
        args,
        env=env,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        cwd=ROOT,
        preexec_fn=heed_signals,
        text=True,
    )
    os.close(theirs)
    wait_for_lines(process, tmp_path, 10)
    os.close(ours)
    try:
        process.wait(SECONDS)
    finally:
        if process.poll() is None:
            kill(process)
    assert partial(tmp_path) and process.returncode == 130
    assert finish(tmp_path) == whole(undisturbed)


# Makes the terminal on its standard input its own, as a login shell does, and becomes the run.
TERMINAL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
