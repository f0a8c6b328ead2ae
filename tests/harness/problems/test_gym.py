"""Problem sets that Reasoning Gym makes."""

import importlib.util
import re
from importlib.metadata import version

import pytest

from core.base.errors import UserError
from core.base.files import ROOT
from core.grading import task_process
from core.grading.kinds import kind_of
from core.grading.task_process import tasks
from harness.problems import gym, sets

pytest.importorskip("reasoning_gym", reason="Reasoning Gym is missing: bash setup.sh gym")

TWO = "gym:chain_sum+simple_equations:size=3,seed=7,min_terms=3"


def test_an_address_names_tasks_and_parameters() -> None:
    problem_set = sets.load(TWO)
    assert problem_set.name == TWO and problem_set.version == version("reasoning-gym")
    ids = [problem.id for problem in problem_set.problems]
    assert ids[:4] == ["chain_sum-0", "simple_equations-0", "chain_sum-1", "simple_equations-1"]
    assert len(ids) == 6
    for problem in problem_set.problems:
        assert problem.answer_type == "task" and problem.statement
        assert problem.details["parameters"] == {"min_terms": 3}
        assert kind_of(problem).score(problem.answer) == 1
    sums = problem_set.part("chain_sum").problems
    assert all(problem.statement.count("+") + problem.statement.count("-") >= 2 for problem in sums)


def test_a_set_depends_only_on_its_address() -> None:
    # ransom_note draws from sets of strings, whose order depends on the hash seed
    for address in (TWO, "gym:ransom_note:size=5"):
        first = sets.load(address)
        task_process._PROCESS._stop()
        assert sets.load(address).problems == first.problems
    other = sets.load(TWO.replace("seed=7", "seed=8"))
    assert other.problems[0].statement != sets.load(TWO).problems[0].statement
    longer = sets.load(TWO.replace("size=3", "size=120"))
    assert longer.first(6).problems == sets.load(TWO).problems


def test_a_set_has_the_problems_of_the_package() -> None:
    from reasoning_gym import create_dataset  # imported here, because it takes seconds

    ours = sets.load("gym:chain_sum:size=5,seed=7,min_terms=3").problems
    theirs = create_dataset("chain_sum", size=5, seed=7, min_terms=3)
    assert [problem.statement for problem in ours] == [entry["question"] for entry in theirs]
    assert [problem.answer for problem in ours] == [entry["answer"] for entry in theirs]


def test_a_set_has_100_problems_by_default() -> None:
    assert len(sets.load("gym:gcd").problems) == 100


def test_parameters_are_numbers_truth_values_texts_and_lists() -> None:
    for address, parameters in (
        ("gym:chain_sum:allow_negation=true", {"allow_negation": True}),
        ("gym:figlet_font:static_word=ABC", {"static_word": "ABC"}),
        ("gym:basic_arithmetic:operators=[+,-]", {"operators": ["+", "-"]}),
        ("gym:codeio:input_prediction_probability=1", {"input_prediction_probability": 1}),
    ):
        problem = sets.load(f"{address},size=1").problems[0]
        assert problem.details["parameters"] == parameters


@pytest.mark.parametrize(
    ("address", "word"),
    [
        ("gym:chain_smu", "Did you mean chain_sum?"),
        ("gym:", "''"),
        ("gym:composite", "composite"),
        ("gym:chain_sum+nothing", "nothing"),
        ("gym:chain_sum:sizes=3", "Did you mean size?"),
        ("gym:chain_sum:min_terms", "min_terms"),
        ("gym:chain_sum:size=many", "size"),
        ("gym:chain_sum:size=0", "size"),
        ("gym:chain_sum:size=3,size=4", "twice"),
        ("gym:chain_sum:seed=-1", "seed"),
        ("gym:chain_sum:allow_negation=1", "true or false"),
        ("gym:chain_sum:min_terms=9,max_terms=2", "max_terms"),
    ],
)
def test_an_invalid_address_is_an_error_of_one_line(address: str, word: str) -> None:
    with pytest.raises(UserError, match=re.escape(word)) as caught:
        sets.load(address)
    assert "\n" not in str(caught.value)


def test_a_missing_package_is_installed_or_named(monkeypatch: pytest.MonkeyPatch) -> None:
    parts: list[str] = []
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(task_process, "set_up", parts.append)
    task_process.package_version()
    assert parts == ["gym"]
    monkeypatch.setattr(task_process, "IS_CHECKOUT", False)
    with pytest.raises(UserError, match="pip install"):
        task_process.package_version()


def test_the_documentation_lists_all_tasks() -> None:
    text = (ROOT / "docs" / "files.md").read_text()
    section = text.partition("## Reasoning Gym")[2].partition("\n## ")[0]
    assert set(re.findall(r"`(\w+)`", section)) >= tasks().keys()
    assert gym.SIZE == 100 and "100" in section
