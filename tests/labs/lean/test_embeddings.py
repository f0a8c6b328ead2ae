"""Embeddings by the real engine: right in any batch, kept over kills, and none that say nothing."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

from core.base.errors import Elsewhere, RunFailed, UserError
from core.engines import client
from core.engines.dialects import llamacpp
from core.engines.embedded_model import EMBEDDED_GGUF
from core.engines.server import Key, Server
from labs.lean import embedder as asking
from labs.lean import embedding as embeds
from labs.lean import embeddings
from labs.lean.embedder import Embedder, embed
from labs.lean.embeddings import Embedded, apart, hash_of, load, text_of
from labs.lean.search import Failed
from tests.conftest import ROOT, environment
from tests.fakes.http import Proxy, Request, answer, reset

T = TypeVar("T")
STATES = [f"case {i}\np q r : Prop\nh{i} : p → q\n⊢ {'p ∧ ' * (i % 9)}r" for i in range(40)]
Given = Callable[[Embedder], Coroutine[Any, Any, T]]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with embeds.on_llamacpp() as found:
        yield found


@pytest.fixture(scope="module")
def vectors(server: Server) -> embeddings.Vectors:
    """Of STATES, each sent by itself."""
    return asked(server, lambda embedder: embedder([text_of(state) for state in STATES]), batch=1).vectors


@pytest.fixture
def before(server: Server) -> Iterator[tuple[Proxy, Server]]:
    """A proxy before the server, and the server as it is seen there."""
    proxy = Proxy(server.base_url)
    yield proxy, replace(server, base_url=proxy.url)
    proxy.close()


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for between tries, of which there are two."""
    monkeypatch.setattr(asking, "WAITS", (0.0,))


def asked(server: Server, given: "Given[T]", batch: int = 64) -> T:
    async def within() -> T:
        async with Embedder(server, batch) as embedder:
            return await given(embedder)

    return asyncio.run(within())


def into(folder: Path, states: Sequence[str] = STATES) -> "Given[int]":
    return lambda embedder: embed(states, folder, embedder, lambda line: None)


def refusal(server: Server) -> str:
    with pytest.raises(UserError) as raised:
        asked(server, lambda embedder: embedder(["⊢ p", "⊢ q"]))
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_a_state_has_one_vector_in_any_batch(server: Server, vectors: embeddings.Vectors) -> None:
    assert vectors.shape == (len(STATES), 128) and len(np.unique(vectors, axis=0)) == len(STATES)
    together = asked(server, lambda embedder: embedder([text_of(state) for state in STATES])).vectors
    np.testing.assert_allclose(together, vectors, atol=1e-5)


