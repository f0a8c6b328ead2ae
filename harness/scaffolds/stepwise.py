"""Step-wise best of N: sample N next steps of a solution, score each, and continue the best.

A step is a line or a paragraph. The request opens the answer with the steps so far, as budget
forcing does, so the model does not think between steps. The score of a step judges all steps up to
it. With SCORE = "points" it is 0 to 7 points in Nomos' words. "verdict" and "p_true" ask
whether all steps are right (verification.py). Equal steps are scored once, and a single step is not
scored. With a line as a step, a blank line is a step of its own."""

import asyncio

from core import prompts
from core.base import seeds
from core.constants import LAST_NUMBER, constant
from core.grading.kinds import kind_of
from core.types import (
    Ask,
    Completion,
    Member,
    NamedPopulation,
    Population,
    Populations,
    Problem,
    Scaffold,
)
from harness.scaffolds import nomos
from harness.scaffolds.best_of import best
from harness.scaffolds.common import again
from harness.scaffolds.stated import read_verdict
from harness.scaffolds.verification import Judging, Verifying, verdict_count, verify

CHECK = prompts.worded("""Problem:
{problem}

Beginning of a <solution|proof>:
{steps}

More steps may follow. Check each step so far and decide whether all of them <are correct|hold> \
and lead to a <solution|proof>. End with one line: "Verdict: True" or "Verdict: False".""")
BREAKS = {"line": "\n", "paragraph": "\n\n"}


class Constants(Verifying):
    N: int = constant(4, "number of next steps to choose from", 1, 1024)
    STEPS: int = constant(32, "largest number of steps of a solution", 1, 1000)
    STEP: str = constant("line", "unit of a step", choices=tuple(BREAKS))
    SCORE: str = constant(
        "points", "method of scoring a step", choices=("points", "verdict", "p_true")
    )
    VERIFY_SAMPLES: int = constant(
        1, "judgements of a step, or 1 for p_true (the score is their mean)", 1, 64
    )


async def stepwise(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Write a solution step by step, until a step states the answer, the model writes no more, or
    STEPS are written.

    Yields:
        The N candidates for each step with their scores, and the solution. A candidate's text has
        all steps so far."""
    messages = prompts.solve(problem)
    end = BREAKS[config.STEP]
    so_far = "\n"
    winner = Member(Completion("", 0))
    parents: list[int] = []  # the winner's index in the last population
    for t in range(config.STEPS):
        asking = (ask(messages, t, i, opening=so_far, stop=end) for i in range(config.N))
        members = [Member(completion, parents) for completion in await asyncio.gather(*asking)]
        await score(problem, members, t, ask, config)
        yield NamedPopulation(f"step {t + 1}", members, is_partial=True)
        written = [i for i, member in enumerate(members) if member.completion.text]
        if not written:
            break
        scores = [members[i].self_score for i in written]
        chosen = written[best(scores, seeds.rng(config.SEED, problem.id, "step", t))]
        winner = members[chosen]
        parents = [chosen]
        so_far = winner.completion.text
        if is_ended(so_far, problem):
            break
        if not winner.completion.truncated:
            so_far += end
    yield NamedPopulation("solution", [again(winner, *parents)])


def is_ended(text: str, problem: Problem) -> bool:
    """Return whether `text` states an answer, or ends with a blank line because the model wrote
    nothing after it."""
    if text.endswith("\n\n"):
        return True
    if problem.is_proof or problem.answer_form == LAST_NUMBER:
        return False
    return kind_of(problem).read(text, problem.answer_form).answer is not None


async def score(problem: Problem, members: Population, t: int, ask: Ask, config: Constants) -> None:
    """Set `self_score` of the members with text. The first of several equal members has the
    judgements."""
    judged = {
        member.completion.text: member for member in reversed(members) if member.completion.text
    }
    if len(judged) < 2:
        return
    judging = nomos.POINTS if config.SCORE == "points" else STEPS
    await verify(problem, list(judged.values()), t, ask, config, judging)
    for member in members:
        text = member.completion.text
        if text:
            member.self_score = judged[text].self_score


STEPS = Judging(
    lambda problem, text: prompts.request(CHECK, problem, steps=text.strip()),
    prompts.VERDICT,
    read_verdict,
)
STEPWISE = Scaffold(
    stepwise,
    constants=Constants,
    prompts=(prompts.SOLVE, CHECK, prompts.VERDICT, nomos.JUDGE, nomos.SCORE),
    max_completions=lambda config: config.N * config.STEPS * (1 + verdict_count(config)),
    texts_shown=lambda config: config.STEPS,
)
