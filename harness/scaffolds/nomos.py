"""The harness of Nomos (Nous Research, github.com/NousResearch/nomos): judge many solutions, group
them, knock out.

The model judges each of N solutions once, with 0 to 7 points. The K best solutions are kept. If at
least PERFECT solutions have 7 points, only these are kept (at most K). In one request, the model
groups the kept solutions by their conclusion (proofs by their argument) and picks a group. A
knock-out then selects one solution of that group. Each round draws new pairs, as in QED-Nano's
evaluation. Nous's code draws all pairs at the start.

If fewer than PERFECT solutions have 7 points, up to ROUNDS waves add solutions. Each wave adds as
many solutions as are missing. No wave begins later than MINUTES after the problem's start. If a run
resumes, the minutes start again from 0.
"""

import asyncio
import math
import re
import time
from collections.abc import Sequence

from core import prompts
from core.base import seeds
from core.base.errors import UserError
from core.constants import constant
from core.types import Ask, Member, Message, Populations, Problem, Scaffold, Stage
from harness.scaffolds import common
from harness.scaffolds.common import again, text_of
from harness.scaffolds.stated import plain, stated_score
from harness.scaffolds.verification import Judging, judge

JUDGE = """Problem:
{problem}

Solution:
{solution}

Judge the solution as at an olympiad, by what it proves. Check every step, then give 0 to 7 \
points. 7: correct and complete. 5 or 6: solved, but for slips or gaps that are easily mended. 3 \
or 4: the main idea is there, an essential part is not. 1 or 2: a correct step or two on the way. \
0: nothing that helps, or nothing that is right. End with one line: "Score: " and the points."""

GROUP = prompts.worded("""Problem:
{problem}

Below are {count} solutions, each with a judgement that may be wrong.

{solutions}

Group the solutions by the <answer or conclusion that they reach, whatever their way to it. Decide \
which group is right; it need not be the largest.|argument that carries their proof, whatever \
words they put it in. Decide which group's argument holds; it need not be that of the largest.> \
End with one line: "Keep: " and the numbers of all solutions in that group, with commas between \
them.""")

SCORE = "Score:"
KEPT = "Keep:"
MOST_POINTS = 7

_KEPT = re.compile(
    r"\bkeep\s*+[:=]\s*+(?:(?:solution|candidate|proof)s?\b[ \t:#]*+)?+([^\n]*)", re.IGNORECASE
)


class Constants(common.Selecting):
    N: int = constant(16, "number of solutions before the first wave", 1, 1024)
    K: int = constant(12, "largest number of best solutions that are kept and grouped", 1, 1024)
    PERFECT: int = constant(
        8, "number of solutions with 7 points that ends the waves (only these are kept)", 1, 1024
    )
    ROUNDS: int = constant(
        0,
        "largest number of waves, which add solutions until PERFECT of them have 7 points",
        0,
        1000,
    )
    MINUTES: float = constant(
        0.0, "minutes per problem after which no wave begins, or 0 for no limit", 0, 1_000_000
    )
    VERIFY_TOKENS: int = constant(
        8192, "token cap of one judgement, thinking included", 1, 1_000_000
    )

    def check(self) -> None:
        super().check()
        if self.MINUTES and self.ROUNDS == 0:
            raise UserError(
                f"MINUTES={self.MINUTES:g} has no effect with ROUNDS=0. Raise ROUNDS or set "
                "MINUTES=0"
            )


def read_points(text: str) -> float | None:
    """Return the stated points as a score from 0 to 1, or None."""
    points = stated_score(text, "Score", range(MOST_POINTS + 1))
    return None if points is None else points / MOST_POINTS


POINTS = Judging(
    lambda problem, text: prompts.request(JUDGE, problem, solution=text.strip()), SCORE, read_points
)


def group(problem: Problem, solutions: Sequence[str], judgements: Sequence[str]) -> list[Message]:
    """Build a request to pick the right group of `solutions`, with a last line like "Keep: 1,
    3"."""
    both = enumerate(zip(solutions, judgements, strict=True), 1)
    shown = "\n\n".join(
        f"Solution {i}:\n{a.strip()}\n\nJudgement of solution {i}:\n{b.strip()}"
        for i, (a, b) in both
    )
    return prompts.request(GROUP, problem, count=len(solutions), solutions=shown)


