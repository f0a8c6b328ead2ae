"""The results of a small run of STaR that nothing disturbed."""

from pathlib import Path

import pytest

from tests.helpers.once import once
from tests.labs.star.helpers import SMALL, star


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(results: Path) -> None:
        status, out, err = star(results, *SMALL)
        assert status == 0, err
        assert "round 2: " in out and "minus round 0" in out

    return once(tmp_path_factory, "star", make)
