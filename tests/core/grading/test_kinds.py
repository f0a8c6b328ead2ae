"""Each kind of answer has a row here: a row of a problem set, a right and a wrong reply."""

import inspect
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from core import prompts
from core.base.errors import UserError
from core.eval import grade_answers, is_correct, majority_vote
from core.grading import kinds as package
from core.grading.kinds import kind_of, kinds
from core.types import Completion, Member, Problem
from harness.problems.check import check

ENTRY = '{"question": "1 + 2 =", "answer": "3", "metadata": {"difficulty": {}}}'


class Case(NamedTuple):
    """A row of a problem set, the reference that it gives, words of the prompt, and replies."""

    row: dict[str, Any]
    answer: str | None
    form: str
    right: str
    wrong: str


CASES = {
    "integer": Case({"answer": 42}, "42", r"\boxed{}", r"\boxed{042}", r"\boxed{41}"),
    "math": Case({"answer": "1/2"}, "1/2", r"\boxed{}", r"\boxed{0.5}", r"\boxed{0.6}"),
    "choice": Case(
        {"choices": ["3", "7"], "answer": 1}, "B", "letter", r"\boxed{B) 7}", r"\boxed{A}"
    ),
    "task": Case(
        {"extra_info": {"dataset_name": "chain_sum", "entry": ENTRY}, "answer": "3"},
        "3",
        "<answer>",
        "So <answer>3</answer>",
        r"\boxed{3}",
    ),
}
OF_PROOFS = {"proof": {"guidelines": "7 points for a complete proof"}}


def problem_of(row: dict[str, Any]) -> Problem:
    (problem,) = check([("mine.json, problem 1", {"problem": "What?"} | row)], "mine.json")
    return problem


def test_every_kind_has_a_case() -> None:
    assert CASES.keys() | OF_PROOFS.keys() == kinds().keys()


@pytest.mark.parametrize("name", CASES)
def test_a_row_is_asked_read_and_graded_as_its_kind(name: str) -> None:
    case = CASES[name]
    problem = problem_of(case.row)
    assert (problem.answer_type, problem.answer) == (name, case.answer)
    content = prompts.solve(problem)[-1]["content"]
    assert case.form in content
    population = [Member(Completion("0" * 32, 0, answer=text)) for text in (case.right, case.wrong)]
    graded = grade_answers(problem, population)
    assert [grade.value for grade in graded.grades] == [1, 0]


@pytest.mark.parametrize("name", OF_PROOFS)
def test_a_proof_has_no_answer(name: str) -> None:
    problem = problem_of(OF_PROOFS[name])
    assert problem.is_proof and kind_of(problem).is_proof
    assert kind_of(problem).read(r"\boxed{42}").answer is None


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UserError, match="interger"):
        kind_of(Problem("p", "?", "1", "interger"))
    for typo, meant in {"interger": "integer", "choise": "choice", "maths": "math"}.items():
        with pytest.raises(UserError, match=f"Did you mean {meant}"):
            problem_of({"answer": 1, "answer_type": typo})
    assert problem_of({"answer": 1, "answer_type": "Numerical"}).answer_type == "integer"


def test_the_example_in_the_guide_is_a_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = inspect.getdoc(package) or ""
    example = re.search(r"(?:\n|    .*\n)*    class Truth.*\n(?:\n|    .*\n)*", guide)
    assert example
    code = inspect.cleandoc(example[0])
    (tmp_path / "truth.py").write_text(code, encoding="utf-8")
    monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
    kinds.cache_clear()
    try:
        problem = problem_of({"answer": "True"})
        assert problem.answer_type == "truth"
        assert "True or False" in prompts.solve(problem)[-1]["content"]
        assert is_correct("True", "true", "truth")
        assert majority_vote(["true", "True", "False"], "truth") == "True"
        replies = (r"\boxed{\text{True}}", "The answer is **False**.", "Truth is relative.")
        population = [Member(Completion("0" * 32, 0, answer=text)) for text in replies]
        grades = grade_answers(problem, population).grades
        assert [(grade.value, grade.answer) for grade in grades] == [
            (1, "true"),
            (0, "false"),
            (0, None),
        ]
    finally:
        kinds.cache_clear()
