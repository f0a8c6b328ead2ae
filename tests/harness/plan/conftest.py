"""Fixtures of the planner's tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.plan import plan as cli


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without nvidia-smi, whatever the tests run on."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], results: Path) -> Callable[..., str]:
    """Return a function that runs plan.sh with arguments and returns its output."""

    def output(*args: str) -> str:
        cli.main(args)
        return capsys.readouterr().out

    return output
