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
from core.types import (
    MAX_POINTS,
    Ask,
    Member,
    Message,
    NamedPopulation,
    Populations,
    Problem,
    Scaffold,
)
from harness.scaffolds import common
from harness.scaffolds.common import again, text_of
from harness.scaffolds.stated import plain, stated_score
from harness.scaffolds.verification import Judging, verify_one

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
    points = stated_score(text, "Score", range(MAX_POINTS + 1))
    return None if points is None else points / MAX_POINTS


POINTS = Judging(
    lambda problem, text: prompts.request(JUDGE, problem, solution=text.strip()), SCORE, read_points
)


def group(problem: Problem, solutions: Sequence[str], judgements: Sequence[str]) -> list[Message]:
    """Build a request to pick the right group of `solutions`, with a last line like "Keep: 1,
    3"."""
    parts: list[str] = []
    for i, solution in enumerate(solutions, 1):
        judgement = judgements[i - 1].strip()
        parts.append(f"Solution {i}:\n{solution.strip()}")
        parts.append(f"Judgement of solution {i}:\n{judgement}")
    texts = "\n\n".join(parts)
    return prompts.request(GROUP, problem, count=len(solutions), solutions=texts)


def read_group(text: str, count: int) -> list[int]:
    """Return the indices in the last "Keep: …" of `text` ("Keep: 1, 3" gives [0, 2]), or [] if it
    is missing or bad."""
    lines = _KEPT.findall(plain(text))
    if not lines:
        return []
    indices: set[int] = set()
    for word in re.split(r"[\s,;]+", lines[-1].strip(" \t()<>.,;")):
        if word == "and":
            continue
        if not word.isdecimal() or len(word) > 5 or not 1 <= int(word) <= count:
            return []
        indices.add(int(word) - 1)
    return sorted(indices)


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
    pool: list[Member] = []
    async for population in _judged_waves(problem, ask, config, pool):
        yield population
    best = _best(problem, config, pool)
    if len(best) < 2:
        return
    yield NamedPopulation("kept", [again(member) for member in best])
    texts = [text_of(member.completion, config) for member in best]
    judgements = [check.text for member in best for check in member.side_calls]
    messages = group(problem, texts, judgements)
    grouping = await ask(messages, "group", max_tokens=config.SELECT_TOKENS, answer_opening=KEPT)
    chosen = read_group(grouping.text, len(best))
    notes: list[str] = []
    if not chosen:
        chosen = list(range(len(best)))
        notes = [common.INVALID_SELECTION]
    first = chosen[0]
    yield NamedPopulation(
        "grouping", [again(best[first], first, side_calls=[grouping], notes=notes)]
    )
    if len(chosen) < 2:
        return
    order = seeds.rng(config.SEED, problem.id, "bracket").permutation(len(chosen))
    bracket = [best[chosen[i]] for i in order]
    yield NamedPopulation("bracket", [again(member) for member in bracket])
    async for winners in common.single_elimination(problem, ask, config, bracket, "select"):
        yield winners


async def _judged_waves(
    problem: Problem, ask: Ask, config: Constants, pool: list[Member]
) -> Populations:
    """Add judged solutions to the `pool`, until enough are perfect or no wave may begin. Yield each
    wave, and the best solution so far."""

    async def solved(t: int, i: int) -> Member:
        return await common.candidate(ask, config, prompts.solve(problem), t, i)

    async def judged(member: Member, t: int, i: int) -> Member:
        text = text_of(member.completion, config)
        if text:
            await verify_one(problem, ask, config, POINTS, member, text, [("judge", t, i)])
        return member

    async def attempt(t: int, i: int) -> Member:
        return await judged(await solved(t, i), t, i)

    closes = math.inf
    if config.MINUTES:
        closes = time.monotonic() + 60 * config.MINUTES
    solutions = await asyncio.gather(*(solved(0, i) for i in range(config.N)))
    yield NamedPopulation("solutions", solutions)
    judging = (judged(again(member, i), 0, i) for i, member in enumerate(solutions))
    newest = await asyncio.gather(*judging)
    yield NamedPopulation("judged", newest)
    pool += newest
    for t in range(1, config.ROUNDS + 2):
        best = _ranked(problem, config, pool)[0]
        yield NamedPopulation("most points", [common.best_of_pool(pool, best, newest)])
        missing = config.PERFECT - _perfect(pool)
        if missing <= 0 or t > config.ROUNDS or time.monotonic() > closes:
            return
        newest = await asyncio.gather(*(attempt(t, i) for i in range(missing)))
        yield NamedPopulation(f"wave {t}", newest)
        pool += newest


def _ranked(problem: Problem, config: Constants, pool: Sequence[Member]) -> list[int]:
    """Return the indices of the pool's members, the best first."""
    keys: list[tuple[bool, float]] = []
    for member in pool:
        has_text = bool(text_of(member.completion, config))
        score = -1.0 if member.self_score is None else member.self_score
        keys.append((has_text, score))
    return common.ranking(problem, config, keys)


def _perfect(pool: Sequence[Member]) -> int:
    return len([member for member in pool if member.self_score == 1.0])


def _best(problem: Problem, config: Constants, pool: Sequence[Member]) -> list[Member]:
    """Return the solutions to group: at most K, and only perfect ones if they are enough."""
    ranked = [pool[i] for i in _ranked(problem, config, pool)]
    best = [member for member in ranked if text_of(member.completion, config)][: config.K]
    perfect = _perfect(pool)
    if perfect >= config.PERFECT:
        return best[:perfect]
    return best


def _max_completions(config: Constants) -> int:
    """Count all solutions with their judgements, the grouping, and the knock-out between K
    solutions."""
    solutions = config.N + config.PERFECT * config.ROUNDS
    if config.K == 1:
        return 2 * solutions
    return 2 * solutions + config.K


NOMOS = Scaffold(
    nomos,
    constants=Constants,
    prompts=(prompts.SOLVE, JUDGE, SCORE, GROUP, KEPT, common.SELECT, common.BETTER),
    max_completions=_max_completions,
    # for the grouping: K solutions, K judgements
    texts_shown=lambda config: 2 * config.K if config.K > 1 else 1,
)
