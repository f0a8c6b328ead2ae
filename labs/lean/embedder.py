"""Ask a server for the embeddings of states, and keep what comes."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from core.base.errors import RunFailed, UserError
from core.engines.server import Server
from core.generate.reply import PASSING, Lost, Malformed, Overtime, Refused, Stalled
from core.generate.wire import Wire
from labs.lean.embeddings import REMEDY, WHAT, Embedded, Vectors, hash_of, is_sound, known, text_of, write
from labs.lean.search import Failed, ended

T = TypeVar("T")

CHECKPOINT = 20_000  # states of a part
SECONDS = 600.0  # that a request may take
WAITS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # seconds between tries of one
TELL_SECONDS = 3.0  # between lines of progress
FEWEST = 64  # characters that a text is not cut below
NEAR = 0.1  # distance of two vectors of one text, as a share of their length, that is rounding (8 bits, on a GPU)

_TOO_LONG = re.compile(
    r"too (?:large|long)|exceed|longer than|maximum (?:context|length|input)|context (?:length|size)"
)
_CUT = " … "
# States of very different lengths: where what is sent together is mixed up, such are.
_PROBES = tuple("".join(f"h{i} : p{i} → q\n" for i in range(3 * length)) + "⊢ q" for length in range(8))


class Embedder:
    """Ask `server` for embeddings, `batch` texts in a request and `concurrency` requests at once; use it as a context
    manager. It looks once whether the server gives a text the same vector alone and among others. `sent`: texts."""

    def __init__(self, server: Server, batch: int = 64, concurrency: int = 2) -> None:
        self.model, self.sent = server.identity, 0
        self.batch, self._server = batch, server
        self._wire = Wire(server, concurrency)
        self._slots = asyncio.Semaphore(concurrency)
        self._width: int | None = None
        self._looked = asyncio.Lock()
        self._is_checked = False

    async def __aenter__(self) -> "Embedder":
        await self._wire.__aenter__()
        return self

    async def __aexit__(self, *about: object) -> None:
        await self._wire.__aexit__(*about)

    async def __call__(self, texts: Sequence[str]) -> Embedded:
        """Of texts that are not empty. What the server finds too long loses its middle. Raises Failed where it does not
        answer for now, and UserError where it gives no embeddings, or none to rely on."""
        if not texts:
            raise ValueError("no texts")
        async with self._looked:
            if not self._is_checked:
                await self._check()
                self._is_checked = True
        made = await _all(map(self._of, batches(texts, self.batch)))
        return Embedded(np.concatenate([each.vectors for each in made]), np.concatenate([each.cut for each in made]))

    async def _check(self) -> None:
        together = (await self._of(_PROBES)).vectors
        alone = np.concatenate([(await self._of([text])).vectors for text in _PROBES])
        apart = np.linalg.norm(together - alone, axis=1) / np.linalg.norm(alone, axis=1)
        if apart.max() > NEAR:
            raise UserError(
                f"the server at {self._at} gives a text another vector when it is sent among others (off by "
                f"{apart.max():.0%}): llama.cpp does so with several slots. Start it with --parallel 1 --pooling mean "
                "and a --batch-size equal to its --ubatch-size"
            )

    async def _of(self, texts: Sequence[str]) -> Embedded:
        """The vectors of a batch, which is halved, and at last cut, where it is too long."""
        try:
            return Embedded(await self._asked(texts), np.zeros(len(texts), np.bool_))
        except Refused as refusal:
            if len(texts) > 1:
                middle = len(texts) // 2
                first, second = await self._of(texts[:middle]), await self._of(texts[middle:])
                return Embedded(*(np.concatenate(both) for both in zip(first, second, strict=True)))
            if len(texts[0]) < 2 * FEWEST:
                raise UserError(f"the server at {self._at} finds a short text too long ({refusal})") from None
            kept = len(texts[0]) // 4
            shorter = await self._of([texts[0][:kept] + _CUT + texts[0][-kept:]])
            return Embedded(shorter.vectors, np.ones(1, np.bool_))

    async def _asked(self, texts: Sequence[str]) -> Vectors:
        """The vectors of texts that go into one request. Raises Refused where that is too long."""
        body = {"model": self._server.model, "input": list(texts), "encoding_format": "float"}
        why = ""
        for wait in (*WAITS, None):
            try:
                async with self._slots:
                    found = self._read(await self._wire.post("/embeddings", body, SECONDS), len(texts))
                self.sent += len(texts)
                return found
            except (Lost, Stalled, Overtime) as error:
                why = str(error) or f"no answer within {SECONDS:.0f} s"
            except Malformed as error:
                raise self._none(str(error)) from None
            except Refused as refusal:
                if _TOO_LONG.search(str(refusal).lower()):
                    raise
                if refusal.status in (401, 403):
                    raise UserError(f"the server at {self._at} refuses the key. {self._server.key.remedy}") from None
                if refusal.status not in PASSING and (refusal.status < 500 or refusal.status == 501):
                    raise self._none(f"status {refusal.status}: {refusal}") from None
                why = f"status {refusal.status}: {refusal}"
            if wait is not None:
                await asyncio.sleep(wait)
        raise Failed(f"the server at {self._at} gives no embeddings ({why.rstrip('.')})")

    def _read(self, reply: Any, count: int) -> Vectors:
        """The vectors in a reply to `count` texts. Raises UserError."""
        try:
            rows = {int(row["index"]): row["embedding"] for row in reply["data"]}
            vectors = np.array([rows[index] for index in range(count)], np.float32)
        except (TypeError, ValueError, LookupError, OverflowError):
            raise self._none("what it sent holds no vector for each text") from None
        if vectors.ndim != 2 or not vectors.shape[1]:
            raise self._none("it sent no single vector for a text. Does it pool over the tokens?")
        width = self._width = self._width or vectors.shape[1]
        if vectors.shape[1] != width:
            raise UserError(f"the server at {self._at} gives embeddings of {vectors.shape[1]} and of {width} numbers")
        if not is_sound(vectors).all():
            raise UserError(f"the server at {self._at} gives an embedding that is zero, or not finite. Look at its log")
        return vectors

    def _none(self, why: str) -> UserError:
        return UserError(
            f"the server at {self._at} answers no embeddings ({why.rstrip('.')}). Start one that does (docs/energy.md)"
        )

    @property
    def _at(self) -> str:
        return self._server.base_url


async def embed(
    states: Iterable[str],
    folder: Path,
    embedder: Embedder,
    say: Callable[[str], None] = print,
) -> int:
    """Embed the states that have no vector in `folder` yet; returns how many those were. However it ends, what is
    embedded is kept. Raises UserError."""
    held = known(folder)
    if other := {model for model in held.values() if model != embedder.model}:
        raise UserError(f"{WHAT} in {folder} are of {min(other)}, and the server has {embedder.model}. {REMEDY}")
    texts = list(dict.fromkeys(filter(None, map(text_of, states))))
    due = [text for text in texts if hash_of(text) not in held]
    told = _Told(len(due), say)
    for begin in range(0, len(due), CHECKPOINT):
        await _embed_part(due[begin : begin + CHECKPOINT], folder, embedder, told)
    return len(due)


async def _embed_part(texts: Sequence[str], folder: Path, embedder: Embedder, told: "_Told") -> None:
    done: list[tuple[Sequence[str], Embedded]] = []

    async def one(batch: Sequence[str]) -> None:
        done.append((batch, await embedder(batch)))
        told.more(len(batch))

    try:
        await _all(map(one, batches(texts, embedder.batch)))
    except Failed as failed:
        raise RunFailed(f"{failed}. Fix that and run the same command again: what is embedded is kept") from None
    finally:
        if done:
            write(folder, embedder.model, done)


def batches(texts: Sequence[str], size: int) -> list[Sequence[str]]:
    return [texts[begin : begin + size] for begin in range(0, len(texts), size)]


async def _all(asked: Iterable[Awaitable[T]]) -> list[T]:
    """What comes of all; where one fails, the others end with it."""
    tasks = [asyncio.ensure_future(each) for each in asked]
    try:
        return await asyncio.gather(*tasks)
    finally:
        await ended(tasks)


class _Told:
    """A line of progress every few seconds."""

    def __init__(self, total: int, say: Callable[[str], None]) -> None:
        self._total, self._say, self._done = total, say, 0
        self._began = self._told = time.monotonic()

    def more(self, count: int) -> None:
        self._done += count
        now = time.monotonic()
        if now - self._told < TELL_SECONDS:
            return
        self._told = now
        speed = self._done / (now - self._began)
        left = (self._total - self._done) / speed
        self._say(f"embedding: {self._done:,} of {self._total:,} states, {speed:,.0f} states/s, {left:,.0f} s left")
