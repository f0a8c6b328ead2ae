"""The journal: what was finished comes back, and damage costs the damaged record only."""

import json
import os
import resource
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base.errors import UserError
from core.generate.journal import Archive, Journal, Record, content_key
from tests.conftest import ROOT


def fill(path: Path, count: int) -> list[dict[str, Any]]:
    made = [{"answer": f"\\boxed{{{i}}} é\n", "tokens": i, "seconds": i / 7} for i in range(count)]
    with Journal(path) as journal:
        for i, completion in enumerate(made):
            journal.put(content_key(i), completion, [])
    return made


def test_what_was_put_comes_back_in_a_later_run(tmp_path: Path) -> None:
    made = fill(tmp_path / "a.jsonl", 20)
    with Journal(tmp_path / "a.jsonl") as journal:
        assert [journal.get(content_key(i)) for i in range(20)] == made
        assert journal.get(content_key("never put")) is None and len(journal) == 20


def test_a_record_torn_at_any_byte_is_owed_again_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    made = fill(path, 3)
    whole = path.read_bytes()
    last = whole.rstrip(b"\n").rfind(b"\n") + 1
    for end in range(last, len(whole)):
        path.write_bytes(whole[:end])
        with Journal(path) as journal:
            assert [journal.get(content_key(i)) for i in range(3)] == [*made[:2], None]
            journal.put(content_key(2), made[2], [])
        assert path.read_bytes() == whole


COMPLETION = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=80),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    ),
    max_size=4,
)


