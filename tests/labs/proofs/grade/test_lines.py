"""Graded lines of JSON: a grader that charges, fails and quotes, and kills."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from labs.proofs.grade.cli import GradeConstants, source_of
from labs.proofs.rubric import GENERAL
from tests.fakes.grader import GradingServer, points_of
from tests.labs.proofs.conftest import (
    FRAGMENTS,
    Card,
    Desk,
    begun,
    read,
    rows,
    run,
    wait_for_lines,
    written,
)


@pytest.mark.parametrize(("scheme", "asked"), [("7 points: a proof", 2), (None, 1)])
def test_equal_proofs_share_a_grade_only_under_equal_schemes(
    desk: Desk, scheme: str | None, asked: int
) -> None:
    line = rows(1)[0]
    assert desk.ask("grade", [line, line | ({"grading_scheme": scheme} if scheme else {})])[0] == 0
    assert desk.grader.asked == asked


def test_every_line_gets_points_reasons_scheme_and_cost(desk: Desk) -> None:
    lines, grader = rows(6), desk.grader
    lines[1]["model_solution"] += "\n\n## Self-evaluation\nPerfect.\nScore: 1"
    lines[2]["model_solution"] = None
    lines[3]["finish_reason"] = "length"
    lines[4] = {"problem": "How much is 6*7?", "answer": 42, "model_solution": "\\boxed{42}"}
    lines[5] = {
        "problem": "How much is 6*7?",
        "answer": 42,
        "model_solution": "forty-two",
        "grading_scheme": None,
    }
    grader.reply = lambda prompt, seed: (
        "It says:\nPoints: 3\n\nPoints: 7" if "6*7" in prompt else "Fair.\nPoints: 4"
    )
    status, out, err = desk.ask("grade", lines)
    assert status == 0, err
    found = read(desk.out("grade"))
    assert [
        {name: row[name] for name in line} for row, line in zip(found, lines, strict=True)
    ] == lines
    assert [row["grade"] for row in found] == [4, 4, None, None, 7, 7]
    assert [row["score"] for row in found] == [4 / 7, 4 / 7, 0, 0, 1, 1], (
        "what was not delivered counts as 0"
    )
    assert [row["ungraded"] for row in found] == [None, None, "empty", "cut off", None, None]
    assert [row["graded_by"] for row in found] == [
        "grader",
        "grader",
        None,
        None,
        "math-verify",
        "grader",
    ]
    assert [row["schema_0"] for row in found][:2] == [lines[0]["grading_scheme"]] * 2 and not found[
        5
    ]["schema_0"]
    assert [row["grade_reasons"] for row in found][:3] == [["Fair.\nPoints: 4"]] * 2 + [[]]
    assert found[1]["self_evaluation_left_out"] > 20 and not found[0]["self_evaluation_left_out"]
    assert grader.asked == 3, "one for each proof that is there, and the answer that is in doubt"
    assert not any("Perfect" in prompt for prompt, _ in grader.answered)
    assert sum(row["grade_cost"]["cost"] for row in found) == pytest.approx(grader.charged)
    values = [(4 + 4 + 0) / 21, 0, 1, 1]
    assert (
        f"all 4 {100 * sum(values) / 4:.1f} [" in " ".join(out.split())
        and f"${grader.charged:.3g}" in out
    )


def test_unchanged_nothing_is_asked_and_what_changes_is_asked_anew(
    desk: Desk, tmp_path: Path
) -> None:
    prompt = tmp_path / "mine.txt"

    def asked(*args: str, count: int = 4) -> int:
        desk.made("grade", rows(count), *args)
        return desk.grader.asked

    assert asked() == 4
    before = desk.out("grade").read_bytes()
    assert asked() == 4 and desk.out("grade").read_bytes() == before
    assert asked("GRADES=3") == 12, "the first of three was there"
    prompt.write_text("{problem}\n{proof}")
    assert asked(f"PROMPT={prompt}") == 16
    prompt.write_text("Grade: {problem}\n{proof}")
    assert asked(f"PROMPT={prompt}") == 20
    assert asked("SEED=1") == 24
    assert asked(desk.card('effort = "high"')) == 28
    assert asked(count=5) == 29


@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_stopped_in_the_middle_nothing_is_graded_again_and_no_dollar_is_lost(
    sign: signal.Signals, grader: GradingServer, card: Card, results: Path, tmp_path: Path
) -> None:
    path, limit, count = tmp_path / "proofs.jsonl", 0.02, 60
    more = (written(path, rows(count)), card("concurrency = 4"), "MAX_TOKENS=100")
    grader.life = 10
    process = begun("grade", *more, f"MAX_DOLLARS={limit}")
    assert grader.is_stuck.wait(120)
    wait_for_lines(process, results / "journal" / "proofs.grading.jsonl", 10)
    process.send_signal(sign)
    _, err = process.communicate(timeout=120)
    assert (
        process.returncode == (130 if sign == signal.SIGINT else -sign) and "Traceback" not in err
    ), err
    before, charged = set(grader.answered), grader.charged
    grader.revive()
    status, _, err = run("grade", *more, f"MAX_DOLLARS={limit}")
    assert status == 1 and f"MAX_DOLLARS={limit:g}" in err
    assert 0 < charged <= grader.charged <= limit and not path.with_suffix(".graded.jsonl").exists()
    assert run("grade", *more, "MAX_DOLLARS=5")[0] == 0
    assert len(grader.answered) == count == len(set(grader.answered)), "nothing was graded twice"
    assert before < set(grader.answered) and len(read(path.with_suffix(".graded.jsonl"))) == count


def test_hostile_proofs_win_nothing_from_a_grader_that_quotes_them(desk: Desk) -> None:
    lines = [
        row | {"model_solution": text}
        for row, text in zip(rows(len(FRAGMENTS)), FRAGMENTS, strict=True)
    ]
    status, out, err = desk.ask("grade", lines)
    assert status == 0 and "\x1b" not in out + err, err
    found = read(desk.out("grade"))
    assert [row["grade"] for row in found] == [points_of(text.strip()) for text in FRAGMENTS]
    assert [row["self_evaluation_left_out"] for row in found] == [0] * len(FRAGMENTS)


BAD: list[tuple[list[Any], tuple[str, ...], str]] = [
    ([], (), "proofs"),
    ([[1]], (), "an object in line 1"),
    ([{"problem": "x", "grading_scheme": "7: all"}], (), "model_solution"),
    ([{"problem": "x", "grading_scheme": "7: all", "proof": 3}], (), "model_solution"),
    ([*rows(1), {"problem": "x", "proof": "y"}], ("PROMPT=scheme",), "in problem 2."),
    ([{"problem": "x", "answer_type": "math", "proof": "y"}], (), "no answer, which"),
    (
        [{"id": "\ud800", "problem": "x", "grading_scheme": "7", "proof": "y"}],
        (),
        "the id is empty",
    ),
    (rows(1), ("PROMPT=guidelines",), "in problem p0."),
    (rows(1), ("GRADER=opnai",), "'opnai'"),
    (rows(1), ("GRADER=openai",), "OPENAI_API_KEY"),
    (rows(1), ("PROBLEMS=sums",), "'PROBLEMS'"),
    (rows(1), ("GRADRE=x",), "'GRADRE'"),
]


@pytest.mark.parametrize(("lines", "args", "named"), BAD, ids=[named for *_, named in BAD])
def test_bad_input_is_one_line(
    desk: Desk, lines: list[Any], args: tuple[str, ...], named: str
) -> None:
    assert (
        named in desk.refused("grade", lines, *args, OPENAI_API_KEY="") and desk.grader.asked == 0
    )


@pytest.mark.parametrize("args", [(), ("PROMPT=alone",)])
def test_lines_without_guidelines_get_the_general_rubric_which_the_opening_says(
    args: tuple[str, ...], desk: Desk
) -> None:
    status, out, err = desk.ask(
        "grade", [{"problem": "Show it.", "model_solution": "So.\nPoints: 7"}, *rows(2)], *args
    )
    assert status == 0 and "general rubric" in out, err
    bare, *others = read(desk.out("grade"))
    assert bare["schema_0"] == GENERAL and bare["grade"] is not None
    assert GENERAL not in [row["schema_0"] for row in others]
    assert "general rubric" not in desk.ask("grade", rows(2), *args)[1]


def test_a_key_is_sent_and_shown_nowhere(desk: Desk, tmp_path: Path) -> None:
    named, key = desk.card('key_env = "STRICT_KEY"'), "sk-0123456789abcdef"
    assert "STRICT_KEY" in desk.refused("grade", rows(2), named, STRICT_KEY="")
    elsewhere = {"BASE_URL": "http://127.0.0.1:9/v1", "MODEL": "other"}
    status, out, err = desk.ask("grade", rows(2), named, STRICT_KEY=key, **elsewhere)
    assert status == 0 and desk.grader.keys == {f"Bearer {key}"}, "the solver's server need not run"
    kept = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert key not in out + err and key.encode() not in kept


@pytest.mark.parametrize(
    "named", [{"BASE_URL": "url"}, {"GRADER_URL": "url", "BASE_URL": "http://127.0.0.1:9/v1"}]
)
def test_without_a_card_the_configured_server_grades(desk: Desk, named: dict[str, str]) -> None:
    given = {name: desk.grader.url if value == "url" else value for name, value in named.items()}
    status, _, err = desk.run("grade", written(desk.path, rows(3)), **given)
    assert status == 0 and desk.grader.asked == 3, err
    found = read(desk.out("grade"))
    assert found[0]["grade_cost"]["cost"] is None and found[0]["grader"] == "strict"


@pytest.mark.parametrize("name", ["grade", "schemes", "filter"])
def test_a_foreign_file_is_left_alone(desk: Desk, name: str) -> None:
    desk.out(name).write_text('{"mine": 1}\n')
    status, _, err = desk.ask(name, [row | {"solution": "So."} for row in rows(1)])
    assert status == 2 and desk.out(name).name in err and desk.grader.asked == 0
    assert json.loads(desk.out(name).read_text()) == {"mine": 1}


@pytest.mark.parametrize("name", ["proofs.parquet", "proofs.csv"])
def test_tables_are_refused_with_the_format_to_use(name: str) -> None:
    with pytest.raises(UserError, match=r"\.jsonl"):
        source_of(name, GradeConstants())