def test_a_server_that_mixes_up_what_is_sent_together_is_found_out() -> None:
    """llama.cpp with several slots: a bug of its, which makes no error."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.model_alias, params.hostnames, params.port = str(EMBEDDED_GGUF), {"it"}, ["127.0.0.1"], 0
    params.n_parallel, params.n_ctx, params.n_gpu_layers, params.verbosity = 8, 8 * 2048, 0, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.embedding, params.pooling_type = True, xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    engine = xllamacpp.Server(params)
    client.send(f"{engine.listening_address}/completion", "", {"prompt": "1", "n_predict": 1}, seconds=600)
    said = refusal(Server("llama.cpp", f"{engine.listening_address}/v1", "it", "a test"))
    engine = None
    assert "another vector when it is sent among others" in said and "--parallel 1" in said
    with pytest.raises(AssertionError), llamacpp.serving(
        EMBEDDED_GGUF, "it", "127.0.0.1", 0, llamacpp.Size(2, 2048, 1), "", exact=False, embeds=True
    ):  # fmt: skip
        pass


def test_chat_is_what_it_was_while_states_are_embedded_beside_it(engine: Server, server: Server) -> None:
    def said() -> list[Any]:
        messages = [{"role": "user", "content": "What is 7*43 + 5*61?"}]
        bodies = [{"messages": messages, "seed": seed, "max_tokens": 24, "logprobs": True} for seed in range(3)]
        replies = [client.send(f"{engine.base_url}/chat/completions", "", body, seconds=60) for body in bodies]
        return [json.loads(reply)["choices"][0]["message"] for reply in replies]

    async def beside(embedder: Embedder) -> list[Any]:
        texts = [text_of(state) for state in STATES]
        return list((await asyncio.gather(asyncio.to_thread(said), embedder(texts)))[0])

    assert asked(server, beside) == said()
    with pytest.raises(Exception, match="501"):
        client.send(f"{engine.base_url}/embeddings", "", {"input": "p"})


def test_what_is_kept_comes_back_and_no_text_is_embedded_twice(
    server: Server, vectors: embeddings.Vectors, tmp_path: Path
) -> None:
    folder = tmp_path / "embeddings"
    assert asked(server, into(folder, [*STATES[:30], *STATES[:10], ""])) == 30
    spaced = [state.replace(" : ", "  :   ") + "\n\n" for state in STATES]

    async def rest(embedder: Embedder) -> tuple[int, int]:
        return await into(folder, spaced)(embedder), embedder.sent

    new, sent = asked(server, rest)
    assert new == 10 and sent == 10 + 2 * 8  # and those that it looks at the server with
    assert asked(server, into(folder)) == 0 and len(os.listdir(folder)) == 2
    stored = load(folder)
    rows = stored.rows([text_of(state) for state in STATES])
    np.testing.assert_allclose(stored.vectors[rows], vectors, atol=1e-5)
    assert stored.model == server.model and stored.vectors.dtype == np.float32 and not stored.cut.any()
    with pytest.raises(UserError, match="1 of 2 states have no embedding"):
        stored.rows([text_of(STATES[0]), "⊢ new"])


def test_what_is_too_long_loses_its_middle_and_nothing_beside_it_does(server: Server, tmp_path: Path) -> None:
    long = ["h : p\n⊢ " + f"{name} ∨ " * 4000 + "True" for name in ("p", "q")]
    asked(server, into(tmp_path, [*STATES[:5], *long]))
    stored = load(tmp_path)
    cut = {row for row in range(len(stored.cut)) if stored.cut[row]}
    assert cut == set(stored.rows([text_of(state) for state in long]).tolist())


KILLED = """
import asyncio, sys
from pathlib import Path
from core.engines.server import Server
from labs.lean import embedder
embedder.CHECKPOINT = 8

async def main(url, model, folder):
    async with embedder.Embedder(Server("llama.cpp", url, model, "a test"), 4) as asking:
        await embedder.embed([f"p{i} : Prop\\n⊢ p{i}" for i in range(100_000)], Path(folder), asking)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_kill_leaves_whole_parts_that_are_taken_up(server: Server, tmp_path: Path) -> None:
    folder = tmp_path / "embeddings"
    args = [sys.executable, "-c", KILLED, server.base_url, server.model, str(folder)]
    with subprocess.Popen(args, env=environment(), cwd=ROOT) as process:
        while len(list(folder.glob("0*.npz"))) < 2 and process.poll() is None:
            os.sched_yield()
        process.send_signal(signal.SIGKILL)
    held = embeddings.known(folder)
    assert len(held) >= 16 and len(held) % 8 == 0 and set(held.values()) == {server.model}
    states = [f"p{i} : Prop\n⊢ p{i}" for i in range(len(held) + 5)]
    assert asked(server, into(folder, states)) == 5
    assert len(load(folder).vectors) == len(held) + 5


class Mortal(Proxy):
    """Passes `life` requests on, and is ill from then on. What it has passed on it answers first, also on a busy
    machine."""

    def __init__(self, onward: str) -> None:
        self.life, self.passing = 10**9, 0
        self.passed = threading.Condition()
        super().__init__(onward)

    def post(self, request: Request, body: bytes) -> None:
        with self.passed:
            self.life -= 1
            if is_ill := self.life < 0:
                self.passed.wait_for(lambda: not self.passing)
            else:
                self.passing += 1
        if is_ill:
            return answer(503, {"error": {"message": "gone"}})(request)
        try:
            super().post(request, body)
        finally:
            with self.passed:
                self.passing -= 1
                self.passed.notify_all()


@pytest.mark.usefixtures("at_once")
def test_what_came_before_a_server_was_lost_is_kept(server: Server, tmp_path: Path) -> None:
    proxy = Mortal(server.base_url)
    through = replace(server, base_url=proxy.url)

    async def lost(embedder: Embedder) -> int:
        await embedder([text_of(STATES[0])])
        proxy.life = 2
        return await into(tmp_path)(embedder)

    with pytest.raises(RunFailed, match=r"gives no embeddings \(status 503: gone\).* what is embedded is kept"):
        asked(through, lost, batch=10)
    assert len(embeddings.known(tmp_path)) == 20 and len(os.listdir(tmp_path)) == 1
    proxy.life = 10**9
    assert asked(through, into(tmp_path)) == len(STATES) - 20
    proxy.close()


