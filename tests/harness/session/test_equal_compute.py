"""Equal compute: what a budget buys, how it is enforced, and the whole comparison on the embedded
engine."""

import asyncio
import json
import math
import runpy
import selectors
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from core.base.errors import UserError
from core.base.prices import Prices
from core.base.seeds import derive
from core.engines.shape import Shape
from core.rsa import RSA, rsa
from core.types import Ask, Completion, Member, Message, Population, Problem
from harness.report.budgets import Bought, bought, in_unit, pair, rows, table
from harness.results.cost_meter import TOKENS, Meter
from harness.results.model import StepResult
from harness.scaffolds.best_of import BEST_OF
from harness.session.equal_compute import Budgeted, Comparison, Constants, Entry, compare, entry
from tests.fakes.model import PROBLEM, Model, constants_with, graded_step
from tests.fakes.server import ScriptedServer, reply
from tests.helpers import documents


def member(
    tokens: int, parents: Sequence[int] = (), seconds: float = 1.0, **more: Any
) -> dict[str, Any]:
    return documents.member(tokens, parents, seconds=seconds, **more)


def step(score: float, *members: dict[str, Any]) -> dict[str, Any]:
    return documents.step(0, members, majority=score)


def buys(steps: Sequence[dict[str, Any]], budget: float, meter: Meter = TOKENS) -> Bought:
    """What a budget buys of steps as they stand in a results file. Keys of scripted models are none
    of a journal's."""
    for cost in (
        cost for each in steps for m in each["members"] for cost in (m, *m.get("side_calls", []))
    ):
        cost["key"] = documents.KEY
    return bought([convert(each, StepResult) for each in steps], budget, meter)


STEPS = [
    step(0.5, member(100, seconds=2.0), member(100, seconds=3.0)),
    step(
        0.0,
        member(50, [0], side_calls=[member(30, seconds=4.0)]),
        member(0, [1], 0.0, carried_over=True),
    ),
    step(1.0, member(0, [0], 0.0, carried_over=True, side_calls=[member(20, seconds=0.5)])),
]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (199, (None, 0, 0, 0, 0, 0.0, 200, 0, 0)),
        (200, (0.5, 200, 20, 10, 2, 3.0, 80, 210, 220)),
        (279, (0.5, 200, 20, 10, 2, 3.0, 80, 210, 220)),
        (280, (0.0, 280, 40, 20, 4, 8.0, 20, 300, 320)),
        (300, (1.0, 300, 50, 25, 5, 8.5, 0, 325, 350)),
        (9999, (1.0, 300, 50, 25, 5, 8.5, 0, 325, 350)),
    ],
)
def test_a_budget_buys_the_steps_that_it_pays_for_whole(
    budget: int, expected: tuple[float | None, ...]
) -> None:
    found = buys(STEPS, budget)
    names = ("tokens", "prompt", "cached", "calls", "path", "cut", "read", "read_cold")
    assert (found.score, *(found.figures[name] for name in names)) == expected


# 17 parameters in its layer, 19 in a step
TINY = Shape(1, 1, 1, 1, head_dim=2, intermediate=1, vocab=1, tied=True)
# completion tokens of STEPS; prompts take 10 tokens, 5 of which are cached
WRITTEN = [(100, 100), (50, 30), (20,)]


@pytest.mark.parametrize(
    ("unit", "cost"),
    [
        ("tokens", lambda tokens: tokens),
        ("read", lambda tokens: tokens + 5),
        ("read_cold", lambda tokens: tokens + 10),
        ("dollars", lambda tokens: (5 * 3.0 + 5 * 1.0 + tokens * 10.0) / 1e6),
        (
            "flops",
            lambda tokens: (
                2 * (17 * 5 + 19 * tokens) + 8 * sum(range(5, 10 + tokens)) + 4 * (5 + tokens)
            ),
        ),
    ],
)
def test_a_budget_can_be_counted_in_any_unit(unit: str, cost: Callable[[int], float]) -> None:
    meter, spent = Meter(unit, TINY, Prices(3.0, 1.0, 10.0)), 0.0
    for number, tokens in enumerate(WRITTEN):
        before, spent = [None, 0.5, 0.0][number], spent + sum(map(cost, tokens))
        assert buys(STEPS, spent * (1 - 1e-9), meter).score == before
        found = buys(STEPS, spent * (1 + 1e-9), meter)
        assert found.score == [0.5, 0.0, 1.0][number]
        assert found.figures[unit] == pytest.approx(spent)
        assert found.figures.keys() > {"tokens", "read", "read_cold", "flops", "dollars"}, (
            "the others are counted too"
        )


