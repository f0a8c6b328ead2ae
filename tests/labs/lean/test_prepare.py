"""scripts/prepare_lean.sh as a user runs it, on files of the published shape: what is kept and left out, and every bad
input in one line."""

import gzip
import hashlib
import http.server
import io
import json
import re
import sys
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import UserError
from labs.lean import download, leandojo, pairs, theorems
from labs.lean.download import Published
from labs.lean.leandojo import elements
from tests.conftest import ended, python

ROOT = "leandojo_benchmark_4"
STATE = "p : Prop\nh : p\n⊢ p"


def theorem(name: str, *steps: tuple[str, str]) -> dict[str, Any]:
    tactics = [
        {"tactic": tactic, "annotated_tactic": [tactic, []], "state_before": state, "state_after": "no goals"}
        for state, tactic in steps
    ]
    return {
        "url": "https://github.com/leanprover-community/mathlib4",
        "commit": "29dcec074de168ac2bf835a77ef68bbe069194c5",
        "file_path": "Mathlib/Logic/Basic.lean",
        "full_name": name,
        "start": [1, 1],
        "end": [2, 3],
        "traced_tactics": tactics,
    }


def benchmark(**changes: Any) -> dict[str, str]:
    """Its files by name; `changes`: other contents by part, or of the corpus."""
    train = [
        theorem("Foo.one", (STATE, "exact h"), ("p : Prop\n⊢ p → p", "intro h")),
        theorem("Foo.two", (STATE, "exact h"), (STATE, "run_tac pure ()"), ("", "simp"), (STATE, " ")),
        theorem("Foo.long", (STATE, "have := h\nexact this")),
        theorem("Foo.same", ("a : Prop\n⊢ a → a → a", "intro h")),  # begins as a theorem of test does
        theorem("Foo.held", (STATE, "trivial")),  # has the name of one of val
        theorem("Foo.none"),
    ]
    val = [theorem("Foo.held", (STATE + " ∧ p", "trivial"))]
    test = [theorem("Foo.test", ("a : Prop\n⊢ a → a → a", "intro x"), (STATE, "exact x"))]
    sources = {
        "Foo.one": "@[simp] theorem one (p : Prop) : p → p",
        "Foo.two": "theorem Foo.two {p : Prop} (h : p) : p ∧ p",
        "Foo.same": "theorem same : NoSuchThing a",
        "Foo.test": "protected theorem test (a : Prop) : a → a → a",
        "Foo.held": "theorem held : True",
        "Foo.def": "def thing (n : Nat) : Nat := n",
    }
    premises = [{"full_name": name, "code": code, "start": [1, 1], "end": [1, 2]} for name, code in sources.items()]
    corpus = json.dumps({"path": "Mathlib/Logic/Basic.lean", "imports": [], "premises": premises}) + "\n"
    parts = {"train": train, "val": val, "test": test} | {
        name: changes.pop(name) for name in list(changes) if name in ("train", "val", "test")
    }
    files = {f"{split}/{part}.json": json.dumps(rows) for split in leandojo.SPLITS for part, rows in parts.items()}
    files["corpus.jsonl"] = corpus
    files["metadata.json"] = json.dumps({"leandojo_version": "2.0.0", "from_repo": {"commit": "29dcec07"}})
    return files | {name.replace("__", "/"): text for name, text in changes.items()}


def archive(path: Path, files: dict[str, str], root: str = ROOT) -> Path:
    with tarfile.open(path, "w:gz") as made:
        for name, text in files.items():
            about = tarfile.TarInfo(f"{root}/{name}" if root else name)
            about.size = len(content := text.encode())
            made.addfile(about, io.BytesIO(content))
    return path


def prepare(*args: str, **changes: str) -> tuple[int, str, str]:
    return ended(python("-m", "labs.lean.prepare", *args, **changes))


def refused(results: Path, *args: str) -> str:
    """The one line that it says, having written nothing."""
    status, out, err = prepare(*args)
    assert status == 2 and "Traceback" not in err and len(err.strip().splitlines()) == 1, (out, err)
    assert not (results / "lean" / "prepared").exists() and not list((results / "lean").glob(".prepared.*"))
    return err


