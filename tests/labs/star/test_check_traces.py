"""scripts/check_traces.sh: what is kept and dropped, and bad input in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from labs.star.cli import main
from tests.helpers.reports import refused

STEPS = "7*43=301\n6*58=348, 301+348=649\n"
GOOD = STEPS + "Final: 649"


def counted(out: str) -> dict[str, tuple[str, str]]:
    """Of each line of the table, its rows and its first line."""
    lines = [line.rsplit(None, 2) for line in out.splitlines()[4:] if line]
    return {
        line[0].strip(): (line[1], line[2])
        for line in lines
        if len(line) == 3 and line[1].isdigit()
    }


def checked(
    path: Path, capsys: pytest.CaptureFixture[str], *args: str
) -> dict[str, tuple[str, str]]:
    main([str(path), *args])
    return counted(capsys.readouterr().out)


def test_hostile_rows_are_dropped_and_kept_rows_stay_as_they_were(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The golden files have the other reasons and flaws."""
    path, out = tmp_path / "traces.jsonl", tmp_path / "kept.jsonl"
    rows: list[dict[str, Any]] = [
        {"output": f"<think>\nFinal: 1\n</think>\n\n{GOOD}", "n": 1.50},
        {"output": None},
        {"output": f"{STEPS}\x1b[2J\ud800Final: 649"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = checked(path, capsys, "--kept", str(out))
    assert (found["kept"], found["empty"], found["control characters"]) == (
        ("1", "1"),
        ("1", "2"),
        ("1", "3"),
    )
    assert out.read_text() == path.read_text().partition("\n")[0] + "\n"
    assert "kept.jsonl" in refused(capsys, str(path), "--kept", str(out), main=main)


@pytest.mark.parametrize(
    "name", ["output", "model_solution", "response", "Completion", "text", "answer", "proof"]
)
def test_every_usual_column_is_read(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "any.jsonl"
    path.write_bytes(
        b"\xef\xbb\xbf"
        + json.dumps({"problem": "?", name: GOOD}).encode()
        + b'\r\n\r\n{"output": "x"}'
    )
    found = checked(path, capsys)
    assert found["kept"] == ("1", "1") and found["no final line"] == ("1", "3")


@pytest.mark.parametrize(
    ("output", "constant", "kept"),
    [
        (f"{STEPS}\\boxed{{649}}", "FINAL=1", False),
        (f"{STEPS}Final answer: 649", "FINAL=1", False),
        (GOOD, "MIN_STEPS=3", False),
        (f"{STEPS}The answer is 649.", "ANSWER=text", True),
    ],
)
def test_a_run_s_constants_for_the_form_apply(
    tmp_path: Path, output: str, constant: str, kept: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(json.dumps({"output": output}))
    assert checked(path, capsys, constant)["kept"][0] == str(int(kept))


BAD: list[tuple[str, tuple[str, ...], str]] = [
    ('{"output": "x"}\n{"output": "y', (), "traces.jsonl, line 2"),
    (json.dumps({"output": GOOD}) + '\n{"output": "', ("--kept", "{folder}/kept.jsonl"), "line 2"),
    ("[1]\n", (), "line 1"),
    ('{"output": NaN}\n', (), "line 1"),
    ('{"question": "x"}\n', (), "'question'"),
    ('{"output": 3}\n', (), "'output'"),
    ('{"output": "x"}\n', ("MIN_STEPS=9",), "MIN_STEPS=9"),
    ('{"output": "x"}\n', ("STEPS=2",), "'STEPS'"),
    ('{"output": "x"}\n', ("--kept", "nowhere/kept.jsonl"), "nowhere"),
]


@pytest.mark.parametrize(("content", "more", "named"), BAD)
def test_bad_input_is_one_line_and_status_2(
    tmp_path: Path,
    content: str,
    more: tuple[str, ...],
    named: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(content)
    assert named in refused(
        capsys, str(path), *(each.format(folder=tmp_path) for each in more), main=main
    )
    assert list(tmp_path.iterdir()) == [path]


def test_without_arguments_only_the_file_is_required(capsys: pytest.CaptureFixture[str]) -> None:
    error = refused(capsys, main=main)
    assert "FILE" in error and "NAME=value" not in error
