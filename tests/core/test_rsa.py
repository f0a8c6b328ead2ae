"""The RSA loop on a scripted model: the draws, the prompts and the number of requests."""

import asyncio
import doctest
import math
from collections import Counter
from collections.abc import Sequence
from functools import partial
from itertools import combinations, permutations
from typing import Any

import numpy as np
import pytest

from core import rsa as module
from core.base import seeds
from core.base.errors import UserError
from core.prompts import carried
from core.rsa import AHEAD, RSA, rsa, uniform
from core.types import Completion, Message, Population, Problem
from harness.scaffolds.rsa_verified import boltzmann
from tests.fakes.model import PROBLEM, Jumbled, Model, Names, constants_with, run

BASE: dict[str, Any] = {"N": 6, "K": 2, "T": 3, "CARRY_TOKENS": 10, "TAU": 0.2}
FAILED = Completion("", 0, error="failed")


def model(*silent: Names) -> Jumbled:
    """Return a model whose answers name their request; `silent` ones fail. They arrive in another
    order."""
    thought = partial(Completion, "", 0, "thought", completion_tokens=20, finish_reason="stop")
    return Jumbled(
        lambda names, prompt: FAILED if names in silent else thought(answer=f"solution {names}"),
        seed=0,
    )


def populations(asked: Model | None = None, **constants: Any) -> list[Population]:
    options = {name: constants.pop(name) for name in ("select", "score") if name in constants}
    return run(partial(rsa, **options), asked or model(), **BASE | constants)


def drawn(steps: list[Population]) -> list[list[list[int]]]:
    return [[member.parents for member in step] for step in steps]


def test_there_are_t_plus_one_populations_of_n_made_from_k_different_parents() -> None:
    steps = populations(asked := model())
    assert [len(step) for step in steps] == [6] * 4 and len(asked.asked) == 24
    assert all(member.parents == [] for member in steps[0])
    assert all(len(set(member.parents)) == 2 for step in steps[1:] for member in step)
    assert len({tuple(m.parents) for step in steps for m in step}) > 5


def test_a_prompt_shows_the_problem_and_exactly_its_parents_in_order() -> None:
    steps = populations(asked := model())
    for t in (1, 2, 3):
        for i, member in enumerate(steps[t]):
            (prompt,) = asked.prompts(t, i)
            places = [prompt.index(f"solution {(t - 1, j)}") for j in member.parents]
            assert PROBLEM.statement in prompt and places == sorted(places)
            assert prompt.count("solution (") == 2 and "thought" not in prompt


def test_runs_agree_and_another_seed_or_problem_draws_otherwise() -> None:
    assert drawn(populations()) == drawn(populations())
    assert drawn(populations()) != drawn(populations(SEED=1))
    assert drawn(populations(T=2)) == drawn(populations())[:3], "raising T keeps every earlier step"


def test_a_candidate_with_nothing_to_carry_is_never_drawn() -> None:
    steps = populations(model((0, 1), (0, 2), (0, 3), (0, 4)), K=3)
    assert all(sorted(member.parents) == [0, 5] for member in steps[1])
    assert all(len(member.parents) == 3 for member in steps[2])
    whole, fewer = populations(K=6, T=1)[1], populations(model((0, 2)), K=6, T=1)[1]
    assert [[j for j in m.parents if j != 2] for m in whole] == [m.parents for m in fewer], (
        "in the same order"
    )


def test_with_no_candidate_left_members_start_afresh() -> None:
    steps = populations(model(*((0, i) for i in range(6))))
    assert all(member.parents == [] and member.completion.text for member in steps[1])
    assert all(member.parents for member in steps[2])


def test_scores_are_asked_for_all_steps_that_are_drawn_from_and_steer_selection() -> None:
    scored: list[int] = []

    async def score(
        problem: Problem, population: Population, t: int, ask: Any, config: Any
    ) -> None:
        scored.append(t)
        for i, member in enumerate(population):
            member.self_score = float(i in (2, 4))

    steps = populations(TAU=0.02, select=boltzmann, score=score)
    assert scored == [0, 1, 2]
    assert all(sorted(member.parents) == [2, 4] for step in steps[1:] for member in step)
    assert [m.self_score for m in steps[3]] == [None] * 6


