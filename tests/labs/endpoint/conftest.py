"""Fixtures: the endpoint in this process, in front of a server, and requests to it."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import httpx2
import pytest

from core.client.journal import Journal
from core.engines.protocol import Server
from core.rsa import RSA, RsaConstants
from labs.endpoint import app, cli
from labs.endpoint.chat import Offer

STATEMENT = "Find the remainder when 9*15 + 8*67 + 2*69 + 6*41 is divided by 1000."
ASKED = [{"role": "user", "content": STATEMENT}]
DEFAULTS = RsaConstants(N=4, K=2, T=1, MAX_TOKENS=300, ANSWER_TOKENS=0)
OFFERS = cli.offered(["MAX_TOKENS=300", "ANSWER_TOKENS=0"]) | {"rsa": Offer("rsa", RSA, DEFAULTS)}
Start = Callable[..., "Running"]


class Running:
    """The endpoint in its own thread, in front of `server`, with its journal in `folder`. It offers
    all scaffolds, and `changes` are constants of RSA."""

    def __init__(self, server: Server, folder: Path, **changes: Any) -> None:
        self.model, self.journal = f"rsa/{server.model}", folder / "serve_rsa.jsonl"
        rsa = Offer("rsa", RSA, replace(DEFAULTS, **changes))
        self._server, self._offers = server, OFFERS | {"rsa": rsa}
        self._place = app.bind("127.0.0.1", 0)
        self.address = self._place.getsockname()
        self.url = f"http://127.0.0.1:{self.address[1]}/v1"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._thread.start()
        self._ready.wait()

    async def _main(self) -> None:
        self._loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._task = task
        self._ready.set()
        with self._place, Journal(self.journal) as journal, suppress(asyncio.CancelledError):
            await app.serve(self._place, self._server, self._offers, journal)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join()

    def work(self) -> set[str]:
        """Return the names of the coroutines that work on requests."""

        async def look() -> set[str]:
            return {getattr(task.get_coro(), "__qualname__", "") for task in asyncio.all_tasks()}

        names = asyncio.run_coroutine_threadsafe(look(), self._loop).result(60)
        return names & {"solve", "solve.<locals>.ask", "rsa.<locals>.member", "Generator.__call__"}

    def client(self, api_key: str = "none") -> Any:
        import openai

        # reading the certificates takes longer than most requests
        plain = openai.DefaultHttpxClient(verify=False)
        return openai.OpenAI(base_url=self.url, api_key=api_key, max_retries=0, http_client=plain)

    def ask(self, **fields: Any) -> Any:
        """Ask through the openai client, with seed 1 by default. Return the answer, or a stream's
        chunks."""
        with self.client() as client:
            body = {"model": self.model, "messages": ASKED, "seed": 1} | fields
            reply = client.chat.completions.create(**body)
            return list(reply) if fields.get("stream") else reply

    def post(self, body: Any, **headers: str) -> httpx2.Response:
        """Send a raw request; bytes are sent unchanged."""
        content = (
            body
            if isinstance(body, bytes)
            else json.dumps({"model": self.model, "messages": ASKED} | body)
        )
        named = {"content-type": "application/json"} | {
            name.replace("_", "-"): of for name, of in headers.items()
        }
        return httpx2.post(
            f"{self.url}/chat/completions",
            content=content,
            headers=named,
            timeout=120,
            verify=False,
        )

    def completions(self) -> list[dict[str, Any]]:
        return [json.loads(line)["completion"] for line in self.journal.read_text().splitlines()]


@pytest.fixture(scope="session")
def openai() -> Any:
    """Return the package, which takes a second to load. So it must not be loaded by all who collect
    the tests."""
    return import_module("openai")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as running:

        def begin(server: Server, **changes: Any) -> Running:
            return running.enter_context(closing(Running(server, tmp_path, **changes)))

        yield begin


@pytest.fixture(scope="session")
def shared(engine: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with closing(Running(engine, tmp_path_factory.mktemp("shared"))) as running:
        yield running


def reply(text: str, reason: str = "stop") -> dict[str, Any]:
    """Return a server's reply, without usage."""
    choice = {
        "index": 0,
        "finish_reason": reason,
        "message": {"role": "assistant", "content": text},
    }
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
