"""Fixtures: a scripted server, and retries without their waits."""

from collections.abc import Iterator

import pytest

from core.generate import retry
from tests.fakes.moody import Moody


@pytest.fixture
def moody() -> Iterator[Moody]:
    got = Moody()
    yield got
    got.close()


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retry, "_backoff", lambda attempt: 0.001)