def test_uniform_draws_every_subset_equally_often() -> None:
    rng, draws = np.random.default_rng(1), 3000
    counts = Counter(
        frozenset(uniform(rng, [None] * 5, constants_with(BASE))[:2]) for _ in range(draws)
    )
    expected = draws / math.comb(5, 2)
    assert set(counts) == {frozenset(pair) for pair in combinations(range(5), 2)}
    chi2 = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi2 < 27.9  # 99.9% of chi-squared with 9 degrees of freedom


def test_boltzmann_draws_without_replacement_by_exponential_weights() -> None:
    scores, tau, draws = [0.0, 0.1, 0.3, None], 0.2, 6000
    weights = [math.exp(s / tau) for s in (0.0, 0.1, 0.3, (0.0 + 0.1 + 0.3) / 3)]
    total = sum(weights)
    rng, config = np.random.default_rng(2), constants_with(BASE | {"TAU": tau})
    counts = Counter(tuple(boltzmann(rng, scores, config)[:2]) for _ in range(draws))
    chi2 = 0.0
    for i, j in permutations(range(4), 2):
        expected = draws * weights[i] / total * weights[j] / (total - weights[i])
        chi2 += (counts[i, j] - expected) ** 2 / expected
    assert len(counts) == 12 and chi2 < 31.3  # 99.9% with 11 degrees of freedom


def test_carry_decides_what_aggregation_sees() -> None:
    got = Completion("0" * 32, 0, thinking="t" * 60, answer="a" * 40, completion_tokens=20)
    whole = "t" * 60 + "\n\n" + "a" * 40
    assert carried(got, constants_with(BASE)) == "a" * 40
    assert carried(got, constants_with(BASE | {"CARRY": "full"})) == whole
    tail = carried(got, constants_with(BASE | {"CARRY": "tail"}))
    assert tail == whole[-51:], "half of 20 tokens is half of the characters"
    assert carried(got, constants_with(BASE | {"CARRY": "tail", "CARRY_TOKENS": 20})) == whole
    uncounted = Completion("0" * 32, 0, thinking="t" * 60, answer="a" * 40)
    assert carried(uncounted, constants_with(BASE | {"CARRY": "tail"})) == tail[-30:], (
        "three characters a token"
    )
    forced = Completion(
        "0" * 32, 0, thinking="t", answer="", forced="\\boxed{7}", finish_reason="length"
    )
    assert carried(forced, constants_with(BASE)) == "\\boxed{7}"


def test_seeds_differ_between_all_requests_and_depend_on_names_alone() -> None:
    names = [
        (s, p, t, i) for s in range(3) for p in ("a", "b") for t in range(6) for i in range(16)
    ]
    assert len({seeds.derive(*name) for name in names}) == len(names)
    assert all(0 <= seeds.derive(*name) < 2**31 for name in names)
    assert seeds.derive(0, "p1", 2, 3) == 422224726, "journals of earlier releases stay valid"
    assert seeds.derive("1", 23) != seeds.derive("12", 3)


class Slow(Model):
    """A model whose first member of step 0 arrives after all requests that do not wait for it."""

    def __init__(self) -> None:
        super().__init__(lambda names, prompt: f"solution {names}")
        self.early: set[Names] = set()

    async def __call__(
        self, messages: Sequence[Message], *names: str | int, **changes: Any
    ) -> Completion:
        got = await super().__call__(messages, *names, **changes)
        if names == (0, 0):
            seen = 0
            # nothing here waits for anything but turns of the event loop
            while len(self.asked) > seen:
                seen = len(self.asked)
                for _ in range(100):
                    await asyncio.sleep(0)
            self.early = {asked for asked, *_ in self.asked}
        return got


