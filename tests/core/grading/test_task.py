"""The kind "task": tags, votes, scores by Reasoning Gym, and hostile answers."""

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import RowError
from core.constants import BOXED, WHOLE
from core.eval import grade_answers, groups
from core.grading import task_process
from core.grading.kinds.task import Task, reference
from core.grading.task_process import entries, task_score, tasks
from core.types import FORCED_ANSWER, Completion, Member, Problem

pytest.importorskip("reasoning_gym", reason="Reasoning Gym is missing: bash setup.sh gym")

RIGHT = "<answer>42</answer>"
NO_ANSWER = ["", "So it is 42.", "\\boxed{42}", "</answer>42<answer>"]
ECHOES = [
    "<answer>...</answer>",
    "<answer>…</answer>",
    "between <answer> and </answer>",
    "in `<answer>` and `</answer>` tags",
    "<answer>your answer here</answer>",
    "<answer>[Your final answer]</answer>",
    "<answer> </answer>",
]


def problem_of(task: str, index: int = 0, **parameters: Any) -> Problem:
    entry = entries(task, parameters | {"size": index + 1, "seed": 5}, index + 1)[index]
    details = {"scorer": task, "entry": entry, "parameters": parameters}
    return Problem(task, entry["question"], reference(entry), "task", details=details)


def test_the_last_complete_pair_of_tags_counts() -> None:
    for text, answer, doubt in (
        (RIGHT, "42", None),
        (f"We find\n<answer>\n1 2\n3 4\n</answer>\n\n{RIGHT}", "42", "several"),
        (f"{RIGHT} and again {RIGHT}", "42", None),
        (f"{RIGHT} or <answer>43", "42", "unclosed"),
        ("<answer>43", None, "unclosed"),
        (f"<think><answer>41</answer></think>{RIGHT}", "42", None),
        ("<answer>  1  2 \n 3 4</answer>", "1  2 \n 3 4", None),
        (f"{RIGHT}\n\nProblem: What is 1+1?\n<answer>2</answer>", "42", None),
        ("<answer>\nQuestion: who?\n</answer>", "Question: who?", None),
        (f"{RIGHT}<|im_end|>", "42", None),
        (f"<answer>{'7' * 5000}</answer>", "7" * 5000, None),
        (f"<answer>{'7' * 200_000}</answer>", None, "unreadable"),
        *((text, None, "unclosed" if text.endswith("<answer>") else "no answer")
          for text in NO_ANSWER),
        *((text, None, "no answer") for text in ECHOES),
        *((f"{text}\n{RIGHT}", "42", None) for text in ECHOES),
    ):  # fmt: skip
        extraction = Task().read(text)
        assert (extraction.answer, extraction.doubt) == (answer, doubt), text
    assert Task().read(RIGHT, truncated=True).doubt == "truncated"
    assert Task().read("<answer>4", truncated=True).answer is None


def test_the_whole_output_is_read_as_by_the_code_of_rsa() -> None:
    for text, answer in (
        (f"<answer> 41 </answer></think>{RIGHT}", "41"),
        ("<answer>...</answer> then <answer>42</answer>", "..."),
        ("x</think>Final Answer: 1\nFinal Answer: 2 ", "2"),
        ("Final Answer: 1</think>none", None),
        ("Final Answer: 1", None),
        ("<answer>1</think>Final Answer: 2", "2"),
    ):
        assert Task().read(text, WHOLE).answer == answer, text


def test_the_whole_output_ends_its_thinking_with_a_tag() -> None:
    problem = replace(problem_of("gcd"), answer_form=WHOLE)
    for thinking, text, value in (
        ("Final Answer: 0", f"Final Answer: {problem.answer}", 1),
        (f"<answer>{problem.answer}</answer>", "<answer>0</answer>", 1),
        (f"Final Answer: {problem.answer}", "So I am done.", 0),
    ):
        member = Member(Completion("", 0, thinking, text))
        assert grade_answers(problem, [member]).grades[0].value == value


