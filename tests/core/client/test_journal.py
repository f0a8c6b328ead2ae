"""The journal: finished completions come back, and damage costs only the damaged record."""

import errno
import os
import shutil
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base.errors import UserError
from core.client.journal import Journal, content_key
from core.types import Completion
from tests.fakes.moody import Moody
from tests.helpers.asking import ask_each


def fill(path: Path, count: int) -> list[Completion]:
    got = [
        Completion(content_key(i), i, answer=f"\\boxed{{{i}}} é\n", seconds=i / 7)
        for i in range(count)
    ]
    with Journal(path) as journal:
        for completion in got:
            journal.put(completion, [])
    return got


TEXT = st.text(max_size=80)
COMPLETION = st.builds(
    Completion,
    key=st.just(""),
    seed=st.integers(0, 2**31),
    thinking=TEXT,
    answer=TEXT,
    logprob=st.none() | st.floats(-1e6, 1e3),
    before_waits=st.lists(TEXT, max_size=3),
    logprobs=st.dictionaries(st.text(max_size=5), st.floats(-9, 0), max_size=3),
)


@settings(max_examples=60, deadline=None)
@given(got=st.lists(COMPLETION, min_size=1, max_size=5), data=st.data())
def test_a_damaged_record_is_missed_never_wrong(
    tmp_path_factory: Any, got: list[Any], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "a.jsonl"
    got = [replace(completion, key=content_key(i)) for i, completion in enumerate(got)]
    with Journal(path) as journal:
        for completion in got:
            journal.put(completion, [])
        assert [journal.get(content_key(i)) for i in range(len(got))] == got
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    cut = data.draw(st.integers(0, len(whole)), "cut")
    path.write_bytes(whole[:cut])
    kept = sum(end <= cut for end in ends)
    with Journal(path) as journal:
        assert [journal.get(content_key(i)) for i in range(len(got))] == got[:kept] + [None] * (
            len(got) - kept
        )
        assert not journal.damaged and len(journal) == kept
        for completion in got[kept:]:
            journal.put(completion, [])
    assert path.read_bytes() == whole
    flipped = bytearray(whole)
    place = data.draw(st.integers(0, len(whole) - 1), "place")
    flipped[place] ^= data.draw(st.integers(1, 255), "flip")
    path.write_bytes(flipped)
    line = sum(end <= place for end in ends)
    # a newline that is gone joins two lines
    lost = {line, line + 1} if place + 1 in ends else {line}
    with Journal(path) as journal:
        found = [journal.get(content_key(i)) for i in range(len(got))]
        assert found == [None if i in lost else completion for i, completion in enumerate(got)]
        assert journal.damaged[:1] == ([line + 1] if place + 1 < ends[-1] else []), (
            "a lost last newline: cut off"
        )


@pytest.mark.parametrize(
    "rest", ['"seed":1,"answer":"x"}', '"seed":1,},"messages":[]', '"colour":1},"messages":[]']
)
def test_a_whole_line_that_is_no_record_of_this_version_is_asked_again(
    moody: Moody, tmp_path: Path, rest: str
) -> None:
    (got,) = ask_each(moody.url, tmp_path, ["a"])
    record = f'{{"key":"{got.key}","completion":{{{rest}'.encode()
    (tmp_path / "a.jsonl").write_bytes(record + b',"crc":"%08x"}\n' % zlib.crc32(record))
    for is_kept in (False, True):
        (again,) = ask_each(moody.url, tmp_path, ["a"])
        assert again.answer == got.answer and again.reused is is_kept
    assert len(moody.prompts) == 2


def test_what_changes_behind_a_runs_back_is_a_miss(tmp_path: Path) -> None:
    got = fill(tmp_path / "other.jsonl", 3)
    with Journal(tmp_path / "a.jsonl") as journal:
        content = (tmp_path / "other.jsonl").read_bytes()
        (tmp_path / "other.jsonl").write_bytes(content.replace(b"boxed{1}", b"boxed{7}")[:-5])
        assert [journal.get(content_key(i)) for i in range(3)] == [got[0], None, None]


def test_many_records_are_found_and_the_later_of_two_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    keys = [content_key(i) for i in range(1050)]
    with Journal(path) as journal:
        for i, key in enumerate(keys + keys[::3]):
            got = Completion(key, i, "x" * (30_000 if i % 100 == 0 else 10))
            journal.put(got, [])
            assert journal.get(key) == got
        expected = {key: 1050 + i // 3 if i % 3 == 0 else i for i, key in enumerate(keys)}
    with Journal(path) as journal:
        found = [journal.get(key) for key in keys]
        assert {got.key: got.seed for got in found if got} == expected and len(journal) == 1050
        assert all(journal.get(content_key(i)) is None for i in range(1050, 1200))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_are_survived(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "a.jsonl"
    foreign = b'{"key":"x","completion":[]}'  # no record of ours, though its checksum is right
    foreign = foreign[:-1] + b',"crc":"%08x"}' % zlib.crc32(foreign[:-1])
    path.write_bytes(
        b"\n".join(lines)
        + b'\n[1]\n{"key": 3}\n{"key":"x","crc":0,"completion":[]}\n'
        + foreign
        + b"\n"
    )
    with Journal(path) as journal:
        assert len(journal) == 0 and journal.damaged
        journal.put(kept := Completion(content_key("k"), 1, answer="kept"), [])
    with Journal(path) as journal:
        assert journal.get(content_key("k")) == kept


def test_journals_beside_it_are_read_but_not_written(tmp_path: Path) -> None:
    got = fill(tmp_path / "01_baseline.jsonl", 4)
    before = (tmp_path / "01_baseline.jsonl").read_bytes()
    with Journal(tmp_path / "02_rsa_basic.jsonl") as journal:
        assert journal.get(content_key(3)) == got[3]
        journal.put(Completion(content_key("new"), 1, answer="x"), [])
    assert (tmp_path / "01_baseline.jsonl").read_bytes() == before


def test_two_runs_on_one_journal_are_refused(tmp_path: Path) -> None:
    with (
        Journal(tmp_path / "a.jsonl"),
        pytest.raises(UserError, match="a.jsonl"),
        Journal(tmp_path / "a.jsonl"),
    ):
        pass
    fill(tmp_path / "a.jsonl", 1)  # free again once the first has ended


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO])
def test_a_file_system_without_locks_is_warned_of(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As on Lustre or some NFS."""
    error = OSError(number, os.strerror(number))
    monkeypatch.setattr("fcntl.flock", Mock(side_effect=error))
    got = fill(tmp_path / "a.jsonl", 2)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("warning: ") and os.strerror(number) in line and "a.jsonl" in line
    with Journal(tmp_path / "a.jsonl") as journal:
        assert journal.get(content_key(1)) == got[1]


@pytest.mark.parametrize("is_there", [True, False])
def test_a_link_in_the_place_of_a_journal_is_not_followed(is_there: bool, tmp_path: Path) -> None:
    outside, path = tmp_path / "outside", tmp_path / "journal" / "a.jsonl"
    path.parent.mkdir()
    if is_there:
        outside.write_text("no line of ours")
    path.symlink_to(outside)
    with pytest.raises(UserError, match="link"), Journal(path):
        pass
    assert outside.exists() == is_there and (
        not is_there or outside.read_text() == "no line of ours"
    )


def test_a_results_folder_behind_a_link_is_written(tmp_path: Path) -> None:
    """RESULTS_DIR may be a link to another disk."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "results").symlink_to(tmp_path / "disk")
    fill(tmp_path / "results" / "journal" / "a.jsonl", 2)
    assert len((tmp_path / "disk" / "journal" / "a.jsonl").read_bytes().splitlines()) == 2


@pytest.mark.parametrize("how", ["moved", "removed", "folder moved", "folder removed"])
@pytest.mark.parametrize("is_last", [False, True])
def test_a_journal_that_is_moved_or_removed_during_the_run_is_written_again(
    how: str, is_last: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At the latest at the end of the run, if no completion follows."""
    path = tmp_path / "journal" / "a.jsonl"
    got = [Completion(content_key(i), i, answer=f"{i}") for i in range(4)]
    with Journal(path) as journal:
        for completion in got[:2]:
            journal.put(completion, [])
        if how == "moved":
            path.rename(tmp_path / "elsewhere.jsonl")
        elif how == "removed":
            path.unlink()
        elif how == "folder moved":
            path.parent.rename(tmp_path / "elsewhere")
        else:
            shutil.rmtree(path.parent)
        for completion in [] if is_last else got[2:]:
            journal.put(completion, [])
        if not is_last:
            assert [journal.get(each.key) for each in got] == got
            with pytest.raises(UserError, match="another run"), Journal(path):
                pass
    assert capsys.readouterr().err.count("note: ") == 1
    with Journal(path) as journal:
        kept = got[:2] if is_last else got
        assert [journal.get(each.key) for each in kept] == kept and len(journal) == len(kept)
        assert not journal.damaged


@pytest.mark.parametrize("is_last", [False, True])
def test_a_journal_that_another_file_replaces_ends_the_run_and_its_records_are_kept(
    is_last: bool, tmp_path: Path
) -> None:
    path = tmp_path / "journal" / "a.jsonl"
    fill(tmp_path / "a.jsonl", 1)
    got = [Completion(content_key(i), i, answer=f"{i}") for i in range(3)]
    with pytest.raises(UserError, match="replaced"), Journal(path) as journal:
        for completion in got[:2]:
            journal.put(completion, [])
        os.replace(tmp_path / "a.jsonl", path)
        if not is_last:
            journal.put(got[2], [])
    assert len(path.read_bytes().splitlines()) == 1
    with Journal(path) as journal:
        assert [journal.get(each.key) for each in got[1:]] == [got[1], None]
    assert len(list(path.parent.iterdir())) == 2


def test_an_error_while_lines_are_forced_to_the_disk_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.client.journal.SYNC_SECONDS", 0)
    with Journal(tmp_path / "a.jsonl") as journal:
        monkeypatch.setattr("os.fsync", Mock(side_effect=OSError(28, "No space left on device")))
        with pytest.raises(UserError, match=str(journal.path)):
            while True:
                journal.put(Completion(content_key(len(journal)), 0), [])
    assert 0 < len(journal.path.read_bytes().splitlines()) == len(journal)


def test_a_folder_that_cannot_be_made_is_a_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="RESULTS_DIR"), Journal(tmp_path / "file" / "a.jsonl"):
        pass


def test_keys_do_not_depend_on_the_order_of_fields() -> None:
    assert content_key({"a": 1, "b": [2.0, "é"]}) == content_key({"b": [2.0, "é"], "a": 1})
    assert content_key({"a": 1}) != content_key({"a": "1"})
