"""Step-wise best of N and beam search: what they continue, what they score, and when they end."""

import hashlib
import math
from statistics import mean
from typing import Any

import pytest

from core.base.errors import UserError
from core.types import CUT, Completion, NamedPopulation
from harness.scaffolds.stepwise import STEPWISE, Constants, stepwise
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


# Beam search

COMBINED: dict[str, Any] = {
    "last": lambda scores: scores[-1],
    "min": lambda scores: sorted(scores)[0],
    "prod": lambda scores: math.exp(math.fsum(map(math.log, scores))),
    "mean": mean,
}


def worth(text: str) -> float:
    """Return the score of a text, in (0, 1]."""
    return (1 + int(hashlib.sha256(text.encode()).hexdigest()[:8], 16)) / 2**32


def scores_of_lines(text: str) -> list[float]:
    lines = text.strip().split("\n")
    return [worth("\n".join(lines[: n + 1])) for n in range(len(lines))]


def rated(is_process: bool, ends: tuple[tuple[int, int], ...] = ()) -> Reply:
    """Return a model that writes the line "step t i", or the answer as one of the steps in `ends`,
    and a reward model that scores the whole text or each line."""

    def reply(names: Names, prompt: str) -> str | Completion:
        if names[0] == "reward":
            scores = scores_of_lines(prompt)
            return Completion("", 0, scores=scores if is_process else scores[-1:])
        box = " \\boxed{42}" if names in ends else ""
        return f"step {names[0]} {names[1]}{box}"

    return reply


BEAM: dict[str, Any] = OWN | {"N": 6, "BEAM": 2, "STEPS": 4, "SCORE": "reward"}


@pytest.mark.parametrize("is_process", [True, False])
@pytest.mark.parametrize("combination", COMBINED)
def test_the_best_partial_solutions_share_the_next_steps(
    combination: str, is_process: bool
) -> None:
    model = Model(rated(is_process))
    *steps, (solution,) = run(stepwise, model, **BEAM | {"STEP_SCORES": combination})
    beam = [""]
    for t, step in enumerate(steps):
        texts = [f"{beam[i * len(beam) // 6]}\nstep {t} {i}" for i in range(6)]
        assert [member.completion.text for member in step] == texts
        scores = [COMBINED[combination](scores_of_lines(text)) for text in texts]
        assert [member.self_score for member in step] == pytest.approx(scores)
        beam = [text for _, text in sorted(zip(scores, texts, strict=True), reverse=True)[:2]]
    assert len(steps) == 4 and solution.completion.text == beam[0]


def test_a_finished_solution_is_carried_until_the_last_one_ends() -> None:
    """Each step of the second one is better, as the scores are of texts."""
    ends = tuple((t, i) for t in (0, 2) for i in range(6))

    def reply(names: Names, prompt: str) -> str | Completion:
        if names == (0, 1):
            return "step 0 1"  # of the two best first steps, only the other one ends
        if names[0] == "reward":
            lines = prompt.count("\n")
            return Completion("", 0, scores=[lines + float("0 1" in prompt or "0 4" in prompt)])
        return rated(is_process=False, ends=ends)(names, prompt)

    *steps, (solution,) = run(stepwise, Model(reply), **BEAM)
    assert [len(step) for step in steps] == [6, 7, 7]
    for step in steps[1:]:
        assert step[6].carried_over and step[6].completion is steps[0][4].completion
    assert (steps[1][6].parents, steps[2][6].parents) == ([4], [6])
    assert {tuple(member.parents) for member in steps[1][:6]} == {(1,)}
    assert "\nstep 2 " in solution.completion.text, "the finished solution with the best score"


def test_equal_partial_solutions_are_kept_once() -> None:
    def reply(names: Names, prompt: str) -> str | Completion:
        if names[0] == "reward":
            return Completion("", 0, scores=[1.0])
        return f"step {names[0]} {int(names[1]) // 3}"

    *steps, _ = run(stepwise, Model(reply), **BEAM | {"STEPS": 2})
    openings = [member.completion.text.split("\n")[1] for member in steps[1]]
    assert sorted(openings) == ["step 0 0"] * 3 + ["step 0 1"] * 3


def test_a_missing_score_counts_as_the_mean() -> None:
    def reply(names: Names, prompt: str) -> str | Completion:
        if names[0] == "reward":
            score = {"step 0 0": [], "step 0 1": [0.0]}.get(prompt, [1.0])
            return FAILED if not score else Completion("", 0, scores=score)
        return f"step {names[0]} {names[1]}"

    *steps, _ = run(stepwise, Model(reply), **BEAM | {"N": 3, "STEPS": 2, "BEAM": 2})
    assert [member.self_score for member in steps[0]] == [None, 0.0, 1.0]
    kept = {member.completion.text.split("\n")[1] for member in steps[1]}
    assert kept == {"step 0 0", "step 0 2"}


def test_a_beam_larger_than_n_is_refused() -> None:
    with pytest.raises(UserError, match="BEAM=5"):
        Constants(N=4, BEAM=5)
