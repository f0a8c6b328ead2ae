"""scripts/check_traces.sh as a user runs it: what is kept and dropped, and every bad input in one line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ended, python

STEPS = "7*43=301\n6*58=348, 301+348=649\n"
GOOD = STEPS + "Final: 649"
Row = dict[str, Any]


def check(*args: str) -> tuple[int, str, str]:
    return ended(python("-m", "labs.star.cli", *args))


def written(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def counted(out: str) -> dict[str, tuple[str, str]]:
    """Of each line of the table, its rows and its first line."""
    lines = [line.rsplit(None, 2) for line in out.splitlines()[4:] if line]
    return {line[0].strip(): (line[1], line[2]) for line in lines if len(line) == 3 and line[1].isdigit()}


def test_rows_are_counted_by_reason_and_those_kept_are_written_as_they_were(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"instruction": "How much?", "input": "", "output": f"<think>\nFinal: 1\n</think>\n\n{GOOD}", "way": "first"},
        {"instruction": "How much?", "input": "", "output": STEPS.replace("301", "391", 1) + "\\boxed{649}"},
        {"instruction": "?", "output": f"By the hint it is 649.\n{GOOD}", "way": "rationalised", "n": 1.50},
        {"instruction": "Hint: carry.", "output": f"By the hint, carry.\n{GOOD}", "way": "rationalised"},
        {"output": "Final: 649"},
        {"output": f"{GOOD}\nDone."},
        {"output": f"{GOOD}\nDone."},
        {"output": None},
        {"output": "<think>\nnever closed\nFinal: 1"},
        {"output": f"{STEPS}\x1b[2J\ud800Final: 649"},
    ]
    file, out = written(tmp_path / "traces.jsonl", rows), tmp_path / "kept.jsonl"
    status, said, err = check(file, "--kept", str(out))
    assert status == 0 and not err, err
    assert said.startswith("traces.jsonl: 10 rows, MIN_STEPS=2 MAX_STEPS=8\n")
    assert counted(said) == {
        "kept": ("4", "1"),
        "with a false equation": ("1", "2"),
        "rationalised, answer first": ("1", "3"),
        "empty": ("2", "8"),
        "control characters": ("1", "10"),
        "text after it": ("2", "6"),
        "too few steps": ("1", "5"),
    }
    assert "text after it: more text stands behind" in said and "\x1b" not in said
    assert out.read_text().splitlines() == (tmp_path / "traces.jsonl").read_text().splitlines()[:4]
    status, said, _ = check(file, "MIN_STEPS=3", "MAX_STEPS=3")
    assert status == 0 and counted(said)["kept"] == ("2", "3") and counted(said)["too few steps"] == ("3", "1")


@pytest.mark.parametrize("name", ["output", "model_solution", "response", "Completion", "text", "answer", "proof"])
def test_every_usual_column_is_read(tmp_path: Path, name: str) -> None:
    status, out, err = check(written(tmp_path / "any.json", [{"problem": "?", name: GOOD}]))
    assert status == 0 and counted(out)["kept"] == ("1", "1"), err


def test_lines_of_windows_and_empty_ones_are_read(tmp_path: Path) -> None:
    path = tmp_path / "windows.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"output": GOOD}).encode() + b"\r\n\r\n" + b'{"output": "x"}')
    status, out, err = check(str(path))
    assert status == 0 and counted(out) == counted(out) | {"kept": ("1", "1"), "no final line": ("1", "3")}, err


BAD: list[tuple[str, tuple[str, ...], str]] = [
    ("", (), "holds no rows"),
    ("\n \n", (), "holds no rows"),
    ('{"output": "x"}\n{"output": "y', (), "traces.jsonl, line 2 is not valid JSON"),
    ("[1]\n", (), "traces.jsonl, line 1 is no object"),
    ('{"output": NaN}\n', (), "line 1 is not valid JSON"),
    ('{"question": "x"}\n', (), "line 1 has no text output (or model_solution, response"),
    ('{"output": 3}\n', (), "line 1 has no text output"),
    ('{"output": "x"}\n', ("MIN_STEPS=9",), "MIN_STEPS=9 is larger than MAX_STEPS=8"),
    ('{"output": "x"}\n', ("MIN_STEPS=0",), "MIN_STEPS=0 is out of range: a whole number from 1"),
    ('{"output": "x"}\n', ("MAX_STEPS=many",), "MAX_STEPS=many is not a whole number"),
    ('{"output": "x"}\n', ("ROUNDS=2",), "'ROUNDS=2' is not understood. Behind FILE stand MIN_STEPS=2 and MAX_STEPS=8"),
    ('{"output": "x"}\n', ("--kept",), "--kept: expected one argument"),
    ('{"output": "x"}\n', ("--kept", "nowhere/kept.jsonl"), "the folder nowhere does not exist"),
    ('{"output": "x"}\n', ("--kept", "README.md"), "README.md exists"),
]


@pytest.mark.parametrize(("content", "more", "said"), BAD)
def test_bad_input_is_one_line_and_status_2(tmp_path: Path, content: str, more: tuple[str, ...], said: str) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(content)
    status, out, err = check(str(path), *more)
    assert status == 2 and not out and err.count("\n") == 1 and err.startswith("error: ") and said in err, err


def test_files_that_cannot_be_read_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.jsonl").write_bytes(b'{"output": "\xe9"}\n')
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name, said in (("none.jsonl", "can't be read"), ("latin.jsonl", "UTF-8"), ("pipe.jsonl", "not a regular file")):
        status, _, err = check(str(tmp_path / name))
        assert status == 2 and err.count("\n") == 1 and said in err, err
    status, _, err = check()
    assert status == 2 and err.count("\n") == 1 and "FILE" in err


def test_nothing_is_written_where_a_line_is_torn(tmp_path: Path) -> None:
    path, out = tmp_path / "traces.jsonl", tmp_path / "kept.jsonl"
    path.write_text(json.dumps({"output": GOOD}) + '\n{"output": "')
    status, _, err = check(str(path), "--kept", str(out))
    assert status == 2 and "line 2" in err and sorted(tmp_path.iterdir()) == [path]


def test_help_says_what_it_is() -> None:
    status, out, err = check("--help")
    assert status == 0 and "check_traces.sh" in out and "--kept" in out and not err
