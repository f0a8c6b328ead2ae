"""Test llama.cpp with a user's GGUF file: the answers of the embedded engine, and sizes by hand."""

import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from core.base.errors import UserError
from core.engines import process, queries
from core.engines.attach import probe
from core.engines.dialects import llamacpp
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.gguf_header import Gguf
from core.engines.need import Need
from core.engines.protocol import NO_KEY, NO_TEMPLATE, Server, digest_in
from core.engines.weights import sha256
from core.rsa import RSA
from core.server import embedded, on_llamacpp, serving
from harness.results.warnings import of_run
from harness.run import solve_sync
from tests.conftest import python, run
from tests.helpers.asking import SHORT, ask
from tests.helpers.gguf_copies import copying

GIB = 2**30


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a user's file: the embedded model under other names."""
    out = tmp_path_factory.mktemp("gguf") / "qed-nano-toy-f32.gguf"
    out.write_bytes(
        EMBEDDED_GGUF.read_bytes().replace(b"qed-rsa embedded model", b"another embedded model", 1)
    )
    return out


def test_it_answers_as_the_embedded_engine_does(
    file: Path, engine: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXACT", "1")
    with on_llamacpp(file, Need()) as server:
        assert np.abs(logprobs(server, 1) - logprobs(engine, 1)).max() < 2e-3
        attached = probe(server.base_url, "x")
        assert server.thinking and attached is not None
    assert server.model == f"qed-nano-toy-f32@{sha256(file)[:12]}" == server.identity
    assert not server.card.name and server.card.problem_set == "aime_2025"
    assert (attached.identity, attached.limit, attached.context) == (
        server.identity,
        server.limit,
        server.context,
    )
    assert server.context == 2048 and server.limit - 2 in {
        min(times * llamacpp.physical_cores(), 16) for times in (1, 4, 16)
    }


def with_sampling_defaults(path: Path) -> Path:
    """Write the embedded model with sampling defaults in its header, as converters copy them from
    the model."""
    with copying(EMBEDDED_GGUF, path) as writer:
        writer.add_sampling_penalty_repeat(1.6)
        writer.add_sampling_xtc_probability(0.9)
        writer.add_sampling_temp(0.1)
        writer.add_sampling_top_k(2)
        writer.add_sampling_mirostat(2)
        writer.add_sampling_sequence("temperature")
    return path


def test_sampling_defaults_in_the_header_of_a_file_have_no_effect(
    engine: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXACT", "1")
    asked = [(seed, replace(SHORT, temperature=1.5)) for seed in range(4)]
    with on_llamacpp(with_sampling_defaults(tmp_path / "defaults.gguf"), Need()) as server:
        page = queries.page_of(server, "props")["default_generation_settings"]["params"]
        assert page["repeat_penalty"] == pytest.approx(1.6), "they are in force for other clients"
        of_file = ask(server, tmp_path / "file", asked)
    plain = ask(engine, tmp_path / "plain", asked)
    assert [(completion.thinking, completion.answer) for completion in of_file] == [
        (completion.thinking, completion.answer) for completion in plain
    ]
    assert len({completion.thinking for completion in plain}) > 1


def test_model_is_a_gguf_file_for_a_run_and_for_a_server(
    file: Path, results: Path, tmp_path: Path
) -> None:
    env = {"MODEL": str(file), "PROBLEMS": "sums"}
    small = ("LIMIT=1", "N=4", "T=1", "MAX_TOKENS=400", "SEED=1")
    status, out, err = run("02_rsa_basic", *small, **env)
    assert status == 0, err
    first = json.loads((results / "02_rsa_basic.json").read_text())
    name = f"qed-nano-toy-f32@{sha256(file)[:12]}"
    assert first["model"]["name"] == name and first["model"]["sha256"] == sha256(file)
    assert first["engine"]["why"] == f"MODEL={file} is set"
    steps = first["metrics"]["steps"]
    assert len(steps) == 2 and not any(step["failed"] or step["truncated"] for step in steps)
    assert steps[-1]["mean_accuracy"]["value"] > 0.3

    port = "29881"
    process = python("-m", "core.server", "MAX_TOKENS=400", PORT=port, **env)
    try:
        assert (
            process.stdout is not None
            and f"{name} on http://127.0.0.1:{port}/v1" in process.stdout.readline()
        )
        status, out, err = run("02_rsa_basic", *small, PORT=port, ENGINE="llamacpp", **env)
        assert status == 0 and f"a server answers on port {port}" in out, err
        second = json.loads((results / "02_rsa_basic.json").read_text())
        assert (
            second["model"] == first["model"]
            and second["metrics"]["tokens"] == first["metrics"]["tokens"]
        )
        assert second["problems"] == first["problems"], "every completion comes from the journal"
        status, _, err = run("02_rsa_basic", PORT=port, **env | {"MODEL": str(EMBEDDED_GGUF)})
        assert status == 2 and EMBEDDED_GGUF.name in err and name in err
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 0


# Exact or fast

SMALL = Need(3, 100, 16)


def logprobs(server: Server, in_flight: int) -> "np.ndarray[Any, Any]":
    """Return the log probabilities in 12 greedy completions of 10 tokens, with a number of requests
    in flight."""

    def ask(number: int) -> list[float]:
        body = {
            "prompt": f"{number} + 5 =",
            "n_predict": 10,
            "temperature": 0,
            "n_probs": 1,
            "ignore_eos": True,
        }
        reply = json.loads(queries.send(f"{server.root}/completion", body=body, seconds=600))
        return [token["logprob"] for token in reply["completion_probabilities"]]

    with ThreadPoolExecutor(in_flight) as pool:
        return np.array(list(pool.map(ask, range(12))))


@pytest.mark.parametrize(
    ("value", "exact", "fields"), [("1", True, {"exact": "1"}), ("0", False, {}), ("", False, {})]
)
def test_exact_changes_a_files_server_and_its_keys_only_against_the_default(
    file: Path, monkeypatch: pytest.MonkeyPatch, value: str, exact: bool, fields: dict[str, str]
) -> None:
    monkeypatch.setenv("EXACT", value)
    with on_llamacpp(file, SMALL) as server:
        attached = probe(server.base_url, "x")
        assert attached is not None and attached.key_fields == server.key_fields
        assert server.exact is attached.exact is exact and ("EXACT=1" in server.choice) is not exact
        assert server.key_fields == ({"kind": "llama.cpp"} | fields if fields else {})
        assert digest_in(server.identity) == sha256(file)[:12] and not server.rests_on
        # measured: 1e-5 if exact, else 3e-3
        off = float(np.abs(logprobs(server, 1) - logprobs(server, 12)).max())
        assert (off < 2e-4) is exact, off


@pytest.mark.parametrize(
    ("value", "exact", "fields"),
    [("auto", True, {}), ("1", True, {}), ("0", False, {"exact": "0"})],
)
def test_the_embedded_model_is_exact_unless_exact_is_0(
    monkeypatch: pytest.MonkeyPatch, value: str, exact: bool, fields: dict[str, str]
) -> None:
    monkeypatch.setenv("EXACT", value)
    with embedded() as server:
        assert server.exact is exact
        assert server.key_fields == ({"kind": "llama.cpp"} | fields if fields else {})


def test_a_server_on_the_port_that_is_not_as_exact_as_asked_is_not_used(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = process.free_port()
    for name, value in {"MODEL": str(file), "PORT": str(port), "BASE_URL": ""}.items():
        monkeypatch.setenv(name, value)
    with on_llamacpp(file, SMALL, port):
        for value in ("auto", "0"):
            monkeypatch.setenv("EXACT", value)
            with serving() as server:
                assert server.exact is False
        monkeypatch.setenv("EXACT", "1")
        with pytest.raises(UserError, match="EXACT=1"), serving():
            pass


def test_a_model_too_slow_for_many_slots_gets_one_for_each_core(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The longest completion has 116 tokens. A token takes over 10 microseconds."""
    monkeypatch.setattr(llamacpp, "PATIENCE", 116e-5)
    with on_llamacpp(file, SMALL, process.free_port()) as server:
        assert server.limit == llamacpp.physical_cores() + 2
        assert len(logprobs(server, 12)) == 12


@pytest.mark.parametrize(
    ("batch", "patience", "slots"),
    [(1, 1e9, 2), (8, 1e9, 8), (16, 1e9, 16), (16, 500, 5), (1, 5, 2)],
)
def test_the_fewest_slots_that_write_enough_are_taken(
    monkeypatch: pytest.MonkeyPatch, batch: int, patience: float, slots: int
) -> None:
    """A step of the server takes a second for `batch` slots. The longest completion has 1,600
    tokens."""
    clock = [0.0]

    def send(url: str, key: str, body: dict[str, int], seconds: float) -> None:
        slots = 16 * llamacpp.STEPS // body["n_predict"]  # in this wave
        clock[0] += body["n_predict"] * max(1, slots / batch) / slots

    monkeypatch.setattr(llamacpp, "PATIENCE", patience)
    monkeypatch.setattr(queries, "send", send)
    monkeypatch.setattr("time.monotonic", lambda: clock[0])
    assert (
        llamacpp.slots_in_time("", llamacpp.Size(16, 2048, 2), Need(3, 1584, 16), NO_KEY) == slots
    )


def test_a_file_without_a_chat_template_is_said_to_be_without(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, results: Path
) -> None:
    plain = tmp_path / "plain.gguf"
    plain.write_bytes(
        file.read_bytes().replace(b"tokenizer.chat_template", b"tokenizer.chat_templatx", 1)
    )
    with on_llamacpp(file, SMALL) as server:
        assert server.templated and NO_TEMPLATE not in server.choice
    with on_llamacpp(plain, SMALL) as server:
        attached = probe(server.base_url, "x")
        assert attached is not None and server.templated is attached.templated is False
        assert NO_TEMPLATE in server.choice
        monkeypatch.setenv("BASE_URL", server.base_url)
        result = solve_sync(RSA, [{"problem": "1+1?", "answer": 2}], N=1, K=1, T=0, MAX_TOKENS=20)
    document = json.loads(next(results.glob("*.json")).read_text())
    assert document["engine"]["templated"] is False and any(
        "ChatML" in note for note in of_run(document, None)
    ), result


# Sizes


def header(path: Path, architecture: str = "qwen3", **more: int) -> Path:
    """Write a GGUF file with QED-Nano's shape and no tensors."""
    writer = gguf.GGUFWriter(path, architecture)
    shape = {
        "context_length": 262144,
        "embedding_length": 2560,
        "block_count": 36,
        "feed_forward_length": 9728,
    }
    heads = {"head_count": 32, "head_count_kv": 8, "key_length": 128, "value_length": 128}
    for name, value in (shape | heads).items():
        getattr(writer, f"add_{name}")(value)
    for name, value in more.items():
        writer.add_uint16(name.replace("_", ".", 1), value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_sizes_for_qed_nano_by_hand(tmp_path: Path) -> None:
    """36 layers with 8 heads of 128, keys and values of 2 bytes: 147,456 bytes a token. Weights of
    4.28 GB in q8_0. 2 GiB and a tenth of the memory stay free. 68,096 tokens = 2,048 + 4 x 16,384 +
    512."""
    os.truncate(header(tmp_path / "q8.gguf"), 4_280_000_000)  # a hole follows the header
    model = Gguf.read(tmp_path / "q8.gguf")
    assert model.shape.kv_bytes() == 147_456 and model.longest == 262_144

    def size(gib: int, cores: int = 8, need: Need = Need()) -> llamacpp.Size:  # noqa: B008 - frozen
        return llamacpp.size(model, need, gib * GIB, cores)

    # (0.9 x 16 x 1,073,741,824 - 2,147,483,648 - 4,280,000,000) / 147,456 = 61,268 tokens: one
    # slot, in 256s.
    assert size(16) == llamacpp.Size(1, 61_184, 8, 0)
    # 32 GiB: 166,130 tokens hold two slots of 68,096. 128 GiB: 795,302 tokens hold eleven.
    assert size(32) == llamacpp.Size(2, 68_096, 8, 0)
    assert size(128) == llamacpp.Size(11, 68_096, 8, 0) and size(128, cores=4) == llamacpp.Size(
        11, 68_096, 4, 0
    )
    # 2,048 + 4 x 2,000 + 512 = 10,560, in 256s 10,752: 61,268 tokens hold five.
    assert size(16, need=Need(3, 2000, 512)) == llamacpp.Size(5, 10_752, 8, 0)
    # 64 GiB: 375,838 tokens. Sixteen slots of 10,752 leave room for a cache of the same size,
    # 172,032 tokens.
    assert size(64, need=Need(3, 2000, 512)) == llamacpp.Size(16, 10_752, 8, 24_192)
    assert size(512, need=Need(3, 200_000, 512)).context == 262_144, (
        "no more than the model was trained for"
    )
    # 8 GiB: 0.9 x 8 GiB - 2 GiB - 4.28 GB = 1.30 GB, 8,839 tokens; 2,048 + 16,384 + 512 = 18,944.
    with pytest.raises(UserError, match=r"8,839 .* 18,944"):
        size(8)
    with pytest.raises(UserError, match=" 0 tokens"):
        size(4)


def test_memory_and_cores_of_this_machine_are_found() -> None:
    assert GIB < llamacpp.memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 1 <= llamacpp.physical_cores() <= (os.cpu_count() or 1)


# Errors


def test_a_model_that_cannot_be_served_is_named(tmp_path: Path) -> None:
    whole = EMBEDDED_GGUF.read_bytes()
    (tmp_path / "text.gguf").write_text("not a model")
    (tmp_path / "empty.gguf").write_bytes(b"")
    for size in (6, 1000, 20_000, len(whole) - 1):
        (tmp_path / f"cut{size}.gguf").write_bytes(whole[:size])
    header(tmp_path / "other.gguf", "mamba")
    header(tmp_path / "part.gguf", split_count=3)
    header(tmp_path / "hollow.gguf")
    named = ["", str(tmp_path), str(tmp_path / "none.gguf"), *map(str, tmp_path.glob("*.gguf"))]
    assert len(named) == 12
    for model in named:
        with (
            pytest.raises(UserError, match=Path(model).name or "MODEL="),
            on_llamacpp(llamacpp.gguf_file(model), Need(3, 300)),
        ):
            pass
