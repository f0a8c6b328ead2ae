"""Hostile input as in tests/test_hostile.py, with more examples, other seeds (FAULTS_SEED) and answers of 10 MB."""

import json
import os
import time
from pathlib import Path

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from core.generate.generator import split_thinking
from core.grading.answers import judge
from core.grading.boxed import extract
from tests.conftest import run
from tests.helpers import hostile

pytestmark = pytest.mark.faults

SEED = int(os.environ.get("FAULTS_SEED", "0"))
MEGABYTE = 1_000_000
MEMORY = 3 << 30  # bytes for a run on answers of 10 MB
GROWTH = 60  # times as long to read ten times as much, at most, on a busy machine


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("hostile")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> hostile.Real:
    """The results of a quick run on the embedded engine."""
    folder = tmp_path_factory.mktemp("whole")
    sizes = ("LIMIT=2", "N=5", "K=2", "T=1", "MAX_TOKENS=100", "VERIFY_MODE=verdict", "VERIFY_TOKENS=50")
    status, _, err = run("03_rsa_verify", *sizes, RESULTS_DIR=str(folder))
    assert status == 0, err
    return hostile.real(json.loads((folder / "03_rsa_verify.json").read_text()))


@seed(SEED)
@settings(deadline=None, max_examples=1000)
@given(hostile.PROBLEM_FILES)
def test_problem_files(folder: Path, content: bytes) -> None:
    hostile.check_problem_file(folder, content)


@seed(SEED)
@settings(deadline=None, max_examples=600)
@given(st.data())
def test_changed_results_files(folder: Path, whole: hostile.Real, data: st.DataObject) -> None:
    changed = hostile.mutated(data.draw, whole)
    hostile.check_results_file(folder, whole.document, hostile.dumped(changed))


@seed(SEED)
@settings(deadline=None, max_examples=200)
@given(st.data())
def test_damaged_results_files(folder: Path, whole: hostile.Real, data: st.DataObject) -> None:
    content = data.draw(hostile.spoiled(hostile.dumped(whole.document)) | st.binary(max_size=60))
    hostile.check_results_file(folder, whole.document, content)


def test_answers_of_ten_megabytes(tmp_path: Path) -> None:
    names = {"one character, then the box", "open braces", "open boxes", "thinking tags", "escapes", "NULs"}
    chosen = [case for case in hostile.cases(10 * MEGABYTE) if case.name in names]
    assert len(chosen) == len(names)
    hostile.check_run(tmp_path, "01_baseline", chosen, "N=2", memory=MEMORY)


def test_answers_of_a_megabyte_aggregated(tmp_path: Path) -> None:
    chosen = [case for case in hostile.cases(MEGABYTE) if case.answer_type == "integer"]
    hostile.check_run(tmp_path, "02_rsa_basic", chosen, "N=2", "K=2", "T=1", memory=MEMORY)


def test_answers_that_are_judged_by_math_verify(tmp_path: Path) -> None:
    chosen = [case for case in hostile.cases(20_000) if case.answer_type == "math"]
    hostile.check_run(tmp_path, "01_baseline", [*chosen, hostile.EXPLOSION], "N=2", memory=MEMORY)


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_refusals(tmp_path: Path, status: int) -> None:
    hostile.check_refusal(tmp_path, status)


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