@pytest.fixture
def made(results: Path, tmp_path: Path) -> dict[str, Any]:
    status, out, err = prepare("--from", str(archive(tmp_path / "mine.tar.gz", benchmark())))
    assert status == 0, err
    assert "kept" in out and "not the archive that is pinned here" in out
    assert "of several lines: 20.0% of 5 pairs; refused by the guard: 25.0% of 4 of one line" in out
    found: dict[str, Any] = json.loads((results / "lean" / "prepared" / "manifest.json").read_text())
    return found


@pytest.mark.usefixtures("made")
def test_pairs_are_those_of_train_that_a_policy_may_learn(results: Path) -> None:
    found = pairs.read(results / "lean" / "prepared" / "pairs.jsonl")
    assert [(each.theorem, each.state, each.tactic) for each in found] == [
        ("Foo.one", STATE, "exact h"),
        ("Foo.one", "p : Prop\n⊢ p → p", "intro h"),
    ]


def test_the_manifest_tells_the_source_and_what_was_left_out(
    made: dict[str, Any], results: Path, tmp_path: Path
) -> None:
    assert made["pairs"] == {
        "kept": 2,
        "of a theorem that is held out": 2,
        "the same pair again": 1,
        "a refused tactic: a hole or code": 1,
        "a tactic of several lines": 1,
        "no state": 1,
        "no tactic": 1,
    }
    content = (tmp_path / "mine.tar.gz").read_bytes()
    assert made["source"]["sha256"] == hashlib.sha256(content).hexdigest()
    assert made["source"]["metadata"]["leandojo_version"] == "2.0.0" and made["split"] == "novel_premises"
    for name, digest in made["files"].items():
        assert hashlib.sha256((results / "lean" / "prepared" / name).read_bytes()).hexdigest() == digest


@pytest.mark.usefixtures("lean")
def test_theorems_are_those_that_lean_elaborates_and_test_is_apart(made: dict[str, Any], results: Path) -> None:
    folder = results / "lean" / "prepared"
    learned = {each.name: each.statement for each in theorems.read(folder / "theorems.json")}
    assert learned == {"Foo.one": "(p : Prop) : p → p", "Foo.two": "{p : Prop} (h : p) : p ∧ p"}
    assert [each.name for each in theorems.read(folder / "theorems_test.json")] == ["Foo.test"]
    assert made["statements"]["not elaborated by itself"] == 1


def test_a_folder_does_as_well_as_its_archive(results: Path, tmp_path: Path) -> None:
    for name, text in benchmark().items():
        path = tmp_path / "data" / ROOT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    out = tmp_path / "out"
    status, _, err = prepare(
        "--from", str(tmp_path / "data"), "--out", str(out), "--theorems", "0", "--split", "random"
    )
    assert status == 0, err
    assert sorted(each.name for each in out.iterdir()) == ["manifest.json", "pairs.jsonl"]
    assert not (results / "lean" / "prepared").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"train": {}}, r"\[ is missing"),
        ({"train": [1]}, "train.json, theorem 1 is no object"),
        ({"train": [theorem("a") | {"full_name": 3}]}, "theorem 1 has no text full_name"),
        ({"test": [theorem("a") | {"traced_tactics": "none"}]}, "no list traced_tactics"),
        (
            {"val": [theorem("a"), theorem("b") | {"traced_tactics": [{"tactic": "simp"}]}]},
            "theorem 2: a tactic has no",
        ),
        ({"train": []}, "holds no pair that can be used"),
        ({"novel_premises__train.json": "[{"}, "cut off"),
        ({"novel_premises__train.json": "[] []"}, "stands behind its end"),
        ({"corpus.jsonl": "{]\n"}, "corpus.jsonl, line 1 is not valid JSON"),
        ({"corpus.jsonl": '{"premises": [{"full_name": "a"}]}\n'}, "a premise has no texts full_name and code"),
        ({"metadata.json": "{"}, "metadata.json is not valid JSON"),
    ],
)
def test_what_is_not_of_the_known_shape_is_one_line(
    changes: dict[str, Any], said: str, results: Path, tmp_path: Path
) -> None:
    assert re.search(said, refused(results, "--from", str(archive(tmp_path / "a.tar.gz", benchmark(**changes)))))


