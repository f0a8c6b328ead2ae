"""Embed states with a server, and store the vectors by the hashes of their texts.

A server of SGLang generates and embeds: /v1/completions returns the last token's hidden state with a completion of one
token. Its length is scaled to 1. Other servers embed at /v1/embeddings.

A folder contains parts of at most PART texts. A part is one .npz file, which is written completely or not at all and
never changed. So the same command resumes and embeds no stored text again. A part contains the vectors (float32), the
hashes of their texts, which texts were cut, and the model. Extra spaces do not change a state's vector (`text_of`).
"""

import asyncio
import hashlib
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from core.base.errors import RunFailed, UserError, one_line
from core.base.files import opened, storable, write_atomically
from labs.lean.search import ended, plain

if TYPE_CHECKING:
    from core.engines.server import Server

BATCH, CONCURRENCY = 64, 2  # texts in a request, and parallel requests
PART = 2000  # most texts in a part
SECONDS = 600.0  # time limit of a request
FEWEST = 128  # characters of the shortest text that may be cut
WHAT, REMEDY = "the embeddings", "Remove the folder of embeddings, and run the iteration again"

_TOO_LONG = re.compile("too (?:large|long)|exceed|longer than|maximum (?:context|length|input)|context (?:length|size)")

Vectors = NDArray[np.float32]  # (texts, width)


class Embedded(NamedTuple):
    """The vectors of texts, in the texts' order, and which texts were cut."""

    vectors: Vectors
    cut: NDArray[np.bool_]


def text_of(state: str) -> str:
    """Return the text to embed for a state, or "" if no goal is left."""
    return plain(storable(state))


def hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


class Embedder:
    """A client of a local embedding server. Use it as an async context manager."""

    def __init__(self, server: "Server", batch: int = BATCH, concurrency: int = CONCURRENCY) -> None:
        self._generates = server.dialect.embeds
        self.model = server.dialect.embedding_name(server.identity) if self._generates else server.identity
        self.batch, self._server = batch, server
        self._slots = asyncio.Semaphore(concurrency)
        self._client: Any = None

    async def __aenter__(self) -> "Embedder":
        import openai  # takes a second to load, and is missing in .venv-train

        self._client = openai.AsyncOpenAI(
            base_url=self._server.base_url,
            api_key=str(self._server.api_key) or "none",
            timeout=SECONDS,
            max_retries=0,  # llama.cpp reports a too long text as a server error
            http_client=openai.DefaultAioHttpClient(trust_env=False),
        )
        return self

    async def __aexit__(self, *about: object) -> None:
        await self._client.close()

    async def __call__(self, texts: Sequence[str]) -> Embedded:
        """Embed non-empty texts. If a text is too long for the server, its middle is removed.
        Raises RunFailed if the server fails, since a guided search can't continue without embeddings."""
        begins = range(0, len(texts), self.batch)
        tasks = [asyncio.ensure_future(self._of(texts[begin : begin + self.batch])) for begin in begins]
        try:
            return _joined(await asyncio.gather(*tasks))
        finally:
            await ended(tasks)

    async def _of(self, texts: Sequence[str]) -> Embedded:
        """Embed a batch of texts. If the batch is too long, embed its texts one by one, and cut long texts."""
        if (vectors := await self._asked(texts)) is not None:
            return Embedded(vectors, np.zeros(len(texts), np.bool_))
        if len(texts) > 1:
            return _joined([await self._of([text]) for text in texts])
        if len(texts[0]) < FEWEST:
            raise self._failed("it rejects even a short text as too long")
        kept = len(texts[0]) // 4
        shorter = await self._of([f"{texts[0][:kept]} … {texts[0][-kept:]}"])
        return Embedded(shorter.vectors, np.ones(1, np.bool_))

    async def _asked(self, texts: Sequence[str]) -> Vectors | None:
        """Request the vectors of texts. Return None if the texts are too long for the server."""
        import openai

        path, rows_in, vector_in = "/embeddings", "data", "embedding"
        body: dict[str, Any] = {"input": list(texts), "encoding_format": "float"}
        if self._generates:
            path, rows_in, vector_in = "/completions", "choices", "hidden_states"
            body = {"prompt": list(texts), "max_tokens": 1, "temperature": 0, "return_hidden_states": "last"}
        try:
            async with self._slots:
                reply = await self._client.post(path, body={"model": self._server.model, **body}, cast_to=object)
            rows = sorted(reply[rows_in], key=lambda row: int(row["index"]))
            vectors = np.array([row[vector_in] for row in rows], np.float32)
        except openai.APIError as error:
            if _TOO_LONG.search(error.message.lower()):
                return None
            raise self._failed(one_line(str(error), 300)) from None
        except (TypeError, ValueError, LookupError):
            raise self._failed("the response lacks a vector for each text") from None
        is_whole = vectors.ndim == 2 and len(vectors) == len(texts)
        if not is_whole or not np.isfinite(vectors).all() or not vectors.any(axis=1).all():
            raise self._failed("some vectors are missing, zero or not finite")
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if self._generates else vectors

    def _failed(self, why: str) -> RunFailed:
        return RunFailed(
            f"the server at {self._server.base_url} returns no valid embeddings ({why.rstrip('.')}). Finished work is "
            "kept. Run the same command again"
        )


