"""A scripted server that runs attach to."""

from collections.abc import Iterator

import pytest

from tests.fakes.server import ScriptedServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    made = ScriptedServer()
    monkeypatch.setenv("BASE_URL", made.url)
    yield made
    made.close()
