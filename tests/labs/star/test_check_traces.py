"""scripts/check_traces.sh: what is kept and dropped, and bad input in one line."""

import json
from pathlib import Path
from typing import Any

import pytest

from labs.star.cli import main
from tests.conftest import ended, python
from tests.helpers.reports import refused

STEPS = "7*43=301\n6*58=348, 301+348=649\n"
GOOD = STEPS + "Final: 649"


def counted(out: str) -> dict[str, tuple[str, str]]:
    """Of each line of the table, its rows and its first line."""
    lines = [line.rsplit(None, 2) for line in out.splitlines()[4:] if line]
    return {line[0].strip(): (line[1], line[2]) for line in lines if len(line) == 3 and line[1].isdigit()}


def checked(path: Path, capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, tuple[str, str]]:
    main([str(path), *args])
    return counted(capsys.readouterr().out)


def test_rows_are_counted_by_reason_and_those_kept_are_written_as_they_were(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [
        {"instruction": "How much?", "input": "", "output": f"<think>\nFinal: 1\n</think>\n\n{GOOD}", "way": "first"},
        {"instruction": "How much?", "input": "", "output": STEPS.replace("301", "391", 1) + "\\boxed{649}"},
        {"instruction": "?", "output": f"By the hint it is 649.\n{GOOD}", "way": "rationalised", "n": 1.50},
        {"instruction": "Hint: carry.", "output": f"By the hint, carry.\n{GOOD}", "way": "rationalised"},
        {"output": "Final: 649"},
        {"output": f"{GOOD}\nDone."},
        {"output": None},
        {"output": "<think>\nnever closed\nFinal: 1"},
        {"output": f"{STEPS}\x1b[2J\ud800Final: 649"},
    ]
    path, out = tmp_path / "traces.jsonl", tmp_path / "kept.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    status, stdout, err = ended(python("-m", "labs.star.cli", str(path), "--kept", str(out)))
    assert status == 0 and not err, err
    assert counted(stdout) == {
        "kept": ("4", "1"),
        "with a false equation": ("1", "2"),
        "rationalised, answer first": ("1", "3"),
        "empty": ("2", "7"),
        "control characters": ("1", "9"),
        "text after it": ("1", "6"),
        "too few steps": ("1", "5"),
    }
    assert "\x1b" not in stdout and out.read_text().splitlines() == path.read_text().splitlines()[:4]
    status, _, err = ended(python("-m", "labs.star.cli", str(path), "--kept", str(out)))
    assert status == 2 and err.count("\n") == 1 and "kept.jsonl" in err


@pytest.mark.parametrize("name", ["output", "model_solution", "response", "Completion", "text", "answer", "proof"])
def test_every_usual_column_is_read(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "any.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"problem": "?", name: GOOD}).encode() + b'\r\n\r\n{"output": "x"}')
    found = checked(path, capsys)
    assert found["kept"] == ("1", "1") and found["no final line"] == ("1", "3")


@pytest.mark.parametrize(
    ("output", "constant", "kept"),
    [
        (f"{STEPS}\\boxed{{649}}", "FEWSHOT=none", True),
        (f"{STEPS}\\boxed{{649}}", "FEWSHOT=format", False),
        (f"{STEPS}\\boxed{{649}}", "FINAL=1", False),
        (f"{STEPS}Final answer: 649", "FINAL=1", False),
        (GOOD, "FINAL=1", True),
        (GOOD, "MIN_STEPS=3", False),
        (f"{STEPS}The answer is 649.", "ANSWER=text", True),
        (f"{STEPS}The answer is 649.", "ANSWER=boxed", False),
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
    tmp_path: Path, content: str, more: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "traces.jsonl"
    path.write_text(content)
    assert named in refused(capsys, str(path), *(each.format(folder=tmp_path) for each in more), main=main)
    assert list(tmp_path.iterdir()) == [path]
