"""The journal: what was finished comes back, and damage costs the damaged record only."""

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import UserError
from core.journal import Journal, content_key
from tests.conftest import ROOT


def fill(path: Path, count: int) -> list[dict[str, Any]]:
    made = [{"answer": f"\\boxed{{{i}}} é\n", "tokens": i, "seconds": i / 7} for i in range(count)]
    with Journal(path) as journal:
        for i, completion in enumerate(made):
            journal.put(content_key(i), completion)
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
            journal.put(content_key(2), made[2])
        assert path.read_bytes() == whole


def test_a_flipped_byte_in_the_middle_is_named_and_owed_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    made = fill(path, 3)
    content = bytearray(path.read_bytes())
    content[content.index(b"boxed{1}") + 6] = ord("7")
    path.write_bytes(content)
    with Journal(path) as journal:
        assert journal.damaged == [2]
        assert [journal.get(content_key(i)) for i in range(3)] == [made[0], None, made[2]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_are_survived(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    path = tmp_path_factory.mktemp("journal") / "a.jsonl"
    path.write_bytes(b"\n".join(lines) + b'\n[1]\n{"key": 3}\n{"key":"x","crc":0,"completion":[]}\n')
    with Journal(path) as journal:
        journal.put("k", {"answer": "kept"})
    with Journal(path) as journal:
        assert journal.get("k") == {"answer": "kept"}


def test_journals_beside_it_are_read_but_not_written(tmp_path: Path) -> None:
    made = fill(tmp_path / "01_baseline.jsonl", 4)
    before = (tmp_path / "01_baseline.jsonl").read_bytes()
    with Journal(tmp_path / "02_rsa_basic.jsonl") as journal:
        assert journal.get(content_key(3)) == made[3]
        journal.put(content_key("new"), {"answer": "x"})
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
from core.errors import command
from core.journal import Journal, content_key
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
with command(), Journal(Path({str(tmp_path / "a.jsonl")!r})) as journal:
    for i in range(100):
        journal.put(content_key(i), {{"answer": "x" * 300}})
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
