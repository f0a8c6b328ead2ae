"""The results of a small run of STaR that nothing disturbed."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers.once import once
from tests.labs.star.helpers import SMALL, star


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory, stored_run: Callable[[str], Path]) -> Path:
    """Return the results of the golden case 21_star after a second round."""

    def make(results: Path) -> None:
        shutil.copytree(stored_run("21_star"), results, dirs_exist_ok=True)
        status, out, err = star(results, *SMALL)
        assert status == 0, err
        assert (
            "round 1: " not in out
            and "round 2: " in out
            and "minus round 0" in out
            and "training: step 1" in out
        )

    return once(tmp_path_factory, "star", make)
