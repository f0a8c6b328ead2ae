"""Scripted models for scaffolds, which answer by rule and keep the requests."""

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from core.base import seeds
from core.eval import grade_answers
from core.types import Completion, Message, Population, Problem, Scaffold
from harness import experiment_file
from harness.results.records import record
from tests.fakes.server import stated

Names = tuple[str | int, ...]
Reply = Callable[[Names, str], str | Completion]
SCAFFOLDS: dict[str, Scaffold[Any]] = {
    name: cast(Scaffold[Any], experiment_file.load(experiment).planned)
    for name, experiment in experiment_file.experiments_by_scaffold().items()
}
DEFAULTS: dict[str, Any] = {}
# of several constants with one name, those of RSA count
for scaffold in reversed(SCAFFOLDS.values()):
    DEFAULTS |= vars(scaffold.constants())
PROBLEM = Problem("p1", "How much is 6*7?", "42")
FAILED = Completion("", 0, error="refused")
PROOF = Problem(
    "p1",
    "Prove that 6*7 is even.",
    None,
    "proof",
    guidelines="7 points for any proof.",
    solution="6 is.",
)
SIZES: dict[str, Any] = {  # small, of every scaffold
    "N": 4, "K": 2, "T": 3, "ROUNDS": 4, "PASSES": 3, "FAILURES": 3, "SELECT_TOKENS": 50,
    "SUMMARY_TOKENS": 50, "SCORE": "verdict", "VERIFY_SAMPLES": 2, "VERIFY_TOKENS": 50,
    "KEEP": 2, "REVIEWS": 1, "REFINEMENTS": 1, "PERFECT": 2, "STEPS": 3, "MINUTES": 0,
    "CALLS": 6, "PLAN_TOKENS": 50,
}  # fmt: skip
SHORT: dict[str, Any] = {"SEED": 0, "CARRY": "answer", "MAX_TOKENS": 100, "ANSWER_TOKENS": 0}
every_scaffold = pytest.mark.parametrize("scaffold", SCAFFOLDS.values(), ids=SCAFFOLDS)


def constants_with(values: Mapping[str, Any]) -> Any:
    """Return the defaults of all scaffolds, with `values` on top."""
    return SimpleNamespace(**DEFAULTS | dict(values))


class Model:
    """A model that answers by `reply(names, prompt)`: a text, or a whole completion. `asked`:
    (names, prompt, changes) of all requests. Each yields to other requests first, as a real one
    does."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.asked: list[tuple[Names, str, dict[str, Any]]] = []

    async def __call__(
        self, messages: Sequence[Message], *names: str | int, **changes: Any
    ) -> Completion:
        prompt = messages[-1]["content"]
        assert names not in [other for other, *_ in self.asked], (
            f"{names} is the name of two requests"
        )
        self.asked.append((names, prompt, changes))
        await asyncio.sleep(0)
        reply, opening = self._reply(names, prompt), changes.get("opening", "")
        if isinstance(reply, Completion):
            return replace(
                reply, key=repr(names), answer=opening * bool(reply.answer) + reply.answer
            )
        return Completion(
            repr(names),
            0,
            "",
            opening + reply,
            finish_reason="stop",
            completion_tokens=10,
            prompt_tokens=5,
        )

    def prompts(self, *begin: str | int) -> list[str]:
        """Return the prompts of the requests whose names begin so."""
        return [prompt for names, prompt, _ in self.asked if names[: len(begin)] == begin]


def run(
    scaffold: Any, model: Model, problem: Problem = PROBLEM, **constants: Any
) -> list[Population]:
    """Return all populations of `scaffold`, after a check that every completion belongs to one
    member."""
    config = constants_with(SHORT | constants)

    async def collect() -> list[Population]:
        return [
            population
            async for population in getattr(scaffold, "run", scaffold)(problem, model, config)
        ]

    populations = asyncio.run(collect())
    members = [member for population in populations for member in population]
    counted = [m.completion.key for m in members if not m.carried_over] + [
        c.key for m in members for c in m.side_calls
    ]
    assert sorted(counted) == sorted(repr(names) for names, *_ in model.asked), (
        "each completion belongs to one member"
    )
    return populations


def traced(scaffold: Any, reply: Reply, **constants: Any) -> tuple[list[Population], Model]:
    """Return all populations of `scaffold` on a model that answers by `reply`, and the model."""
    model = Model(reply)
    return run(scaffold, model, **constants), model


def but(reply: Reply, others: Mapping[Names, str | Completion]) -> Reply:
    """Return `reply`, with `others` for requests of these names."""
    return lambda names, prompt: others[names] if names in others else reply(names, prompt)


class Broken(Exception):
    """The process was killed."""


class Jumbled(Model):
    """A model whose answers arrive in an order that follows from `seed`."""

    def __init__(self, reply: Reply, seed: int) -> None:
        super().__init__(reply)
        self._rng = random.Random(seed)

    async def __call__(
        self, messages: Sequence[Message], *names: str | int, **changes: Any
    ) -> Completion:
        reply = await super().__call__(messages, *names, **changes)
        for _ in range(self._rng.randrange(20)):
            await asyncio.sleep(0)
        return reply


class Wayward(Jumbled):
    """A model with answers of every kind, failed and cut off too, which follow from `world` and the
    names alone. It is dead after `life` requests."""

    def __init__(self, seed: int, life: int = 10**9, world: int = 0) -> None:
        super().__init__(self.completion, seed)
        self.life, self.world = life, world

    async def __call__(
        self, messages: Sequence[Message], *names: str | int, **changes: Any
    ) -> Completion:
        if len(self.asked) == self.life:
            raise Broken
        return await super().__call__(messages, *names, **changes)

    def completion(self, names: Names, prompt: str) -> Completion:
        text, drawn = self.text(names, prompt), seeds.derive(self.world, "end", *names)
        if not text and drawn % 2:
            return FAILED
        return Completion(
            "", 0, "", text, finish_reason="stop" if drawn % 4 else "length", completion_tokens=10
        )

    def text(self, names: Names, prompt: str) -> str:
        kinds = [
            "Verdict: True\nBetter: 1\nBest: 1\nScore: 1\nKeep: 1, 2\nCALL solve {}\nyes",
            (
                'Verdict: False\nBetter: 2\nBest: 2\nScore: 0\nKeep: 2\nCALL verify {"solution": '
                "1}\nno"
            ),
            "",
            'Summary: so far\nCALL submit {"solution": 1}',
            "I wonder",
        ]
        drawn = seeds.derive(self.world, *names)
        kind = kinds[drawn % len(kinds)]
        lines = [
            line
            for line in stated(prompt)
            if not any(line.partition(" ")[0] in kind for kind in kinds)
        ]
        return kind and "\n".join([str(names), kind, *lines[drawn % (len(lines) + 1) :][:1]])

    def book(self) -> dict[Names, tuple[str, dict[str, Any]]]:
        return {names: (prompt, changes) for names, prompt, changes in self.asked}


def graded_step(problem: Problem, step: int, population: Population) -> dict[str, Any]:
    """Return the record of a step, graded by its boxed answers."""
    return record(step, population, grade_answers(problem, population))
