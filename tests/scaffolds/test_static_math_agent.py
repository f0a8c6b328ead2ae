"""The static math agent, call by call: what each prompt holds, what is kept where something comes back empty, lots."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from core.scaffolds.static_math_agent import static_math_agent
from core.types import Completion
from tests.fakes.model import FAILED, Model, run, traced

SIZES: dict[str, Any] = {"N": 8, "K": 2, "ROUNDS": 1, "VERIFY_TOKENS": 60, "SELECT_TOKENS": 50}
Names = tuple[str | int, ...]


def usual(names: Names, prompt: str) -> str:
    """Solutions by name, reports that name what they are on, and the candidate that merges slot 2 as the best."""
    if names[0] == "verify":
        return f"report on {prompt.split('solution <')[1].split('>')[0]}: a gap.\nVerdict: {names[2] != 3}"
    if names[0] == "select":
        return f"Best: {places(prompt).index('2,2') + 1}"
    return f"solution <{names[0]},{names[1]}> \\boxed{{42}}"


def places(prompt: str) -> list[str]:
    """The candidates of a selection, in the order of the prompt."""
    return [part.split(">")[0] for part in prompt.split("solution <")[1:]]


def scripted(**replies: str | Completion) -> Callable[[Names, str], str | Completion]:
    """As usual, but for requests named like verify_1_3 or _2_0."""

    def reply(names: Names, prompt: str) -> str | Completion:
        name = ("" if isinstance(names[0], str) else "_") + "_".join(map(str, names))
        return replies[name] if name in replies else usual(names, prompt)

    return reply


def test_the_29_calls_of_its_source() -> None:
    populations, model = traced(static_math_agent, usual, **SIZES)
    kinds = Counter(names[0] if isinstance(names[0], str) else f"step {names[0]}" for names, *_ in model.asked)
    assert kinds == {"step 0": 8, "verify": 8, "step 1": 8, "step 2": 4, "select": 1} and len(model.asked) == 29
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
    assert all("final answer in \\boxed{}" in prompt for t in range(3) for prompt in model.prompts(t))
    caps = {names[0]: (changes.get("max_tokens"), changes.get("answer_opening")) for names, _, changes in model.asked}
    assert caps["verify"] == (60, "Verdict:") and caps["select"] == (50, "Best:") and caps[0] == caps[2] == (None, None)


def test_populations_hold_what_was_made_and_from_what() -> None:
    solved, reported, improved, merged, (best,) = run(static_math_agent, Model(usual), **SIZES)
    assert not any(member.carried_over or member.parents for member in solved)
    assert all(member.carried_over and len(member.side_calls) == 1 for member in reported)
    assert [member.self_score for member in reported] == [1, 1, 1, 0, 1, 1, 1, 1]
    assert [member.parents for member in improved] == [[i] for i in range(8)]
    assert [member.parents for member in merged] == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert (
        best.carried_over
        and best.parents == [2]
        and best.completion == merged[2].completion
        and len(best.side_calls) == 1
    )
    assert not any(member.notes for population in (solved, reported, improved, merged, [best]) for member in population)


def test_a_second_round_reports_on_what_the_first_improved() -> None:
    model = Model(lambda names, prompt: "Best: 1" if names[0] == "select" else usual(names, prompt))
    run(static_math_agent, model, **SIZES | {"ROUNDS": 2})
    assert places(model.prompts("verify", 2, 5)[0]) == ["1,5"]
    assert "report on 1,5" in model.prompts(2, 5)[0] and places(model.prompts(3, 0)[0]) == ["2,0", "2,1"]


def test_an_empty_solution_gets_no_report_and_starts_afresh() -> None:
    model = Model(scripted(_0_3=FAILED, _0_4=""))
    solved, reported, improved, *_ = run(static_math_agent, model, **SIZES)
    assert len(model.asked) == 27 and not model.prompts("verify", 1, 3) and not model.prompts("verify", 1, 4)
    assert solved[3].notes == solved[4].notes == ["empty candidate"]
    assert reported[3].verdicts is None and not reported[3].side_calls
    assert improved[3].parents == [] and places(model.prompts(1, 3)[0]) == []


def test_an_empty_report_leaves_self_refinement_and_an_unreadable_one_is_used() -> None:
    model = Model(scripted(verify_1_0="", verify_1_1="report: I can't tell."))
    _, reported, *_ = run(static_math_agent, model, **SIZES)
    assert reported[0].notes == ["empty report"] and reported[1].notes == ["unreadable verdict"]
    assert reported[0].verdicts == reported[1].verdicts == [None] and reported[1].self_score is None
    refine, improve = model.prompts(1, 0)[0], model.prompts(1, 1)[0]
    assert "Report of a reviewer" not in refine and "It may be wrong" in refine and places(refine) == ["0,0"]
    assert "report: I can't tell." in improve


def test_an_empty_improvement_leaves_the_solution_standing() -> None:
    (_, _, improved, merged, _), model = traced(static_math_agent, scripted(_1_6=""), **SIZES)
    kept = improved[6]
    assert kept.carried_over and kept.parents == [6] and kept.notes == ["empty candidate"] and len(kept.side_calls) == 1
    assert places(model.prompts(2, 3)[0]) == ["0,6", "1,7"] and merged[3].parents == [6, 7]


def test_after_an_empty_merge_one_of_its_slot_is_drawn() -> None:
    kept = set()
    for seed in range(12):
        merged = run(static_math_agent, Model(scripted(_2_1="")), SEED=seed, **SIZES)[-2]
        assert merged[1].carried_over and merged[1].notes == ["empty candidate"] and len(merged[1].side_calls) == 1
        kept.add(tuple(merged[1].parents))
    assert kept == {(2,), (3,)}, "neither of the slot is favoured"


def test_one_of_a_slot_is_refined_and_none_start_afresh() -> None:
    silent = {f"_{t}_{i}": "" for t in (0, 1) for i in (0, 2, 3)}
    (*_, merged, _), model = traced(static_math_agent, scripted(**silent), **SIZES)
    assert merged[0].parents == [1] and merged[1].parents == []
    assert places(model.prompts(2, 0)[0]) == ["1,1"] and places(model.prompts(2, 1)[0]) == []


def test_with_nothing_at_all_an_empty_answer_is_handed_in_and_noted() -> None:
    populations, model = traced(static_math_agent, lambda names, prompt: FAILED, **SIZES)
    assert len(model.asked) == 8 + 8 + 4, "nothing to report on or to select from"
    assert populations[-1][0].notes == ["empty candidate"] * 4


def test_truncated_solutions_are_noted() -> None:
    cut = Completion("", 0, answer="solution <cut>", finish_reason="length")
    populations = run(static_math_agent, Model(scripted(_0_0=cut)), **SIZES)
    assert populations[0][0].notes == ["truncated candidate"]


@pytest.mark.parametrize("said", ["All are fine.", "Best: 5", "Best: 0", "", "Best: all"])
def test_a_selection_that_cannot_be_read_is_drawn_by_lot(said: str) -> None:
    winners = set()
    for seed in range(20):
        (best,) = run(static_math_agent, Model(scripted(select_0=said)), SEED=seed, **SIZES)[-1]
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