def test_the_time_to_read_is_linear() -> None:
    for text in ("<answer>" * 200_000, "</answer>" * 200_000, "<answer> " * 200_000 + RIGHT):
        for way in (BOXED, WHOLE):
            Task().read(text, way)


def test_a_forced_answer_begins_with_a_tag() -> None:
    assert Task.opening(FORCED_ANSWER, BOXED).endswith(" <answer>")
    assert "{" not in Task.opening(FORCED_ANSWER, BOXED)
    assert "<answer> and </answer>" in Task.form(BOXED)


def test_white_space_separates_only_words_in_votes() -> None:
    kind = Task()
    for one, other in (("[1, 2]", "[1,2]"), ("1 2\n3 4", " 1  2 3 4"), ("- 5", "-5")):
        assert kind.canonical(one) == kind.canonical(other)
    for one, other in (("1 2", "12"), ("a b", "ab"), ("yes", "Yes")):
        assert kind.canonical(one) != kind.canonical(other)
    vote = groups(["[1,2]", "[1, 2]", "[1, 2]", "[3]", None], kind)
    assert vote.spelled[vote.tied[0]] == "[1, 2]"


def test_a_population_gets_scores_doubts_and_a_vote() -> None:
    problem = problem_of("word_sorting")
    right = problem.answer or ""
    first = right.split(", ")[0]
    texts = [f"<answer>{right}</answer>", f"<answer>{first}</answer>", "none", "<answer>x</answer>"]
    members = [Member(Completion(str(n), n, answer=text)) for n, text in enumerate(texts)]
    graded = grade_answers(problem, members)
    values = [grade.value for grade in graded.grades]
    assert values[0] == 1 and values[2:] == [0, 0]
    assert values[1] is not None and 0 < values[1] < 1
    assert graded.score == pytest.approx((1 + values[1]) / 3)  # a tie of three


def test_a_scorer_that_raises_or_takes_too_long_leaves_the_answer_undecided() -> None:
    for task, answer in (("prime_factorization", "garbage"), ("countdown", "9**9**9**9")):
        problem = problem_of(task)
        member = Member(Completion("", 0, answer=f"<answer>{answer}</answer>"))
        [grade] = grade_answers(problem, [member]).grades
        assert grade.value == 0 and grade.is_undecided and grade.doubt == "undecided"
    assert Task(problem_of("gcd")).score(problem_of("gcd").answer) == 1  # a new child


def test_a_missing_answer_scores_0() -> None:
    problem = problem_of("countdown")
    assert Task(problem).score(None) == 0
    assert Task(problem).score("") == 0.01  # of the package


def test_the_scorer_has_the_parameters_of_its_problem() -> None:
    problem = problem_of("puzzle24", max_value=5)
    other = problem_of("puzzle24")
    assert Task(problem).score("6*4*1*1") == 0.01
    assert Task(other).score("6*4*1*1") == 1


# the scorers that evaluate Python or sympy's formulas
EVALUATING = ["binary_matrix", "countdown", "intermediate_integration", "n_queens", "puzzle24"]
EVALUATING += ["polynomial_multiplication", "simple_integration", "spiral_matrix"]
EVALUATING += ["string_insertion"]
HOSTILE = [
    "__import__('os').system('touch {path}')",
    "open('{path}', 'w')",
    "exec(\"open('{path}', 'w')\")",
    "eval(chr(111)+chr(112))",
    "sympify(\"open('{path}', 'w')\")",
    "Symbol('x').func.__globals__",
    "().__class__.__bases__[0].__subclasses__()",
    "(lambda: 1)()",
    "[x for x in ().__class__.__mro__]",
    "__import__('time').sleep(1000)",
    "\ud800\x00",
    "(" * 10_000,
]


@pytest.mark.parametrize("task", EVALUATING)
def test_a_hostile_answer_neither_acts_nor_scores(task: str, tmp_path: Path) -> None:
    path = tmp_path / "touched"
    details = problem_of(task).details
    for answer in HOSTILE:
        score = task_score(details, answer.format(path=path))
        assert score is None or score <= 0.05, answer
    assert not path.exists()