def test_a_unit_without_known_costs_is_refused_and_unknown_costs_are_no_zeros() -> None:
    for unit in ("flops", "dollars"):
        with pytest.raises(UserError, match=f"BUDGET_IN={unit}"):
            Meter(unit)
    assert Meter().units == ["tokens", "read", "read_cold"]
    silent = step(1.0, member(10, prompt_tokens=None, cached_tokens=None))
    assert buys([silent], 10).score == 1.0 and math.isnan(buys([silent], 10).figures["read"])
    assert buys([silent], 10, Meter("read")).score is None


def test_a_free_step_answers_only_with_the_one_it_selects() -> None:
    best = step(1.0, member(0, [1], carried_over=True))
    shown = step(0.5, member(0, carried_over=True), member(0, carried_over=True))
    refined = step(0.0, member(50, [0]), member(50, [1]))
    steps = [step(0.0, member(10), member(10)), best, shown, refined]
    assert [buys(steps, budget).score for budget in (20, 119, 120)] == [1.0, 1.0, 0.0]
    assert buys([step(0.5, member(0), member(0)), refined], 50).score == 0.5, (
        "failed samples are an answer"
    )


def test_independent_samples_make_no_path() -> None:
    grown = [
        step(1, member(1)),
        step(1, member(0, [0], 0.0, carried_over=True), member(1, seconds=2.0)),
    ]
    assert buys(grown, 10).figures["path"] == 2.0


