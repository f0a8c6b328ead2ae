"""scripts/traces.sh: one trace of each problem, and rows in Alpaca's shape."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from core.types import Problem
from labs.star import alpaca, prompts
from labs.star.check import check
from labs.star.cli import main as check_traces
from labs.star.constants import StarConstants
from labs.star.merge import OTHERS, main
from labs.star.traces import Trace, write
from tests.helpers.reports import refused

STEPS = "6*7 = 42, by the table\nso it is 42\n"
Row = dict[str, Any]


def written(path: Path, *rows: Row) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def row(problem: str, output: str, **more: Any) -> Row:
    return {"instruction": problem, "input": "", "output": output} | more


def table(out: str) -> dict[str, int]:
    lines = [line.rsplit(None, 1) for line in out.splitlines()[4:]]
    return {line[0].strip(): int(line[1]) for line in lines if len(line) == 2 and line[1].isdigit()}


def test_one_trace_of_each_problem_is_kept_whatever_the_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = (
        row("What is 6*7?", f"{STEPS}Final: 42", round=1),
        row("1. What is 6 * 7?", "6*7\nFinal: 42", round=2),
    )
    hinted = row("What is 6*7 ?", "as told\nFinal: 42", round=9, way="rationalised")
    half, quarter = (
        row("Half?", "1/2\nFinal: 0.5"),
        row("Half?", "2/4\n\\boxed{\\frac{2}{4}}", round=2),
    )
    first = written(tmp_path / "a.jsonl", old, hinted, half, row("Other?", "x\nFinal: 1"))
    second = written(tmp_path / "b.jsonl", new, quarter, quarter, row("Other?", "y\nFinal: 1"))
    kept = []
    for place, files in enumerate(([first, second], [second, first])):
        main([*files, "--out", str(tmp_path / f"{place}.jsonl")])
        shown = table(capsys.readouterr().out)
        assert shown == {"kept": 3, OTHERS: 5}
        kept.append(
            [json.loads(line) for line in (tmp_path / f"{place}.jsonl").read_text().splitlines()]
        )
    assert kept[0] == kept[1] == [new, quarter, row("Other?", "y\nFinal: 1")]


@pytest.mark.parametrize("fewshot", ["none", "format"])
@pytest.mark.parametrize("end", ["Final: 42", "\\[\n\\boxed{42}\n\\]", "The answer is 42."])
def test_a_run_s_traces_are_written_in_alpaca_s_shape(
    tmp_path: Path, fewshot: str, end: str, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = Problem("p", "How many are 6*7 pens?", "42")
    instruction = prompts.asked(problem, StarConstants(FEWSHOT=fewshot))[0]["content"]
    text = f"<think>\nFinal: 1\n</think>\n\n{STEPS}{end}"
    write(tmp_path / "traces.jsonl", [Trace("p", 1, "first", "k", instruction, text)])
    written(tmp_path / "more.jsonl", row("No end?", STEPS))
    out = tmp_path / "out.jsonl"
    main(
        [
            str(tmp_path / "traces.jsonl"),
            str(tmp_path / "more.jsonl"),
            "--out",
            str(out),
            "--alpaca",
        ]
    )
    assert "no final line" in table(capsys.readouterr().out)
    (found,) = map(json.loads, out.read_text().splitlines())
    assert list(found) == ["instruction", "input", "output"] and "'Final:'" in found["instruction"]
    assert (found["input"], found["output"]) == (problem.statement, f"{STEPS}Final: 42")
    assert alpaca.asked(found) == {"problem": problem.statement, "answer": "42"}
    check_traces([str(out), "FINAL=1"])
    assert (
        check(found["output"], 2, 8, takes_box=False).reason == ""
        and "no final" not in capsys.readouterr().out
    )


BAD: list[tuple[Sequence[str], str]] = [
    (['{"output": "x"}'], "line 1"),
    (['{"instruction": "x", "output": "y"}', '{"instruction": 3, "output": "y"}'], "line 2"),
    (['{"instruction": "x", "output": "y", "input": 3}'], "line 1"),
    (["[]"], "line 1"),
    ([], "no trace"),
]


@pytest.mark.parametrize(("lines", "named"), BAD)
def test_bad_input_is_one_line(
    tmp_path: Path, lines: Sequence[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.jsonl").write_text("\n".join(lines))
    assert named in refused(
        capsys, str(tmp_path / "bad.jsonl"), "--out", str(tmp_path / "out.jsonl"), main=main
    )
    assert not (tmp_path / "out.jsonl").exists()
