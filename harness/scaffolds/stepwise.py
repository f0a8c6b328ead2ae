"""Step-wise best of N and beam search: sample N next steps, score each, and continue the best.

A step is a line or a paragraph. The request opens the answer with the steps so far, as budget
forcing does, so the model does not think between steps. The score of a step judges all steps up to
it. With SCORE = "points" it is 0 to 7 points in Nomos' words. "verdict" and "p_true" ask whether
all steps are right (verification.py), and "reward" asks a reward model (reward.py). Equal steps are
scored once. With a line as a step, a blank line is a step of its own.

BEAM > 1 is a beam search as in search-and-learn. The BEAM best partial solutions are kept, and
share the N next steps equally. A kept solution that states an answer is finished, and keeps its
place, so that the search ends (in search-and-learn it gives its place up). The finished solution
with the best score wins. STEP_SCORES combines the scores of a solution's steps. A process reward
model scores all of them anew."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from core import prompts
from core.base import seeds
from core.base.errors import UserError
from core.constants import LAST_NUMBER, constant
from core.grading.kinds import kind_of
from core.types import (
    P_TRUE,
    Ask,
    Completion,
    Member,
    Message,
    NamedPopulation,
    Populations,
    Problem,
    Scaffold,
)
from harness.scaffolds import nomos
from harness.scaffolds.best_of import best, with_mean
from harness.scaffolds.common import again
from harness.scaffolds.reward import BREAKS, COMBINED
from harness.scaffolds.stated import read_verdict
from harness.scaffolds.verification import (
    SCORES,
    VERDICT,
    Judging,
    Scoring,
    Verifying,
    verdict_count,
    verify,
)

CHECK = prompts.worded("""Problem:
{problem}

Beginning of a <solution|proof>:
{steps}

More steps may follow. Check each step so far and decide whether all of them <are correct|hold> \
and lead to a <solution|proof>. End with one line: "Verdict: True" or "Verdict: False".""")
POINTS = "points"
STEPS = Judging(
    lambda problem, text: prompts.request(CHECK, problem, steps=text.strip()),
    prompts.VERDICT,
    read_verdict,
)
_judge_steps = partial(verify, judging=STEPS)
METHODS = {
    POINTS: Scoring(partial(verify, judging=nomos.POINTS), verdict_count, thinks=True),
    **SCORES,
    VERDICT: SCORES[VERDICT]._replace(score=_judge_steps),
    P_TRUE: SCORES[P_TRUE]._replace(score=_judge_steps),
}


class Constants(Verifying):
    N: int = constant(4, "number of next steps to choose from", 1, 1024)
    BEAM: int = constant(1, "number of partial solutions that are continued", 1, 1024)
    STEPS: int = constant(32, "largest number of steps of a solution", 1, 1000)
    STEP: str = constant("line", "unit of a step", choices=tuple(BREAKS))
    SCORE: str = constant(POINTS, "score of a step", choices=tuple(METHODS))
    VERIFY_SAMPLES: int = constant(
        1, "judgements of a step, or 1 for p_true (the score is their mean)", 1, 64
    )

    def check(self) -> None:
        super().check()
        if self.BEAM > self.N:
            raise UserError(
                f"BEAM={self.BEAM} partial solutions need as many next steps, but N={self.N}. "
                f"Set N={self.BEAM} or higher"
            )


@dataclass(eq=False)
class Path:
    """A solution that is being written, with the `scores` of its steps. `parents` is its index in
    the newest population that contains it."""

    member: Member
    scores: list[float] = field(default_factory=list)
    parents: list[int] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.member.completion.text

    def opening(self, end: str) -> str:
        """Return the text that the next step continues. A whole step ends with `end`."""
        if not self.text:
            return "\n"
        return self.text if self.member.completion.truncated else self.text + end


async def stepwise(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Write solutions step by step, until BEAM of them state an answer, the model writes no more,
    or STEPS are written.

    Yields:
        For each step, its N candidates with their scores and the finished solutions, and at last
        the best solution. A candidate's text has all steps so far."""
    messages = prompts.solve(problem)
    beam = [Path(Member(Completion("", 0)))]
    finished: list[Path] = []
    for t in range(config.STEPS):
        paths = await _continued(messages, beam, t, ask, config)
        await _score(problem, paths, t, ask, config)
        members = [path.member for path in paths]
        members += [again(path.member, *path.parents) for path in finished]
        yield NamedPopulation(f"step {t + 1}", members, is_partial=True)
        for i, path in enumerate([*paths, *finished]):
            path.parents = [i]
        written = [path for path in paths if path.text]
        if not written:
            break
        rng = seeds.rng(config.SEED, problem.id, "step", t)
        winners = _best_of(written, config.BEAM - len(finished), rng)
        beam = [path for path in winners if not is_ended(path.text, problem)]
        finished += [path for path in winners if path not in beam]
        if not beam:
            break
    rng = seeds.rng(config.SEED, problem.id, "solution")
    (winner,) = _best_of(finished or beam, 1, rng)
    yield NamedPopulation("solution", [again(winner.member, *winner.parents)])


