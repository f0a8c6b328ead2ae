"""Static math agent: verify and improve solutions, merge each slot of K solutions, and select one
merge.

The method is from QED-Nano's evaluation (CMU-AIRe/QED-Nano,
eval/configs/agents/math_static_agent.yaml). Each solution is improved, even if its report names no
error. A slot with one solution is not merged. If the selection's reply is unreadable, a random
merge wins (in QED-Nano's code, the last one)."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from core import prompts
from core.base import seeds
from core.constants import constant
from core.types import (
    Ask,
    Completion,
    Member,
    Message,
    NamedPopulation,
    Population,
    Populations,
    Problem,
    Scaffold,
)
from harness.scaffolds import common
from harness.scaffolds.common import again, candidate, text_of
from harness.scaffolds.stated import read_choice, read_verdict
from harness.scaffolds.verification import Judging, verify_one

REPORT = prompts.worded("""Problem:
{problem}

Candidate <solution|proof>:
{solution}

Check every step of the candidate <solution; don't solve the problem|proof; don't prove it> in \
another way. Write a report that lists each error and each gap: quote the place, say what is wrong \
there and what follows from it. End with one line: "Verdict: True" if <its final answer is \
correct|it proves all that is asked, without an error or a serious gap>, else "Verdict: False".""")

IMPROVE = prompts.worded("""Problem:
{problem}

Candidate <solution|proof>:
{solution}

Report of a reviewer, who may be wrong too:
{report}

Go through the report, repair what is wrong and fill what is missing. Write one improved, complete \
<solution|and rigorous proof> that stands by itself and mentions neither the candidate nor the \
report.< {Form}|>""")

SELECT = prompts.worded("""Problem:
{problem}

{candidates}

Exactly one of these {count} <candidates|proofs> is to be kept. <Compare them step by step and \
decide which is most likely to be correct, or most nearly complete where several are.|Check each \
step by step for errors and gaps, and decide which proves most of what is asked; where several \
prove all of it, which leaves least unsaid.> End with one line that gives its number, like "Best: \
2".""")

BEST = "Best:"
CHOICE = r"best\s*+[:=]"  # needs a colon, because "the best 2 are" states no choice


class Reporting(common.Selecting):
    VERIFY_TOKENS: int = constant(8192, "token cap of one report, thinking included", 1, 1_000_000)


class Constants(Reporting):
    N: int = constant(8, "number of solutions", 1, 1024)
    K: int = constant(
        2,
        "slot: number of solutions that are merged into one (the last slot may have fewer)",
        1,
        1024,
    )
    ROUNDS: int = constant(
        1, "number of times that every solution is verified and improved", 0, 1000
    )


async def static_math_agent(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Improve solutions by reports, merge them in slots, and select one.

    Solutions without text get no report and are written anew. A random parent replaces an empty
    improvement or merge.

    Yields:
        The N solutions. Each round yields the solutions with reports, then the improved solutions.
        Then come one solution for each slot, and the selected solution."""
    solving = (candidate(ask, config, prompts.solve(problem), 0, i) for i in range(config.N))
    agent = _Agent(problem, ask, config, list(await asyncio.gather(*solving)))
    yield NamedPopulation("solutions", agent.population)
    for t in range(1, config.ROUNDS + 1):
        reports = await asyncio.gather(*(agent.reported(t, i) for i in range(config.N)))
        agent.population = list(reports)
        yield NamedPopulation(f"reports {t}", agent.population)
        improved = await asyncio.gather(*(agent.improved(t, i) for i in range(config.N)))
        agent.population = list(improved)
        yield NamedPopulation(f"improved {t}", agent.population)
    last = config.ROUNDS + 1
    slots = enumerate(_slots(config))
    merges = await asyncio.gather(*(agent.merged(last, i, slot) for i, slot in slots))
    yield NamedPopulation("merges", merges)
    completions = [member.completion for member in merges]
    yield NamedPopulation(
        "selection", [await select(problem, ask, config, completions, "select", 0)]
    )


