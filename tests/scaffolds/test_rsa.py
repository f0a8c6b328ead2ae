"""The RSA loop, with a scripted `ask`: who is drawn, what is shown, and how often the model is asked."""

import asyncio
import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.base import seeds
from core.base.errors import UserError
from core.scaffolds.rsa import AHEAD, RSA, boltzmann, rsa, sample, uniform
from core.types import Completion, Message, Population, Problem, carried
from tests.fakes.model import constants_with

PROBLEM = Problem("p1", "What is 6 times 7?", "42")
BASE = {"N": 6, "K": 2, "T": 3, "CARRY": "answer", "CARRY_TOKENS": 10, "SEED": 0, "TAU": 0.2}


class Model:
    """A scripted model: its answers name the request they belong to; `silent` ones say nothing."""

    def __init__(self, silent: set[tuple[Any, ...]] = frozenset()) -> None:  # type: ignore[assignment]
        self.asked: list[tuple[tuple[Any, ...], str]] = []
        self.silent = silent

    async def __call__(self, messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
        self.asked.append((names, messages[0]["content"]))
        seed = seeds.derive(*names)
        if names in self.silent:
            return Completion("0" * 32, seed, error="failed")
        await asyncio.sleep((seed % 7) / 2000)  # members end in another order than they began
        return Completion("0" * 32, seed, "thought", f"solution {names}", completion_tokens=20, finish_reason="stop")


def populations(model: Model, config: Any, **options: Any) -> list[Population]:
    async def collect() -> list[Population]:
        return [population async for population in rsa(PROBLEM, model, config, **options)]

    return asyncio.run(collect())


def test_there_are_t_plus_one_populations_of_n_made_from_k_different_parents() -> None:
    model = Model()
    steps = populations(model, constants_with(BASE))
    assert [len(step) for step in steps] == [6] * 4
    assert len(model.asked) == RSA.max_completions(constants_with(BASE)) == 24
    assert all(member.parents == [] for member in steps[0])
    for step in steps[1:]:
        assert all(len(set(member.parents)) == 2 for member in step)
    assert len({tuple(m.parents) for step in steps for m in step}) > 5


def test_a_prompt_shows_the_problem_and_exactly_its_parents_in_order() -> None:
    model = Model()
    steps = populations(model, constants_with(BASE))
    prompts = dict(model.asked)
    for t in (1, 2, 3):
        for i, member in enumerate(steps[t]):
            prompt = prompts[(t, i)]
            places = [prompt.index(f"solution {(t - 1, j)}") for j in member.parents]
            assert PROBLEM.statement in prompt and places == sorted(places)
            assert prompt.count("solution (") == 2 and "thought" not in prompt


def test_runs_agree_and_another_seed_or_problem_draws_otherwise() -> None:
    def drawn(**changes: Any) -> list[list[int]]:
        return [m.parents for step in populations(Model(), constants_with(BASE | changes)) for m in step]

    assert drawn() == drawn()
    assert drawn() != drawn(SEED=1)
    assert drawn(T=2) == drawn()[:18], "raising T keeps every earlier step"


def test_k_of_one_is_self_refinement_and_t_of_zero_the_baseline() -> None:
    model = Model()
    populations(model, constants_with(BASE | {"K": 1, "T": 1}))
    assert all("Compare" not in prompt for _, prompt in model.asked)
    assert len(populations(Model(), constants_with(BASE | {"T": 0}))) == 1

    async def first() -> Population:
        return await anext(sample(PROBLEM, Model(), constants_with(BASE)))

    alone = asyncio.run(first())
    assert [m.completion for m in alone] == [m.completion for m in populations(Model(), constants_with(BASE))[0]]


def test_a_candidate_with_nothing_to_carry_is_never_drawn() -> None:
    steps = populations(Model(silent={(0, 1), (0, 2), (0, 3), (0, 4)}), constants_with(BASE | {"K": 3}))
    assert all(sorted(member.parents) == [0, 5] for member in steps[1])
    assert all(len(member.parents) == 3 for member in steps[2])


def test_with_no_candidate_left_members_start_afresh() -> None:
    model = Model(silent={(0, i) for i in range(6)})
    steps = populations(model, constants_with(BASE))
    assert all(member.parents == [] and member.completion.text for member in steps[1])
    assert all(member.parents for member in steps[2])


def test_scores_are_asked_for_all_steps_that_are_drawn_from_and_steer_selection() -> None:
    scored: list[int] = []

    async def score(problem: Problem, population: Population, t: int, ask: Any, config: Any) -> None:
        scored.append(t)
        for i, member in enumerate(population):
            member.self_score = float(i in (2, 4))

    steps = populations(Model(), constants_with(BASE | {"TAU": 0.02}), select=boltzmann, score=score)
    assert scored == [0, 1, 2]
    assert all(sorted(member.parents) == [2, 4] for step in steps[1:] for member in step)
    assert [m.self_score for m in steps[3]] == [None] * 6


def test_uniform_draws_every_subset_equally_often() -> None:
    rng, draws = np.random.default_rng(1), 6000
    counts = Counter(frozenset(uniform(rng, [None] * 5, constants_with(BASE))[:2]) for _ in range(draws))
    expected = draws / math.comb(5, 2)
    assert set(counts) == {frozenset(pair) for pair in combinations(range(5), 2)}
    chi2 = sum((count - expected) ** 2 / expected for count in counts.values())
    assert chi2 < 27.9  # 99.9% of chi-squared with 9 degrees of freedom


def test_boltzmann_draws_without_replacement_by_exponential_weights() -> None:
    scores, tau, draws = [0.0, 0.1, 0.3, None], 0.2, 20000
    weights = [math.exp(s / tau) for s in (0.0, 0.1, 0.3, (0.0 + 0.1 + 0.3) / 3)]
    total = sum(weights)
    rng, config = np.random.default_rng(2), constants_with(BASE | {"TAU": tau})
    counts = Counter(tuple(boltzmann(rng, scores, config)[:2]) for _ in range(draws))
    chi2 = 0.0
    for i in range(4):
        for j in range(4):
            if i != j:
                expected = draws * weights[i] / total * weights[j] / (total - weights[i])
                chi2 += (counts[(i, j)] - expected) ** 2 / expected
    assert len(counts) == 12 and chi2 < 31.3  # 99.9% with 11 degrees of freedom


@settings(deadline=None)
@given(st.lists(st.none() | st.floats(0, 1), min_size=1, max_size=9), st.data())
def test_selections_put_all_members_in_an_order(scores: list[float | None], data: st.DataObject) -> None:
    config = constants_with(BASE | {"N": len(scores), "K": data.draw(st.integers(1, len(scores)))})
    for select in (uniform, boltzmann):
        assert sorted(select(np.random.default_rng(0), scores, config)) == list(range(len(scores)))


def test_carry_decides_what_aggregation_sees() -> None:
    made = Completion("0" * 32, 0, thinking="t" * 60, answer="a" * 40, completion_tokens=20)
    assert carried(made, constants_with(BASE)) == "a" * 40
    assert carried(made, constants_with(BASE | {"CARRY": "full"})) == "t" * 60 + "\n\n" + "a" * 40
    tail = carried(made, constants_with(BASE | {"CARRY": "tail"}))
    assert tail == ("t" * 60 + "\n\n" + "a" * 40)[-51:], "half of 20 tokens is half of the characters"
    assert len(carried(made, constants_with(BASE | {"CARRY": "tail", "CARRY_TOKENS": 20}))) == 102


def test_a_forced_answer_is_carried() -> None:
    made = Completion("0" * 32, 0, thinking="t", answer="", forced="\\boxed{7}", finish_reason="length")
    assert carried(made, constants_with(BASE)) == "\\boxed{7}"


def test_seeds_differ_between_all_requests_and_depend_on_names_alone() -> None:
    names = [(s, p, t, i) for s in range(3) for p in ("a", "b") for t in range(6) for i in range(16)]
    assert len({seeds.derive(*name) for name in names}) == len(names)
    assert all(0 <= seeds.derive(*name) < 2**31 for name in names)
    assert seeds.derive(0, "p1", 2, 3) == 422224726, "journals of earlier releases stay valid"
    assert seeds.derive("1", 23) != seeds.derive("12", 3)


@pytest.mark.parametrize("changes", [{"N": 3, "K": 3}, {"N": 1, "K": 1, "T": 2}, {"N": 16, "K": 4, "T": 1}])
def test_other_sizes_work(changes: dict[str, int]) -> None:
    config = constants_with(BASE | changes)
    model = Model()
    steps = populations(model, config)
    assert [len(step) for step in steps] == [config.N] * (config.T + 1)
    assert len(model.asked) == RSA.max_completions(config)


def test_a_member_is_asked_for_as_soon_as_its_own_parents_are_there() -> None:
    """One slow member of step 0 holds up those that were drawn to see it, and nobody else."""

    class Slow(Model):
        async def __call__(self, messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
            made = await super().__call__(messages, *names, **changes)
            if names == (0, 0):
                await released.wait()
            return made

    async def collect() -> list[Population]:
        running = asyncio.ensure_future(_collected(rsa(PROBLEM, model, config)))
        seen = [-1]
        while len(set(seen[-20:])) > 1 or len(seen) < 20:  # until nobody has asked for anything for a while
            await asyncio.sleep(0.01)
            seen.append(len(model.asked))
        early.extend(names for names, _ in model.asked)
        released.set()
        return await running

    model, config, released, early = Slow(), constants_with(BASE), asyncio.Event(), list[Any]()
    steps = asyncio.run(collect())
    waiting = {(0, 0)}
    for t in (1, 2, 3):
        waiting |= {(t, i) for i, m in enumerate(steps[t]) if any((t - 1, j) in waiting for j in m.parents)}
    assert len(waiting) > 3
    assert set(early) == {(t, i) for t in range(4) for i in range(6)} - waiting | {(0, 0)}
    at_once = [[m.parents for m in step] for step in populations(Model(), config)]
    assert [[m.parents for m in step] for step in steps] == at_once


def test_steps_are_made_as_they_are_reached_and_not_all_at_once() -> None:
    """However large T is: what waits is of a few steps, and giving up leaves nothing of it."""
    most, steps = 0, 0

    class Counting(Model):
        async def __call__(self, messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
            nonlocal most
            most = max(most, len(asyncio.all_tasks()))
            return await super().__call__(messages, *names, **changes)

    async def collect() -> set[Any]:
        nonlocal steps
        running = rsa(PROBLEM, Counting(), constants_with(BASE | {"N": 32, "T": 1000}))
        async for population in running:
            assert len(population) == 32
            steps += 1
            if steps == 12:
                break
        await running.aclose()
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(collect()) == set()
    assert 32 < most <= 32 * (AHEAD + 2) and steps == 12


def test_a_straggler_holds_up_no_more_than_a_few_steps_of_the_others() -> None:
    """With K=1 there are lineages without it: they go on as far as the window of steps allows."""

    class Slow(Model):
        async def __call__(self, messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
            self.asked.append((names, ""))
            if names == (0, 0):
                await released.wait()
            return Completion("0" * 32, 1, answer=f"solution {names}", completion_tokens=1)

    async def collect() -> list[Population]:
        running = asyncio.ensure_future(_collected(rsa(PROBLEM, model, config)))
        for _ in range(100 * AHEAD):  # of the event loop: nothing here waits for anything else
            await asyncio.sleep(0)
        early.extend(names[0] for names, _ in model.asked)
        released.set()
        return await running

    model, released, early = Slow(), asyncio.Event(), list[Any]()
    config = constants_with(BASE | {"N": 8, "K": 1, "T": 3 * AHEAD})
    steps = asyncio.run(collect())
    assert max(early) == AHEAD, "and no further"
    assert len(steps) == 3 * AHEAD + 1 and len(model.asked) == RSA.max_completions(config)
    at_once = [[m.parents for m in step] for step in populations(Model(), config)]
    assert [[m.parents for m in step] for step in steps] == at_once


def test_the_order_drawn_is_as_it_was() -> None:
    drawn = [uniform(seeds.rng(0, "p1", "select", 1, i), [None] * 5, constants_with(BASE)) for i in range(3)]
    assert drawn == [[4, 3, 2, 1, 0], [4, 0, 1, 3, 2], [1, 2, 3, 4, 0]], "journals of earlier releases stay valid"


async def _collected(made: Any) -> list[Population]:
    return [population async for population in made]


def test_a_lost_server_ends_all_members_at_work() -> None:
    async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
        if names == (1, 0):
            raise UserError("gone")
        await asyncio.sleep(0 if names[0] == 0 else 60)
        return Completion("0" * 32, 1, answer="x")

    async def collect() -> set[Any]:
        with pytest.raises(UserError, match="gone"):
            await _collected(rsa(PROBLEM, ask, constants_with(BASE)))
        return asyncio.all_tasks() - {asyncio.current_task()}

    assert asyncio.run(collect()) == set()


def uses(step: Population) -> Counter[int]:
    return Counter(j for member in step for j in member.parents)


def test_shared_candidates_that_many_prompts_show_come_first() -> None:
    steps = populations(Model(), constants_with(BASE | {"N": 8, "K": 3, "ORDER": "shared"}))
    for step in steps[1:]:
        count = uses(step)
        assert all(m.parents == sorted(m.parents, key=lambda j: (-count[j], j)) for m in step)


def test_the_order_shown_is_drawn_and_draws_nothing_else() -> None:
    """ORDER decides how candidates stand in a prompt, not which they are; step 0 knows nothing of it."""
    base = BASE | {"N": 8, "K": 3, "T": 3}
    models = {order: Model() for order in ("random", "shared")}
    steps = {order: populations(model, constants_with(base | {"ORDER": order})) for order, model in models.items()}
    sets = [[[set(m.parents) for m in step] for step in made] for made in steps.values()]
    assert sets[0] == sets[1] and steps["random"] != steps["shared"]
    first = [[prompt for names, prompt in model.asked if names[0] == 0] for model in models.values()]
    assert first[0] == first[1]
    again, default = (populations(Model(), constants_with(base | extra)) for extra in ({"ORDER": "random"}, {}))
    assert [m.parents for step in again for m in step] == [m.parents for step in steps["random"] for m in step]
    assert [m.parents for step in default for m in step] == [m.parents for step in steps["random"] for m in step]
    one = [populations(Model(), constants_with(base | {"K": 1, "ORDER": order})) for order in models]
    assert one[0] == one[1], "one candidate has no order"


@pytest.mark.parametrize("select", [uniform, boltzmann])
def test_every_place_is_as_likely_however_often_a_candidate_is_drawn_or_how_well_it_scored(select: Any) -> None:
    async def score(problem: Problem, population: Population, t: int, ask: Any, config: Any) -> None:
        for i, member in enumerate(population):
            member.self_score = i / 8

    firsts, shown = Counter[str](), Counter[str]()
    for seed in range(150):
        config = constants_with(BASE | {"N": 8, "K": 3, "T": 1, "SEED": seed})
        _, step = populations(Model(), config, select=select, score=score)
        count = uses(step)
        for member in step:
            ranked = sorted(member.parents, key=lambda j: (-count[j], j))
            for place, j in enumerate(member.parents):
                for what in (f"number {ranked.index(j)}", f"score {sorted(member.parents).index(j)}"):
                    shown[what] += 1
                    firsts[what] += place == 0
    for what, times in shown.items():  # 1,200 prompts: a standard deviation is 0.0136
        assert abs(firsts[what] / times - 1 / 3) < 0.06, what


def test_passing_over_a_candidate_leaves_the_others_in_their_order() -> None:
    config = constants_with(BASE | {"N": 6, "K": 6, "T": 1})
    whole = populations(Model(), config)[1]
    fewer = populations(Model(silent={(0, 2)}), config)[1]
    assert [[j for j in m.parents if j != 2] for m in whole] == [m.parents for m in fewer]
