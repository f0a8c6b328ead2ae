"""The knock-out of several scaffolds, and RSA in QED-Nano's variant, call by call."""

import re
from itertools import pairwise
from typing import Any

from core.types import Completion, Member
from harness.scaffolds.best_of import with_mean
from harness.scaffolds.common import best_of_pool, ranking
from harness.scaffolds.qed_rsa import qed_rsa
from tests.fakes.model import PROBLEM, Model, constants_with, run, traced

SIZES: dict[str, Any] = {"N": 8, "K": 3, "ROUNDS": 3, "SELECT_TOKENS": 50}


def test_qed_rsa_merges_in_circles_and_knocks_out_to_one() -> None:
    def judge(names: tuple[str | int, ...], prompt: str) -> str:
        if names[0] != "select":
            return f"solution {names[0]}-{names[1]} \\boxed{{42}}"
        first = prompt.split("Candidate 1:")[1].split("Candidate 2:")[0]
        return "Better: 1" if "solution 3-5" in first else "Better: 2"

    populations, model = traced(qed_rsa, judge, **SIZES)
    assert [len(p) for p in populations] == [8, 8, 8, 8, 4, 2, 1] and len(model.asked) == 39
    for population in populations[1:4]:
        used = [j for member in population for j in member.parents]
        assert sorted(used) == sorted(list(range(8)) * 3), "every parent is used exactly K times"
        assert all(len(set(member.parents)) == 3 for member in population)
    for i, member in enumerate(populations[2]):
        shown = [j for j in range(8) if f"solution 1-{j} " in model.prompts(2, i)[0]]
        assert shown == sorted(member.parents), "the prompt shows its parents and nobody else"
    blocks = [[sorted(member.parents) for member in population] for population in populations[1:4]]
    assert blocks[0] != blocks[1] != blocks[2], "each round draws its own circle"
    assert [len(model.prompts("select", r)) for r in range(3)] == [4, 2, 1]
    (winner,) = populations[-1]
    for before, after in pairwise(populations[3:]):
        (place,) = (m.parents[0] for m in after if "3-5" in m.completion.text)
        assert "3-5" in before[place].completion.text, (
            "shuffled, a winner's parent is where it stood"
        )
    assert winner.carried_over and all(
        len(m.side_calls) == 1 and not m.notes for p in populations[4:] for m in p
    )


def pairs(model: Model, number: int) -> list[frozenset[str]]:
    return [
        frozenset(re.findall(r"solution (\S+)", prompt))
        for prompt in model.prompts("select", number)
    ]


def test_neighbours_meet_first_and_winners_are_shuffled_for_each_further_round() -> None:
    """The smaller number wins, so the winners are known. Their pairs are drawn by seed and
    round."""

    def smaller(names: tuple[str | int, ...], prompt: str) -> str:
        if names[0] != "select":
            return f"solution {names[1]}"
        first, second = (int(number) for number in re.findall(r"solution (\d+)", prompt))
        return f"Better: {1 if first < second else 2}"

    second: list[tuple[frozenset[str], ...]] = []
    unopposed: set[str] = set()
    for seed in range(30):
        populations, model = traced(qed_rsa, smaller, SEED=seed, **SIZES | {"N": 10, "ROUNDS": 0})
        assert pairs(model, 0) == [frozenset((str(i), str(i + 1))) for i in range(0, 10, 2)]
        assert {m.completion.text for m in populations[1]} == {
            f"solution {i}" for i in range(0, 10, 2)
        }
        assert all(populations[0][m.parents[0]].completion == m.completion for m in populations[1])
        second.append(tuple(pairs(model, 1)))
        unopposed.update(m.completion.text for m in populations[2] if not m.side_calls)
        assert populations[-1][0].completion.text == "solution 0"
    assert len(set(second)) > 10 and len(unopposed) == 5, "nobody is always spared"


def test_selections_that_cannot_be_read_are_drawn_by_lot_and_noted() -> None:
    winners = set()
    for seed in range(12):
        model = Model(
            lambda names, prompt: (
                "I like both." if names[0] == "select" else f"{names} \\boxed{{1}}"
            )
        )
        left = run(qed_rsa, model, SEED=seed, **SIZES)[4:]
        assert [m.notes for p in left for m in p] == [["invalid selection"]] * 7
        winners.add(left[-1][0].completion.text)
    assert len(winners) > 3, "no position is favoured"


def test_a_pool_is_ranked_by_keys_and_ties_by_lots_of_the_seed() -> None:
    keys = [(0.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]
    orders = {tuple(ranking(PROBLEM, constants_with({"SEED": s}), keys)) for s in range(20)}
    assert orders == {(1, 0, 2, 3), (1, 2, 0, 3)}


def test_the_best_of_a_pool_has_a_parent_only_in_the_newest_population() -> None:
    pool = [Member(Completion(str(i), 0)) for i in range(5)]
    newest = pool[3:]
    assert best_of_pool(pool, 4, newest).parents == [1]
    assert best_of_pool(pool, 2, newest).parents == []


def test_an_unknown_score_counts_as_the_mean() -> None:
    assert with_mean([0.0, None, 1.0]).tolist() == [0.0, 0.5, 1.0]
    assert with_mean([None]).tolist() == [0.0]
