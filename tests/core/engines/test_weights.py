"""Test which weights are fetched, with the real hub client and a hub on this machine."""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, nullcontext
from pathlib import Path

import pytest

from core.base import files
from core.base.errors import UserError
from core.engines import weights
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.dialects.vllm import DIALECT as VLLM
from core.server import serving
from tests.conftest import ROOT
from tests.fakes.engines import StandIn, models
from tests.helpers.problems import Hub

# commits
OLD = "a" * 40
NEW = "b" * 40
REPO = weights.REPO
DENSE = {
    "num_hidden_layers": 2,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 9,
}
PARTS = ("Q8/big-00001-of-00002.gguf", "Q8/big-00002-of-00002.gguf")
PLAIN = ("config.json", "model.safetensors", "evil.bin", "original/model.safetensors")


def commits(*names: str, **config: int) -> dict[str, dict[str, bytes]]:
    """Return both commits of a repository with these files."""

    def content(name: str, commit: str) -> bytes:
        if name == "one.Q8_0.gguf":
            return EMBEDDED_GGUF.read_bytes()
        if name == "config.json":
            return json.dumps(DENSE | config).encode()
        return f"{name} of {commit}".encode()

    files = {}
    for commit in (OLD, NEW):
        files[commit] = {name: content(name, commit) for name in names}
    return files


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    held = {
        REPO: commits(*PLAIN),
        "some/dense": commits(*PLAIN),
        "some/experts": commits(*PLAIN, num_experts=8),
        "some/pickle": commits("config.json", "pytorch_model.bin"),
        "some/one-GGUF": commits("one.Q8_0.gguf", "README.md"),
        "some/two-GGUF": commits("two.Q4_0.gguf", "two.Q8_0.gguf"),
        "some/split-GGUF": commits(*PARTS, "mmproj-F16.gguf"),
        "some/torn-GGUF": commits("t-00001-of-00003.gguf", "t-00003-of-00003.gguf"),
        "some/huge": commits(*PLAIN),
    }
    with closing(Hub(held, {})) as running:
        yield running.root


def fetch(hub: str, folder: Path, program: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")
    }
    environment |= {"HF_ENDPOINT": hub, "HF_HOME": str(folder / "home"), "WEIGHTS_DIR": str(folder)}
    environment |= {"REVISION": "", "PYTHONPATH": str(ROOT), "PORT": "29872"}
    return subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


# Fetches commits of one model, other models, and what is refused. The hub's client takes longer to
# load than all this.
FETCHES = f"""
import json, os, sys
from core.base.errors import UserError
from core.engines import environment, weights
from core.engines.dialects.llamacpp import gguf_file
from core.server import serving
for os.environ["REVISION"] in ("", "{OLD}", "{NEW}", "main"):
    kept = weights.fetch()
    print(json.loads((kept / "FETCHED.json").read_text())["revision"], (kept / \
"model.safetensors").read_text())
    print(*sorted(path.name for path in kept.iterdir()))
    print("--", file=sys.stderr)
os.environ["REVISION"] = ""
model = weights.Model.at("some/dense")
print(model.name, model.folder.name, model.shape.layers, sorted(path.name for path in \
model.folder.iterdir()))
print(weights.fetched("some/dense"), gguf_file("some/one-GGUF").name, \
weights.config_on_hub("some/dense")[0].longest)
print(gguf_file("some/two-GGUF/two.Q8_0.gguf").name)
print(weights.Model.at("some/experts").shape)
with environment.setting(MODEL="some/one-GGUF"), serving() as server:
    print(server.model)
for ask, name in ((weights.fetch, "pickle"), (weights.fetch, "gated"),
                  (weights.fetch, "none"), (weights.fetch, "huge"), (gguf_file, "two-GGUF"), \
(gguf_file, "dense")):
    try:
        ask(f"some/{{name}}")
    except UserError as error:
        print(name)
        print(error, file=sys.stderr)
os.environ |= {{"REVISION": "v9", "WEIGHTS_DIR": os.environ["WEIGHTS_DIR"] + "/new"}}
weights.fetch()
"""


Fetches = tuple[Path, list[str], str]  # the folder, the lines, and what is on standard error


@pytest.fixture(scope="module")
def fetches(hub: str, tmp_path_factory: pytest.TempPathFactory) -> Fetches:
    folder = tmp_path_factory.mktemp("weights")
    done = fetch(hub, folder, FETCHES)
    return folder, done.stdout.splitlines(), done.stderr


