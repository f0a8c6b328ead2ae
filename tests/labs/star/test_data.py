"""The problems that STaR trains on and is evaluated on: held out by their statements, never among
both."""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.base.errors import UserError
from core.types import Problem
from harness.problems import sets
from harness.problems.check import can_be_sent
from labs.star.constants import StarConstants
from labs.star.data import REASONS, Split, drawn, split
from labs.star.statements import hash_of

OWN = ("sums_star", "sums_star_eval")
NONE = ("", "")

Row = dict[str, Any]


def rows(count: int, **more: Any) -> list[Row]:
    return [
        {"id": f"p{i}", "problem": f"What is {i} + {i}?", "answer": 2 * i % 1000} | more
        for i in range(1, count + 1)
    ]


def of(folder: Path, lines: Iterable[Any], **changes: Any) -> Split:
    """The split of a file with these rows: five held out, rounds of ten."""
    constants: Row = {"HELD_OUT": 5, "TRAIN_PROBLEMS": 10}
    path = folder / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return split(StarConstants(**constants | {"DATA": str(path)} | changes), NONE)


def deep(levels: int) -> list[Any]:
    return [] if not levels else [deep(levels - 1)]


def refusal(folder: Path, lines: Iterable[Any], **changes: Any) -> str:
    """The one line of a UserError."""
    with pytest.raises(UserError) as raised:
        of(folder, lines, **changes)
    assert "\n" not in str(raised.value)
    return str(raised.value)


def hashes(problems: Iterable[Problem]) -> set[str]:
    return {hash_of(problem.statement) for problem in problems}


# Which sets


@pytest.mark.parametrize(
    ("constants", "own", "name", "held_out"),
    [
        ({}, OWN, "sums_star", "sums_star_eval"),
        ({"DATA": "sums_star"}, OWN, "sums_star", "sums_star_eval"),
        ({"DATA": "sums_star"}, NONE, "sums_star", "sums_star:held_out"),
        (
            {"DATA": "sums_card", "HELD_OUT": 20, "TRAIN_PROBLEMS": 200},
            OWN,
            "sums_card",
            "sums_card:held_out",
        ),
        ({"EVAL": "sums_hard"}, OWN, "sums_star", "sums_hard"),
        ({"EVAL": "sums_hard", "LIMIT": 7}, OWN, "sums_star", "sums_hard[:7]"),
    ],
)
def test_what_auto_stands_for(
    constants: Row, own: tuple[str, str], name: str, held_out: str
) -> None:
    found = split(StarConstants(**constants), own)
    assert (found.origin.name, found.held_out.name) == (name, held_out)
    assert not hashes(found.train) & hashes(found.held_out.problems) and not found.left_out
    assert found.origin.version == sets.BUNDLED_VERSION


def test_a_model_without_sets_of_its_own_takes_openr1(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"DATA=path/to/file.json"):
        split(StarConstants(), NONE)


@pytest.mark.parametrize("column", ["Body", "passage"])
def test_the_text_before_a_question_belongs_to_the_statement(tmp_path: Path, column: str) -> None:
    lines = [
        {column: f"Ann has {i} pens.", "Question": "How many pens has she?", "Answer": float(i)}
        for i in range(1, 16)
    ]
    problems = of(tmp_path, lines)
    assert len(problems.train) == 10 and not problems.left_out
    assert all(f"has {each.answer} pens" in each.statement for each in problems.train)


# What is held out


def test_the_same_is_held_out_for_every_seed_and_order_of_rows(tmp_path: Path) -> None:
    lines = [
        *rows(60),
        *rows(3),
        {"problem": "what is 7+7", "answer": "14"},
        {"problem": "What is 8 + 8?", "answer": 99},
    ]
    first = of(tmp_path, lines)
    assert first.left_out == {"two answers": 2, "repeated": 4} and len(first.train) == 54
    for seed in range(5):
        random.Random(seed).shuffle(lines)
        again = of(tmp_path, lines, SEED=seed)
        assert again == first
        assert [each.columns for each in again.train] == [each.columns for each in first.train]


def test_a_larger_held_out_set_holds_the_smaller_one(tmp_path: Path) -> None:
    small, large = of(tmp_path, rows(60)), of(tmp_path, rows(60), HELD_OUT=20)
    assert (
        large.held_out.problems[:5] == small.held_out.problems
        and len(large.held_out.problems) == 20
    )
    assert large.sha256 != small.sha256


def test_what_repeats_a_held_out_statement_is_not_trained_on(tmp_path: Path) -> None:
    plain = of(tmp_path, rows(60))
    leaks = [
        {"problem": each.statement.upper(), "answer": each.answer}
        for each in plain.held_out.problems
    ]
    planted = of(tmp_path, [*leaks, *rows(60)])
    assert planted.left_out == {"repeated": 5} and hashes(planted.train) == hashes(plain.train)
    assert hashes(planted.held_out.problems) == hashes(plain.held_out.problems)


