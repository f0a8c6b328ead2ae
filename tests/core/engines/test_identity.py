"""Test that completions of other weights are never reused, and that results name the origin of
reused ones."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.client import retry
from core.client.journal import Archive, Journal, content_key
from core.engines import environment, identity, in_process
from core.engines.attach import probe
from core.engines.dialects import llamacpp
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.in_process import Launch
from core.engines.protocol import Server
from core.types import Completion, Sampling
from harness.report import compare, data
from harness.results import server_warnings
from tests.conftest import run
from tests.fakes.engines import llama, sglang, vllm
from tests.fakes.http import reset
from tests.helpers.asking import ask
from tests.helpers.runs import load

pytestmark = pytest.mark.usefixtures("hurried")


@pytest.fixture
def problems(tmp_path: Path) -> str:
    """Return the setting of a set of two problems."""
    (tmp_path / "problems.json").write_text(
        json.dumps([{"problem": f"{i}+1?", "answer": 0} for i in range(2)])
    )
    return f"PROBLEMS={tmp_path}/problems.json"


def complete(server: Server, folder: Path, seeds: Sequence[int] = (1, 2, 3)) -> list[Completion]:
    return ask(server, folder, [(seed, Sampling(max_tokens=100)) for seed in seeds])


def reused(completions: Sequence[Completion]) -> list[bool]:
    return [completion.reused for completion in completions]


# Other weights, another engine


def ollama(digest: str, name: str = "default:latest") -> dict[str, Any]:
    tags = {
        "models": [{"name": "another:latest", "digest": "f" * 64}, {"name": name, "digest": digest}]
    }
    return {"/v1/models": {"data": [{"id": name, "owned_by": "library"}]}, "/api/tags": tags}


OTHERS = {
    "ollama: another digest": (ollama("a" * 64), ollama("b" * 64)),
    "sglang: other weights": (sglang(), sglang("/models/two")),
    "sglang: weights changed while it serves": (
        sglang(),
        sglang() | {"/model_info": {"model_path": "/models/two"}},
    ),
    "sglang: weights updated": (
        sglang(),
        sglang() | {"/model_info": {"model_path": "/models/one", "weight_version": "step-200"}},
    ),
    "sglang: another type of KV cache": (sglang(), sglang(kv_cache_dtype="fp8_e5m2")),
    "sglang: an adapter": (
        sglang(),
        sglang(lora_paths=[{"lora_name": "a", "lora_path": "/adapters/a"}]),
    ),
    "vllm: other weights": (vllm(), vllm("/models/two")),
    "vllm: another type of KV cache": (vllm(), vllm(cache="fp8")),
    "llama.cpp: other weights": (llama(), llama("/models/two.gguf")),
    "vllm after sglang": (sglang(), vllm()),
    "sglang that reports nothing after vllm": (
        vllm(),
        {"/v1/models": {"data": [{"id": "default", "owned_by": "sglang"}]}},
    ),
}


SAME = {
    "ollama elsewhere": (ollama("a" * 64), ollama("a" * 64)),
    "sglang on another port": (sglang(), sglang()),
    "sglang with other limits": (
        sglang(max_running_requests=8),
        sglang(max_running_requests=99, random_seed=7),
    ),
    "sglang, its old pages": (
        sglang(),
        {
            "/v1/models": sglang()["/v1/models"],
            "/get_server_info": sglang()["/server_info"],
            "/get_model_info": sglang()["/model_info"],
        },
    ),
    "vllm with a longer context": (vllm(), vllm(max_model_len=8192)),
    "llama.cpp with more slots": (llama(), llama(total_slots=9)),
    "sglang, upgraded": (sglang(version="1.0"), sglang(version="2.0")),
    "vllm, upgraded": (vllm(version="1.0"), vllm(version="2.0")),
    "llama.cpp, upgraded": (llama(version="1.0"), llama(version="2.0")),
}


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [*((*pages, False) for pages in OTHERS.values()), *((*pages, True) for pages in SAME.values())],
    ids=[*OTHERS, *SAME],
)
def test_keys_contain_the_weights_and_the_engine_but_no_address_limit_or_version(
    serve: Any, first: dict[str, Any], second: dict[str, Any], is_same: bool
) -> None:
    servers = [serve(pages).probed() for pages in (first, second)]
    keys = [(server.identity, server.key_fields) for server in servers]
    assert (keys[0] == keys[1]) is is_same


def test_only_completions_of_equal_weights_are_reused_and_an_upgrade_is_recorded(
    serve: Any, tmp_path: Path
) -> None:
    before = serve(sglang(version="1.0"))
    after = serve(sglang("/models/two", version="1.0"))
    mine = complete(before.probed(), tmp_path)
    assert reused(complete(after.probed(), tmp_path)) == [False] * 3 and len(after.asked) == 3
    new = serve(sglang(version="2.0")).probed()
    *again, fresh = complete(new, tmp_path, (1, 2, 3, 4))
    assert reused(again) == [True] * 3 and again == mine and not fresh.reused
    assert (
        again[0].origin == before.probed().origin and fresh.origin == new.origin != again[0].origin
    )


def test_a_server_that_reports_nothing_is_known_by_kind_name_and_address(
    serve: Any, tmp_path: Path
) -> None:
    first = serve(UNKNOWN).probed()
    second = serve(UNKNOWN).probed()
    assert first.origin == f"other, default, at {first.base_url}" and first.key_fields == {}
    (completion,) = complete(first, tmp_path, (1,))
    assert completion.origin == first.origin
    assert reused(complete(second, tmp_path, (1,))) == [False]


# Weights on this machine


def changed(source: Path, target: Path) -> Path:
    """Copy a model with its last 4 kB set to zero."""
    content = source.read_bytes()
    target.write_bytes(content[:-4096] + bytes(4096))
    return target


def fingerprint(path: Path | str, name: str = "m", is_here: bool = True) -> dict[str, str]:
    return identity.fingerprint(name, str(path), {}, is_here)


def test_weights_on_this_machine_are_known_by_their_content(tmp_path: Path) -> None:
    file = tmp_path / "one.gguf"
    copy = tmp_path / "copy.gguf"
    file.write_bytes(EMBEDDED_GGUF.read_bytes())
    copy.write_bytes(file.read_bytes())
    other = changed(file, tmp_path / "other.gguf")
    assert fingerprint(file) == fingerprint(copy) != fingerprint(other)
    before = fingerprint(file)
    changed(copy, file)
    assert fingerprint(file) == fingerprint(other) != before, "overwritten"
    assert fingerprint(copy, is_here=False) == {"weights": str(copy)}, (
        "a path on another machine is not our file"
    )
    for no_model in (
        tmp_path / "none.gguf",
        "model.gguf",
        "lm-provers/QED-Nano",
        tmp_path,
        "/dev/zero",
    ):
        assert fingerprint(no_model) == {"weights": str(no_model)}
    sha = hashlib.sha256(copy.read_bytes()).hexdigest()[:12]
    assert fingerprint(copy, f"m@{sha}") == {}
    assert fingerprint(other, f"m@{sha}") == fingerprint(other), "a wrong name"
    assert fingerprint(copy, f"m@{sha}", is_here=False) == {}


def hugging_face(folder: Path, weights: bytes = b"w" * 3_000_000, template: str = "t") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return folder


def test_folders_are_known_by_weights_tokenizer_and_template(tmp_path: Path) -> None:
    expected = fingerprint(hugging_face(tmp_path / "one"))
    assert fingerprint(hugging_face(tmp_path / "copy")) == expected
    assert len(expected["weights"]) == 16
    (tmp_path / "copy" / "README.md").write_text("a note")
    assert fingerprint(tmp_path / "copy") == expected
    for start in (0, 999_999, 1_500_000 // 4096 * 4096, 2_999_999):
        end = min(start + 20_000, 3_000_000)
        spoiled = bytearray(b"w" * 3_000_000)
        spoiled[start:end] = bytes(end - start)
        assert fingerprint(hugging_face(tmp_path / "other", bytes(spoiled))) != expected
    assert fingerprint(hugging_face(tmp_path / "other", b"w" * 3_000_001)) != expected
    assert fingerprint(hugging_face(tmp_path / "other", template="u")) != expected


def test_a_restart_with_other_weights_under_the_same_name_reuses_no_completion(
    tmp_path: Path,
) -> None:
    answers = []
    other = changed(EMBEDDED_GGUF, tmp_path / "two.gguf")
    for gguf in (EMBEDDED_GGUF, other, EMBEDDED_GGUF):
        size = llamacpp.Size(4, 2048, 1)
        launch = Launch(gguf, "default", size, exact=True)
        with in_process.serving(launch, environment.wanted()) as address:
            server = probe(address, "x")
            assert server is not None
            answers.append((server.origin, complete(server, tmp_path)))
    (origin, first), (other_origin, second), (third_origin, third) = answers
    assert reused(first) == reused(second) == [False] * 3
    assert reused(third) == [True] * 3
    assert first == third != second and origin == third_origin != other_origin


def test_results_count_reused_completions_by_origin_and_warn(
    serve: Any, results: Path, problems: str
) -> None:
    constants = ("N=4", "MAX_TOKENS=100", problems)
    old = serve(sglang(version="0.5.22"))
    new = serve(sglang(version="0.5.23"))
    assert run("01_baseline", "LIMIT=1", *constants, BASE_URL=old.url)[0] == 0
    assert load(results, "01_baseline")["metrics"]["reused"] == {}
    status, out, err = run("01_baseline", *constants, BASE_URL=new.url)
    document = load(results, "01_baseline")
    before = "sglang 0.5.22, default, weights /models/one"
    assert status == 0 and document["metrics"]["reused"] == {before: 4} and len(new.asked) == 4, err
    assert document["engine"]["origin"] == before.replace("22", "23")
    note = next(warning for warning in document["warnings"] if before in warning)
    assert note.endswith(f"4 by {before}") and f"note: {note}" in out

    assert run("02_rsa_basic", "T=1", *constants, BASE_URL=serve(sglang("/models/two")).url)[0] == 0
    table = compare.table(
        [compare.result(data.load(name, results)) for name in ("01_baseline", "02_rsa_basic")]
    )
    assert "/models/one" in table and "/models/two" in table, "other weights under one name"


# Weights that can't be compared


UNKNOWN = {"/v1/models": {"data": [{"id": "default", "owned_by": "me"}]}}
RESTS_ON = {
    "unknown": (UNKNOWN, "the name default at http://"),
    "vllm, a path": (vllm(), "the path /models/one (not readable here)"),
    "vllm, a repository": (vllm("lm-provers/QED-Nano"), "the name lm-provers/QED-Nano"),
    "vllm, nothing": (vllm(""), "the name default"),
    "sglang": (sglang(), "the path /models/one"),
    "llama.cpp": (llama(), "the path /models/one.gguf"),
    "llama.cpp, weights here": (llama(str(EMBEDDED_GGUF)), ""),
    "ollama": (ollama("a" * 64), ""),
    "ollama, no digest": (ollama("latest"), "the name default:latest at http://"),
}


@pytest.mark.parametrize(("pages", "name"), RESTS_ON.values(), ids=RESTS_ON)
def test_reuse_rests_on_a_digest_or_a_name(serve: Any, pages: dict[str, Any], name: str) -> None:
    server = serve(pages).probed()
    assert server.rests_on.startswith(name) and bool(server.rests_on) == bool(name)


@pytest.mark.parametrize(
    ("asked", "replied", "is_same"),
    [
        ("gpt-4o", "gpt-4o-2024-08-06", True),
        ("qwen3", "qwen3:latest", True),
        ("QED-Nano", "/models/qed-nano.gguf", True),
        ("models/gemini-2.5-pro", "gemini-2.5-pro", True),
        ("mistral-large-latest", "mistral-large-2411", True),
        ("deepseek-ai/DeepSeek-V3", "accounts/fireworks/models/deepseek-v3", True),
        ("gpt-4o", "gpt-4o-mini-2024-07-18", False),
        ("a/model", "b/model", False),
        ("qwen3:4b", "qwen3:8b", False),
        ("QED-Nano", "Nano", False),
    ],
)
def test_spellings_of_a_models_name_are_recognised(asked: str, replied: str, is_same: bool) -> None:
    assert server_warnings.is_spelling(asked, replied) is is_same


def test_results_name_the_models_of_replies_and_the_basis_of_reuse(
    serve: Any, results: Path, problems: str
) -> None:
    here = serve(UNKNOWN)

    def ran(n: int, *named: str) -> tuple[dict[str, Any], str]:
        here.named = list(named)
        status, out, err = run(
            "01_baseline", "LIMIT=1", f"N={n}", "MAX_TOKENS=100", problems, BASE_URL=here.url
        )
        assert status == 0, err
        return load(results, "01_baseline"), " ".join(out.split())

    document, _ = ran(2)
    assert document["metrics"]["models"] == {"default": 2} and not document["warnings"]
    document, out = ran(4, "other", "other")
    rests_on = f"the name default at {here.url}"
    assert document["metrics"]["reused_by"] == {rests_on: 2}
    mixed, matched = document["warnings"][::-1]
    assert "2 other" in mixed and mixed in out and rests_on in matched and matched in out


# Another server in the middle of a run


def test_a_server_that_comes_back_with_other_weights_in_the_middle_is_refused(
    serve: Any, tmp_path: Path
) -> None:
    here = serve(sglang())
    server = here.probed()
    here.pages = sglang("/models/two")
    here.faults = [reset]
    with pytest.raises(UserError, match=r"/models/two.*/models/one"):
        complete(server, tmp_path, (1,))
    assert reused(complete(here.probed(), tmp_path, (1,))) == [False]


def test_one_that_comes_back_upgraded_continues_under_its_new_origin(
    serve: Any, tmp_path: Path
) -> None:
    here = serve(sglang(version="1.0"))
    server = here.probed()
    here.pages = sglang(version="2.0")
    here.faults = [reset]
    (completion,) = complete(server, tmp_path, (1,))
    assert completion.origin.startswith("sglang 2.0") and completion.error is None


def test_after_a_pause_a_server_is_probed_again(
    serve: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endpoint may be idle overnight, and no connection shows that its server was restarted."""
    here = serve(sglang())
    server = here.probed()
    here.pages = sglang("/models/two")
    assert not complete(server, tmp_path, (1,))[0].error, "without a pause it is not probed"
    monkeypatch.setattr(retry, "IDLE_SECONDS", -1.0)
    with pytest.raises(UserError, match="/models/two"):
        complete(server, tmp_path, (2,))


def test_pages_that_fail_while_a_server_is_asked_again_are_no_other_weights(
    serve: Any, tmp_path: Path
) -> None:
    here = serve(sglang(quantization="fp8"))
    server = here.probed()
    del here.pages["/server_info"]
    here.faults = [reset]
    assert complete(server, tmp_path, (1,))[0].error is None


# Journals that disagree


def kept(path: Path, *answers: str) -> None:
    with Journal(path) as journal:
        for i, answer in enumerate(answers):
            journal.put(Completion(content_key(i), i, answer=answer, seconds=1.0), [])


def test_if_journals_disagree_the_runs_own_counts_else_the_last(tmp_path: Path) -> None:
    kept(tmp_path / "b.jsonl", "1", "2", "3")
    kept(tmp_path / "elsewhere" / "d.jsonl", "1", "two", "three")
    (tmp_path / "elsewhere" / "d.jsonl").rename(tmp_path / "d.jsonl")
    for first, expected in (("b", "2"), ("d", "two"), ("none", "two")):
        with Archive(tmp_path, first) as archive:
            assert (got := archive.get(content_key(1))) and got.answer == expected
    with Journal(tmp_path / "b.jsonl") as journal:
        assert (got := journal.get(content_key(1))) and got.answer == "2"
