"""Hostile answers as in tests/test_hostile.py, of up to 10 MB."""

from pathlib import Path

import pytest

from tests.helpers import hostile

pytestmark = pytest.mark.faults

MEGABYTE = 1_000_000
MEMORY = 3 << 30  # bytes for a run on answers of 10 MB


def test_answers_of_ten_megabytes(tmp_path: Path) -> None:
    names = {
        "one character, then the box",
        "open braces",
        "open boxes",
        "thinking tags",
        "escapes",
        "NULs",
    }
    chosen = [case for case in hostile.cases(10 * MEGABYTE) if case.name in names]
    assert len(chosen) == len(names)
    hostile.check_run(tmp_path, "01_baseline", chosen, "N=2", memory=MEMORY)


def test_answers_that_are_judged_by_math_verify(tmp_path: Path) -> None:
    chosen = [case for case in hostile.cases(20_000) if case.answer_type == "math"]
    hostile.check_run(tmp_path, "01_baseline", [*chosen, hostile.EXPLOSION], "N=2", memory=MEMORY)
