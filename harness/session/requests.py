"""Send the requests of a scaffold and of its grader about one problem.

A scaffold's requests go to the run's model, or with `to="scorer"` to the second model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from core.base import seeds
from core.base.errors import UserError
from core.generate import Generator
from core.types import SCORER, Completion, Message, Problem, Sampling, ScorerCompletion
from harness.framing import Framing
from harness.session.contract import Contract


class SecondModels(NamedTuple):
    """The clients of the second models' servers, each None if it is not set."""

    scorer: Generator | None
    grader: Generator | None


@dataclass(frozen=True)
class Requests:
    """The requests about a `problem`, whose seeds derive from the run's `seed`. The `contract`
    checks the scaffold's requests.

    `sampling` are the parameters of requests for solutions, and `second` the clients of the second
    models. `scorer_sampling` are the scorer's parameters, or None if the run has no scorer.
    `grade_sampling` are a grader's parameters."""

    problem: Problem
    seed: int
    framing: Framing
    contract: Contract
    generator: Generator
    second: SecondModels
    sampling: Sampling
    scorer_sampling: Sampling | None
    grade_sampling: Sampling

    async def ask(
        self, messages: Sequence[Message], *names: str | int, to: str = "", **changes: Any
    ) -> Completion:
        """Return a completion for the scaffold (core.types.Ask)."""
        seed = seeds.derive(self.seed, self.problem.id, *names)
        # Requests of early steps are sent first, so that all problems end at about the same time.
        priority = -_first_number(names)
        if to == SCORER:
            completion = await self._ask_scorer(messages, seed, priority, changes)
        elif to:
            raise UserError(f'a scaffold asks to={to!r:.40}. Use to="{SCORER}", or omit it')
        else:
            sampling = self.sampling.with_changes(**changes)
            completion = await self.generator(
                self.framing.frame(messages), seed, sampling, priority
            )
        self.contract.got(completion, names)
        return completion

    async def _ask_scorer(
        self, messages: Sequence[Message], seed: int, priority: float, changes: dict[str, Any]
    ) -> Completion:
        scorer = self.second.scorer
        if scorer is None or self.scorer_sampling is None:
            raise UserError(
                f'the scaffold asks to="{SCORER}", but it has no constant VERIFIER with the value '
                f'"{SCORER}". Add one to its constants (harness/scaffolds/verification.py)'
            )
        sampling = replace(self.scorer_sampling, **changes)
        if sampling.reward:  # a score depends on no other parameter
            sampling = Sampling(reward=sampling.reward)
        completion = await scorer(messages, seed, sampling, priority)
        return ScorerCompletion(**vars(completion))

    async def ask_for_grade(
        self, step: int, messages: Sequence[Message], names: Sequence[str | int], changes: Any
    ) -> Completion:
        """Return a completion for the grader of step number `step`."""
        seed = seeds.derive(self.seed, self.problem.id, "grade", step, *names)
        sampling = replace(self.grade_sampling, **changes)
        return await (self.second.grader or self.generator)(messages, seed, sampling)


def _first_number(names: Sequence[str | int]) -> int:
    """Return the first number in the names of a request, or 0."""
    for name in names:
        if isinstance(name, int):
            return name
    return 0
