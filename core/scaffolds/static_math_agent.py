"""Static math agent: verify and improve solutions, merge each slot of K solutions, and select one merge.

The method is from QED-Nano's evaluation (CMU-AIRe/QED-Nano, eval/configs/agents/math_static_agent.yaml). N = 8, K = 2
and ROUNDS = 1 take at most 29 completions: 8 solutions, 8 reports, 8 improvements, 4 merges and 1 selection. Each
solution is improved, even if its report names no error. A slot with one solution is not merged. The selection shows the
merges in random order. If its reply is unreadable, a random merge wins (in QED-Nano's code, the last one).
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from core.base import seeds
from core.constants import check_subset, constant
from core.scaffolds import common, prompts
from core.scaffolds.verification import read_verdict
from core.types import Ask, Completion, Member, Message, Population, Problem, Scaffold, Stage, Wording, carried

REPORT = Wording(
    answer="""Problem:
{problem}

Candidate solution:
{solution}

Check every step of the candidate solution; don't solve the problem in another way. Write a report that lists each \
error and each gap: quote the place, say what is wrong there and what follows from it. End with one line: \
"Verdict: True" if its final answer is correct, else "Verdict: False".""",
    proof="""Problem:
{problem}

Candidate proof:
{solution}

Check every step of the candidate proof; don't prove it in another way. Write a report that lists each error and each \
gap: quote the place, say what is wrong there and what follows from it. End with one line: "Verdict: True" if it \
proves all that is asked, without an error or a serious gap, else "Verdict: False".""",
)

IMPROVE = Wording(
    answer="""Problem:
{problem}

Candidate solution:
{solution}

Report of a reviewer, who may be wrong too:
{report}

Go through the report, repair what is wrong and fill what is missing. Write one improved, complete solution that \
stands by itself and mentions neither the candidate nor the report. {Form}""",
    proof="""Problem:
{problem}

Candidate proof:
{solution}

Report of a reviewer, who may be wrong too:
{report}

Go through the report, repair what is wrong and fill what is missing. Write one improved, complete and rigorous proof \
that stands by itself and mentions neither the candidate nor the report.""",
)

SELECT = Wording(
    answer="""Problem:
{problem}

{candidates}

Exactly one of these {count} candidates is to be kept. Compare them step by step and decide which is most likely to be \
correct, or most nearly complete where several are. End with one line that gives its number, like "Best: 2".""",
    proof="""Problem:
{problem}

{candidates}

Exactly one of these {count} proofs is to be kept. Check each step by step for errors and gaps, and decide which \
proves most of what is asked; where several prove all of it, which leaves least unsaid. End with one line that gives \
its number, like "Best: 2".""",
)

BEST = "Best:"

_BEST = re.compile(
    rf"best[\s*_`]*+[:=][\s*_`$]*+(?:\\boxed\{{)?+[\s*_`]*+(?:candidate\s*+)?+([0-9]{{1,4}}+){common.single}",
    re.IGNORECASE,
)


@dataclass(frozen=True, kw_only=True)
class Reporting(common.Selecting):
    VERIFY_TOKENS: int = constant(8192, "token cap of one report, thinking included", 1, 1_000_000)


@dataclass(frozen=True, kw_only=True)
class Constants(Reporting):
    N: int = constant(8, "number of solutions", 1, 1024)
    K: int = constant(2, "slot: number of solutions that are merged into one (the last slot may have fewer)", 1, 1024)
    ROUNDS: int = constant(1, "number of times that every solution is verified and improved", 0, 1000)

    def check(self) -> None:
        check_subset(self.K, self.N)


async def static_math_agent(problem: Problem, ask: Ask, config: Constants) -> AsyncIterator[Population]:
    """Improve solutions by reports, merge them in slots, and select one.

    Solutions without text get no report and are written anew. A random parent replaces an empty improvement or merge.

    Yields:
        The N solutions. Each round yields the solutions with reports, then the improved solutions. Then come one
        solution for each slot, and the selected solution."""

    async def remake(messages: list[Message], origins: Sequence[int], t: int, i: int) -> Member:
        spoken = [j for j in origins if texts[j]]
        new = await common.candidate(ask, config, messages, t, i, parents=spoken)
        if common.EMPTY not in new.notes or not spoken:
            return new
        kept = int(seeds.rng(config.SEED, problem.id, "kept", t, i).choice(spoken))
        old = population[kept].completion
        return Member(old, [kept], side_calls=[new.completion], carried_over=True, notes=new.notes)

    async def reported(t: int, i: int) -> Member:
        if not texts[i]:
            return Member(population[i].completion, [i], carried_over=True)
        check, verdict, notes = await report(problem, ask, config, texts[i], "verify", t, i)
        return Member(population[i].completion, [i], verdict, [verdict], [check], carried_over=True, notes=notes)

    def improvement(i: int) -> list[Message]:
        if not texts[i]:
            return prompts.solve(problem)
        text = population[i].side_calls[0].text.strip()
        return improve(problem, texts[i], text) if text else prompts.aggregate(problem, [texts[i]])

    async def merge(t: int, slot: int, origins: Sequence[int]) -> Member:
        if len(origins) == 1:
            return Member(population[origins[0]].completion, list(origins), carried_over=True)
        spoken = [texts[j] for j in origins if texts[j]]
        messages = prompts.aggregate(problem, spoken) if spoken else prompts.solve(problem)
        return await remake(messages, origins, t, slot)

    solved = (common.candidate(ask, config, prompts.solve(problem), 0, i) for i in range(config.N))
    population = list(await asyncio.gather(*solved))
    texts = _texts(population, config)
    yield Stage("solutions", population)
    for t in range(1, config.ROUNDS + 1):
        population = list(await asyncio.gather(*(reported(t, i) for i in range(config.N))))
        yield Stage(f"reports {t}", population)
        improved = (remake(improvement(i), [i], t, i) for i in range(config.N))
        population = list(await asyncio.gather(*improved))
        texts = _texts(population, config)
        yield Stage(f"improved {t}", population)
    merges = (merge(config.ROUNDS + 1, i, slot) for i, slot in enumerate(_slots(config)))
    population = list(await asyncio.gather(*merges))
    texts = _texts(population, config)
    yield Stage("merges", population)
    choice = await select_one(problem, ask, config, texts, "select", 0)
    best = population[choice.winner].completion
    chosen = Member(best, [choice.winner], side_calls=choice.side_calls, carried_over=True, notes=choice.notes)
    yield Stage("selection", [chosen])


