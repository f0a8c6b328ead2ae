"""Sympy's process: deadlines, interrupts and threads."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from core.eval import is_correct, is_equal
from core.grading import sympy_process


def test_a_comparison_that_hangs_is_ended_at_the_deadline_and_a_child_that_died_is_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sympy_process, "DEADLINE_S", 0.1)
    assert is_equal("9^{9^{9^{9^9}}}+1", "x", "math") is None
    child = sympy_process._PROCESS._process
    assert not is_correct("9^{9^{9^{9^9}}}+1", "x", "math")  # known by now
    assert sympy_process._PROCESS._process is child and "no verdict" in caplog.text
    monkeypatch.undo()
    assert is_correct("x+2", "2+x", "math")  # a new child
    child = sympy_process._PROCESS._process
    assert child
    child.kill()
    child.wait()
    assert is_correct("x+4", "4+x", "math")


PROGRAM = """
import time
from core.grading import child
child.WALL_S = {}
with child.ending_after({}):
    {}
"""


def test_what_computes_ends_by_processor_time_and_what_waits_by_the_clock() -> None:
    for clock, seconds, block in ((600, 0.2, "while True: pass"), (0.2, 600, "time.sleep(600)")):
        command = [sys.executable, "-c", PROGRAM.format(clock, seconds, block)]
        done = subprocess.run(command, capture_output=True, timeout=300)
        assert done.returncode != 0 and b"Error" not in done.stderr, block
    kept = PROGRAM.format(60, 60, "time.sleep(0.01)") + "time.sleep(0.5)"
    assert subprocess.run([sys.executable, "-c", kept], timeout=300).returncode == 0


def test_an_interrupted_comparison_does_not_answer_the_next_one() -> None:
    def interrupt() -> None:
        while not sympy_process._PROCESS._lock.locked():
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    assert not is_correct("x+5", "y", "math")
    with pytest.raises(KeyboardInterrupt):
        threading.Thread(target=interrupt).start()
        is_correct("9^{9^{9^{9^9}}}+2", "x", "math")
    assert not is_correct("x+7", "z", "math")
    assert is_correct("x+6", "6+x", "math")


def test_the_judge_works_from_threads_under_asyncio() -> None:
    async def all_at_once() -> list[bool]:
        return await asyncio.gather(
            *(
                asyncio.to_thread(is_correct, f"(x+{n})^2", f"x^2+{2 * n}x+{n * n + n % 2}", "math")
                for n in range(1, 9)
            )
        )

    assert asyncio.run(all_at_once()) == [n % 2 == 0 for n in range(1, 9)]
