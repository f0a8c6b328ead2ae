"""Results files: written atomically, kept, read again, and never through a link."""

import json
import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base.errors import UserError
from core.base.files import open_log, results_dir, write_atomically
from core.types import Problem
from harness.problems.sets import ProblemSet
from harness.results import read, write
from harness.session import regrade
from tests.harness.results.test_metrics import problems
from tests.helpers import documents
from tests.helpers.graded import document, graded, member, save


def test_links_among_the_results_are_not_followed(tmp_path: Path) -> None:
    outside, results = tmp_path / "outside", tmp_path / "results"
    outside.write_text("kept")
    results.mkdir()
    for name in ("a.json", ".a.json.new", ".b.json.new", "log"):
        (results / name).symlink_to(outside)
    (results / "b.json").symlink_to(tmp_path / "missing")
    for name in ("a.json", "b.json"):
        write_atomically(results / name, b"new")
        assert (results / name).read_bytes() == b"new" and not (results / name).is_symlink()
    with pytest.raises(UserError, match="link"):
        open_log(results / "log")
    assert outside.read_text() == "kept" and not (tmp_path / "missing").exists()
    (tmp_path / "linked").symlink_to(results)  # a folder may be a link to another disk
    write_atomically(tmp_path / "linked" / "c.json", b"new")
    with open_log(tmp_path / "linked" / "new.log") as log:
        log.write("a line")
    assert (results / "c.json").read_bytes() == b"new" and (
        results / "new.log"
    ).read_text() == "a line"


def test_a_complete_run_keeps_the_earlier_one(tmp_path: Path) -> None:
    runs = [document(graded([[[member(f"\\boxed{{{40 + n}}}")]]])) for n in range(3)]
    assert save(runs[0] | {"complete": False}, tmp_path).name == "09_test.partial.json"
    for number, run in enumerate(runs):
        path = save(run, tmp_path)
        os.utime(path, (1767323045, 1767323045))
        path.with_suffix(".png").write_text(str(number))
    earlier = ["09_test.20260102-030405", "09_test.20260102-030405-2", "09_test"]
    assert path.name == "09_test.json" and {p.name for p in tmp_path.iterdir()} == {
        f"{stem}.{ending}" for stem in earlier for ending in ("json", "png")
    }
    assert [(tmp_path / f"{stem}.png").read_text() for stem in earlier] == ["0", "1", "2"], (
        "each has its own picture"
    )
    assert json.loads(path.read_text()) == run


def test_a_repeated_run_leaves_the_results_with_their_times(tmp_path: Path) -> None:
    run = document(graded([[[member("\\boxed{42}")]]]))
    path = save(run, tmp_path)
    again = json.loads(json.dumps(run)) | {"started": "later", "ended": "later"}
    again["metrics"] |= {"seconds": 0.1, "reused": {"here": 1}}
    assert save(again, tmp_path) == path and json.loads(path.read_text()) == run
    assert list(tmp_path.iterdir()) == [path]
    path.write_text("damaged")
    save(again, tmp_path)
    assert json.loads(path.read_text()) == again and len(list(tmp_path.iterdir())) == 2


@settings(max_examples=30)
@given(rows=problems(), data=st.data())
def test_a_saved_file_is_read_problem_by_problem_and_never_if_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], data: st.DataObject
) -> None:
    run = documents.document(rows, experiment="09_test")
    path = save(run, tmp_path_factory.mktemp("results"))
    whole = path.read_text()
    for text in (whole, json.dumps(run), json.dumps(run, indent=1)):
        path.write_text(text)
        _, head, problems = read.read_raw(path)
        assert head | {"problems": [row for row, _ in problems]} == run == json.loads(text)
    path.write_text(whole[: data.draw(st.integers(0, len(whole) - 3))])
    with pytest.raises(UserError):
        list(read.read(path)[1])


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"old")
    monkeypatch.setattr("os.fsync", Mock(side_effect=OSError(28, "No space left on device")))
    with pytest.raises(UserError, match=str(path)):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_the_results_folder_is_created_or_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESULTS_DIR", str(tmp_path / "a" / "b"))
    assert results_dir() == tmp_path / "a" / "b"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("RESULTS_DIR", str(tmp_path / "file" / "x"))
    with pytest.raises(UserError, match="RESULTS_DIR"):
        results_dir()


def test_details_of_a_problem_are_stored_restored_and_hashed() -> None:
    options = {"options": ["1", "2"]}
    plain = Problem("p", "?", "B")
    choice = Problem("p", "?", "B", details=options)
    row = json.loads(write.row(choice, True, []))
    assert row["details"] == options and "details" not in json.loads(write.row(plain, True, []))
    assert regrade._problem_of(row, "boxed").details == options
    hashes = {ProblemSet("s", (problem,), "file").sha256 for problem in (plain, choice)}
    assert len(hashes) == 2