def _slots(config: Constants) -> list[range]:
    """Return the members of each slot: K neighbouring indices, or fewer in the last slot."""
    return [range(i, min(i + config.K, config.N)) for i in range(0, config.N, config.K)]


def _texts(population: Population, config: Constants) -> list[str]:
    return [carried(member.completion, config).strip() for member in population]


async def report(
    problem: Problem, ask: Ask, config: Reporting, solution: str, *names: str | int
) -> tuple[Completion, float | None, list[str]]:
    """Request a report on a solution. Return the report, its verdict (1, 0, or None if unreadable) and notes."""
    messages = examine(problem, solution)
    check = await ask(messages, *names, max_tokens=config.VERIFY_TOKENS, answer_opening=prompts.VERDICT)
    verdict = read_verdict(check.text)
    notes = [common.EMPTY_REPORT] if not check.text.strip() else [common.UNREADABLE] if verdict is None else []
    return check, verdict, notes


def examine(problem: Problem, solution: str) -> list[Message]:
    """Build a request for a report on `solution`, with a last line "Verdict: True" or "Verdict: False"."""
    return prompts.request(REPORT, problem, solution=solution)


def improve(problem: Problem, solution: str, text: str) -> list[Message]:
    return prompts.request(IMPROVE, problem, solution=solution, report=text)


def select(problem: Problem, texts: Sequence[str]) -> list[Message]:
    """Build a request to select the best of `texts`, with a last line like "Best: 2"."""
    candidates = "\n\n".join(f"Candidate {place}:\n{text.strip()}" for place, text in enumerate(texts, 1))
    return prompts.request(SELECT, problem, candidates=candidates, count=len(texts))


async def select_one(
    problem: Problem, ask: Ask, config: common.Selecting, texts: Sequence[str], *names: str | int
) -> common.Choice:
    """Select the best of several texts, shown in random order because models prefer certain positions. Empty texts are
    left out. A single text wins without a request. If none is left or the reply is unreadable, a random one wins."""
    order = seeds.rng(config.SEED, problem.id, "order", *names).permutation(len(texts))
    shown = [int(i) for i in order if texts[i].strip()]
    notes = [common.EMPTY] * (len(texts) - len(shown))
    if len(shown) < 2:
        return common.Choice(shown[0] if shown else int(order[0]), notes=notes)
    messages = select(problem, [texts[i] for i in shown])
    completion = await ask(messages, *names, max_tokens=config.SELECT_TOKENS, answer_opening=BEST)
    best = read_best(completion.text, len(shown))
    if best is None:
        return common.Choice(shown[0], [completion], [*notes, common.INVALID_SELECTION])
    return common.Choice(shown[best], [completion], notes)


def read_best(text: str, count: int) -> int | None:
    """Return the index that the last "Best: …" of `text` names ("Best: 1" gives 0), or None if it is missing or bad."""
    stated = _BEST.findall(text)
    return int(stated[-1]) - 1 if stated and 1 <= int(stated[-1]) <= count else None


def _most(config: Constants) -> int:
    slots = _slots(config)
    merges = sum(len(slot) > 1 for slot in slots)
    return config.N * (1 + 2 * config.ROUNDS) + merges + (len(slots) > 1)


STATIC_MATH_AGENT = Scaffold(
    static_math_agent,
    constants=Constants,
    prompts=(prompts.SOLVE, prompts.AGGREGATE, prompts.REFINE, prompts.VERDICT, REPORT, IMPROVE, SELECT, BEST),
    max_completions=_most,
    texts_shown=lambda config: max(2, config.K, len(_slots(config))),  # at least a solution and its report
)