def test_limit_shortens_what_is_evaluated_and_what_a_round_takes_and_nothing_is_trained_on_for_it(
    tmp_path: Path,
) -> None:
    whole, limited = of(tmp_path, rows(60)), of(tmp_path, rows(60), LIMIT=3)
    assert limited.held_out.problems == whole.held_out.problems[:3] and limited.train == whole.train
    assert limited.sha256 == whole.sha256
    assert len(drawn(limited, StarConstants(TRAIN_PROBLEMS=10, LIMIT=3), 1).problems) == 3


def test_a_split_is_told_by_its_problems_and_answers(tmp_path: Path) -> None:
    lines = rows(30)
    assert (
        len(
            {
                of(tmp_path, each).sha256
                for each in (lines, lines[1:], [lines[0] | {"answer": 5}, *lines[1:]])
            }
        )
        == 3
    )


def test_an_answer_that_can_not_be_read_is_neither_held_out_nor_drawn(tmp_path: Path) -> None:
    lines = rows(40)
    unread = [row | {"answer": r"x \equiv 3 \pmod{8}"} for row in lines[::2]]
    found = of(tmp_path, [*unread, *lines[1::2]])
    assert all(problem.answer_type == "integer" for problem in found.held_out.problems)
    assert len(found.train) == 35
    taken = drawn(found, StarConstants(TRAIN_PROBLEMS=40), 1).problems
    assert len(taken) == 15 and all(problem.answer_type == "integer" for problem in taken)


# A split that overlaps


def test_rows_that_repeat_what_is_evaluated_on_are_refused_with_their_number(
    tmp_path: Path,
) -> None:
    measured = [
        {"problem": "WHAT is 3+3", "answer": 6},
        {"problem": "What is $4 + 4$?", "answer": 8},
    ]
    (tmp_path / "eval.json").write_text(json.dumps(measured))
    message = refusal(tmp_path, [*rows(30), *rows(3)], EVAL=str(tmp_path / "eval.json"))
    assert (
        message.startswith("2 problems of DATA=mine")
        and "EVAL=eval" in message
        and "'What is " in message
    )
    apart = of(
        tmp_path,
        [row for row in rows(30) if row["id"] not in ("p3", "p4")],
        EVAL=str(tmp_path / "eval.json"),
    )
    assert len(apart.train) == 28 and len(apart.held_out.problems) == 2


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"EVAL": "sums_star"}, "1,500"),
        ({"EVAL": "sums_proof"}, "EVAL=sums_proof"),
        ({"DATA": "sums_proof"}, "proof: 20"),
        ({"DATA": "sums"}, "500"),  # HELD_OUT and TRAIN_PROBLEMS
        ({"DATA": "sums", "LIMIT": 5}, "205"),
        ({"DATA": "nowhere"}, "'nowhere'"),
        ({"EVAL": "nowhere"}, "'nowhere'"),
        ({"DATA": "nowhere.jsonl"}, "nowhere.jsonl"),
        ({"DATA": "mine.xlsx"}, ".xlsx"),
        ({"DATA": "hub:one"}, "hub:owner/name"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(constants: Row, words: str) -> None:
    with pytest.raises(UserError) as raised:
        split(StarConstants(**constants), OWN)
    assert words in str(raised.value) and "\n" not in str(raised.value)


def test_a_file_without_a_row_to_use_says_why(tmp_path: Path) -> None:
    message = refusal(
        tmp_path,
        [{"problem": "Prove it.", "answer": "proof"}, {"problem": "Which?", "answer": "B"}, 7],
    )
    assert "(3 rows, no statement: 1, proof: 1, multiple choice: 1)" in message
    assert "(0 rows)" in refusal(tmp_path, [])


# Rows


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ({"problem": None}, "no statement"),
        ({"question_type": "proof"}, "proof"),
        ({"grading_scheme": "7 points"}, "proof"),
        ({"answer": deep(300)}, "no answer"),
        ({"problem": deep(300)}, "no statement"),
        ({"question_type": "MCQ"}, "multiple choice"),
        ({"answer_type": "Multiple Choice"}, "multiple choice"),
        ({"answer": "A"}, "multiple choice"),
        ({"answer": r"\text{(D)}"}, "multiple choice"),
        ({"choices": ["40", "42"], "answer": 1}, "multiple choice"),
        ({"options": ["40", "42"], "answer": "42"}, "multiple choice"),
        ({"answer": None}, "no answer"),
        ({"answer": "notfound"}, "no answer"),
        ({"answer": r"\text{Yes}"}, "no answer"),
        ({"answer": "9" * 1001}, "no answer"),
        ({"answer": "1\n2"}, "no answer"),
    ],
)
def test_a_row_that_can_not_be_used_is_left_out_and_counted(
    tmp_path: Path, row: Row, reason: str
) -> None:
    odd = {"id": "odd", "problem": "How many?", "answer": 5} | row
    found = of(tmp_path, [*rows(20), odd])
    assert found.left_out == {reason: 1} and reason in REASONS and len(found.train) == 15


