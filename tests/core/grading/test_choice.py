"""Choices: reading letters (cases/choices.json), options in rows, and their order."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import RowError
from core.constants import WAYS
from core.eval import grade_answers, is_correct, majority_vote
from core.grading.extraction import DOUBTS
from core.grading.kinds.choice import Choice
from core.grading.letters import LETTERS
from core.types import Completion, Member, Problem
from tests.helpers.latex import LATEX

CASES: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "cases" / "choices.json").read_text(encoding="utf-8")
)
NUMBERS = CASES["options"]["numbers"]
PUBLISHED = (
    "How much?\n\nOption A : 12\n\nOption B : $$\n42\n$$\n\nEnd with a letter, such as \\boxed{A}."
)


def choice(options: list[str], answer: str | None = "C") -> Choice:
    return Choice(Problem("p", "?", answer, "choice", details={"options": options}))


def completed(
    cells: dict[str, Any], statement: str = "How much?", answer: str | None = None
) -> Problem:
    problem = Problem("p", statement, answer)
    assert Choice.claims(problem, cells)
    return Choice.complete(problem, cells)


def test_letters_are_read_as_in_the_table() -> None:
    wrong = []
    for case in CASES["cases"]:
        kind = choice(CASES["options"][case["options"]])
        read = kind.read(case["text"], case.get("way", "boxed"), case.get("truncated", False))
        if (read.answer, read.doubt) != (case["answer"], case["doubt"]):
            wrong.append((case, read))
    assert not wrong
    assert {case["doubt"] for case in CASES["cases"]} >= {"not an option", "other text", "several"}


@given(st.one_of(LATEX, st.text(max_size=200)), st.sampled_from(WAYS), st.booleans())
def test_reading_a_letter_never_raises(text: str, way: str, truncated: bool) -> None:
    read = choice(NUMBERS).read(text, way, truncated)
    assert read.doubt is None or read.doubt in DOUBTS
    (read.answer or "").encode("utf-8")


@given(st.sampled_from(CASES["options"]["ten"]), st.sampled_from(["{}", "({})", "Option {}"]))
def test_the_text_and_the_letter_of_an_option_are_one_answer(text: str, dress: str) -> None:
    options = CASES["options"]["ten"]
    letter = LETTERS[options.index(text)]
    contents = (text, dress.format(letter), f"{dress.format(letter)}: {text}")
    read = {choice(options).read(rf"\boxed{{{content}}}") for content in contents}
    assert [(extraction.answer, extraction.doubt) for extraction in read] == [(letter, None)]


def test_a_letter_is_graded_and_votes_with_the_text_of_its_option() -> None:
    replies = [r"\boxed{C}", "The answer is 42.", r"\boxed{\text{(B)}}", r"\boxed{C) 24}"]
    population = [Member(Completion("k", 0, answer=reply)) for reply in replies]
    problem = Problem("p", "?", "C", "choice", details={"options": NUMBERS})
    graded = grade_answers(problem, population)
    assert [grade.value for grade in graded.grades] == [1, 1, 0, 1]
    assert [grade.doubt for grade in graded.grades] == [None, "unboxed", None, "other text"]
    assert graded.score == 1 and graded.answer == "C"


@pytest.mark.parametrize(
    ("cells", "options", "letter"),
    [
        ({"choices": ["12", "24", "42"], "answer": 2}, ["12", "24", "42"], "C"),
        ({"choices": ["12", "24", "42"], "answer": "c"}, ["12", "24", "42"], "C"),
        ({"choices": ["12", "24", "42"], "answer": "42"}, ["12", "24", "42"], "C"),
        ({"choices": ["0", "4", "2"], "answer": 1}, ["0", "4", "2"], "B"),
        ({"choices": "['12', '42']", "answer": "B"}, ["12", "42"], "B"),
        ({"options": ["A)12", "B) 42"], "correct": "B"}, ["12", "42"], "B"),
        ({"options": {"A": "12", "B": "42"}, "answer": "B"}, ["12", "42"], "B"),
        ({"options": ["12", "42"], "answer": "B", "answer_index": 1}, ["12", "42"], "B"),
        ({"a": 12, "b": 42, "answer": "B"}, ["12", "42"], "B"),
        ({"a": "home", "b": "away", "c": "here", "answer": 1}, ["home", "away", "here"], "B"),
        ({"a": 12, "b": 24, "c": 42, "d": 56, "answer": "24"}, NUMBERS, "B"),
        ({"a": "home", "b": "away", "c": "", "answer": "Option B"}, ["home", "away"], "B"),
        ({"1": "12", "2": "42", "answer": 2}, ["12", "42"], "B"),
        ({"answer0": "12", "answer1": "42", "label": 1}, ["12", "42"], "B"),
        ({"alternatives": ["12", "42"], "answer": "B"}, ["12", "42"], "B"),
        ({"opa": "12", "opb": "42", "cop": 1}, ["12", "42"], "B"),
        ({"option1": "12", "option2": "42", "answer": "2"}, ["12", "42"], "B"),
        ({"sol1": "12", "sol2": "42", "label": 1}, ["12", "42"], "B"),
        ({"endings": ["12", "42"], "label": "1"}, ["12", "42"], "B"),
        ({"choices": [{"label": "1", "text": "12"}, {"label": "2", "text": "42"}],
          "answerkey": "2"}, ["12", "42"], "B"),
        ({"choices": {"text": ["12", "42"], "label": ["1", "2"]}, "answerkey": "2"},
         ["12", "42"], "B"),
        ({"choices": ["12", "42"]}, ["12", "42"], None),
    ],
)  # fmt: skip
def test_options_are_found_in_the_columns_of_data_sets(
    cells: dict[str, Any], options: list[str], letter: str | None
) -> None:
    problem = completed(cells)
    lines = "\n".join(f"{name}. {text}" for name, text in zip(LETTERS, options, strict=False))
    assert problem.statement == f"How much?\n\n{lines}"
    assert (problem.answer, problem.details) == (letter, {"options": options})
    assert problem.answer_type == "choice"


@pytest.mark.parametrize(
    "cells",
    [
        {"mc1_targets.choices": NUMBERS, "mc1_targets.labels": [1, 0, 0, 0]},
        {"correct_answer": "12", "incorrect_answer_1": "24", "incorrect_answer_2": "42",
         "incorrect_answer_3": "56"},
        {"correct_answer": "12", "distractor1": "24", "distractor2": "42", "distractor3": "56"},
    ],
)  # fmt: skip
def test_a_right_option_that_is_always_first_is_put_elsewhere(cells: dict[str, Any]) -> None:
    problems = [Choice.complete(Problem(str(id_), "?", None), cells) for id_ in range(40)]
    assert {problem.answer for problem in problems} == set("ABCD")
    for problem in problems:
        assert problem.details["options"][LETTERS.index(problem.answer or "")] == "12"
    assert problems[0] == Choice.complete(Problem("0", "?", None), cells)


def test_other_columns_state_the_question() -> None:
    cells = {"endings": ["home.", "away."], "label": "1", "ctx": "A man walks"}
    assert "A man walks\n\nA. home." in completed(cells, statement="").statement
    cells = {"option1": "fish", "option2": "car", "answer": "1", "sentence": "The cat ate the _."}
    assert completed(cells, statement="").statement.startswith("The cat ate the _.\n\n")


@pytest.mark.parametrize("answer", ["C", "(C)", "c", "42", "C) 42"])
@pytest.mark.parametrize(
    "statement", ["How much?\nA) 12\nB) 24\nC) 42\nD) 56", "How much? (A) 12 (B) 24 (C) 42 (D) 56"]
)
def test_a_statement_may_show_its_options(statement: str, answer: str) -> None:
    problem = completed({}, statement, answer)
    assert (problem.statement, problem.answer) == (statement, "C")
    assert problem == completed({"choices": NUMBERS}, statement, answer), "not shown twice"
    assert Choice.published(Choice.shuffled(problem, 1)) == problem


def test_a_text_may_precede_a_question() -> None:
    cells = {"options": NUMBERS, "text": "Six sevens."}
    assert completed(cells).statement.startswith("Six sevens.\n\nHow much?")
    assert completed(cells | {"text": "How much? B"}).statement.startswith("How much?\n\nA.")


def test_options_in_the_statement_stay_there() -> None:
    problem = completed({}, statement=PUBLISHED, answer="B")
    assert problem.statement == PUBLISHED and problem.answer == "B"
    assert problem.details == {"options": ["12", "$$\n42\n$$"]}
    assert not Choice.claims(replace(problem, answer="42"), {})


@pytest.mark.parametrize(
    ("cells", "answer"),
    [
        ({}, "42"),
        ({"choices": None, "options": []}, "B"),
        ({"a": 3, "b": 4}, "7"),
        ({"choices": {"text": None, "label": None}, "options": 4}, "7"),
        ({"a": 1, "b": -4, "c": 3}, "2"),
        ({"tags": NUMBERS}, "7"),
    ],
)
def test_other_rows_are_no_choices(cells: dict[str, Any], answer: str) -> None:
    assert not Choice.claims(Problem("p", "How much? A. B. C.", answer), cells | {"answer": answer})


@pytest.mark.parametrize(
    ("options", "answer", "fault"),
    [
        (["12", "24"], 2, "no option"),
        (["12", "24"], "K", "no option"),
        (["12", "24"], "43", "no option"),
        (["1", "2", "3"], "2", "index"),
        ([1, 2, 3], 2, "index"),
        (["12", "12", "24"], "A", "equal"),
        (["12", "", "24"], "A", "empty"),
        (["12"], "A", "fewer"),
        (["", "12", "24"], "A", "empty"),
        ([str(number) for number in range(27)], "A", "more than 26"),
        ([f"{letter}) {letter}0" for letter in [*LETTERS, "A"]], "A", "more than 26"),
    ],
)
def test_a_fault_of_a_row_is_named(options: list[Any], answer: Any, fault: str) -> None:
    with pytest.raises(RowError, match=fault):
        completed({"choices": options, "answer": answer})


@pytest.mark.parametrize(
    "cell", [[["12"], ["24"]], {"A": ["12"], "B": ["24"]}, "a ) 12 , b ) 24", {"n": [1]}]
)
def test_a_list_of_options_that_the_prompt_would_lack_is_refused(cell: Any) -> None:
    with pytest.raises(RowError, match="'options' is not a list of texts"):
        Choice.claims(Problem("p", "How much?", "A"), {"options": cell, "answer": "A"})


def test_letters_in_any_dress_are_equal() -> None:
    for letter in ("C", "c", "(C)", r"\text{C}", "Option C"):
        assert is_correct(letter, "C", "choice") and is_correct("C", letter, "choice")
    assert majority_vote(["C", "(C)", "c", "D", "D"], "choice") == "C"
    for case in CASES["cases"]:
        kind = choice(CASES["options"][case["options"]])
        answer = kind.read(case["text"]).answer
        assert answer is None or kind.canonical(answer) == answer, case


def test_a_statement_that_shows_the_options_stays() -> None:
    problem = completed({"choices": ["12", "42"]}, "How much?\n\nA. 12\nB. 42", answer="B")
    assert problem.statement == "How much?\n\nA. 12\nB. 42"


def test_a_row_without_options_is_refused() -> None:
    with pytest.raises(RowError, match="'values' may be its options"):
        completed({"values": NUMBERS}, answer="B")
    with pytest.raises(RowError, match="no option"):
        completed({}, "How much?\nA) 12\nB) 24\nC) 42", "E")
    with pytest.raises(RowError, match="options"):
        Choice.complete(Problem("p", "?", "B"), {})


@pytest.mark.parametrize("statement", ["How much?", PUBLISHED])
def test_shuffled_options_keep_their_texts_and_can_be_put_back(statement: str) -> None:
    cells = {} if statement == PUBLISHED else {"choices": ["12", "42"]}
    problem = completed(cells, statement, answer="B")
    shuffled = [Choice.shuffled(problem, seed) for seed in range(20)]
    assert {other.answer for other in shuffled} == {"A", "B"}
    for other in shuffled:
        options = other.details["options"]
        assert options[LETTERS.index(other.answer or "")] == problem.details["options"][1]
        assert other.statement.index(options[0]) < other.statement.index(options[1])
        assert Choice.published(other) == problem
    assert shuffled[0] == Choice.shuffled(problem, 0)
    assert other.statement.endswith(problem.statement[-1]), "the instruction stays"


@pytest.mark.parametrize("text", ["None of the above", "Both A and B", "Neither", "Options A, B"])
def test_options_that_mention_others_stay_in_order(text: str) -> None:
    problem = completed({"choices": ["12", "42", text]}, answer="B")
    assert {Choice.shuffled(problem, seed).answer for seed in range(20)} == {"B"}
