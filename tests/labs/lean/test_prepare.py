"""Test pairs and theorems from data of LeanDojo's shape, and unusable sources."""

import hashlib
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from labs.lean import pairs, theorems
from labs.lean.prepare import SPLIT, main
from tests.fakes.http import HttpFake, Request

ROOT = "leandojo_benchmark_4"
STATE = "p : Prop\nh : p\n⊢ p"


def theorem(name: str, *steps: tuple[str, str]) -> dict[str, Any]:
    tactics = [
        {
            "tactic": tactic,
            "annotated_tactic": [tactic, []],
            "state_before": state,
            "state_after": "no goals",
        }
        for state, tactic in steps
    ]
    return {
        "file_path": "Mathlib/Logic/Basic.lean",
        "full_name": name,
        "start": [1, 1],
        "traced_tactics": tactics,
    }


def benchmark(**changes: Any) -> dict[str, str]:
    """Return its files by name. `changes`: other values of parts, or other texts of files."""
    parts = {
        "train": [
            theorem("Foo.one", (STATE, "exact h"), ("p : Prop\n⊢ p → p", "intro h")),
            theorem(
                "Foo.two",
                (STATE, "exact h"),
                (STATE, "run_tac pure ()"),
                ("", "simp"),
                (STATE, " "),
            ),
            theorem("Foo.long", (STATE, "have := h\nexact this")),
            # begins as a theorem of test does
            theorem("Foo.same", ("a : Prop\n⊢ a → a → a", "intro h")),
            theorem("Foo.held", (STATE, "trivial")),  # has the name of one of val
            theorem("Foo.none"),
        ],
        "val": [theorem("Foo.held", (STATE + " ∧ p", "trivial"))],
        "test": [theorem("Foo.test", ("a : Prop\n⊢ a → a → a", "intro x"), (STATE, "exact x"))],
    }
    sources = {
        "Foo.one": "@[simp] theorem one (p : Prop) : p → p",
        "Foo.two": "theorem Foo.two {p : Prop} (h : p) : p ∧ p",
        "Foo.same": "theorem same : NoSuchThing a",
        "Foo.test": "protected theorem test (a : Prop) : a → a → a",
        "Foo.held": "theorem held : True",
        "Foo.def": "def thing (n : Nat) : Nat := n",
    }
    premises = [
        {"full_name": name, "code": code, "start": [1, 1]} for name, code in sources.items()
    ]
    parts |= {name: changes.pop(name) for name in list(changes) if name in parts}
    files = {f"{SPLIT}/{part}.json": json.dumps(rows) for part, rows in parts.items()}
    files["corpus.jsonl"] = (
        json.dumps({"path": "Mathlib/Logic/Basic.lean", "premises": premises}) + "\n"
    )
    files["metadata.json"] = json.dumps(
        {"leandojo_version": "2.0.0", "from_repo": {"commit": "29dcec07"}}
    )
    return files | {name.replace("__", "/"): text for name, text in changes.items()}


def archive(path: Path, files: dict[str, str], root: str = f"{ROOT}/") -> Path:
    with tarfile.open(path, "w:gz") as built:
        for name, text in files.items():
            about = tarfile.TarInfo(root + name)
            about.size = len(content := text.encode())
            built.addfile(about, io.BytesIO(content))
    return path


def refused(results: Path, *args: str) -> None:
    """Assert that it ends with status 2 and leaves nothing."""
    with pytest.raises(SystemExit, match="2"):
        main(args)
    assert not [*results.glob("lean/prepared"), *results.glob("lean/.prepared.*")]


