"""Test embeddings by the real engine: correct in any batch, stored over kills, and never invalid."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.base.errors import RunFailed, UserError
from core.engines.server import Server
from labs.lean import energy
from labs.lean.energy import embed, stored_in, text_of
from labs.training.embeddings import Embedded, Embedder, Vectors
from labs.training.served import on_llamacpp
from tests.fakes.http import Proxy, Request, answer, reset
from tests.labs.lean.embedding import Given, Refusing, asked

STATES = [f"case {i}\np q r : Prop\nh{i} : p → q\n⊢ {'p ∧ ' * (i % 9)}r" for i in range(40)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with on_llamacpp() as found:
        yield found


@pytest.fixture(scope="module")
def vectors(server: Server) -> Vectors:
    """Return the vectors of STATES, each from its own request."""
    return asked(server, lambda embedder: embedder([text_of(state) for state in STATES]), batch=1).vectors


def into(folder: Path, states: Sequence[str] = STATES) -> "Given[int]":
    return lambda embedder: embed(states, folder, embedder, lambda line: None)


def test_a_state_has_one_vector_in_any_batch(server: Server, vectors: Vectors) -> None:
    assert vectors.shape == (len(STATES), 128) and len(np.unique(vectors, axis=0)) == len(STATES)
    together = asked(server, lambda embedder: embedder([text_of(state) for state in STATES])).vectors
    np.testing.assert_allclose(together, vectors, atol=1e-5)


def test_stored_vectors_come_back_and_no_text_is_embedded_twice(
    server: Server, vectors: Vectors, tmp_path: Path
) -> None:
    folder = tmp_path / "embeddings"
    assert asked(server, into(folder, [*STATES[:30], *STATES[:10], ""])) == 30
    spaced = [state.replace(" : ", "  :   ") + "\n\n" for state in STATES]
    assert asked(server, into(folder, spaced)) == 10
    assert asked(server, into(folder)) == 0 and len(os.listdir(folder)) == 2
    stored = stored_in(folder)
    rows = stored.rows([text_of(state) for state in STATES])
    np.testing.assert_allclose(stored.vectors[rows], vectors, atol=1e-5)
    assert stored.model == server.model and stored.vectors.dtype == np.float32 and not stored.cut.any()
    with pytest.raises(UserError, match="1 of 2"):
        stored.rows([text_of(STATES[0]), "⊢ new"])


def test_what_is_too_long_loses_its_middle_and_nothing_beside_it_does(server: Server, tmp_path: Path) -> None:
    long = ["h : p\n⊢ " + f"{name} ∨ " * 4000 + "True" for name in ("p", "q")]
    asked(server, into(tmp_path, [*STATES[:5], *long]))
    stored = stored_in(tmp_path)
    cut = {row for row in range(len(stored.cut)) if stored.cut[row]}
    assert cut == set(stored.rows([text_of(state) for state in long]).tolist())


def test_parts_before_a_lost_server_are_kept(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy, "PART", 10)
    proxy = Refusing(server.base_url)
    through, proxy.left = replace(server, base_url=proxy.url), 2
    with pytest.raises(RunFailed, match="503"):
        asked(through, into(tmp_path), batch=10)
    assert len(stored_in(tmp_path).vectors) == 20
    proxy.left = 10**9
    assert asked(through, into(tmp_path)) == len(STATES) - 20
    proxy.close()


def test_no_connection_is_used_twice(server: Server) -> None:
    """A server closes an idle connection at the moment of a request, which is then lost."""
    proxy, clients = Proxy(server.base_url), set[Any]()

    def answered(request: Request) -> None:
        clients.add(request.client_address)
        answer(200, reply(row(0, [1.0])))(request)

    proxy.script = [answered] * 2

    async def twice(embedder: Embedder) -> None:
        await embedder(["⊢ p"])
        await embedder(["⊢ q"])

    asked(replace(server, base_url=proxy.url), twice)
    assert len(clients) == 2
    proxy.close()


def row(index: int, numbers: Any) -> dict[str, Any]:
    return {"object": "embedding", "index": index, "embedding": numbers}


def reply(*rows: Any) -> dict[str, Any]:
    return {"object": "list", "data": list(rows)}


REPLIES: dict[str, Any] = {
    "an error": answer(501, {"error": {"message": "not here."}}),
    "none": reset,
    "a chat": answer(200, {"choices": []}),
    "null": answer(200, reply(row(0, [None, 1.0]), row(1, [1.0, 1.0]))),
    "zero": answer(200, reply(row(0, [0.0, 0.0]), row(1, [1.0, 1.0]))),
}


@pytest.mark.parametrize("case", REPLIES)
def test_a_server_without_sound_embeddings_ends_the_run_in_one_line(case: str, server: Server) -> None:
    proxy = Proxy(server.base_url)
    proxy.script = [REPLIES[case]]
    with pytest.raises(RunFailed, match=proxy.url):
        asked(replace(server, base_url=proxy.url), lambda embedder: embedder(["⊢ p", "⊢ q"]))
    proxy.close()


def test_parts_that_do_not_go_together_or_are_damaged_are_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=str(tmp_path)):
        stored_in(tmp_path)

    def write(*rows: Sequence[float], cut: bool = False) -> None:
        built = Embedded(np.array(rows, np.float32), np.full(len(rows), cut))
        texts = [f"{len(os.listdir(tmp_path))} {number}" for number in range(len(rows))]
        energy.store(tmp_path, "it", texts, built)

    write((1, 2), (3, 4))
    write((5, 6), (5, 6), cut=True)  # these may differ in the middle alone
    assert stored_in(tmp_path).vectors.tolist() == [[1, 2], [3, 4], [5, 6], [5, 6]]
    with pytest.raises(UserError, match=server.model):
        asked(server, into(tmp_path))
    write((1, 2))
    with pytest.raises(UserError, match="1 of 3"):
        stored_in(tmp_path)
    part = tmp_path / "00000.npz"
    for content in (part.read_bytes()[:-40], b"", b"no archive"):
        part.write_bytes(content)
        with pytest.raises(UserError, match=r"00000\.npz"):
            stored_in(tmp_path)