async def _continued(
    messages: list[Message], beam: Sequence[Path], t: int, ask: Ask, config: Constants
) -> list[Path]:
    """Request N next steps number `t` of the partial solutions in the `beam`, equally many of
    each."""
    parents = [beam[i * len(beam) // config.N] for i in range(config.N)]
    end = BREAKS[config.STEP]
    changes = METHODS[config.SCORE].changes
    requests = []
    for i, parent in enumerate(parents):
        opening = parent.opening(end)
        requests.append(ask(messages, t, i, opening=opening, stop=end, **changes))
    completions = await asyncio.gather(*requests)
    paths = []
    for parent, completion in zip(parents, completions, strict=True):
        paths.append(Path(Member(completion, parent.parents), list(parent.scores)))
    return paths


def _best_of(paths: Sequence[Path], count: int, rng: np.random.Generator) -> list[Path]:
    """Return up to `count` paths with different texts and the highest scores, the best first. Ties
    are broken at random."""
    scores = with_mean([path.member.self_score for path in paths])
    left = list(range(len(paths)))
    chosen: list[Path] = []
    while left and len(chosen) < count:
        path = paths[left[best(scores[left], rng)]]
        chosen.append(path)
        left = [i for i in left if paths[i].text != path.text]
    return chosen


def is_ended(text: str, problem: Problem) -> bool:
    """Return whether `text` states an answer, or ends with a blank line because the model wrote
    nothing after it."""
    if text.endswith("\n\n"):
        return True
    if problem.is_proof or problem.answer_form == LAST_NUMBER:
        return False
    return kind_of(problem).read(text, problem.answer_form).answer is not None


async def _score(
    problem: Problem, paths: Sequence[Path], t: int, ask: Ask, config: Constants
) -> None:
    """Set the scores of the paths with text. The first of several equal paths has the judgements.
    A single text needs no score unless it may compete with finished solutions."""
    judged = {path.text: path.member for path in reversed(paths) if path.text}
    if len(judged) < 2 and config.BEAM == 1:
        return
    await METHODS[config.SCORE].score(problem, list(judged.values()), t, ask, config)
    own_scores = {text: member.self_score for text, member in judged.items()}
    for path in paths:
        if path.text:
            _add_score(path, own_scores[path.text], judged[path.text], config)


def _add_score(path: Path, own: float | None, judged: Member, config: Constants) -> None:
    """Add the score of a path's newest step, which `judged` has, to the path, and combine the
    scores. A process reward model has scored all steps."""
    of_steps = [score for call in judged.side_calls for score in call.scores]
    if len(of_steps) > 1:
        path.scores = of_steps
    elif own is not None:
        path.scores.append(own)
    combined = None if own is None else COMBINED[config.STEP_SCORES](path.scores)
    path.member.self_score = combined


STEPWISE = Scaffold(
    stepwise,
    constants=Constants,
    prompts=(prompts.SOLVE, CHECK, prompts.VERDICT, nomos.JUDGE, nomos.SCORE),
    max_completions=lambda config: (
        config.N * config.STEPS * (1 + METHODS[config.SCORE].requests(config))
    ),
    texts_shown=lambda config: config.STEPS,
)