@pytest.mark.usefixtures("at_once")
def test_a_fault_that_passes_is_asked_again_and_one_that_stays_is_a_failure_of_the_search(
    before: tuple[Proxy, Server], vectors: embeddings.Vectors
) -> None:
    proxy, server = before
    proxy.script = [answer(429, {})]
    made = asked(server, lambda embedder: embedder([text_of(STATES[0])]))
    np.testing.assert_allclose(made.vectors, vectors[:1], atol=1e-5)
    proxy.script = [reset] * 50
    with pytest.raises(Failed, match="gives no embeddings"):
        asked(server, lambda embedder: embedder(["⊢ p"]))


def row(index: int, numbers: Any) -> dict[str, Any]:
    return {"object": "embedding", "index": index, "embedding": numbers}


def reply(*rows: Any) -> dict[str, Any]:
    return {"object": "list", "data": list(rows)}


EIGHT = range(8)
REPLIES: dict[str, tuple[Any, str]] = {
    "an error": (answer(404, {"error": {"message": "no page"}}), r"answers no embeddings \(status 404: no page\)"),
    "not made for it": (answer(501, {"error": {"message": "not here."}}), r"answers no embeddings \(status 501"),
    "HTML": (answer(200, b"<html>hello</html>", "text/html"), "answers no embeddings"),
    "a chat": (answer(200, {"choices": []}), "holds no vector for each text"),
    "too few": (answer(200, reply(row(0, [1.0]))), "holds no vector for each text"),
    "words": (answer(200, reply(*(row(i, ["a"]) for i in EIGHT))), "holds no vector for each text"),
    "uneven": (answer(200, reply(*(row(i, [1.0] * (i + 1)) for i in EIGHT))), "holds no vector for each text"),
    "a vector a token": (answer(200, reply(*(row(i, [[1.0], [2.0]]) for i in EIGHT))), "Does it pool"),
    "nothing in it": (answer(200, reply(*(row(i, []) for i in EIGHT))), "Does it pool"),
    "null": (answer(200, reply(*(row(i, [None, 1.0]) for i in EIGHT))), "zero, or not finite"),
    "zero": (answer(200, reply(*(row(i, [0.0, 0.0]) for i in EIGHT))), "zero, or not finite"),
    "another width": (answer(200, reply(*(row(i, [1.0, 2.0]) for i in EIGHT))), "embeddings of 128 and of 2 numbers"),
    "no key": (answer(401, {"error": {"message": "who?"}}), "refuses the key. Set API_KEY to a valid one"),
}


@pytest.mark.parametrize("case", REPLIES)
def test_a_server_without_sound_embeddings_is_one_line(case: str, before: tuple[Proxy, Server]) -> None:
    (proxy, server), (said, words) = before, REPLIES[case]
    proxy.script = [said]
    with pytest.raises(UserError, match=words):
        asked(server, lambda embedder: embedder(["⊢ p"]))


def test_the_embedded_engine_that_serves_chat_says_that_it_embeds_nothing(engine: Server) -> None:
    assert "answers no embeddings (status 501" in refusal(engine)


def test_a_key_is_sent_and_goes_nowhere_else(before: tuple[Proxy, Server]) -> None:
    proxy, server = before
    seen: list[str | None] = []

    def refuse(request: Request) -> None:
        seen.append(request.headers["Authorization"])
        answer(403, {})(request)

    proxy.script = [
        refuse,
        answer(307, {}, location="http://127.0.0.1:9/v1/embeddings"),
    ]
    keyed = replace(server, api_key=Key("sesame-sesame"))
    assert "refuses the key" in refusal(keyed) and seen == ["Bearer sesame-sesame"]
    with pytest.raises(Elsewhere):
        asked(keyed, lambda embedder: embedder(["⊢ p"]))


