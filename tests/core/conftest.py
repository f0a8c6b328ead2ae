"""Share stand-ins for servers, and an environment that names no server."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from tests.fakes.engines import StandIn


@pytest.fixture
def serve() -> Iterator[Callable[..., StandIn]]:
    """Start stand-ins (tests/fakes/engines.py), which end with the test."""
    with ExitStack() as stack:
        yield lambda *args, **more: stack.enter_context(closing(StandIn(*args, **more)))


@pytest.fixture(autouse=True)
def no_server_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = (
        "BASE_URL",
        "MODEL",
        "API_KEY",
        "ENGINE",
        "FLEET",
        "GRADER_URL",
        "GRADER_MODEL",
        "GRADER_KEY",
        "SCORER_URL",
        "SCORER_MODEL",
        "SCORER_KEY",
        "CHAT_TEMPLATE",
    )
    for name in (*chosen, "BIND", "PORT", "WEIGHTS_DIR", "DETERMINISTIC", "EXACT", "KV"):
        monkeypatch.delenv(name, raising=False)