@settings(max_examples=60, deadline=None)
@given(made=st.lists(COMPLETION, min_size=1, max_size=5), data=st.data())
def test_any_completions_cut_or_damaged_anywhere_are_missed_never_wrong_and_the_line_is_named(
    tmp_path_factory: pytest.TempPathFactory, made: list[dict[str, Any]], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "a.jsonl"
    with Journal(path) as journal:
        for i, completion in enumerate(made):
            journal.put(content_key(i), completion, [])
        assert [journal.get(content_key(i)) for i in range(len(made))] == made
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    cut = data.draw(st.integers(0, len(whole)), "cut")
    path.write_bytes(whole[:cut])
    kept = sum(end <= cut for end in ends)
    with Journal(path) as journal:
        assert [journal.get(content_key(i)) for i in range(len(made))] == made[:kept] + [None] * (len(made) - kept)
        assert not journal.damaged and len(journal) == kept
    flipped = bytearray(whole)
    place = data.draw(st.integers(0, len(whole) - 1), "place")
    flipped[place] ^= data.draw(st.integers(1, 255), "flip")
    path.write_bytes(flipped)
    line = sum(end <= place for end in ends)
    lost = {line, line + 1} if place + 1 in ends else {line}  # a newline that is gone joins two lines
    with Journal(path) as journal:
        found = [journal.get(content_key(i)) for i in range(len(made))]
        assert found == [None if i in lost else completion for i, completion in enumerate(made)]
        assert journal.damaged[:1] == ([line + 1] if place + 1 < ends[-1] else []), "a lost last newline: cut off"


def test_every_byte_of_a_record_is_covered_that_of_the_key_and_of_the_checksum_too(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    made = fill(path, 3)
    whole = path.read_bytes()
    first, second, _ = (i for i, byte in enumerate(whole) if byte == ord("\n"))
    for place in range(first + 1, second):
        for bit in range(8):
            content = bytearray(whole)
            content[place] ^= 1 << bit
            path.write_bytes(content)
            with Journal(path) as journal:
                assert [journal.get(content_key(i)) for i in range(3)] == [made[0], None, made[2]]
                assert journal.damaged[0] == 2 and len(journal) == 2


MESSAGES = [{"role": "system", "content": "Be brief. é"}, {"role": "user", "content": "What is 1 + 1?\n"}]


def test_messages_are_kept_beside_a_completion_as_they_were_sent(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with Journal(path) as journal:
        journal.put(content_key(0), {"answer": "2"}, MESSAGES)
    with Archive(tmp_path) as archive:
        assert archive.record(content_key(0)) == Record({"answer": "2"}, MESSAGES)
        assert archive.get(content_key(0)) == {"answer": "2"}
        assert archive.record(content_key(1)) is None


@pytest.mark.parametrize("messages", [None, 3, "x", {}, [None], [{}], [{"role": "user", "content": 3}], [["role"]]])
def test_a_record_whose_messages_have_another_shape_is_none(tmp_path: Path, messages: Any) -> None:
    head = json.dumps(
        {"key": content_key(0), "completion": {"answer": "2"}, "messages": messages}, separators=(",", ":")
    )
    line = head[:-1].encode()
    (tmp_path / "a.jsonl").write_bytes(line + b',"crc":"%08x"}\n' % zlib.crc32(line))
    with Archive(tmp_path) as archive:
        assert archive.record(content_key(0)) is None


def test_what_changes_behind_a_runs_back_is_a_miss(tmp_path: Path) -> None:
    made = fill(tmp_path / "other.jsonl", 3)
    with Journal(tmp_path / "a.jsonl") as journal:
        content = (tmp_path / "other.jsonl").read_bytes()
        (tmp_path / "other.jsonl").write_bytes(content.replace(b"boxed{1}", b"boxed{7}")[:-5])
        assert [journal.get(content_key(i)) for i in range(3)] == [made[0], None, None]


def test_many_records_are_found_and_the_later_of_two_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    keys = [content_key(i) for i in range(1050)]
    with Journal(path) as journal:
        for i, key in enumerate(keys + keys[::3]):
            journal.put(key, {"i": i, "text": "x" * (30_000 if i % 100 == 0 else 10)}, [])
            assert journal.get(key) == {"i": i, "text": "x" * (30_000 if i % 100 == 0 else 10)}
        expected = {key: 1050 + i // 3 if i % 3 == 0 else i for i, key in enumerate(keys)}
    with Journal(path) as journal:
        assert {key: (journal.get(key) or {})["i"] for key in keys} == expected and len(journal) == 1050
        assert all(journal.get(content_key(i)) is None for i in range(1050, 1200))


def test_a_scan_takes_little_time_and_memory(tmp_path: Path) -> None:
    """100,000 records, in a process of its own, whose memory is its own too."""
    fill(tmp_path / "a.jsonl", 100_000)
    program = f"""
import resource, time
from pathlib import Path
from core.generate.journal import Journal
before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
with Journal(Path({str(tmp_path / "b.jsonl")!r})) as journal:
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    print(len(journal), time.process_time() - began, grown)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    count, seconds, kilobytes = map(float, done.stdout.split())
    assert count == 100_000 and seconds < 10 and kilobytes < 30_000, done.stdout


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_are_survived(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("journal") / "a.jsonl"
    foreign = b'{"key":"x","completion":[]}'  # no record of ours, though its checksum is right
    foreign = foreign[:-1] + b',"crc":"%08x"}' % zlib.crc32(foreign[:-1])
    path.write_bytes(b"\n".join(lines) + b'\n[1]\n{"key": 3}\n{"key":"x","crc":0,"completion":[]}\n' + foreign + b"\n")
    with Journal(path) as journal:
        assert len(journal) == 0 and journal.damaged
        journal.put(content_key("k"), {"answer": "kept"}, [])
    with Journal(path) as journal:
        assert journal.get(content_key("k")) == {"answer": "kept"}


def test_journals_beside_it_are_read_but_not_written(tmp_path: Path) -> None:
    made = fill(tmp_path / "01_baseline.jsonl", 4)
    before = (tmp_path / "01_baseline.jsonl").read_bytes()
    with Journal(tmp_path / "02_rsa_basic.jsonl") as journal:
        assert journal.get(content_key(3)) == made[3]
        journal.put(content_key("new"), {"answer": "x"}, [])
    assert (tmp_path / "01_baseline.jsonl").read_bytes() == before


def test_two_runs_on_one_journal_are_refused(tmp_path: Path) -> None:
    with (
        Journal(tmp_path / "a.jsonl"),
        pytest.raises(UserError, match="another run is writing"),
        Journal(tmp_path / "a.jsonl"),
    ):
        pass
    fill(tmp_path / "a.jsonl", 1)  # free again once the first has ended


def test_a_folder_that_cannot_be_made_is_a_users_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="RESULTS_DIR"), Journal(tmp_path / "file" / "a.jsonl"):
        pass


def test_a_full_disk_is_said_in_one_line_and_leaves_the_journal_whole(tmp_path: Path) -> None:
    """In a process of its own, whose files may not grow past 4 kB: writing fails in the middle of a record."""
    program = f"""
import resource, signal
from pathlib import Path
from core.base.errors import command
from core.generate.journal import Journal, content_key
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
with command(), Journal(Path({str(tmp_path / "a.jsonl")!r})) as journal:
    for i in range(100):
        journal.put(content_key(i), {{"answer": "x" * 300}}, [])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    assert done.returncode == 2 and done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert "completions kept so far are safe" in done.stderr
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 4096
    with Journal(tmp_path / "a.jsonl") as journal:
        assert len(journal) > 5 and not journal.damaged
    assert all(json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines())


def test_keys_do_not_depend_on_the_order_of_fields() -> None:
    assert content_key({"a": 1, "b": [2.0, "é"]}) == content_key({"b": [2.0, "é"], "a": 1})
    assert content_key({"a": 1}) != content_key({"a": "1"})
