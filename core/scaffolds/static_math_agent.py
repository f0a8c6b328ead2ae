"""Static math agent: solutions in slots, each verified and improved, the slots merged, one merge selected.

The scaffold of that name in QED-Nano's evaluation (CMU-AIRe/QED-Nano, eval/configs/agents/math_static_agent.yaml), with
its numbers: 4 slots of 2 solutions, no approaches, 1 verification with improvement, merging on. Here N = 8 solutions,
slots of K = 2 neighbours, ROUNDS = 1: 8 solutions, 8 reports, 8 improvements (of every solution, whatever its report
says), 4 merges and 1 selection of the four, 29 completions. A slot of one is not merged, a single slot not selected.
The selection sees the merges in random order, and an unreadable one is decided at random (there: the last wins).
"""

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

from core.base import seeds
from core.constants import check_subset, constant
from core.scaffolds import prompts
from core.scaffolds.common import (
    EMPTY,
    EMPTY_REPORT,
    INVALID_SELECTION,
    UNREADABLE,
    Choice,
    Selecting,
    notes_on,
    single,
)
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
stands by itself and mentions neither the candidate nor the report. Put the final answer in \\boxed{{}}.""",
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
    rf"best[\s*_`]*+[:=][\s*_`$]*+(?:\\boxed\{{)?+[\s*_`]*+(?:candidate\s*+)?+([0-9]{{1,4}}+){single}", re.IGNORECASE
)


@dataclass(frozen=True, kw_only=True)
class Reporting(Selecting):
    """Of a scaffold that asks for reports on solutions."""

    VERIFY_TOKENS: int = constant(8192, "cap of one report, thinking included", 1, 1_000_000)


@dataclass(frozen=True, kw_only=True)
class Constants(Reporting):
    N: int = constant(8, "solutions", 1, 1024)
    K: int = constant(2, "solutions of a slot, which are merged", 1, 1024)
    ROUNDS: int = constant(1, "times that every solution is verified and improved", 0, 1000)

    def check(self) -> None:
        check_subset(self.K, self.N)


async def static_math_agent(problem: Problem, ask: Ask, config: Constants) -> AsyncIterator[Population]:
    """Populations of N solutions; ROUNDS times the same with their reports, then the improved ones; one of a solution
    for each slot; one of the solution selected.

    A solution with nothing to show gets no report, and its improvement starts afresh. An improvement or a merge that
    comes back empty is noted, and what it was made from stands, drawn at random where that is several."""

    async def remake(messages: list[Message], origins: Sequence[int], t: int, i: int) -> Member:
        made = await ask(messages, t, i)
        notes = notes_on(made, config)
        spoken = [j for j in origins if texts[j]]
        if EMPTY not in notes or not spoken:
            return Member(made, spoken, notes=notes)
        kept = int(seeds.rng(config.SEED, problem.id, "kept", t, i).choice(spoken))
        return Member(population[kept].completion, [kept], side_calls=[made], carried_over=True, notes=notes)

    async def reported(t: int, i: int) -> Member:
        if not texts[i]:
            return Member(population[i].completion, [i], carried_over=True)
        made, verdict, notes = await report(problem, ask, config, texts[i], "verify", t, i)
        return Member(population[i].completion, [i], verdict, [verdict], [made], carried_over=True, notes=notes)

    def said(member: Member) -> str:
        """The newest report on a member; empty where there is none."""
        return member.side_calls[0].text.strip() if member.side_calls else ""

    def improvement(i: int) -> list[Message]:
        if not texts[i]:
            return prompts.solve(problem)
        if not said(population[i]):
            return prompts.aggregate(problem, [texts[i]])
        return improve(problem, texts[i], said(population[i]))

    async def merge(t: int, slot: int, origins: Sequence[int]) -> Member:
        if len(origins) == 1:
            return Member(population[origins[0]].completion, list(origins), carried_over=True)
        spoken = [texts[j] for j in origins if texts[j]]
        messages = prompts.aggregate(problem, spoken) if spoken else prompts.solve(problem)
        return await remake(messages, origins, t, slot)

    solved = await asyncio.gather(*(ask(prompts.solve(problem), 0, i) for i in range(config.N)))
    population = [Member(made, notes=notes_on(made, config)) for made in solved]
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
    """Blocks of K neighbours; the last takes what is left."""
    return [range(i, min(i + config.K, config.N)) for i in range(0, config.N, config.K)]


def _texts(population: Population, config: Constants) -> list[str]:
    return [carried(member.completion, config).strip() for member in population]


async def report(
    problem: Problem, ask: Ask, config: Reporting, solution: str, *names: str | int
) -> tuple[Completion, float | None, list[str]]:
    """A report on a solution, its verdict (1 or 0; None: unreadable), and notes."""
    messages = examine(problem, solution)
    made = await ask(messages, *names, max_tokens=config.VERIFY_TOKENS, answer_opening=prompts.VERDICT)
    verdict = read_verdict(made.text)
    notes = [EMPTY_REPORT] if not made.text.strip() else [UNREADABLE] if verdict is None else []
    return made, verdict, notes


def examine(problem: Problem, solution: str) -> list[Message]:
    """Messages that ask for a report on `solution`, with a last line "Verdict: True" or "Verdict: False"."""
    return prompts.request(REPORT, problem, solution=solution)


def improve(problem: Problem, solution: str, said: str) -> list[Message]:
    """Messages that ask for a better solution, given what a report says of one."""
    return prompts.request(IMPROVE, problem, solution=solution, report=said)


def select(problem: Problem, texts: Sequence[str]) -> list[Message]:
    """Messages that ask which of `texts` is the best: a last line like "Best: 2"."""
    candidates = "\n\n".join(f"Candidate {place}:\n{text.strip()}" for place, text in enumerate(texts, 1))
    return prompts.request(SELECT, problem, candidates=candidates, count=len(texts))


async def select_one(problem: Problem, ask: Ask, config: Selecting, texts: Sequence[str], *names: str | int) -> Choice:
    """The best of several texts, as the model says. Their order in the prompt is drawn, for models prefer a place; the
    empty ones are left out, and one that is left alone wins without a request. After an answer that can't be read, the
    first of the order drawn wins, which is at random, and noted."""
    order = seeds.rng(config.SEED, problem.id, "order", *names).permutation(len(texts))
    shown = [int(i) for i in order if texts[i].strip()]
    notes = [EMPTY] * (len(texts) - len(shown))
    if len(shown) < 2:
        return Choice(shown[0] if shown else int(order[0]), notes=notes)
    messages = select(problem, [texts[i] for i in shown])
    made = await ask(messages, *names, max_tokens=config.SELECT_TOKENS, answer_opening=BEST)
    best = read_best(made.text, len(shown))
    if best is None:
        return Choice(shown[0], [made], [*notes, INVALID_SELECTION])
    return Choice(shown[best], [made], notes)


def read_best(text: str, count: int) -> int | None:
    """Position 0..count - 1 for the last "Best: 1" … of `text`; None where there is none or it names no candidate."""
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
    texts_shown=lambda config: max(2, config.K, len(_slots(config))),  # 2: a solution and its report
)