def test_archives_that_are_cut_off_damaged_or_leave_themselves_are_one_line(results: Path, tmp_path: Path) -> None:
    whole = archive(tmp_path / "whole.tar.gz", benchmark()).read_bytes()
    for name, content in {
        "cut": whole[: len(whole) // 2],
        "short": whole[:20],
        "empty": b"",
        "text": b"no archive",
        "flipped": gzip.compress(gzip.decompress(whole))[:-8] + bytes(8),
    }.items():
        (path := tmp_path / name).write_bytes(content)
        assert "cut off or damaged" in (said := refused(results, "--from", str(path))) or "can't be read" in said
    for name in ("../escape/random/train.json", "/etc/random/train.json", "a/../../random/train.json"):
        path = archive(tmp_path / "out.tar.gz", benchmark() | {name: "[]"}, root="" if name[0] == "/" else ROOT)
        assert "which is outside of it" in refused(results, "--from", str(path))
    assert "is not LeanDojo's data" in refused(results, "--from", str(archive(tmp_path / "o.tar.gz", {"a.json": "{}"})))
    assert "holds no novel_premises/val.json" in refused(
        results, "--from", str(archive(tmp_path / "p.tar.gz", {"novel_premises/train.json": "[]"}))
    )
    assert "is not there" in refused(results, "--from", str(tmp_path / "nothing"))


def test_other_mistakes_are_one_line(results: Path, tmp_path: Path) -> None:
    assert "Give one of them" in refused(results, "--trace", "--from", str(tmp_path))
    assert "needs lean-dojo. Install it" in refused(results, "--trace")
    assert "--theorems" in refused(results, "--theorems", "-1")
    (results / "lean" / "prepared").mkdir(parents=True)
    status, _, err = prepare("--from", str(archive(tmp_path / "a.tar.gz", benchmark())))
    assert status == 2 and "exists. Remove it" in err


def test_a_full_disk_is_one_line_and_leaves_nothing(results: Path, tmp_path: Path) -> None:
    path = archive(
        tmp_path / "a.tar.gz",
        benchmark(train=[theorem(f"t{i}", (f"h : {i} = 1\n⊢ p", "exact h")) for i in range(9000)]),
    )
    limited = "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
    limited += "resource.setrlimit(resource.RLIMIT_FSIZE, (10**6, 10**6)); from labs.lean.prepare import main; main()"
    status, _, err = ended(python("-c", limited, "--from", str(path)))
    assert status == 2 and len(err.strip().splitlines()) == 1 and "writing failed" in err, err
    assert [each.name for each in (results / "lean").iterdir()] == []


def test_lean_dojo_is_called_as_a_program_and_its_folder_is_prepared(results: Path, tmp_path: Path) -> None:
    """With a stand-in for lean-dojo, whose tracing needs a network and hours."""
    fake = tmp_path / "fake" / "lean_dojo.py"
    fake.parent.mkdir()
    fake.write_text(FAKE, encoding="utf-8")
    wrapper = tmp_path / "python"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={fake.parent} exec {sys.executable} "$@"\n')
    wrapper.chmod(0o700)
    status, _, err = prepare("--trace", "--theorems", "0", LEANDOJO_PYTHON=str(wrapper), MATHLIB="v4.26.0")
    assert status == 0, err
    found = pairs.read(results / "lean" / "prepared" / "pairs.jsonl")
    assert found and {each.tactic for each in found} == {"exact h"}
    assert json.loads((results / "lean" / "traced-v4.26.0" / "metadata.json").read_text())["leandojo_version"] == "0"
    status, _, err = prepare("--trace", "--out", str(tmp_path / "b"), LEANDOJO_PYTHON=str(wrapper), MATHLIB="none")
    assert status == 2 and "could not trace Mathlib none (ValueError: no such revision)" in err


FAKE = """
from types import SimpleNamespace as Some
__version__ = "0"

def LeanGitRepo(url, revision):
    if revision == "none":
        raise ValueError("no such revision")
    return Some(url=url, commit=revision, is_lean4=False)

def trace(repo):
    step = Some(tactic="exact h", state_before="h : p\\n\\u22a2 p", state_after="no goals")
    dot = Some(tactic="\\u00b7 exact h", state_before="h : p\\n\\u22a2 p", state_after="no goals")
    theorems = [
        Some(repo=repo, theorem=Some(full_name=f"t{i}", file_path="A.lean"), get_traced_tactics=lambda i=i: [
            Some(tactic="exact h", state_before=f"h : p {i}\\n\\u22a2 p", state_after="no goals"), dot])
        for i in range(50)
    ]
    file = Some(path="A.lean", get_premise_definitions=lambda: [{"full_name": "t1", "code": "theorem t1 : True"}])
    return Some(repo=repo, get_traced_theorems=lambda: theorems, traced_files=[file])
"""


@given(st.lists(st.dictionaries(st.text(), st.text() | st.integers() | st.lists(st.none()))), st.integers(1, 40))
def test_an_array_is_read_in_parts_as_at_once(rows: list[Any], chunk: int) -> None:
    for text in (json.dumps(rows), json.dumps(rows, indent=2, ensure_ascii=False)):
        assert list(elements(io.StringIO(text), "here", chunk)) == rows
        if text.strip() != "[]":
            with pytest.raises(UserError, match="here is not valid JSON"):
                list(elements(io.StringIO(text[:-1]), "here", chunk))


# Fetching, from a server on this machine


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves CONTENT; of the first answers only a part comes."""

    content = bytes(range(256)) * 40_000
    cut = 0
    asked: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        begin = int((self.headers.get("Range") or "bytes=0-")[6:-1])
        Handler.asked.append(self.headers.get("Range"))
        if begin >= len(self.content):
            self.send_error(416)
            return
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(self.content) - begin))
        self.end_headers()
        whole = self.content[begin:]
        self.wfile.write(whole[: len(whole) // 2] if Handler.cut else whole)
        Handler.cut = max(0, Handler.cut - 1)

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def address() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    Handler.asked, Handler.cut = [], 0
    yield f"http://127.0.0.1:{server.server_port}/data.tar.gz"
    server.shutdown()
    server.server_close()


def published(address: str, **changes: Any) -> Published:
    known: dict[str, Any] = {"size": len(Handler.content), "md5": hashlib.md5(Handler.content).hexdigest()}
    return Published(address, "mine", **known | changes)


def test_a_download_that_breaks_off_is_taken_up_again(address: str, tmp_path: Path) -> None:
    path, Handler.cut = tmp_path / "data.tar.gz", 2
    for _ in range(2):
        with pytest.raises(UserError, match="can't be fetched .* put it at"):
            download.fetched(published(address), path)
        assert not path.exists()
    assert download.fetched(published(address), path).read_bytes() == Handler.content
    assert Handler.asked[0] is None and all(Handler.asked[1:]) and len(Handler.asked) == 3
    assert download.fetched(published(address), path) == path and len(Handler.asked) == 3  # it is there
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_another_content_than_the_pinned_is_refused_and_removed(address: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has another content than was known"):
        download.fetched(published(address, md5="0" * 32), tmp_path / "a")
    assert not list(tmp_path.iterdir())
    (tmp_path / "b").write_bytes(b"somebody's")
    with pytest.raises(UserError, match="Remove it"):
        download.fetched(published(address), tmp_path / "b")


def test_no_network_is_one_line_that_says_where_to_put_the_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="Connection refused.*put it at") as raised:
        download.fetched(Published("http://127.0.0.1:9/x", "mine"), tmp_path / "a")
    assert "\n" not in str(raised.value)
    with pytest.raises(UserError, match="Make room"):
        download.fetched(Published("http://127.0.0.1:9/x", "mine", size=10**18), tmp_path / "a")