def test_a_member_is_asked_for_as_soon_as_its_own_parents_are_there() -> None:
    """A slow member of step 0 delays only the members that were drawn to see it."""
    steps = populations(asked := Slow())
    waiting = {(0, 0)}
    for t in (1, 2, 3):
        waiting |= {
            (t, i) for i, m in enumerate(steps[t]) if any((t - 1, j) in waiting for j in m.parents)
        }
    assert len(waiting) > 3
    assert asked.early == {(t, i) for t in range(4) for i in range(6)} - waiting | {(0, 0)}
    assert drawn(steps) == drawn(populations())


def test_a_straggler_holds_up_no_more_than_a_few_steps_of_the_others() -> None:
    """With K=1, some lineages do without it. They continue as far as the window of steps allows."""
    sizes: dict[str, Any] = {"N": 8, "K": 1, "T": 3 * AHEAD}
    steps = populations(asked := Slow(), **sizes)
    assert max(names[0] for names in asked.early) == AHEAD, "and no further"
    assert len(steps) == 3 * AHEAD + 1 and len(asked.asked) == RSA.max_completions(
        constants_with(BASE | sizes)
    )
    assert drawn(steps) == drawn(populations(**sizes))


@pytest.mark.parametrize("is_lost", [True, False])
def test_a_lost_server_or_a_caller_that_gives_up_leaves_nothing_at_work(is_lost: bool) -> None:
    async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
        if is_lost and names == (1, 0):
            raise UserError("gone")
        await asyncio.sleep(0 if names[0] == 0 else 60)
        return Completion("0" * 32, 1, answer="x")

    async def collect() -> set[Any]:
        running = rsa(PROBLEM, ask, constants_with(BASE | {"SEED": 0, "T": 1000}))
        await anext(running)
        if is_lost:
            with pytest.raises(UserError, match="gone"):
                await anext(running)
        await running.aclose()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(collect()) == set()


def uses(step: Population) -> Counter[int]:
    return Counter(j for member in step for j in member.parents)


def test_the_order_shown_is_drawn_and_draws_nothing_else() -> None:
    """ORDER decides the places of candidates in a prompt, not the candidates, and nothing in step
    0."""
    asked = {order: model() for order in ("random", "shared")}
    steps = {order: populations(asked[order], N=8, K=3, ORDER=order) for order in asked}
    sets = [[[set(m.parents) for m in step] for step in got] for got in steps.values()]
    assert sets[0] == sets[1] and drawn(steps["random"]) != drawn(steps["shared"])
    assert asked["random"].prompts(0) == asked["shared"].prompts(0)
    assert drawn(populations(N=8, K=3)) == drawn(steps["random"])
    one = [populations(N=8, K=1, ORDER=order) for order in asked]
    assert one[0] == one[1], "one candidate has no order"


@pytest.mark.parametrize("select", [uniform, boltzmann])
def test_every_place_is_as_likely_however_often_a_candidate_is_drawn_or_how_well_it_scored(
    select: Any,
) -> None:
    async def score(
        problem: Problem, population: Population, t: int, ask: Any, config: Any
    ) -> None:
        for i, member in enumerate(population):
            member.self_score = i / 8

    firsts, shown = Counter[str](), Counter[str]()
    for seed in range(150):
        _, step = populations(N=8, K=3, T=1, SEED=seed, select=select, score=score)
        count = uses(step)
        for member in step:
            ranked = sorted(member.parents, key=lambda j: (-count[j], j))
            for place, j in enumerate(member.parents):
                for what in (
                    f"number {ranked.index(j)}",
                    f"score {sorted(member.parents).index(j)}",
                ):
                    shown[what] += 1
                    firsts[what] += place == 0
    for what, times in shown.items():  # 1,200 prompts: a standard deviation is 0.0136
        assert abs(firsts[what] / times - 1 / 3) < 0.06, what


def test_the_loop_works_with_any_function_that_answers() -> None:
    """The module's example shows its use without the harness."""
    tried = doctest.testmod(module)
    assert tried.attempted == 6 and not tried.failed