def _joined(parts: Sequence[Embedded]) -> Embedded:
    return Embedded(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


async def embed(states: Iterable[str], folder: Path, embedder: Embedder, say: Callable[[str], None] = print) -> int:
    """Embed the states that have no vector in `folder` yet, and return how many were embedded. Raises UserError."""
    held = {each: part["model"].item() for part in _parts(folder, "model") for each in part["hashes"]}
    if other := {model for model in held.values() if model != embedder.model}:
        raise UserError(f"{WHAT} in {folder} come from {min(other)}, but the server runs {embedder.model}. {REMEDY}")
    texts = dict.fromkeys(filter(None, map(text_of, states)))
    due = [text for text in texts if hash_of(text) not in held]
    for begin in range(0, len(due), PART):
        if begin:
            say(f"embedding: {begin:,} of {len(due):,} states")
        part = due[begin : begin + PART]
        write(folder, embedder.model, part, await embedder(part))
    return len(due)


def write(folder: Path, model: str, texts: Sequence[str], embedded: Embedded) -> None:
    """Write the next part, with the texts' hashes and their vectors. Raises UserError."""
    content = io.BytesIO()
    hashes = np.frombuffer(b"".join(map(hash_of, texts)), np.uint8).reshape(len(texts), 32)
    np.savez(content, vectors=embedded.vectors, hashes=hashes, cut=embedded.cut, model=np.array(model))
    write_atomically(folder / f"{len(_files(folder)):05}.npz", content.getvalue())


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.glob("*.npz")) if path.stem.isdecimal()]


def _parts(folder: Path, *names: str) -> Iterator[dict[str, Any]]:
    """Yield the named arrays of each part, and its hashes as a list of bytes. Raises UserError."""
    for path in _files(folder):
        with opened(path, WHAT, REMEDY) as file:
            try:
                with np.load(file, allow_pickle=False) as stored:
                    found: dict[str, Any] = {name: stored[name] for name in names}
                    found["hashes"] = [row.tobytes() for row in stored["hashes"]]
            except (ValueError, LookupError, EOFError, zipfile.BadZipFile, NotImplementedError, MemoryError) as error:
                raise UserError(f"{WHAT} {path} can't be read ({one_line(str(error), 200)}). {REMEDY}") from None
        yield found


@dataclass(frozen=True)
class Stored:
    """The embeddings in a folder. `places` maps a text's hash to its row in `vectors`. `cut`: which texts were cut."""

    model: str
    vectors: Vectors
    places: Mapping[bytes, int]
    cut: NDArray[np.bool_]

    def rows(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the rows of texts in `vectors`. Raises UserError if a text has no vector."""
        found = [self.places.get(hash_of(text), -1) for text in texts]
        if missing := found.count(-1):
            raise UserError(f"{missing:,} of {len(found):,} states have no embedding. Run their iteration again")
        return np.array(found, np.int64)


def load(folder: Path) -> Stored:
    """Read the embeddings in a folder. Raises UserError, also if two uncut texts have the same vector."""
    parts = list(_parts(folder, "vectors", "cut", "model"))
    if not parts:
        raise UserError(f"{folder} contains no embeddings. Run the iteration that embeds the states")
    vectors, cut = (np.concatenate([part[name] for part in parts]) for name in ("vectors", "cut"))
    hashes = [each for part in parts for each in part["hashes"]]
    whole = vectors[~cut]
    if same := len(whole) - len(np.unique(whole, axis=0)):
        raise UserError(
            f"{same:,} of {len(whole):,} embeddings in {folder} equal the vector of another text, so the model or its "
            f"server does not distinguish these states. {REMEDY}. If the error returns, set ENERGY=0 (24 and 25)"
        )
    return Stored(parts[0]["model"].item(), vectors, {each: row for row, each in enumerate(hashes)}, cut)