PROBE = """
import os, sys
from core.grading import task_guard
task_guard.protect()
path = sys.argv[1]
ACTS = [
    lambda: os.system("touch " + path),
    lambda: open(path, "w"),
    lambda: os.open(path, os.O_CREAT | os.O_WRONLY),
    lambda: __import__("subprocess").run(["touch", path]),
    lambda: os.posix_spawn("/bin/touch", ["touch", path], {}),
    lambda: os.execv("/bin/touch", ["touch", path]),
    lambda: os.fork(),
    lambda: __import__("socket").socket(),
    lambda: __import__("ctypes").CDLL(None),
    lambda: os.mkdir(path),
    lambda: os.remove(path),
    lambda: os.rename(path, path + "2"),
    lambda: os.kill(os.getppid(), 9),
    lambda: __import__("shutil").rmtree(path),
]
refused = 0
for act in ACTS:
    try:
        act()
    except PermissionError:
        refused += 1
print(refused == len(ACTS))
"""


def test_a_guarded_process_cannot_act(tmp_path: Path) -> None:
    path = tmp_path / "touched"
    command = [sys.executable, "-c", PROBE, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "True", done.stderr
    assert not list(tmp_path.iterdir())


def test_the_child_does_not_inherit_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert "secret" not in task_process._environment().values()


def test_formulas_are_scored_as_by_the_package() -> None:
    details = problem_of("simple_integration").details
    answer = details["entry"]["answer"]
    for same in (answer, f"({answer}) + 7", f"{answer} + sqrt(2) + abs(3)"):
        assert task_score(details, same) == 1


# tasks without a single answer, and without an example of one
NO_EXAMPLE = {"boxnet", "rush_hour"}
SLOW = {"knight_swap", "intermediate_integration", "arc_agi", "zebra_puzzles", "sudoku"}


@pytest.mark.parametrize("task", ["fast", *sorted(SLOW)])
def test_every_scorer_takes_the_right_answer_and_survives_others(task: str) -> None:
    names = [task] if task in SLOW else sorted(tasks().keys() - SLOW)
    assert task in SLOW or len(names) > 95
    for name in names:
        problem = problem_of(name)
        assert json.loads(json.dumps(problem.details)) == problem.details
        if name not in NO_EXAMPLE:
            assert Task(problem).score(problem.answer) == 1, name
        for answer in ("", "garbage", "[[1, 2], [3]]", "\n"):
            score = task_score(problem.details, answer)
            assert score is None or 0 <= score <= 1, name


def row(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {"extra_info.dataset_name": "gcd", "extra_info.entry": json.dumps(entry)}


def test_rows_of_the_package_and_of_the_rsa_repository_are_tasks() -> None:
    problem = Problem("1", "What?", None)
    [entry] = entries("gcd", {"size": 1, "seed": 1}, 1)
    exported = {**entry, "metadata.source_dataset": "gcd"}
    for cells in (row(entry), exported):
        assert Task.claims(problem, cells)
        completed = Task.complete(problem, cells)
        assert completed.answer == entry["answer"]
        assert completed.details == {"scorer": "gcd", "entry": entry}
    assert not Task.claims(problem, {"question": "What?", "answer": "4"})


def test_a_long_or_missing_reference_is_no_fault() -> None:
    [entry] = entries("gcd", {"size": 1, "seed": 1}, 1)
    for answer in ("7" * 5000, None):
        completed = Task.complete(Problem("1", "", None), row(entry | {"answer": answer}))
        assert completed.answer == (answer or "")


def test_an_invalid_entry_or_an_unknown_task_is_a_bad_row() -> None:
    problem = Problem("1", "", None)
    for cells in (
        row({"question": ""}),
        row({}) | {"extra_info.entry": "{"},
        row({"metadata": {}}) | {"extra_info.dataset_name": "gcdd"},
        {},
    ):
        with pytest.raises(RowError):
            Task.complete(problem, cells)