def stored(folder: Path, **changes: Any) -> None:
    """A part of two vectors, changed."""
    arrays: dict[str, Any] = {
        "vectors": np.array([[1, 2], [3, 4]], np.float32),
        "hashes": np.frombuffer(hash_of("p") + hash_of("q"), np.uint8).reshape(2, 32),
        "cut": np.zeros(2, np.bool_),
        "model": np.array("it"),
    }
    content = io.BytesIO()
    np.savez(content, **{name: value for name, value in (arrays | changes).items() if value is not None})
    (folder / f"{len(list(folder.glob('*.npz'))):05}.npz").write_bytes(content.getvalue())


def f32(*rows: Sequence[float]) -> Any:
    return np.array(rows, np.float32)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "zero": ({"vectors": f32([0, 0], [1, 2])}, "1 of 2 embeddings in .* are zero, or not finite"),
    "not finite": ({"vectors": f32([np.nan, 1], [np.inf, 2])}, "2 of 2 embeddings in .* are zero, or not finite"),
    "repeated": ({"vectors": f32([1, 2], [1, 2])}, "1 of 2 embeddings in .* are those of other texts, too"),
    "of float64": ({"vectors": np.ones((2, 2))}, "another shape"),
    "too few": ({"vectors": f32([1, 2])}, "another shape"),
    "flat": ({"vectors": np.ones(2, np.float32)}, "another shape"),
    "pickled": ({"model": np.array([{}])}, "can't be read"),
    "without hashes": ({"hashes": None}, "can't be read"),
}


@pytest.mark.parametrize("case", BAD)
def test_embeddings_that_say_nothing_are_refused_before_training(case: str, tmp_path: Path) -> None:
    changes, words = BAD[case]
    stored(tmp_path, **changes)
    with pytest.raises(UserError, match=words):
        load(tmp_path)


def test_parts_that_do_not_go_together_or_are_damaged_are_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no embeddings. Embed the states first"):
        load(tmp_path)
    stored(tmp_path)
    assert load(tmp_path).vectors.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(UserError, match=f"are of it, and the server has {server.model}"):
        asked(server, into(tmp_path))
    stored(tmp_path, vectors=np.ones((2, 3), np.float32))
    with pytest.raises(UserError, match="several widths: 2, 3"):
        load(tmp_path)
    stored(tmp_path, model=np.array("other"))
    with pytest.raises(UserError, match="several models: it, other"):
        load(tmp_path)
    part = tmp_path / "00000.npz"
    part.write_bytes(part.read_bytes()[:-40])
    with pytest.raises(UserError, match=r"00000.npz can't be read .* Remove their folder and embed anew"):
        load(tmp_path)


def test_texts_that_were_cut_may_have_one_vector(tmp_path: Path) -> None:
    stored(tmp_path, vectors=f32([1, 2], [1, 2]), cut=np.ones(2, np.bool_))
    assert len(load(tmp_path).vectors) == 2


def test_a_full_disk_is_one_line_and_keeps_the_parts_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Embedded(f32([1, 2]), np.zeros(1, np.bool_))
    embeddings.write(tmp_path, "it", [(["p"], made)])

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(UserError, match="the disk is full"):
            embeddings.write(tmp_path, "it", [(["q"], made)])
    assert os.listdir(tmp_path) == ["00000.npz"] and set(embeddings.known(tmp_path)) == {hash_of("p")}


def test_states_that_a_model_does_not_tell_apart_are_warned_about() -> None:
    rng = np.random.default_rng(0)
    theorems = [[3 * t, 3 * t + 1, 3 * t + 2] for t in range(20)]
    middles = np.repeat(rng.normal(size=(20, 16)), 3, axis=0)
    noise = rng.normal(size=(60, 16))
    sound = apart((middles + noise).astype(np.float32), theorems)
    assert 0.3 < sound.within < 0.7 and abs(sound.between) < 0.1 and not sound.warning
    for spoilt in (middles + 0.01 * noise, 100 + 0.1 * noise + 0 * middles):
        assert "hardly tells a theorem's states apart" in apart(spoilt.astype(np.float32), theorems).warning
    pairs = [(a, b) for a in range(60) for b in range(60) if a // 3 != b // 3]
    units = (middles + noise) / np.linalg.norm(middles + noise, axis=1, keepdims=True)
    assert sound.between == pytest.approx(np.mean([units[a] @ units[b] for a, b in pairs]), abs=1e-5)
    alone = apart(noise.astype(np.float32), [[0]])
    assert np.isnan(alone.within) and np.isnan(alone.between) and not alone.warning
