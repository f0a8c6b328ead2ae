"""The bounds of the requests of a scaffold: reached, and never exceeded."""

import importlib
from collections.abc import Sequence
from dataclasses import Field, fields
from typing import Any

import numpy as np

from core.base.errors import UserError
from core.constants import Constants
from core.types import Completion, Message, Scaffold
from harness.session.contract import Contract
from tests.conftest import ROOT
from tests.fakes.model import SCAFFOLDS, Model, Wayward, every_scaffold, run

TEXT = "\ue000"  # opens every reply, so that a prompt holds one for each text that it shows
MOST = "Score: 0\nCALL solve {}"  # replies that lead to the most requests
LARGE = {
    "N": 7,
    "K": 5,
    "T": 6,
    "ROUNDS": 7,
    "VERIFY_SAMPLES": 4,
    "PERFECT": 5,
    "CALLS": 9,
    "PASSES": 1000,
    "FAILURES": 1000,
    "STEPS": 3,
}
SMALLER = (
    LARGE | {"N": 5, "K": 2, "ROUNDS": 2, "PERFECT": 6, "SCORE": "p_true"},
    LARGE | {"N": 3, "K": 3, "ROUNDS": 1, "T": 1, "CALLS": 1, "CLASSIFY": 0},
    LARGE | {"N": 2, "K": 2, "ROUNDS": 0, "T": 0, "KEEP": 1, "REFINEMENTS": 3},
)
ONE_ANSWER = (
    "best_of",
    "qed_rsa",
    "deepseek_math",
    "nomos",
    "selfcheck",
    "math_agent",
    "reasoning_cache",
)
COMMON = {each.name for each in fields(Constants)}


class Checked(Wayward):
    """A model that checks the contract with each request."""

    def __init__(self, world: int, contract: Contract) -> None:
        super().__init__(seed=world, world=world)
        self.contract = contract

    async def __call__(
        self, messages: Sequence[Message], *names: Any, **changes: Any
    ) -> Completion:
        completion = await super().__call__(messages, *names, **changes)
        self.contract.got(completion, names)
        return completion


def drawn(scaffold: Scaffold[Any], rng: np.random.Generator) -> Any:
    """Draw small constants of a scaffold."""

    def value(each: "Field[Any]") -> Any:
        rule = each.metadata["rule"]
        if rule.choices:
            return str(rng.choice(rule.choices))
        return int(rng.integers(max(0, rule.low), min(7, rule.high) + 1))

    own = [each for each in fields(scaffold.constants) if each.name not in COMMON]
    own = [each for each in own if each.metadata["rule"].choices or type(each.default) is int]
    while True:
        try:
            return scaffold.constants(
                **{each.name: value(each) for each in own if "TOKENS" not in each.name}
            )
        except UserError:
            continue


@every_scaffold
def test_no_replies_lead_beyond_a_bound_or_a_breach(scaffold: Scaffold[Any]) -> None:
    rng = np.random.default_rng(0)
    for world in range(8):
        config = drawn(scaffold, rng)
        contract = Contract("drawn", scaffold.max_completions(config))
        model = Checked(world, contract)
        for population in run(scaffold, model, **vars(config)):
            contract.yielded(population)
        contract.ended()
        assert len(population) == 1 or not getattr(scaffold.run, "__name__", "").endswith(
            ONE_ANSWER
        )
        asked = [str(names) for names, *_ in model.asked]
        shown = [sum(f"{name}\n" in prompt for name in asked) for _, prompt, _ in model.asked]
        assert max(shown) <= scaffold.texts_shown(config), config


@every_scaffold
def test_a_bound_is_reached(scaffold: Scaffold[Any]) -> None:
    for sizes in (LARGE, *SMALLER):
        own = {
            each.name: sizes[each.name] for each in fields(scaffold.constants) if each.name in sizes
        }
        model = Model(lambda names, prompt: f"{TEXT}\n{names}\n{MOST}")
        config = scaffold.constants(**own)
        run(scaffold, model, **vars(config))
        assert len(model.asked) == scaffold.max_completions(config), sizes
        shown = max(prompt.count(TEXT) for _, prompt, _ in model.asked)
        assert shown == scaffold.texts_shown(config) or (
            sizes is not LARGE and shown < scaffold.texts_shown(config)
        )


def test_every_scaffold_has_an_experiment() -> None:
    known = [scaffold.run for scaffold in SCAFFOLDS.values()]
    for path in (ROOT / "harness" / "scaffolds").glob("[a-z]*.py"):
        for value in vars(importlib.import_module(f"harness.scaffolds.{path.stem}")).values():
            assert not isinstance(value, Scaffold) or value.run in known, path
