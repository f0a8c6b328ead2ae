"""The harness of Nomos, call by call."""

from types import SimpleNamespace
from typing import Any

import pytest

from core.types import Member, Population
from harness.scaffolds.nomos import NOMOS, nomos
from tests.fakes.model import Names, but, constants_with, traced

SIZES: dict[str, Any] = {
    "N": 16,
    "K": 12,
    "PERFECT": 8,
    "ROUNDS": 0,
    "VERIFY_TOKENS": 50,
    "SELECT_TOKENS": 60,
}


def judged(points: Any, keep: str = "all", best: str = "") -> Any:
    """Reply with solutions, points by (t, i) or 3, a grouping `keep`, and selections of `best` or
    the first."""

    def reply(names: Names, prompt: str) -> str:
        if names[0] == "judge":
            return f"judgement {names[1]}-{names[2]}\nScore: {points.get(names[1:], 3)}"
        if names[0] == "group":
            everyone = ", ".join(str(i + 1) for i in range(prompt.count("\nJudgement ")))
            return f"Keep: {everyone if keep == 'all' else keep}"
        if names[0] == "select":
            return "Better: 2" if best and best in prompt.split("Candidate 2:")[1] else "Better: 1"
        return f"solution {names[0]}-{names[1]}: \\boxed{{42}}"

    return reply


def name(member: Member) -> str:
    return member.completion.text.split(":")[0]


def answer(populations: list[Population]) -> Member:
    (winner,) = populations[-1]
    assert winner.carried_over
    return winner


def test_it_solves_judges_groups_and_knocks_out() -> None:
    populations, model = traced(nomos, judged({(0, 5): 6}, best="solution 0-5:"), **SIZES)
    assert len(model.asked) == 44 == NOMOS.max_completions(constants_with(SIZES))
    assert [len(p) for p in populations] == [16, 16, 1, 12, 1, 12, 6, 3, 2, 1]
    assert (
        len(model.prompts(0)) == 16
        and len(model.prompts("judge", 0)) == 16
        and len(model.prompts("group")) == 1
    )
    assert [len(model.prompts("select", r)) for r in range(4)] == [6, 3, 1, 1]
    assert [name(p[0]) for p in populations if len(p) == 1] == ["solution 0-5"] * 3
    assert [sum(len(m.side_calls) for m in p) for p in populations[6:]] == [6, 3, 1, 1]
    assert populations[1][5].self_score == 6 / 7 and populations[1][5].verdicts == [6 / 7]
    assert len(answer(populations).side_calls) == 1 and len(populations[4][0].side_calls) == 1
    caps = {
        names[0]: changes.get("max_tokens")
        for names, _, changes in model.asked
        if isinstance(names[0], str)
    }
    assert caps == {"judge": 50, "group": 60, "select": 60}
    assert not any(member.notes for population in populations for member in population)


@pytest.mark.parametrize(
    ("perfect", "kept"),
    # with 7, too few are perfect: the best are kept
    [(0, 12), (7, 12), (8, 8), (12, 12), (16, 12)],
)
def test_enough_perfect_solutions_are_kept_alone(perfect: int, kept: int) -> None:
    populations, _ = traced(nomos, judged({(0, i): 7 for i in range(perfect)}), **SIZES)
    assert len(populations[3]) == kept
    of_those = [int(name(member).split("-")[1]) for member in populations[3]]
    assert sum(i < perfect for i in of_those) == min(perfect, kept)


def test_only_the_group_held_for_right_goes_on() -> None:
    populations, model = traced(
        nomos, judged({(0, 3): 6, (0, 4): 5, (0, 5): 4}, keep="2, 3"), **SIZES
    )
    assert name(populations[4][0]) == "solution 0-4", "the best of the group"
    assert sorted(map(name, populations[5])) == ["solution 0-4", "solution 0-5"]
    assert len(model.prompts("select")) == 1 and len(model.asked) == 34
    populations, model = traced(nomos, judged({(0, 3): 6, (0, 4): 5}, keep="2"), **SIZES)
    assert name(answer(populations)) == "solution 0-4" and len(model.asked) == 33, (
        "one needs no knock-out"
    )


@pytest.mark.parametrize("keep", ["", "none", "0", "13", "1, 13", "1-3", "2.5"])
def test_a_grouping_that_cannot_be_read_keeps_all(keep: str) -> None:
    populations, model = traced(nomos, judged({}, keep=keep), **SIZES)
    assert (
        populations[4][0].notes == ["invalid selection"]
        and len(populations[5]) == 12
        and len(model.asked) == 44
    )


def test_a_wave_is_as_large_as_what_is_missing() -> None:
    sizes = SIZES | {"N": 4, "K": 4, "PERFECT": 3, "ROUNDS": 5}
    populations, model = traced(nomos, judged({(0, 2): 7, (1, 1): 7, (3, 0): 7}), **sizes)
    assert [len(model.prompts(t)) for t in range(5)] == [4, 2, 1, 1, 0], (
        "three perfect scores suffice"
    )
    assert [len(p) for p in populations] == [4, 4, 1, 2, 1, 1, 1, 1, 1, 3, 1, 3, 2, 1]
    assert sorted(map(name, populations[9])) == ["solution 0-2", "solution 1-1", "solution 3-0"]
    (new, *_) = populations[3]
    assert not new.carried_over and len(new.side_calls) == 1 and not new.parents

    _, model = traced(nomos, judged({}), **sizes)
    assert [len(model.prompts(t)) for t in range(7)] == [4, 3, 3, 3, 3, 3, 0]
    assert len(model.asked) == NOMOS.max_completions(constants_with(sizes)) == 2 * 19 + 4


def test_no_wave_begins_when_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("harness.scaffolds.nomos.time", SimpleNamespace(monotonic=lambda: now[0]))

    def slow(names: Names, prompt: str) -> str:
        now[0] += 0.01
        text: str = judged({})(names, prompt)
        return text

    sizes = SIZES | {"N": 2, "K": 2, "PERFECT": 1, "ROUNDS": 1000, "MINUTES": 0.2 / 60}
    populations, model = traced(nomos, slow, **sizes)
    waves = sum(names[0] == "judge" for names, *_ in model.asked) - 2
    assert 0 < waves < 50 and len(populations[-1]) == 1 and len(model.prompts("group")) == 1
    _, model = traced(nomos, slow, **sizes | {"MINUTES": 0.001 / 60})
    assert len(model.prompts("judge")) == 2 and len(model.prompts("group")) == 1


def test_with_one_or_no_solution_nothing_is_grouped() -> None:
    populations, model = traced(nomos, lambda names, prompt: "", **SIZES)
    assert len(model.asked) == 16 and answer(populations).completion.text == ""
    for judgement in ("Score: 2", "no points"):
        one_alone = but(lambda *_: "", {(0, 9): "a \\boxed{1}", ("judge", 0, 9): judgement})
        populations, model = traced(nomos, one_alone, **SIZES)
        assert len(model.asked) == 17 and answer(populations).parents == [9]
    one = SIZES | {"N": 1, "K": 1}
    _, model = traced(nomos, judged({}), **one)
    assert len(model.asked) == NOMOS.max_completions(constants_with(one)) == 2
