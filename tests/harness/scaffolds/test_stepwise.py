"""Step-wise best of N: what it continues, what it scores, and when it ends."""

from typing import Any

import pytest

from core.types import CUT, Completion, NamedPopulation
from harness.scaffolds.stepwise import STEPWISE, stepwise
from tests.fakes.model import FAILED, PROOF, Model, Names, Reply, constants_with, run

OWN: dict[str, Any] = {
    "N": 3,
    "STEPS": 4,
    "STEP": "line",
    "VERIFY_SAMPLES": 1,
    "SCORE": "points",
}


def solves(points: str = "", steps: int = 3, of_twins: bool = False) -> Reply:
    """Return a model that writes the line "step t i", and the answer as step number `steps`. Its
    judgement of a text is the points of the text's last line, by i."""

    def reply(names: Names, prompt: str) -> str:
        if names[0] == "verify":
            return f"Score: {points[int(prompt.partition('Judge')[0].split()[-1])]}"
        t, i = names
        return (
            f"step {t} \\boxed{{42}} {i}" if t == steps - 1 else f"step {t} {0 if of_twins else i}"
        )

    return reply


def test_the_best_step_is_continued_until_one_states_the_answer() -> None:
    model = Model(solves("070"))
    *steps, (solution,) = run(stepwise, model, **OWN)
    stages = [(step.name, step.is_partial) for step in steps if isinstance(step, NamedPopulation)]
    assert stages == [("step 1", True), ("step 2", True), ("step 3", True)]
    assert [[m.self_score for m in step] for step in steps] == [[0, 1, 0]] * 3
    assert [[m.parents for m in step] for step in steps] == [[[]] * 3, [[1]] * 3, [[1]] * 3]
    assert solution.parents == [1] and solution.carried_over
    assert solution.completion.text == "\nstep 0 1\nstep 1 1\nstep 2 \\boxed{42} 1"
    openings = [changes["opening"] for names, _, changes in model.asked if names[0] != "verify"]
    assert openings == ["\n"] * 3 + ["\nstep 0 1\n"] * 3 + ["\nstep 0 1\nstep 1 1\n"] * 3
    assert {changes["stop"] for _, _, changes in model.asked if "stop" in changes} == {"\n"}


def test_equal_steps_are_not_scored() -> None:
    model = Model(solves(of_twins=True, steps=9))
    *steps, _ = run(stepwise, model, **OWN)
    assert len(steps) == 4 and not model.prompts("verify")
    assert STEPWISE.max_completions(constants_with(OWN)) == 2 * len(model.asked)


@pytest.mark.parametrize(("step", "rounds"), [("line", 3), ("paragraph", 2)])
def test_a_solution_ends_if_nothing_follows_a_blank_line(step: str, rounds: int) -> None:
    """With lines, the first empty step may be a blank line within the solution."""
    model = Model(lambda names, _: "" if names[0] else "proved")
    *steps, (solution,) = run(stepwise, model, PROOF, **OWN | {"STEP": step})
    assert len(steps) == rounds and solution.completion.text == "\nproved\n\n"


def test_a_step_that_hit_its_cap_is_continued_in_the_same_line() -> None:
    cut = Completion("", 0, "", "half", finish_reason=CUT)
    model = Model(lambda names, _: " whole" if names[0] else cut)
    run(stepwise, model, **OWN | {"STEPS": 2})
    assert [changes["opening"] for *_, changes in model.asked] == ["\n"] * 3 + ["\nhalf"] * 3


def test_failed_steps_end_a_solution_and_lose_against_others() -> None:
    populations = run(stepwise, Model(lambda names, _: FAILED), **OWN)
    assert len(populations) == 2 and not populations[-1][0].completion.text
    *_, (solution,) = run(
        stepwise, Model(lambda names, _: FAILED if names[0] or names[1] else "begun"), **OWN
    )
    assert solution.completion.text == "\nbegun"