def test_without_a_pin_the_newest_is_fetched_once_and_its_commit_is_printed(
    fetches: Fetches,
) -> None:
    folder, lines, err = fetches
    assert lines[0] == f"{NEW} model.safetensors of {NEW}", err
    assert f"REVISION={NEW}" in err.partition("--\n")[0]
    assert "model.safetensors" in lines[1] and "evil.bin" not in lines[1]  # safetensors only
    # without the hub
    again = fetch("http://127.0.0.1:9", folder, "from core.engines import weights\nweights.fetch()")
    assert again.returncode == 0 and again.stderr == ""


def test_a_commit_is_fetched_and_another_commit_replaces_it(fetches: Fetches) -> None:
    assert fetches[1][2:8:2] == [
        f"{commit} model.safetensors of {commit}" for commit in (OLD, NEW, NEW)
    ]


# Asks for revisions of one model in turn, and prints the weights or the error.
REVISIONS = """
import os, sys
from core.base.errors import UserError
from core.engines import weights
for word in sys.argv[1:]:
    os.environ["REVISION"] = word.strip("_")
    try:
        kept = weights.fetch_gguf("some/two-GGUF", "two.Q8_0.gguf") if word.startswith("_") else \
weights.fetch()
        print((kept if kept.is_file() else kept / "model.safetensors").read_text())
    except UserError as error:
        print(error)
"""


def revisions(hub: str, folder: Path, *words: str) -> tuple[list[str], str]:
    program = REVISIONS.replace("sys.argv[1:]", repr(words))
    done = fetch(hub, folder, program)
    return done.stdout.splitlines(), done.stderr


def test_a_tag_or_branch_never_names_the_weights_of_another_commit(
    hub: str, tmp_path: Path
) -> None:
    """The tags v1 and v2 of the hub are OLD and NEW."""
    lines, _ = revisions(hub, tmp_path, "v1", "main", "v1", "v2", OLD, "")
    assert lines == [f"model.safetensors of {commit}" for commit in (OLD, NEW, OLD, NEW, OLD, OLD)]
    lines, _ = revisions(hub, tmp_path, "_v1", "_v2", "_", f"_{OLD}")
    assert lines == [f"two.Q8_0.gguf of {commit}" for commit in (OLD, NEW, NEW, OLD)]


def test_a_tag_that_can_not_be_looked_up_is_accepted_only_under_the_name_it_was_fetched_by(
    hub: str, tmp_path: Path
) -> None:
    revisions(hub, tmp_path, "v1", "_v1")
    nowhere = "http://127.0.0.1:9"
    lines, err = revisions(nowhere, tmp_path, "v1", "v2", "main", "", OLD, "_v1", "_v2", "_")
    same, other, branch, unset, commit, *files = lines
    assert (
        same == unset == commit == f"model.safetensors of {OLD}"
        and OLD in err
        and "REVISION=v1" in err
    )
    assert f"REVISION={OLD}" in other and "REVISION=v2" in other and "REVISION=main" in branch
    assert files[0] == files[2] == f"two.Q8_0.gguf of {OLD}" and "REVISION=v2" in files[1]


# Fetches a model in parts, by each way of naming it, and one that lacks a part.
IN_PARTS = """
from core.base.errors import UserError
from core.engines.dialects.llamacpp import gguf_file, name_of
for named in ("", "/Q8/big-00001-of-00002.gguf", "/Q8/big-00002-of-00002.gguf"):
    path = gguf_file("some/split-GGUF" + named)
    parts = sorted(path.parent.glob("*.gguf"))
    print(path.name, *[part.name for part in parts], name_of(path))
try:
    gguf_file("some/torn-GGUF")
except UserError as error:
    print(error)
"""


def test_a_model_in_parts_is_fetched_whole_by_any_of_its_names(hub: str, tmp_path: Path) -> None:
    done = fetch(hub, tmp_path, IN_PARTS)
    *lines, torn = done.stdout.splitlines()
    names = [Path(part).name for part in PARTS]
    content = "".join(f"{part} of {NEW}" for part in PARTS)
    digest = hashlib.sha256(content.encode()).hexdigest()
    assert lines == [" ".join([names[0], *names, f"big@{digest[:12]}"])] * 3, done.stderr
    assert done.stderr.count("fetching some/split-GGUF") == 1
    assert "t-00002-of-00003.gguf" in torn and "some/torn-GGUF" in torn


