"""The static math agent, call by call: its prompts, kept solutions and draws."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from core.types import Completion
from harness.scaffolds.static_math_agent import static_math_agent
from tests.fakes.model import Model, Names, run, traced

SIZES: dict[str, Any] = {"N": 8, "K": 2, "ROUNDS": 1, "VERIFY_TOKENS": 60, "SELECT_TOKENS": 50}


def usual(names: Names, prompt: str) -> str:
    """Reply with solutions by name, reports that name their solution, and the merge of slot 2 as
    the best."""
    if names[0] == "verify":
        return (
            f"report on {prompt.split('solution <')[1].split('>')[0]}: a gap.\nVerdict: "
            f"{names[2] != 3}"
        )
    if names[0] == "select":
        return f"Best: {places(prompt).index('2,2') + 1}"
    return f"solution <{names[0]},{names[1]}> \\boxed{{42}}"


def places(prompt: str) -> list[str]:
    """Return the candidates of a selection, in the order of the prompt."""
    return [part.split(">")[0] for part in prompt.split("solution <")[1:]]


def scripted(**replies: str | Completion) -> Callable[[Names, str], str | Completion]:
    """Reply as usual, except to requests named like verify_1_3 or _2_0."""

    def reply(names: Names, prompt: str) -> str | Completion:
        name = ("" if isinstance(names[0], str) else "_") + "_".join(map(str, names))
        return replies[name] if name in replies else usual(names, prompt)

    return reply


def test_the_29_calls_of_its_source() -> None:
    populations, model = traced(static_math_agent, usual, **SIZES)
    kinds = Counter(
        names[0] if isinstance(names[0], str) else f"step {names[0]}" for names, *_ in model.asked
    )
    assert (
        kinds == {"step 0": 8, "verify": 8, "step 1": 8, "step 2": 4, "select": 1}
        and len(model.asked) == 29
    )
    assert [len(p) for p in populations] == [8, 8, 8, 4, 1]
    for i in range(8):
        (checked,) = model.prompts("verify", 1, i)
        assert places(checked) == [f"0,{i}"] and "boxed" not in checked.replace("\\boxed{42}", "")
        (improved,) = model.prompts(1, i)
        assert places(improved) == [f"0,{i}"] and f"report on 0,{i}: a gap" in improved
    for slot in range(4):
        (merged,) = model.prompts(2, slot)
        assert places(merged) == [f"1,{2 * slot}", f"1,{2 * slot + 1}"]
    (selected,) = model.prompts("select")
    assert sorted(places(selected)) == ["2,0", "2,1", "2,2", "2,3"]
    assert all(
        "final answer in \\boxed{}" in prompt for t in range(3) for prompt in model.prompts(t)
    )
    caps = {
        names[0]: (changes.get("max_tokens"), changes.get("answer_opening"))
        for names, _, changes in model.asked
    }
    assert (
        caps["verify"] == (60, "Verdict:")
        and caps["select"] == (50, "Best:")
        and caps[0] == caps[2] == (None, None)
    )


@pytest.mark.parametrize("selection", ["All are fine.", "Best: 5", "Best: 0", "", "Best: all"])
def test_a_selection_that_cannot_be_read_is_drawn_by_lot(selection: str) -> None:
    winners = set()
    for seed in range(20):
        (best,) = run(static_math_agent, Model(scripted(select_0=selection)), SEED=seed, **SIZES)[
            -1
        ]
        assert best.notes == ["invalid selection"]
        winners.add(best.parents[0])
    assert winners == {0, 1, 2, 3}


def test_the_order_of_the_candidates_is_drawn() -> None:
    first = set()
    for seed in range(20):
        model = Model(usual)
        (best,) = run(static_math_agent, model, SEED=seed, **SIZES)[-1]
        first.add(places(model.prompts("select")[0])[0])
        assert best.parents == [2], "whatever its place in the prompt"
    assert first == {"2,0", "2,1", "2,2", "2,3"}
