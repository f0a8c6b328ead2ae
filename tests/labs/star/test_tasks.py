"""STaR on tasks: problems of Reasoning Gym, whose answers are between tags."""

import asyncio
from typing import Any

import pytest

from core.base.errors import UserError
from core.types import Completion
from harness.problems import sets
from labs.star import data
from labs.star.collect import collecting, judged
from labs.star.constants import StarConstants
from labs.star.record import AGGREGATED, FIRST, RATIONALISED, Way

pytest.importorskip("reasoning_gym", reason="Reasoning Gym is missing: bash setup.sh gym")

STEPS = "First add.\nThen subtract.\n"
SMALL = {"TRAIN_PROBLEMS": 20, "MIN_STEPS": 2}


def config(**constants: Any) -> StarConstants:
    return StarConstants(**SMALL | constants)


def dropped(text: str, task: str = "chain_sum", way: Way = FIRST) -> str:
    problem = sets.load(f"gym:{task}:size=1").problems[0]
    answer = text.replace("RIGHT", problem.answer or "")
    completion = Completion("k", 0, answer=answer, finish_reason="stop")
    return asyncio.run(judged(problem, completion, way, asked, config())).dropped


async def asked(*_: Any, **__: Any) -> Completion:
    return Completion("k", 0, answer=f"{STEPS}<answer>x</answer>", finish_reason="stop")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{STEPS}<answer>RIGHT</answer>", ""),
        (f"{STEPS}<answer>\nRIGHT\n</answer>\n", ""),
        (f"{STEPS}The answer is **<answer>RIGHT</answer>**.", ""),
        (f"{STEPS}<answer>x</answer>", "wrong"),
        (f"{STEPS}\\boxed{{RIGHT}}", "no final line"),
        (f"{STEPS}<answer>RIGHT", "no final line"),
        (f"{STEPS}<answer>RIGHT</answer>\nI hope it helps.", "text after it"),
        (f"{STEPS}<answer>1</answer>\n<answer>RIGHT</answer>", "several finals"),
        ("<answer>RIGHT</answer>", "too few steps"),
    ],
)
def test_a_kept_solution_ends_with_its_answer_between_tags(text: str, reason: str) -> None:
    assert dropped(text) == reason


@pytest.mark.parametrize(
    ("task", "text", "reason"),
    [
        ("chain_sum", "First 1 + 1 = 2.\nThen 1 + 1 = RIGHT.\n<answer>\nRIGHT\n</answer>", ""),
        ("chain_sum", "First 1 + 1 = 2.\nThen subtract.\n<answer>\nRIGHT\n</answer>", ""),
        ("chain_sum", "The answer is RIGHT.\nSo it is.\n<answer>RIGHT</answer>", "answer first"),
        ("spell_backward", "Turn it round.\nThis gives: RIGHT\n<answer>RIGHT</answer>", ""),
        ("spell_backward", "Turn it round.\nJoin it.\n<answer>\nRIGHT\n</answer>", ""),
        ("spell_backward", "Candidate 1 has RIGHT.\nYes.\n<answer>RIGHT</answer>", "answer first"),
        (
            "spell_backward",
            "Candidate 1 is right.\nCandidate 2 is wrong.\n<answer>RIGHT</answer>",
            "answer first",
        ),
        ("number_sorting", "Compare them.\nSorted: RIGHT\n<answer>RIGHT</answer>", ""),
    ],
)
def test_an_aggregation_of_a_task_is_kept_unless_it_copies(
    task: str, text: str, reason: str
) -> None:
    assert dropped(text, task, AGGREGATED) == reason


def test_a_rationalised_answer_may_be_on_a_line_between_its_tags() -> None:
    text = "First 1 + 1 = 2.\nThen subtract.\n<answer>\nRIGHT\n</answer>"
    assert dropped(text, way=RATIONALISED) == ""


def test_problems_are_made_to_train_on_and_to_evaluate_on() -> None:
    # with one digit, some of 400 sums are equal by chance
    address = "gym:chain_sum:min_terms=2,max_terms=2,max_digits=1,min_digits=1"
    constants = config(DATA=f"{address},size=200", EVAL=f"{address},size=20,seed=1")
    split = data.split(constants, ("", ""))
    statements = {problem.statement for problem in split.train}
    assert not statements & {problem.statement for problem in split.held_out.problems}
    assert split.left_out["in EVAL"] > 0
    assert all(problem.details["scorer"] == "chain_sum" for problem in split.train)
    assert data.drawn(split, constants, 1).problems


def test_tags_need_the_usual_prompt() -> None:
    with pytest.raises(UserError, match="FEWSHOT=none"):
        data.split(config(DATA="gym:chain_sum:size=300", FEWSHOT="format"), ("", ""))


def test_a_problem_without_a_reference_answer_gets_no_hint() -> None:
    problem = sets.load("gym:rush_hour:size=1").problems[0]
    samples: dict[str, Any] = {}
    scaffold = collecting(1, samples)

    async def collect() -> int:
        return len([step async for step in scaffold.run(problem, asked, config())])

    assert asyncio.run(collect()) == 1