@pytest.mark.parametrize(
    ("row", "answer", "answer_type"),
    [
        ({"answer": 7}, "7", "integer"),
        ({"answer": "$42$"}, "42", "integer"),
        ({"answer": 42.0}, "42", "integer"),
        ({"answer": "42", "answer_type": "math"}, "42", "math"),
        ({"answer": 1000}, "1000", "math"),
        ({"answer": "1000", "answer_type": "integer"}, "1000", "math"),
        ({"answer": r"\frac{\sqrt{3}}{2}"}, r"\frac{\sqrt{3}}{2}", "math"),
        ({"answer": r"5\text{ cm}"}, r"5\text{ cm}", "math"),
        ({"answer": "no solution"}, "no solution", "math"),
        ({"question_type": "math-word-problem"}, "5", "integer"),
    ],
)
def test_an_answer_is_an_integer_of_aime_or_mathematics(
    tmp_path: Path, row: Row, answer: str, answer_type: str
) -> None:
    odd = {"id": "odd", "problem": "How many?", "answer": 5} | row
    found = of(tmp_path, [*rows(20), odd])
    (mine,) = (each for each in (*found.train, *found.held_out.problems) if each.id == "odd")
    assert (mine.answer, mine.answer_type) == (answer, answer_type)


def test_ids_that_do_not_tell_problems_apart_are_replaced(tmp_path: Path) -> None:
    lines = rows(20)
    odd: list[Any] = ["twice", "twice", "", "\u202eturned", "x" * 500, None, []]
    for line, id_ in zip(lines, odd, strict=False):
        line["id"] = id_
    lines[7] |= {"id": None, "uuid": "of-openr1"}
    found = of(tmp_path, lines)
    problems = {hash_of(each.statement): each for each in (*found.train, *found.held_out.problems)}
    ids = [problems[hash_of(row["problem"])].id for row in lines]
    assert len(set(ids)) == 20 and ids[8:] == [row["id"] for row in lines[8:]]
    assert ids[:7] == [hash_of(row["problem"]) for row in lines[:7]] and ids[7] == "of-openr1"


NAMES = (
    *(
        "instruction",
        "input",
        "output",
        "id",
        "problem",
        "answer",
        "answer_type",
        "uuid",
        "question_type",
    ),
    *("grading_scheme", "prompt"),
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
CELLS = VALUES | st.sampled_from(
    ["What is 1 + 1?", "\x1b[2J9", "1", 1, 1.5, "x\ud800", r"\frac{", "(" * 999]
)
HOSTILE = st.dictionaries(st.sampled_from(NAMES), CELLS) | VALUES


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(HOSTILE, max_size=8))
def test_any_rows_are_split_or_left_out(tmp_path: Path, lines: list[Any]) -> None:
    found = of(tmp_path, [*lines, *rows(20)], HELD_OUT=3)
    problems = (*found.train, *found.held_out.problems)
    assert len({each.id for each in problems}) == len(problems) == len(hashes(problems))
    assert len(problems) + sum(found.left_out.values()) == len(lines) + 20 and set(
        found.left_out
    ) <= set(REASONS)
    assert all(
        can_be_sent(f"{each.id}{each.statement}{each.answer}") and each.answer for each in problems
    )


# Alpaca's shape


FORM = "Solve it in at most 8 lines and end with a single line starting 'Final:'."


def taught(first: int, last: int) -> list[Row]:
    """Rows as QT-R1 has them."""
    return [
        {
            "instruction": FORM,
            "input": f"What is {i} + {i}?",
            "output": f"{i} and {i}\nFinal: {2 * i}",
        }
        for i in range(first, last)
    ]


def test_rows_of_alpaca_s_shape_are_read_as_problems_with_answers(tmp_path: Path) -> None:
    plain = of(tmp_path, rows(20))
    shaped = of(tmp_path, taught(1, 21))
    told = [(each.statement, each.answer, each.answer_type) for each in plain.train]
    assert [(each.statement, each.answer, each.answer_type) for each in shaped.train] == told
    assert (
        hashes(shaped.held_out.problems) == hashes(plain.held_out.problems)
        and not shaped.left_out
        and not shaped.near
    )