@pytest.mark.usefixtures("lean")
def test_the_usable_pairs_of_train_and_the_theorems_that_elaborate_are_kept(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = archive(tmp_path / "mine.tar.gz", benchmark())
    main(["--from", str(source)])
    folder = results / "lean" / "prepared"
    assert [
        (each.theorem, each.state, each.tactic) for each in pairs.read(folder / "pairs.jsonl")
    ] == [
        ("Foo.one", STATE, "exact h"),
        ("Foo.one", "p : Prop\n⊢ p → p", "intro h"),
    ]
    learned = {each.name: each.statement for each in theorems.read(folder / "theorems.json")}
    assert learned == {"Foo.one": "(p : Prop) : p → p", "Foo.two": "{p : Prop} (h : p) : p ∧ p"}
    assert [each.name for each in theorems.read(folder / "theorems_test.json")] == ["Foo.test"]
    built = json.loads((folder / "manifest.json").read_text())
    assert built["pairs"] == {"kept": 2, "left out": 7}
    assert built["theorems"] == {"theorems.json": 2, "theorems_test.json": 1}
    assert built["source"]["sha256"] == hashlib.sha256(source.read_bytes()).hexdigest()
    assert built["source"]["metadata"]["leandojo_version"] == "2.0.0"
    for name, digest in built["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
    assert sorted(each.name for each in folder.iterdir()) == sorted(
        [*built["files"], "manifest.json"]
    )
    assert "theorems_test.json" in capsys.readouterr().out


def test_a_folder_does_as_well_as_its_archive_and_pairs_need_no_lean(
    results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(archive(tmp_path / "a.tar.gz", benchmark())) as packed:
        packed.extractall(tmp_path / "data", filter="data")
    monkeypatch.setenv("LEAN", str(tmp_path / "missing"))
    main(["--from", str(tmp_path / "data")])
    assert {each.name for each in (results / "lean" / "prepared").iterdir()} == {
        "manifest.json",
        "pairs.jsonl",
    }


@pytest.mark.parametrize(
    "changes",
    [
        {"train": [theorem("a") | {"full_name": 3}]},
        {"train": []},
        {"random__train.json": "[{"},
        {"corpus.jsonl": '{"premises": [{"full_name": "a"}]}\n'},
        {"metadata.json": "{"},
    ],
)
def test_data_of_another_shape_are_refused(
    changes: dict[str, Any], results: Path, tmp_path: Path
) -> None:
    refused(results, "--from", str(archive(tmp_path / "a.tar.gz", benchmark(**changes))))


def test_archives_that_are_damaged_or_write_outside_of_themselves_are_refused(
    results: Path, tmp_path: Path
) -> None:
    whole = archive(tmp_path / "whole.tar.gz", benchmark()).read_bytes()
    for name, content in {
        "cut": whole[: len(whole) // 2],
        "empty": b"",
        "text": b"no archive",
    }.items():
        (path := tmp_path / name).write_bytes(content)
        refused(results, "--from", str(path))
    for name in ("../../escape/random/train.json", "a/../../../../random/train.json"):
        refused(
            results, "--from", str(archive(tmp_path / "out.tar.gz", benchmark() | {name: "[]"}))
        )
    assert not [*tmp_path.rglob("escape"), *results.glob("**/random")]
    refused(results, "--from", str(archive(tmp_path / "other.tar.gz", {"a.json": "{}"})))
    refused(results, "--from", str(tmp_path / "nothing"))


class Halved(HttpFake):
    def get(self, request: Request) -> None:
        request.send_response(200)
        request.send_header("content-length", "8")
        request.end_headers()
        request.wfile.write(b"half")
        request.close_connection = True


def test_a_file_is_fetched_once_whole_or_not_at_all(tmp_path: Path) -> None:
    source, path = tmp_path / "published", tmp_path / "there" / "data.tar.gz"
    source.write_bytes(b"content")
    digest = hashlib.md5(b"content").hexdigest()
    assert theorems.fetched(source.as_uri(), path, digest).read_bytes() == b"content"
    assert theorems.fetched("http://127.0.0.1:9/x", path, digest) == path  # it is there
    with pytest.raises(UserError, match=str(path)):
        theorems.fetched(source.as_uri(), path, "0" * 32)
    server = Halved()
    for address in (server.url, "http://127.0.0.1:9/x"):
        with pytest.raises(UserError, match=str(tmp_path / "b")):
            theorems.fetched(address, tmp_path / "b")
    assert not (tmp_path / "b").exists()
    server.close()
