"""The bounds of what a scaffold asks, counted in a dry run: exact, cheap and never exceeded."""

import asyncio
import importlib
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import Field, fields
from typing import Any

import numpy as np
import pytest

from core.base import seeds
from core.base.errors import UserError
from core.constants import Constants
from core.scaffolds import bound, prompts, rsa
from core.scaffolds.bound import Bound, register
from core.session.contract import Contract
from core.types import Ask, Completion, Member, Message, Population, Problem, Scaffold
from tests.conftest import ROOT
from tests.fakes.model import SCAFFOLDS, Model, run
from tests.scaffolds.test_resume import Wayward, every_scaffold

# Beyond what dry runs run, so that the rest is computed.
LARGE = {
    "N": 7, "K": 5, "T": 6, "ROUNDS": 7, "VERIFY_SAMPLES": 4, "PERFECT": 5, "CALLS": 9, "PASSES": 1000, "FAILURES": 1000
}  # fmt: skip
COMMON = {each.name for each in fields(Constants)}


class Checked(Wayward):
    """Checks the contract with each request."""

    def __init__(self, world: int, contract: Contract) -> None:
        super().__init__(seed=world, world=world)
        self.contract = contract

    async def __call__(self, messages: Sequence[Message], *names: Any, **changes: Any) -> Completion:
        self.contract.asking(names, seeds.derive(0, *names))
        completion = await super().__call__(messages, *names, **changes)
        self.contract.got(completion, ("any",))
        return completion


def drawn(scaffold: Scaffold[Any], rng: np.random.Generator) -> Any:
    """Draw small constants of a scaffold."""

    def value(each: "Field[Any]") -> Any:
        rule = each.metadata
        if rule["choices"]:
            return str(rng.choice(rule["choices"]))
        return int(rng.integers(max(0, rule["low"]), min(7, rule["high"]) + 1))

    own = [each for each in fields(scaffold.constants) if each.name not in COMMON]
    own = [each for each in own if each.metadata["choices"] or type(each.default) is int]
    while True:
        try:
            return scaffold.constants(**{each.name: value(each) for each in own if "TOKENS" not in each.name})
        except UserError:
            continue


@every_scaffold
def test_no_replies_lead_beyond_a_bound(scaffold: Scaffold[Any]) -> None:
    rng = np.random.default_rng(0)
    for world in range(40):
        config = drawn(scaffold, rng)
        contract = Contract("drawn", scaffold.max_completions(config))
        model = Checked(world, contract)
        for population in run(scaffold, model, **vars(config)):
            contract.yielded(population)
        contract.ended()
        asked = [str(names) for names, *_ in model.asked]
        shown = [sum(f"{name}\n" in prompt for name in asked) for _, prompt, _ in model.asked]
        assert max(shown) <= scaffold.texts_shown(config), config


@every_scaffold
def test_a_bound_is_reached(scaffold: Scaffold[Any]) -> None:
    own = {each.name: LARGE[each.name] for each in fields(scaffold.constants) if each.name in LARGE}
    model = Model(lambda names, prompt: f"{bound.TEXT}\n{scaffold.reply or 'Score: 0'}")
    config = scaffold.constants(**own)
    run(scaffold, model, **vars(config))
    assert len(model.asked) == scaffold.max_completions(config)
    assert max(prompt.count(bound.TEXT) for _, prompt, _ in model.asked) == scaffold.texts_shown(config)


@every_scaffold
def test_a_bound_takes_no_time(scaffold: Scaffold[Any]) -> None:
    began = time.process_time()
    scaffold.max_completions(scaffold.constants(MAX_TOKENS=77))
    assert time.process_time() - began < 0.1


def test_the_largest_runs_are_computed() -> None:
    began = time.process_time()
    assert rsa.RSA.max_completions(rsa.RsaConstants(N=1024, K=1024, T=1000)) == 1024 * 1001
    assert rsa.RSA.texts_shown(rsa.RsaConstants(N=1024, K=1024, T=0)) == 1024
    assert time.process_time() - began < 1


def test_it_is_counted_inside_a_running_loop_too() -> None:
    async def notebook() -> int:
        return rsa.RSA.max_completions(rsa.RsaConstants(N=5, T=2))

    assert asyncio.run(notebook()) == 15


async def endless(problem: Problem, ask: Ask, config: Any) -> AsyncIterator[Population]:
    i = 0
    while (made := await ask(prompts.solve(problem), 0, i)).text != "done":
        yield [Member(made)]
        i += 1


async def no_generator(problem: Problem, ask: Ask, config: Any) -> Population:
    return []


async def of_nothing(problem: Problem, ask: Ask, config: Any) -> AsyncIterator[Population]:
    yield [Member(await ask("text", 0))]  # type: ignore[arg-type]


def test_a_scaffold_that_does_not_end_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bound, "LIMIT", 100)
    with pytest.raises(UserError, match="more than 100 completions in its dry run: register it with a reply"):
        register(endless, Constants).max_completions(Constants())
    known = register(endless, Constants, bound=lambda config: Bound(3, 1))
    assert (known.max_completions(Constants()), known.texts_shown(Constants())) == (3, 1)


def test_what_breaks_the_contract_is_left_to_it() -> None:
    assert register(no_generator, Constants).max_completions(Constants()) == 0  # type: ignore[arg-type]
    assert register(of_nothing, Constants).max_completions(Constants()) == 1


def test_every_scaffold_has_an_experiment() -> None:
    known = [scaffold.run for scaffold in SCAFFOLDS.values()]
    for path in (ROOT / "core" / "scaffolds").glob("[a-z]*.py"):
        for value in vars(importlib.import_module(f"core.scaffolds.{path.stem}")).values():
            assert not isinstance(value, Scaffold) or value.run in known, path


def test_a_scaffold_loads_no_other() -> None:
    program = (
        "import core.scaffolds.rsa, sys; print(sorted(m[15:] for m in sys.modules if m[:15] == 'core.scaffolds.'))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "['bound', 'prompts', 'rsa']"
