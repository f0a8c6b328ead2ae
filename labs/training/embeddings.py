"""Request the embeddings of texts.

A server of SGLang generates and embeds: /v1/completions returns the last token's hidden state with
a completion of one token. Its length is scaled to 1. Other servers embed at /v1/embeddings."""

import asyncio
import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.base.errors import RunFailed, one_line

if TYPE_CHECKING:
    from core.engines.protocol import Server

BATCH, CONCURRENCY = 64, 2  # texts in a request, and parallel requests
# For llama.cpp, which embeds one text at a time, and completes even a request that its client has
# cancelled.
ONE_BY_ONE = 16
SECONDS = 600.0  # time limit of a request
FEWEST = 128  # characters of the shortest text that may be cut

_TOO_LONG = re.compile(
    "too (?:large|long)|exceed|longer than|maximum (?:context|length|input)|context (?:length|size)"
)

Vectors = NDArray[np.float32]  # (texts, width)


class Embedded(NamedTuple):
    """The vectors of texts, and the tokens that the server has read (0 if it does not report
    them)."""

    vectors: Vectors
    tokens: int


class Embedder:
    """A client of a local embedding server. Use it as an async context manager. `batch`: texts in a
    request. `cut`: the texts so far that were too long for the server."""

    def __init__(self, server: "Server", batch: int = 0, concurrency: int = CONCURRENCY) -> None:
        self._generates = server.dialect.embeds
        model, at, digest = server.identity.partition("@")
        # the pooling of SGLang
        self.model = f"{model}-last{at}{digest}" if self._generates else server.identity
        self.batch, self._server = (
            batch or (ONE_BY_ONE if server.dialect.is_in_process else BATCH),
            server,
        )
        self.cut = set[str]()
        self._slots = asyncio.Semaphore(concurrency)
        self._client: Any = None

    async def __aenter__(self) -> "Embedder":
        import aiohttp  # missing in .venv-train

        self._client = aiohttp.ClientSession(
            f"{self._server.base_url}/",
            headers={"Authorization": f"Bearer {str(self._server.key) or 'none'}"},
            timeout=aiohttp.ClientTimeout(total=SECONDS),
            # a request on one that the server closes would be lost
            connector=aiohttp.TCPConnector(force_close=True),
        )
        return self

    async def __aexit__(self, *about: object) -> None:
        await self._client.close()

    async def __call__(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors of non-empty texts. If a text is too long for the server, its middle
        is removed. Raises RunFailed if the server fails, since a guided search can't continue
        without embeddings."""
        return (await self.counted(texts)).vectors

    async def counted(self, texts: Sequence[str]) -> Embedded:
        """Return the vectors of texts, as a call does, and the number of tokens."""
        begins = range(0, len(texts), self.batch)
        batches = (self._of(texts[i : i + self.batch]) for i in begins)
        return _joined(await asyncio.gather(*batches))

    async def _of(self, texts: Sequence[str]) -> Embedded:
        """Embed a batch of texts. If the batch is too long, embed its texts one by one, and cut
        long texts."""
        if (embedded := await self._asked(texts)) is not None:
            return embedded
        if len(texts) > 1:
            return _joined([await self._of([text]) for text in texts])
        if len(texts[0]) < FEWEST:
            raise self._failed("it rejects even a short text as too long")
        self.cut.add(texts[0])
        kept = len(texts[0]) // 4
        return await self._of([f"{texts[0][:kept]} … {texts[0][-kept:]}"])

    async def _asked(self, texts: Sequence[str]) -> Embedded | None:
        """Request the vectors of texts. Return None if the texts are too long for the server."""
        import aiohttp

        path, rows_in, vector_in = "embeddings", "data", "embedding"
        body: dict[str, Any] = {"input": list(texts), "encoding_format": "float"}
        if self._generates:
            path, rows_in, vector_in = "completions", "choices", "hidden_states"
            body = {
                "prompt": list(texts),
                "max_tokens": 1,
                "temperature": 0,
                "return_hidden_states": "last",
            }
        try:
            async with (
                self._slots,
                self._client.post(path, json={"model": self._server.model, **body}) as response,
            ):
                status, text = response.status, await response.text(errors="replace")
            if status >= 400:
                if _TOO_LONG.search(text.lower()):
                    return None
                raise self._failed(one_line(f"error {status}: {text}", 300))
            page = json.loads(text)
            rows = sorted(page[rows_in], key=lambda row: int(row["index"]))
            vectors = np.array([row[vector_in] for row in rows], np.float32)
        except (aiohttp.ClientError, OSError) as error:
            raise self._failed(one_line(str(error) or type(error).__name__, 300)) from None
        except (TypeError, ValueError, LookupError):
            raise self._failed("the response lacks a vector for each text") from None
        is_whole = vectors.ndim == 2 and len(vectors) == len(texts)
        if not is_whole or not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise self._failed("some vectors are missing, zero or not finite")
        if self._generates:
            vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return Embedded(vectors, _tokens_in(page))

    def _failed(self, why: str) -> RunFailed:
        return RunFailed(
            f"the server at {self._server.base_url} returns no valid embeddings "
            f"({why.rstrip('.')}). Finished work is kept. Run the same command again"
        )


def _tokens_in(page: Any) -> int:
    """Return the number of tokens that a server reports, or 0."""
    usage = page.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    return tokens if isinstance(tokens, int) else 0


def _joined(parts: Sequence[Embedded]) -> Embedded:
    vectors = np.concatenate([part.vectors for part in parts])
    return Embedded(vectors, sum(part.tokens for part in parts))
