"""A value head as a reward model: what a run reads of it, and what it refuses."""

import asyncio
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import numpy as np
import pytest

from core.base import signals
from core.base.errors import RunFailed, UserError
from core.client.journal import Journal
from core.engines.attach import probe
from core.engines.protocol import Server
from core.generate import Generator
from core.types import Completion, Message, Sampling
from labs.endpoint import pooling
from labs.endpoint.app import bind, serve_app
from labs.endpoint.pooling import ValueServer
from labs.training.embeddings import Embedded, Embedder
from labs.training.value_head import Head
from tests.labs.training.test_value_head import HEAD, VECTORS

SOLUTION: list[Message] = [
    {"role": "user", "content": "What is 1+1?"},
    {"role": "assistant", "content": "So \\boxed{2}."},
]
BODY = {"model": HEAD.name, "messages": SOLUTION}


class Numbered(Embedder):
    """An embedder of VECTORS: the first text gets the first vector. `tokens` of each text."""

    def __init__(self, tokens: int = 7) -> None:
        self.cut = set[str]()
        self.texts: list[str] = []
        self.tokens = tokens

    async def counted(self, texts: Sequence[str]) -> Embedded:
        if "break" in texts[0]:
            raise RunFailed("the server at http://127.0.0.1:1/v1 returns no valid embeddings")
        self.texts += texts
        return Embedded(VECTORS[len(self.texts) - 1 :][:1], self.tokens)


class Running:
    """The server of a head in a thread of its own."""

    def __init__(self, embedder: Embedder, head: Head = HEAD) -> None:
        self._place = bind("127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._place.getsockname()[1]}"
        self._app = ValueServer(head, embedder, "llama.cpp 1").app()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._thread.start()
        self._ready.wait()

    async def _main(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        self._ready.set()
        with self._place, suppress(asyncio.CancelledError):
            await serve_app(self._place, self._app)

    def close(self) -> None:
        assert self._task
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join()

    def post(self, body: Any) -> httpx2.Response:
        return httpx2.post(f"{self.url}/pooling", timeout=60, verify=False, **body)


@pytest.fixture
def embedder() -> Numbered:
    return Numbered()


@pytest.fixture
def running(embedder: Numbered) -> Iterator[Running]:
    with closing(Running(embedder)) as running:
        yield running


def scored(server: Server, folder: Path, count: int = 1) -> list[Completion]:
    async def within() -> list[Completion]:
        with Journal(folder / "test.jsonl") as journal:
            async with Generator(server, journal, 1, 60, stall=30) as generator:
                reward = Sampling(reward="\n\n")
                return [await generator(SOLUTION, seed, reward) for seed in range(count)]

    return asyncio.run(within())


def attached(running: Running) -> Server:
    server = probe(running.url, "SCORER_URL is set")
    assert server
    return server


def test_a_run_takes_it_for_a_reward_model_on_vllm(running: Running) -> None:
    server = attached(running)
    assert (server.kind, server.model, server.version) == (
        "vllm",
        HEAD.name,
        "value head on llama.cpp 1",
    )
    assert server.limit <= 4, "an engine on a CPU embeds one text after the other"
    assert server.rests_on == "", "the name has the digest of the head"
    assert not server.card.name


def test_a_score_is_the_value_of_the_two_messages(
    running: Running, embedder: Numbered, tmp_path: Path
) -> None:
    first, second = scored(attached(running), tmp_path, 2)
    assert embedder.texts == ["What is 1+1?\n\nSo \\boxed{2}."] * 2
    values = HEAD.regression.values(VECTORS[:2]).tolist()
    assert [first.scores, second.scores] == [[value] for value in values]
    assert (first.prompt_tokens, first.completion_tokens, first.model) == (7, 0, HEAD.name)


def test_a_resumed_run_asks_another_head_again(
    running: Running, embedder: Numbered, tmp_path: Path
) -> None:
    (first,) = scored(attached(running), tmp_path)
    (again,) = scored(attached(running), tmp_path)
    assert again.scores == first.scores and len(embedder.texts) == 1
    other = replace(HEAD, regression=replace(HEAD.regression, constant=0.5))
    with closing(Running(embedder, other)) as changed:
        (new,) = scored(attached(changed), tmp_path)
    assert len(embedder.texts) == 2
    assert new.scores == other.regression.values(VECTORS[1:2]).tolist() != first.scores


def test_unknown_counts_of_tokens_are_left_out(running: Running, embedder: Numbered) -> None:
    embedder.tokens = 0
    page = running.post({"json": BODY}).json()
    assert "usage" not in page and 0 < page["data"][0]["data"][0] < 1


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"content": b"{"}, 400),
        ({"json": {"model": HEAD.name}}, 400),
        ({"json": BODY | {"messages": []}}, 400),
        ({"json": BODY | {"messages": [{"role": "user", "content": 7}]}}, 400),
        ({"json": BODY | {"messages": [{"role": "user", "content": "break"}]}}, 503),
        ({"json": BODY | {"model": "tiny-value@ba9876543210"}}, 404),
    ],
)
def test_a_bad_request_is_refused(running: Running, body: Any, status: int) -> None:
    response = running.post(body)
    assert response.status_code == status and response.json()["error"]["message"]


def test_a_run_ends_if_another_head_is_served(running: Running, tmp_path: Path) -> None:
    server = replace(attached(running), model="tiny-value@ba9876543210")
    with pytest.raises(UserError, match=HEAD.name):
        scored(server, tmp_path)


def test_the_port_of_another_program_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    head = tmp_path / "head.json"
    head.write_bytes(HEAD.content)
    monkeypatch.setattr(signals, "catch", lambda: None)  # which takes this process's signals
    with socket.create_server(("127.0.0.1", 0)) as place:
        port = place.getsockname()[1]
        with pytest.raises(SystemExit, match="2"):
            pooling.main([str(head), "--port", str(port)])
    assert f"port {port}" in capsys.readouterr().err


def test_the_head_of_another_model_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """MODEL selects the embedded model."""
    head = tmp_path / "head.json"
    head.write_bytes(HEAD.content)
    monkeypatch.setattr(signals, "catch", lambda: None)
    with pytest.raises(SystemExit, match="2"):
        pooling.main([str(head), "--port", "0"])
    out, err = capsys.readouterr()
    assert out == "" and HEAD.model in err and err.count("error: ") == 1


def test_values_are_finite_for_any_vector() -> None:
    values = HEAD.regression.values(np.array([[1e30, -1e30], [-1e30, 1e30]], np.float32))
    assert ((values > 0) & (values < 1)).all()