class Virtual(selectors.DefaultSelector):
    """A clock that jumps to when the next sleep ends."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += max(timeout or 0.0, 0.0)
        return super().select(0)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "each",
    [
        *map(
            entry,
            ("05_rsa_qed", "06_deepseek_math", "07_nomos", "08_reasoning_cache", "09_selfcheck"),
        ),
        *map(entry, ("10_static_math_agent", "11_math_agent", "13_best_of", "14_refinement")),
        entry("02_rsa_basic", replace(RSA, run=partial(rsa, stop=lambda *_: False))),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_the_path_is_the_time_of_a_run_if_no_request_waits(each: Entry, seed: int) -> None:
    clock = Virtual()
    loop = asyncio.SelectorEventLoop(clock)
    loop.time = lambda: clock.now  # type: ignore[method-assign]
    config = constants_with(
        {"SEED": seed, "MAX_TOKENS": 100, "ANSWER_TOKENS": 0} | dict(each.constants)
    )

    async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
        number = derive(seed, *names)
        await asyncio.sleep(1 + number % 7)
        text = reply(messages[-1]["content"], number)
        return Completion(
            repr(names),
            0,
            "",
            text,
            finish_reason="stop",
            completion_tokens=10,
            seconds=1 + number % 7,
        )

    async def collect() -> list[Any]:
        return [
            graded_step(PROBLEM, 0, population)
            async for population in each.scaffold.run(PROBLEM, ask, config)
        ]

    try:
        steps = loop.run_until_complete(collect())
    finally:
        loop.close()
    assert buys(steps, 10**6).figures["path"] == pytest.approx(clock.now)


def test_a_budget_ends_a_problem_after_the_step_that_goes_beyond_it() -> None:
    ended = []

    async def endless(problem: Problem, ask: Ask, config: Any) -> AsyncIterator[Population]:
        try:
            for t in range(100):
                completion = await ask([{"role": "user", "content": "?"}], t, 0)
                check_ = await ask([{"role": "user", "content": "!"}], "verify", t)
                yield [
                    Member(completion, side_calls=[check_]),
                    Member(completion, carried_over=True),
                ]
        finally:
            ended.append(True)

    async def collect(tokens: int) -> int:
        model = Model(lambda names, prompt: "x")  # 10 tokens each
        populations = [
            p async for p in Budgeted(endless, tokens)(PROBLEM, model, constants_with({}))
        ]
        assert len(model.asked) == 2 * len(populations)
        return len(populations)

    assert [asyncio.run(collect(tokens)) for tokens in (1, 19, 20, 59)] == [1, 1, 2, 3] and len(
        ended
    ) == 4


def saved(path: Path, *problems: Sequence[dict[str, Any]]) -> Path:
    """Write results with these steps of each problem."""
    path.write_text(
        json.dumps(documents.document([documents.problem("p", steps) for steps in problems]))
    )
    return path


def test_rows_are_paired_with_the_first_over_the_means_of_seeds(tmp_path: Path) -> None:
    def scored(name: str, scores: list[float]) -> Path:
        return saved(tmp_path / f"{name}.json", *([step(score, member(100))] for score in scores))

    runs = {
        "base": [scored("a0", [0, 0, 1]), scored("a1", [0, 1, 1])],
        "other": [scored("b0", [1, 0, 1]), scored("b1", [1, 1, 1])],
    }
    found = rows(runs, (50, 100))
    pair(found, "base")
    by_name = {(row.name, row.budget): row for row in found}
    assert by_name["base", 100].scores == [0, 0.5, 1] and by_name["other", 100].scores == [
        1,
        0.5,
        1,
    ]
    against = by_name["other", 100].against
    assert against is not None and (against.wins, against.losses, against.ties) == (1, 0, 2)
    assert by_name["base", 100].against is None and by_name["other", 50].unanswered == 1.0
    assert by_name["other", 50].accuracy.value == 0 and by_name["other", 50].means["cut"] == 100


def test_the_reference_of_the_comparison_uses_up_every_budget() -> None:
    """Whoever is compared with voting must not gain from tokens that voting was not given."""
    found = runpy.run_path("experiments/15_compute_matched.py")
    budgets = [float(each) for each in found["BUDGETS"].split(",")]
    first = found["comparison"].chosen(Constants(BUDGETS=found["BUDGETS"]))[0]
    config = constants_with(
        {"SEED": 0, "MAX_TOKENS": 100, "ANSWER_TOKENS": 0} | dict(first.constants)
    )

    async def collect() -> list[Any]:
        model = Model(lambda names, prompt: "\\boxed{42}")  # 10 tokens each
        return [
            graded_step(PROBLEM, 0, population)
            async for population in first.scaffold.run(PROBLEM, model, config)
        ]

    steps = asyncio.run(collect())
    for budget in budgets:
        assert buys(steps, round(10 * budget)).figures["calls"] == int(budget)
        assert not budget.is_integer(), (
            "of whole samples, half of the problems would just miss the last"
        )


def test_a_row_that_answered_nothing_has_no_difference_and_p_is_corrected_over_the_table(
    tmp_path: Path,
) -> None:
    steps = {
        "base": [step(0, member(100))],
        "late": [step(1, member(300))],
        "good": [step(0, member(100)), step(1, member(100, [0]))],
    }
    runs = {name: [saved(tmp_path / f"{name}.json", *[each] * 12)] for name, each in steps.items()}
    found = rows(runs, (50, 100, 200, 300))
    pair(found, "base")
    by_name = {(row.name, row.budget): row for row in found}
    compared = [key for key, row in by_name.items() if row.against]
    assert compared == [("late", 300), ("good", 100), ("good", 200), ("good", 300)]
    ps = [by_name[key].against.p for key in compared]  # type: ignore[union-attr]
    assert ps == [2 / 2**12, 1, 2 / 2**12, 2 / 2**12]
    assert [by_name[key].p_holm for key in compared] == pytest.approx(
        [8 / 2**12, 1, 8 / 2**12, 8 / 2**12]
    )
    cells = {
        tuple(line.split()[:2]): line.split()[2:]
        for line in table(found, "base").body().splitlines()[2:]
    }
    assert cells["late", "200"][:4] == cells["base", "50"][:4] == ["-"] * 4, (
        "no accuracy, no difference, no p"
    )
    assert "p (Holm)" in table(found, "base").body().splitlines()[0]
    assert all(row.p_holm is None for row in found if not row.against)


def test_entries_take_the_constants_of_their_experiments() -> None:
    best_of = entry("13_best_of", N=4, name="small")
    assert (best_of.name, best_of.constants["N"], best_of.constants["VERIFY_SAMPLES"]) == (
        "small",
        4,
        4,
    )
    assert best_of.scaffold is BEST_OF and "MAX_TOKENS" not in best_of.constants
    small = entry("14_refinement", ROUNDS=2)
    # the first draws three samples, and the others three completions at most
    few = Constants(BUDGETS="2,2.5")
    comparison = Comparison([entry("12_majority", STAGE=1), best_of, small])
    assert (
        comparison.max_completions(few) == 3 + 3 + 3
        and comparison.max_completions(Constants()) == 12 + 11 + 3
    )
    assert [each.name for each in comparison.chosen(Constants(ENTRIES="small"))] == [
        "12_majority",
        "small",
    ]
    config: Any = best_of.config(Constants(VERIFY_TOKENS=7, RUNS=3))
    assert (config.VERIFY_TOKENS, config.RUNS) == (7, 3)


MADE = entry("12_majority", N=4)


@pytest.mark.parametrize(
    ("entries", "constants"),
    [
        ([MADE, MADE], {}),
        ([MADE], {"ENTRIES": "12_majority,rsa"}),
        *(([MADE], {"BUDGETS": budgets}) for budgets in ("", "0.5", "nan,3", "2,inf", "1;2")),
    ],
)
def test_what_cannot_be_compared_is_refused(entries: Any, constants: Any) -> None:
    with pytest.raises(UserError):
        Comparison(entries).chosen(Constants(**constants))


def test_budgets_in_samples_need_token_counts(tmp_path: Path) -> None:
    none, *both = (
        saved(tmp_path / f"{tokens}.json", [step(1, *[member(tokens)] * 4)])
        for tokens in (0, 100, 120)
    )
    assert in_unit((2.5,), both) == [275] and in_unit((2.5,), both, Meter("read")) == [
        round(2.5 * 115)
    ]
    assert in_unit((2.5,), both, Meter("dollars", prices=Prices(1.0, 0.0, 1.0))) == [
        pytest.approx(2.5 * 115 / 1e6)
    ]
    with pytest.raises(UserError):
        in_unit((2.5,), [none])


def compared(entries: list[Entry], monkeypatch: pytest.MonkeyPatch, *overrides: str) -> None:
    """Run a comparison as its file does."""
    monkeypatch.setattr("sys.argv", ["99_small.py", *overrides])
    compare(Comparison(entries), {"__file__": "99_small.py", "BUDGETS": "2,4", "RUNS": 2})


def test_a_comparison_asks_nothing_twice(
    server: ScriptedServer,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BASE_URL", server.url)
    entries = [MADE, entry("02_rsa_basic", N=2, K=2, T=1)]
    shown = []
    for _ in range(2):
        compared(entries, monkeypatch, "LIMIT=2", "PROBLEMS=sums")
        shown.append(capsys.readouterr().out)
        asked = len(server.asked)
    assert len(server.asked) == asked
    folder = results / "99_small"
    lines = [json.loads(line) for line in (folder / "table.jsonl").read_text().splitlines()]
    assert [line["scaffold"] for line in lines[1:]] == ["12_majority"] * 2 + ["02_rsa_basic"] * 2
    assert all(line["tokens"] <= line["budget"] for line in lines[1:])
    assert (folder / "table.txt").read_text() in shown[1] and len(
        list(folder.glob("*-seed?.json"))
    ) == 4
    # a budget ends it while requests are in flight
    ahead = entry("12_majority", name="ahead", N=64, STAGE=1)
    compared([MADE, ahead], monkeypatch, "PROBLEMS=sums", "LIMIT=1", "SEED=2")
    assert {path.name for path in folder.glob("ahead*.json")} == {
        "ahead-seed2.json",
        "ahead-seed3.json",
    }
