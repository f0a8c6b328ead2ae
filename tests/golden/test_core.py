"""Experiments 01 to 19 and the scripts around them leave the golden files."""

from pathlib import Path

import pytest

from tests.golden.cases import CORE, Case
from tests.golden.checking import check, check_resumed, parameters, resumed


@pytest.mark.parametrize("case", parameters(CORE))
def test_a_run_leaves_its_golden_files(case: Case, tmp_path: Path) -> None:
    check(case, tmp_path)


@pytest.mark.parametrize("case", resumed([case for case in CORE if case.resumes]))
def test_a_stored_journal_answers_every_request(case: Case, tmp_path: Path) -> None:
    check_resumed(case, tmp_path, records=False)