def test_a_provider_s_name_of_a_model_gets_the_card_as_its_remedy(
    hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "from core import server\nwith server.command(), server.serving():\n    pass"
    for model, remedy in (
        ("google/gemini-3-pro", "MODEL=gemini-3-pro or MODEL=google:"),
        ("openai/gpt-9", "openai:gpt-9"),
    ):
        done = fetch(hub, tmp_path, f"import os\nos.environ['MODEL'] = {model!r}\n{program}")
        assert done.returncode == 2 and remedy in done.stderr and "openrouter:" in done.stderr


def test_a_server_on_the_port_with_other_weights_than_revision_is_refused(
    hub: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    revisions(hub, tmp_path, "v1")
    monkeypatch.setenv("WEIGHTS_DIR", str(tmp_path))
    with closing(StandIn(models("sglang", REPO))) as server:
        monkeypatch.setenv("PORT", str(server.port))
        for revision in ("", OLD):
            monkeypatch.setenv("REVISION", revision)
            with serving() as attached:
                assert attached.revision == OLD
        monkeypatch.setenv("REVISION", NEW)
        with pytest.raises(UserError, match=f"REVISION={NEW}.*{OLD}"), serving():
            pass


def test_models_of_the_hub_are_fetched_by_name_or_refused_before_their_weights(
    fetches: Fetches,
) -> None:
    folder, lines, err = fetches
    one, two, three, experts, four, *refused = lines[8:]
    assert one.startswith("some/dense some--dense 2 "), err
    assert "model.safetensors" in one and "evil.bin" not in one and "original" not in one
    assert (
        two == f"{NEW} one.Q8_0.gguf 32768"
        and three == "two.Q8_0.gguf"
        and four.startswith("one.Q8_0@")
    )
    assert experts == "None", "the engine serves it, but its memory is not computed"
    assert " ".join(refused) == "pickle gated none huge two-GGUF dense"
    assert "HF_TOKEN" in err and "two.Q4_0.gguf, two.Q8_0.gguf" in err and "WEIGHTS_DIR" in err
    assert not list(folder.glob("some--[phg]*/*.safetensors")), "no weights of a refused model"
    assert "REVISION" in err.splitlines()[-1]


def test_weights_go_to_the_volume_that_outlives_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "HOME", tmp_path / "clone")
    monkeypatch.setattr(files, "VOLUME", tmp_path / "volume")
    here = tmp_path / "clone" / "weights" / "QED-Nano"
    shared = tmp_path / "volume" / "models" / "qed-nano"
    assert weights.folder() == here, "there is no volume"
    files.VOLUME.mkdir()
    assert weights.folder() == shared
    with monkeypatch.context() as closing:  # root may write everywhere
        closing.setattr(os, "access", lambda path, mode: path != files.VOLUME)
        assert weights.folder() == here, "a volume that can't be written is skipped"
    here.mkdir(parents=True)
    assert weights.folder() == here, "weights in the checkout are used"
    monkeypatch.setenv("WEIGHTS_DIR", str(tmp_path / "mine"))
    assert weights.folder() == tmp_path / "mine" / "QED-Nano"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("WEIGHTS_DIR", str(tmp_path / "file"))
    with pytest.raises(UserError, match=str(tmp_path / "file")):
        weights.fetch()


def test_a_file_that_is_replaced_gets_a_new_digest(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    # a round of STaR may be trained again in one process
    for content in (b"one", b"two", b"longer"):
        files.write_atomically(path, content)
        assert weights.sha256(path) == hashlib.sha256(content).hexdigest()


def test_the_card_names_the_committed_file_which_is_small() -> None:
    content = EMBEDDED_GGUF.read_bytes()
    card = (EMBEDDED_GGUF.parent / "README.md").read_text()
    assert content[:4] == b"GGUF" and len(content) <= 6_000_000
    assert hashlib.sha256(content).hexdigest() in card


@pytest.mark.parametrize(
    ("named", "level", "is_misread"),
    [
        ("LlamaTokenizerFast", "ByteLevel", True),  # DeepSeek's
        ("LlamaTokenizerFast", "Metaspace", False),  # Llama 2's
        ("PreTrainedTokenizerFast", "ByteLevel", False),
        (None, "ByteLevel", False),
    ],
)
def test_a_byte_level_tokenizer_under_anothers_name_is_not_given_to_vllm(
    named: str | None, level: str, is_misread: bool, tmp_path: Path
) -> None:
    VLLM.check_model(tmp_path)  # missing files are reported elsewhere
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": named}))
    (tmp_path / "tokenizer.json").write_text(json.dumps({"pre_tokenizer": {"type": level}}))
    with pytest.raises(UserError, match=str(tmp_path)) if is_misread else nullcontext():
        VLLM.check_model(tmp_path)
