"""Hostile answers as in tests/test_hostile.py, of up to 10 MB."""

import time
from pathlib import Path

import pytest

from core.generate.generator import split_thinking
from core.grading.answers import judge
from core.grading.boxed import extract
from tests.helpers import hostile

pytestmark = pytest.mark.faults

MEGABYTE = 1_000_000
MEMORY = 3 << 30  # bytes for a run on answers of 10 MB
GROWTH = 60  # times as long to read ten times as much, at most, on a busy machine


def test_answers_of_ten_megabytes(tmp_path: Path) -> None:
    names = {"one character, then the box", "open braces", "open boxes", "thinking tags", "escapes", "NULs"}
    chosen = [case for case in hostile.cases(10 * MEGABYTE) if case.name in names]
    assert len(chosen) == len(names)
    hostile.check_run(tmp_path, "01_baseline", chosen, "N=2", memory=MEMORY)


def test_answers_that_are_judged_by_math_verify(tmp_path: Path) -> None:
    chosen = [case for case in hostile.cases(20_000) if case.answer_type == "math"]
    hostile.check_run(tmp_path, "01_baseline", [*chosen, hostile.EXPLOSION], "N=2", memory=MEMORY)


def test_reading_an_answer_takes_time_linear_in_its_length() -> None:
    def spent(case: hostile.Case) -> float:
        content = case.message.get("content")
        if not isinstance(content, str):
            return 0.0
        began = time.process_time()
        _, answer = split_thinking(content, None)
        judge(extract(answer, "integer").answer, "42", "integer")
        return time.process_time() - began

    for small, large in zip(hostile.cases(MEGABYTE), hostile.cases(10 * MEGABYTE), strict=True):
        assert spent(large) < GROWTH * max(0.02, spent(small)), large.name
