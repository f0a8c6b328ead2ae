"""Share an embedder in its own event loop, a server that dies, and an embedder of given vectors."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

import numpy as np

from core.engines.protocol import Server
from labs.training.embeddings import Embedder, Vectors
from tests.fakes.http import Proxy, Request, answer

T = TypeVar("T")
Given = Callable[[Embedder], Coroutine[Any, Any, T]]
MODEL = "toy@000000000000"


def asked(server: Server, given: "Given[T]", batch: int = 0) -> T:
    """Return what `given` makes of an embedder of `server`."""

    async def within() -> T:
        async with Embedder(server, batch) as embedder:
            return await given(embedder)

    return asyncio.run(within())


class Refusing(Proxy):
    """A proxy that passes `left` requests on, and refuses all others."""

    left = 10**9

    def post(self, request: Request, body: bytes) -> None:
        self.left -= 1
        if self.left < 0:
            answer(503, {"error": {"message": "gone"}})(request)
        else:
            super().post(request, body)


class Told(Embedder):
    """An embedder of the vectors that `of` gives, without a server."""

    def __init__(self, of: Callable[[str], Any], model: str = MODEL) -> None:
        self.model, self.asked, self._given = model, list[str](), of

    async def __call__(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        return np.array([self._given(text) for text in texts], np.float32)