@dataclass
class _Agent:
    """The agent's work on one problem. `population` has the newest solutions."""

    problem: Problem
    ask: Ask
    config: Constants
    population: Population

    async def reported(self, t: int, i: int) -> Member:
        """Request a report on solution i, if it has text."""
        member = again(self.population[i], i)
        text = self._text(i)
        if not text:
            return member
        return await report(self.problem, self.ask, self.config, member, text, "verify", t, i)

    async def improved(self, t: int, i: int) -> Member:
        """Request an improvement of solution i by its report. Without a report, refine it."""
        text = self._text(i)
        faults = "".join(check.text.strip() for check in self.population[i].side_calls)
        messages: list[Message] = prompts.aggregate(self.problem, [text] if text else [])
        if faults:
            messages = prompts.request(IMPROVE, self.problem, solution=text, report=faults)
        return await self._remade(messages, [i], t, i)

    async def merged(self, t: int, i: int, slot: Sequence[int]) -> Member:
        """Request one solution made from the solutions of a slot."""
        if len(slot) == 1:
            return again(self.population[slot[0]], *slot)
        texts = [text for text in map(self._text, slot) if text]
        messages = prompts.aggregate(self.problem, texts)
        return await self._remade(messages, slot, t, i)

    async def _remade(
        self, messages: list[Message], origins: Sequence[int], t: int, i: int
    ) -> Member:
        """Request a new solution. If it is empty, a random one of its origins replaces it."""
        parents = [j for j in origins if self._text(j)]
        new = await candidate(self.ask, self.config, messages, t, i, parents=parents)
        if common.EMPTY not in new.notes or not parents:
            return new
        rng = seeds.rng(self.config.SEED, self.problem.id, "kept", t, i)
        parent = int(rng.choice(parents))
        return again(self.population[parent], parent, side_calls=[new.completion], notes=new.notes)

    def _text(self, i: int) -> str:
        return text_of(self.population[i].completion, self.config)


def _slots(config: Constants) -> list[range]:
    """Return the members of each slot: K neighbouring indices, or fewer in the last slot."""
    return [range(i, min(i + config.K, config.N)) for i in range(0, config.N, config.K)]


REPORTING = Judging(
    lambda problem, text: prompts.request(REPORT, problem, solution=text),
    prompts.VERDICT,
    read_verdict,
)


async def report(
    problem: Problem, ask: Ask, config: Reporting, member: Member, solution: str, *names: str | int
) -> Member:
    """Request a report on the `solution` of `member`. Return the member with the report as its only
    side call."""
    await verify_one(problem, ask, config, REPORTING, member, solution, [names])
    if not member.side_calls[0].text.strip():
        member.notes = [common.EMPTY_REPORT]
    return member


def selection(problem: Problem, texts: Sequence[str]) -> list[Message]:
    """Build a request to select the best of `texts`, with a last line like "Best: 2"."""
    candidates = "\n\n".join(f"Candidate {i}:\n{text.strip()}" for i, text in enumerate(texts, 1))
    return prompts.request(SELECT, problem, candidates=candidates, count=len(texts))


async def select(
    problem: Problem,
    ask: Ask,
    config: common.Selecting,
    candidates: Sequence[Completion],
    *names: str | int,
) -> Member:
    """Select one of several candidates, shown in random order because models prefer certain
    positions. Empty ones are left out. A single one wins without a request. If none is left or the
    reply is unreadable, a random one wins."""
    texts = [text_of(completion, config) for completion in candidates]
    rng = seeds.rng(config.SEED, problem.id, "order", *names)
    order: list[int] = rng.permutation(len(texts)).tolist()
    order_with_text = [i for i in order if texts[i]]
    winner = (order_with_text or order)[0]
    notes = [common.EMPTY for text in texts if not text]
    if len(order_with_text) < 2:
        return Member(candidates[winner], [winner], carried_over=True, notes=notes)
    messages = selection(problem, [texts[i] for i in order_with_text])
    reply = await ask(messages, *names, max_tokens=config.SELECT_TOKENS, answer_opening=BEST)
    best = read_choice(reply.text, CHOICE, len(order_with_text))
    if best is None:
        notes.append(common.INVALID_SELECTION)
    else:
        winner = order_with_text[best]
    return Member(candidates[winner], [winner], side_calls=[reply], carried_over=True, notes=notes)


def _max_completions(config: Constants) -> int:
    slots = _slots(config)
    merges = len([slot for slot in slots if len(slot) > 1])
    selections = 1 if len(slots) > 1 else 0
    return config.N * (1 + 2 * config.ROUNDS) + merges + selections


STATIC_MATH_AGENT = Scaffold(
    static_math_agent,
    constants=Constants,
    prompts=(
        prompts.SOLVE,
        prompts.AGGREGATE,
        prompts.REFINE,
        prompts.VERDICT,
        REPORT,
        IMPROVE,
        SELECT,
        BEST,
    ),
    max_completions=_max_completions,
    # at least a solution and its report
    texts_shown=lambda config: max(2, config.K, len(_slots(config))),
)