@pytest.mark.parametrize(
    ("row", "statement", "answer"),
    [
        ({"instruction": "Compute 7 * 6.", "output": "Final: \\boxed{42}"}, "Compute 7 * 6.", "42"),
        (
            {"Instruction": "Compute this.", "input": "7 * 6", "output": "so\nFinal: 42"},
            "Compute this.\n\n7 * 6",
            "42",
        ),
        (
            {
                "instruction": FORM,
                "input": None,
                "output": "<think>\nFinal: 1\n</think>\nFinal: 1/2",
            },
            FORM,
            "1/2",
        ),
        (
            {"instruction": "Compute 6.\n\nReason step by step and so on.", "output": "Final: 6"},
            "Compute 6.",
            "6",
        ),
    ],
)
def test_the_problem_is_in_the_input_or_the_instruction(
    tmp_path: Path, row: Row, statement: str, answer: str
) -> None:
    found = of(tmp_path, [*rows(20), row])
    mine = [
        each
        for each in (*found.train, *found.held_out.problems)
        if not each.statement.startswith("What")
    ]
    assert [(each.statement, each.answer) for each in mine] == [(statement, answer)]


@pytest.mark.parametrize("output", ["", "so it is 42", "Final:", "Final: <answer>", "\\boxed{42}"])
def test_a_row_without_a_final_line_is_left_out_and_counted(tmp_path: Path, output: str) -> None:
    bad = {"instruction": FORM, "input": "How many?", "output": output}
    found = of(tmp_path, [*taught(1, 21), bad, bad])
    assert found.left_out == {"no answer": 2} and len(found.train) == 15


# Drawing


def test_a_round_is_drawn_by_seed_and_number_without_repetition_the_same_everywhere() -> None:
    found = split(StarConstants(), OWN)
    first = drawn(found, StarConstants(), 1)
    assert first.name == "sums_star:round_1" and len({each.id for each in first.problems}) == 300
    assert first == drawn(found, StarConstants(ROUNDS=9, HELD_OUT=7), 1) and first.licence == "MIT"
    assert [each.id for each in first.problems[:5]] == [
        "star-0360",
        "star-0657",
        "star-0927",
        "star-1369",
        "star-0885",
    ]
    others = [drawn(found, StarConstants(), 2), drawn(found, StarConstants(SEED=1), 1)]
    assert all({*each.problems} != {*first.problems} for each in others) and others[0] != others[1]
    assert (
        {*first.problems}
        < {*found.train}
        == {*drawn(found, StarConstants(TRAIN_PROBLEMS=9999), 1).problems}
    )


def test_a_round_without_a_readable_answer_is_refused(tmp_path: Path) -> None:
    (tmp_path / "eval.json").write_text(json.dumps([{"problem": "1+1?", "answer": 2}]))
    found = of(tmp_path, rows(10, answer="5!!"), EVAL=str(tmp_path / "eval.json"))
    with pytest.raises(UserError, match="DATA=mine"):
        drawn(found, StarConstants(), 1)


# OpenR1-Math-220k, as it is laid out on the hub


def openr1(first: int, last: int) -> list[Row]:
    return [
        {
            "problem": f"Let $x = {i}$. Find $2x$.",
            "solution": "So.",
            "answer": {3: r"\frac{3}{7}", 5: "proof", 7: "D", 9: "notfound"}.get(
                i % 10, str(2 * i)
            ),
            "problem_type": "Algebra",
            "question_type": "proof"
            if i % 10 == 5
            else "MCQ"
            if i % 10 == 7
            else "math-word-problem",
            "source": "olympiads",
            "uuid": f"00000000-0000-5000-8000-{i:012d}",
            "generations": ["<think>so</think>", "<think>or so</think>"],
            "messages": [{"role": "user", "content": "Find it"}],
        }
        for i in range(first, last)
    ]


def test_of_openr1_only_the_columns_that_are_needed_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "openr1.parquet"
    pq.write_table(pa.Table.from_pylist([*openr1(0, 40), *openr1(35, 60)]), path)
    monkeypatch.setattr(sets, "COPIES", tmp_path)
    found = split(StarConstants(HELD_OUT=4, TRAIN_PROBLEMS=10), NONE)
    assert (found.origin.source, found.origin.licence) == ("file openr1.parquet", "Apache 2.0")
    assert found.left_out == {"proof": 7, "multiple choice": 7, "no answer": 7, "repeated": 2}
    assert len(found.held_out.problems) == 4 and len(found.train) == 38
    columns = {name for each in found.train for name in each.columns}
    assert columns == {"answer", "problem", "problem_type", "question_type", "source", "uuid"}
    assert {each.answer_type for each in found.train if "frac" in str(each.answer)} == {"math"}
    assert all(each.id.startswith("00000000-0000-5000-8000-") for each in found.train)
