"""Embed states with a server, and store the vectors by the hashes of their texts.

A server of SGLang generates and embeds: /v1/completions returns the last token's hidden state with a completion of one
token. Its length is scaled to 1. Other servers embed at /v1/embeddings.

A folder contains parts of at most PART texts. A part is one .npz file, which is written completely or not at all and
never changed. So the same command resumes and embeds no stored text again. A part contains the vectors (float32), the
hashes of their texts, which texts were cut, and the model. Extra spaces do not change a state's vector (`text_of`).
"""

import hashlib
import io
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base.errors import UserError, one_line
from core.base.files import opened, storable, write_atomically
from labs.lean.search import plain
from labs.training.embeddings import Embedded, Embedder, Vectors

PART = 2000  # most texts in a part
WHAT, REMEDY = "the embeddings", "Remove the folder of embeddings, and run the iteration again"


def text_of(state: str) -> str:
    """Return the text to embed for a state, or "" if no goal is left."""
    return plain(storable(state))


def hash_of(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


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
    number = len(list(folder.glob("[!.]*.npz")))
    write_atomically(folder / f"{number:05}.npz", content.getvalue())


def _parts(folder: Path, *names: str) -> Iterator[dict[str, Any]]:
    """Yield the named arrays of each part, and its hashes as a list of bytes. Raises UserError."""
    for path in sorted(folder.glob("[!.]*.npz")):
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
