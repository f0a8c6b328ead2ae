"""Static math agent: verify and improve solutions, merge each slot of K solutions, and select one
merge.

The method is from QED-Nano's evaluation (CMU-AIRe/QED-Nano,
eval/configs/agents/math_static_agent.yaml). Each solution is improved, even if its report names no
error. A slot with one solution is not merged. If the selection's reply is unreadable, a random
merge wins (in QED-Nano's code, the last one)."""

import asyncio
from collections.abc import Sequence

from core import prompts
from core.base import seeds
from core.constants import constant
from core.types import (
    Ask,
    Completion,
    Member,
    Message,
    Population,
    Populations,
    Problem,
    Scaffold,
    Stage,
)
from harness.scaffolds import common
from harness.scaffolds.common import again, candidate, text_of
from harness.scaffolds.stated import read_choice, read_verdict
from harness.scaffolds.verification import Judging, judge

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

    async def remake(messages: list[Message], origins: Sequence[int], t: int, i: int) -> Member:
        spoken = [j for j in origins if texts[j]]
        new = await candidate(ask, config, messages, t, i, parents=spoken)
        if common.EMPTY not in new.notes or not spoken:
            return new
        kept = int(seeds.rng(config.SEED, problem.id, "kept", t, i).choice(spoken))
        return again(population[kept], kept, side_calls=[new.completion], notes=new.notes)

    async def reported(t: int, i: int) -> Member:
        member = again(population[i], i)
        return (
            await report(problem, ask, config, member, texts[i], "verify", t, i)
            if texts[i]
            else member
        )

    async def improved(t: int, i: int) -> Member:
        found = "".join(check.text.strip() for check in population[i].side_calls)
        messages: list[Message] = prompts.aggregate(problem, [texts[i]] if texts[i] else [])
        if found:
            messages = prompts.request(IMPROVE, problem, solution=texts[i], report=found)
        return await remake(messages, [i], t, i)

    async def merged(t: int, slot: int, origins: Sequence[int]) -> Member:
        if len(origins) == 1:
            return again(population[origins[0]], *origins)
        return await remake(
            prompts.aggregate(problem, [texts[j] for j in origins if texts[j]]), origins, t, slot
        )

    solving = (candidate(ask, config, prompts.solve(problem), 0, i) for i in range(config.N))
    population: Population = list(await asyncio.gather(*solving))
    texts = [text_of(member.completion, config) for member in population]
    yield Stage("solutions", population)
    for t in range(1, config.ROUNDS + 1):
        population = list(await asyncio.gather(*(reported(t, i) for i in range(config.N))))
        yield Stage(f"reports {t}", population)
        population = list(await asyncio.gather(*(improved(t, i) for i in range(config.N))))
        texts = [text_of(member.completion, config) for member in population]
        yield Stage(f"improved {t}", population)
    merging = (merged(config.ROUNDS + 1, i, slot) for i, slot in enumerate(_slots(config)))
    population = list(await asyncio.gather(*merging))
    yield Stage("merges", population)
    yield Stage(
        "selection",
        [await select(problem, ask, config, [m.completion for m in population], "select", 0)],
    )


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
    await judge(problem, ask, config, REPORTING, member, solution, [names])
    if not member.side_calls[0].text.strip():
        member.notes = [common.EMPTY_REPORT]
    return member


def selection(problem: Problem, texts: Sequence[str]) -> list[Message]:
    """Build a request to select the best of `texts`, with a last line like "Best: 2"."""
    candidates = "\n\n".join(
        f"Candidate {place}:\n{text.strip()}" for place, text in enumerate(texts, 1)
    )
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
    texts = [text_of(each, config) for each in candidates]
    order: list[int] = (
        seeds.rng(config.SEED, problem.id, "order", *names).permutation(len(texts)).tolist()
    )
    shown = [i for i in order if texts[i]]
    winner, notes = (shown or order)[0], [common.EMPTY] * (len(texts) - len(shown))
    if len(shown) < 2:
        return Member(candidates[winner], [winner], carried_over=True, notes=notes)
    messages = selection(problem, [texts[i] for i in shown])
    reply = await ask(messages, *names, max_tokens=config.SELECT_TOKENS, answer_opening=BEST)
    best = read_choice(reply.text, CHOICE, len(shown))
    winner = winner if best is None else shown[best]
    notes += [common.INVALID_SELECTION] * (best is None)
    return Member(candidates[winner], [winner], side_calls=[reply], carried_over=True, notes=notes)


def _most(config: Constants) -> int:
    slots = _slots(config)
    merges = sum(len(slot) > 1 for slot in slots)
    return config.N * (1 + 2 * config.ROUNDS) + merges + (len(slots) > 1)


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
    max_completions=_most,
    # at least a solution and its report
    texts_shown=lambda config: max(2, config.K, len(_slots(config))),
)
