"""The endpoint if nobody takes its output."""

from pathlib import Path

import pytest

from tests.helpers.output import ends_as_other_programs_do, serves_on_until_it_is_stopped


@pytest.mark.parametrize("redirected", ["> /dev/full", "| true; exit $S"])
def test_its_help_ends_as_other_programs_do(results: Path, redirected: str) -> None:
    ends_as_other_programs_do("-m labs.endpoint.app --help", redirected, results)


@pytest.mark.parametrize("redirected", ["> /dev/full", "> >(true)"])
def test_it_serves_on_until_it_is_stopped(results: Path, redirected: str) -> None:
    serves_on_until_it_is_stopped("-m labs.endpoint.app --port 29891 K=2 N=2", 29891, redirected)