def read_group(text: str, count: int) -> list[int]:
    """Return the indices in the last "Keep: …" of `text` ("Keep: 1, 3" gives [0, 2]), or [] if it
    is missing or bad."""
    lines = _KEPT.findall(plain(text))
    words = re.split(r"[\s,;]+", lines[-1].strip(" \t()<>.,;")) if lines else []
    chosen = {
        int(word) - 1 if word.isdecimal() and len(word) < 6 else -1
        for word in words
        if word != "and"
    }
    return sorted(chosen) if chosen <= set(range(count)) else []


async def nomos(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Choose one of many solutions by judgement, grouping and knock-out.

    Empty solutions are neither judged nor kept. A solution without readable points ranks below all
    solutions with points. If the reply to the grouping is unreadable, all kept solutions enter the
    knock-out.

    Yields:
        The N solutions, the N solutions with scores (points / 7), and the best solution. Each wave
        yields its new solutions, then the best solution so far. If two or more are kept, they come
        next, and the best solution of the chosen group. If this group has two or more, it comes
        next, then the winners of each knock-out round."""

    async def solved(t: int, i: int) -> Member:
        return await common.candidate(ask, config, prompts.solve(problem), t, i)

    async def judged(member: Member, t: int, i: int) -> Member:
        if text := text_of(member.completion, config):
            await judge(problem, ask, config, POINTS, member, text, [("judge", t, i)])
        return member

    async def attempt(t: int, i: int) -> Member:
        return await judged(await solved(t, i), t, i)

    def worth(member: Member) -> tuple[bool, float]:
        return bool(
            text_of(member.completion, config)
        ), -1.0 if member.self_score is None else member.self_score

    closes = time.monotonic() + 60 * config.MINUTES if config.MINUTES else math.inf
    solutions = await asyncio.gather(*(solved(0, i) for i in range(config.N)))
    yield Stage("solutions", solutions)
    newest = await asyncio.gather(
        *(judged(again(member, i), 0, i) for i, member in enumerate(solutions))
    )
    yield Stage("judged", newest)
    pool = list(newest)
    for t in range(1, config.ROUNDS + 2):
        # the same for a solution in all waves
        ties = seeds.rng(config.SEED, problem.id, "lots").random(len(pool))
        ranked = sorted(range(len(pool)), key=lambda i: (*worth(pool[i]), ties[i]), reverse=True)
        place = ranked[0] - (len(pool) - len(newest))
        yield Stage("most points", [again(pool[ranked[0]], *([place] if place >= 0 else []))])
        perfect = sum(member.self_score == 1.0 for member in pool)
        if perfect >= config.PERFECT or t > config.ROUNDS or time.monotonic() > closes:
            break
        newest = await asyncio.gather(*(attempt(t, i) for i in range(config.PERFECT - perfect)))
        yield Stage(f"wave {t}", newest)
        pool += newest

    best = [pool[i] for i in ranked if text_of(pool[i].completion, config)]
    kept = best[: min(config.K, perfect if perfect >= config.PERFECT else len(best))]
    if len(kept) < 2:
        return
    yield Stage("kept", [again(member) for member in kept])
    texts = [text_of(member.completion, config) for member in kept]
    messages = group(problem, texts, [check.text for member in kept for check in member.side_calls])
    grouping = await ask(messages, "group", max_tokens=config.SELECT_TOKENS, answer_opening=KEPT)
    chosen = read_group(grouping.text, len(kept))
    notes = [] if chosen else [common.INVALID_SELECTION]
    chosen = chosen or list(range(len(kept)))
    yield Stage("grouping", [again(kept[chosen[0]], chosen[0], side_calls=[grouping], notes=notes)])
    if len(chosen) < 2:
        return
    bracket = [
        kept[chosen[i]]
        for i in seeds.rng(config.SEED, problem.id, "bracket").permutation(len(chosen))
    ]
    yield Stage("bracket", [again(member) for member in bracket])
    async for winners in common.single_elimination(problem, ask, config, bracket, "select"):
        yield winners


NOMOS = Scaffold(
    nomos,
    constants=Constants,
    prompts=(prompts.SOLVE, JUDGE, SCORE, GROUP, KEPT, common.SELECT, common.BETTER),
    # All solutions with their judgements, the grouping, and the knock-out between K solutions.
    max_completions=lambda config: (
        2 * (config.N + config.PERFECT * config.ROUNDS) + config.K * (config.K > 1)
    ),
    # for the grouping: K solutions, K judgements
    texts_shown=lambda config: 2 * config.K if config.K > 1 else 1,
)
