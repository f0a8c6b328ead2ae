"""Define the scaffold that collects aggregations: RSA on training problems. It notes each prompt,
and judges each solution, plain or aggregated."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core import rsa
from core.eval import by_answer
from core.rsa import RSA, RsaConstants
from core.types import Ask, Completion, Member, Messages, Population, Problem, Scaffold
from labs.star.aggregation.constants import LearnConstants
from labs.star.collect import Sample, judged
from labs.star.hints import mentions_candidate
from labs.star.record import AGGREGATED, FIRST

Names = tuple[str | int, ...]  # step and member


@dataclass(frozen=True)
class Solution:
    """A judged member of a population, with the prompt that asked for it."""

    step: int  # 0 for a plain solution
    prompt: Messages
    sample: Sample
    is_right: bool
    parents: int  # number of candidates in the prompt
    right_parents: int

    @property
    def is_mixed(self) -> bool:
        """True if some candidates are right and others are wrong."""
        return 0 < self.right_parents < self.parents


def aggregating(
    learn: LearnConstants, solutions: dict[str, list[Solution]]
) -> Scaffold[RsaConstants]:
    """Return a scaffold that runs RSA, for a run with the constants `learn`. It adds all solutions
    to `solutions` by the problem's id."""

    async def run(problem: Problem, ask: Ask, config: RsaConstants) -> AsyncIterator[Population]:
        collected = solutions[problem.id] = []
        prompts: dict[Names, Messages] = {}

        async def noting(
            messages: Messages, *names: str | int, to: str = "", **changes: Any
        ) -> Completion:
            prompts[names] = messages
            return await ask(messages, *names, to=to, **changes)

        rights: list[bool] = []
        step = 0
        async for population in rsa.rsa(problem, noting, config):
            graded = await by_answer(problem, population, ask)
            before, rights = rights, [grade.value == 1 for grade in graded.grades]
            samples = await _judged(problem, population, step, ask, learn)
            for i, member in enumerate(population):
                parents = [before[j] for j in member.parents]
                prompt = prompts[step, i]
                solution = Solution(step, prompt, samples[i], rights[i], len(parents), sum(parents))
                collected.append(solution)
            yield [_noted(*pair) for pair in zip(population, samples, strict=True)]
            step += 1

    return replace(RSA, run=run)


def _noted(member: Member, sample: Sample) -> Member:
    """Note on a member for the results why it was dropped."""
    notes = [f"dropped: {sample.dropped}"] if sample.dropped else []
    return replace(member, notes=[*member.notes, *notes])


async def _judged(
    problem: Problem, population: Population, step: int, ask: Ask, learn: LearnConstants
) -> Sequence[Sample]:
    """Judge the members of a population. Plain solutions must always be right, and aggregations
    unless FILTER=0."""
    way, config = (AGGREGATED, learn) if step else (FIRST, replace(learn, FILTER=1))
    judging = [judged(problem, member.completion, way, ask, config) for member in population]
    samples = await asyncio.gather(*judging)
    if step and learn.TEACH == "solve":
        return list(map(_without_candidates, samples))
    return samples


def _without_candidates(sample: Sample) -> Sample:
    """Return the sample, dropped if it mentions a candidate. The prompt to solve has no
    candidates."""
    completion = sample.completion
    text = f"{completion.thinking}\n{completion.text}"
    if sample.dropped or not mentions_candidate(text, sample.problem):
        return sample
    return replace(sample, dropped="mentions a candidate")
