"""Experiments 20 to 26 and the scripts of the labs leave the golden files."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.golden.cases import LABS, Case
from tests.golden.checking import check, check_resumed, parameters, resumed
from tests.labs.training.helpers import needed

RESUMED = [case for case in LABS if case.resumes]
RECORDED = [case for case in RESUMED if case.records and (case.trains or case.lean)]


@pytest.fixture(autouse=True)
def real_lean(case: Case, request: pytest.FixtureRequest) -> None:
    if case.lean:
        request.getfixturevalue("lean")


@pytest.mark.parametrize("case", parameters(LABS, needed))
def test_a_run_leaves_its_golden_files(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", resumed([case for case in RESUMED if case.journal_only], needed))
def test_a_stored_journal_answers_every_request(
    case: Case, stored_run: Callable[[str], Path]
) -> None:
    stored_run(case.name)


@pytest.mark.parametrize("case", resumed(RECORDED, needed, short={"23_lean_baseline"}))
def test_stored_records_are_continued(case: Case, tmp_path: Path) -> None:
    check_resumed(case, tmp_path, records=True)
