"""The search of DeepSeekMath-V2 (arXiv 2511.22570): review proofs, and refine them with their
harshest reviews.

The model writes N proofs, and is asked to assess each of them. Each proof gets VERIFY_SAMPLES
reviews with a score of 0, 1/2 or 1. Each round refines the KEEP proofs with the best mean scores,
REFINEMENTS times each. Each refinement of a proof sees its next REVIEWS reviews, from the harshest
on. New proofs are reviewed and join the pool. The search ends after ROUNDS rounds, or when all
reviews of a proof score 1. The proof with the best mean score wins. Ties are broken by a pass in
all reviews, by self-assessments, then at random. The defaults are QED-Nano's evaluation. For
problems with an answer, a "proof" is a solution."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import itemgetter

from core.base import seeds
from core.constants import Carrying, constant
from core.prompts import carried, request, worded
from core.types import (
    Ask,
    Member,
    Message,
    NamedPopulation,
    Populations,
    Problem,
    Scaffold,
)
from harness.scaffolds.common import UNASSESSED, again, best_of_pool, candidate, ranking
from harness.scaffolds.stated import stated_score
from harness.scaffolds.verification import Judging, verify_one

SCALE = worded("""1: correct and complete, with every step justified. 0.5: right on the whole, \
with small gaps or slips. 0: wrong in an essential step, unfinished, or no <answer to the \
problem|proof of what is asked>.""")

# The prompt asks for a score without a box, because the last box is the answer.
PROVE = worded("""{problem}

Write a complete <solution, with a proof of every step that is not well known, and {form}|and \
rigorous proof, with a reason for every step that is not well known.> A strict reviewer will score \
it:
{scale}

Look for errors and gaps in your <solution|proof>, and mend them, before you <answer|hand it in>. \
Below the <solution|proof>, write a line "Self-assessment:", then name the faults that are left, \
honestly< and without another box|>, and end with one line: "Score: 0", "Score: 0.5" or "Score: \
1".""")

REVIEW = """Problem:
{problem}

Solution:
{solution}

Review the solution. Go through it step by step, say of each doubtful step whether it holds, and \
name every error and every gap with what follows from it. Then score the solution as it stands:
{scale}

End with one line: "Score: 0", "Score: 0.5" or "Score: 1"."""

REFINE = """{prove}

Below is an earlier solution, with reviews that may be wrong themselves. Mend every fault that is \
one, keep what is correct, and write a better, complete solution in the form asked for above.

Earlier solution:
{solution}

{reviews}"""

SCORE = "Score:"
SCORES = (0.0, 0.5, 1.0)

_ASSESSMENT = re.compile(
    r"^[ \t#*_]*+self[- ]?assessment(?![A-Za-z])", re.IGNORECASE | re.MULTILINE
)


class Constants(Carrying):
    N: int = constant(4, "number of proofs before the first round", 1, 1024)
    VERIFY_SAMPLES: int = constant(4, "number of reviews of each proof", 1, 64)
    ROUNDS: int = constant(2, "largest number of refinement rounds", 0, 1000)
    KEEP: int = constant(4, "number of best proofs that each round refines", 1, 1024)
    REVIEWS: int = constant(
        2, "most reviews that a refinement sees (a proof's first refinement: the harshest)", 1, 64
    )
    REFINEMENTS: int = constant(
        1, "number of times that a round refines each of the best proofs", 1, 64
    )
    VERIFY_TOKENS: int = constant(8192, "token cap of one review, thinking included", 1, 1_000_000)


def prove(problem: Problem) -> list[Message]:
    """Build a request for a proof, a self-assessment, and a last line "Score: 0", "Score: 0.5" or
    "Score: 1"."""
    return request(PROVE, problem, scale=SCALE.text_for(problem.is_proof))


def review(problem: Problem, solution: str) -> list[Message]:
    return request(REVIEW, problem, solution=solution, scale=SCALE.text_for(problem.is_proof))


REVIEWING = Judging(review, SCORE, partial(stated_score, word="Score", allowed=SCORES))


def refine(problem: Problem, solution: str, reviews: Sequence[str]) -> list[Message]:
    """Build a request to improve `solution` with the help of `reviews`."""
    proving = prove(problem)[0]["content"]
    texts = "\n\n".join(f"Review {i}:\n{text.strip()}" for i, text in enumerate(reviews, 1))
    return request(REFINE, problem, prove=proving, solution=solution, reviews=texts)


def read_proof(text: str) -> tuple[str, float | None]:
    """Return the text before the last self-assessment, and the self-assessment's score (None if it
    is missing)."""
    headings = list(_ASSESSMENT.finditer(text))
    if not headings:
        return text.strip(), None
    start = headings[-1].start()
    # If no text precedes the self-assessment, the proof must follow it, so return the whole text as
    # the proof.
    proof = text[:start].strip() or text.strip()
    return proof, stated_score(text[start:], "Score", SCORES)


@dataclass
class _Proof(Member):
    """A proof. `text` has no self-assessment, `claim` is its score or 0, and `reviews` begin with
    the lowest score."""

    text: str = ""
    claim: float = 0.0
    reviews: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """True if all reviews are readable and score 1."""
        return self.verdicts is not None and all(verdict == 1.0 for verdict in self.verdicts)

    @property
    def rank(self) -> tuple[float, bool, float]:
        """The proof's sort key. Proofs without a readable review rank below scored proofs, and
        empty proofs last."""
        score = self.self_score
        if score is None:
            score = -1.0 if self.text else -2.0
        return score, self.passed, self.claim


async def deepseek_math(problem: Problem, ask: Ask, config: Constants) -> Populations:
    """Search for a proof that passes all its reviews.

    Empty proofs are not reviewed. Proofs without a readable review are not refined, and the other
    chosen proofs are refined more often instead. If no proof can be refined, the round writes new
    proofs.

    Yields:
        The N proofs, the N proofs with scores, and the best proof. Then each round yields the
        proofs it chose (if any), their refinements or new proofs, and the best proof so far."""
    search = _Search(problem, ask, config)
    proofs = await asyncio.gather(*(search.write(0, i, prove(problem)) for i in range(config.N)))
    yield NamedPopulation("proofs", proofs)
    reviewing = (search.review_again(proof, i) for i, proof in enumerate(proofs))
    newest = await asyncio.gather(*reviewing)
    yield NamedPopulation("reviews", newest)
    pool = list(newest)
    for t in range(1, config.ROUNDS + 2):
        ranked = ranking(problem, config, [proof.rank for proof in pool])
        best = ranked[0]
        yield NamedPopulation("best score", [best_of_pool(pool, best, newest)])
        if pool[best].passed or t > config.ROUNDS:
            return
        chosen = [pool[i] for i in ranked if pool[i].reviews][: config.KEEP]
        width = min(config.KEEP, len(pool)) * config.REFINEMENTS
        newest = await asyncio.gather(*(search.refine(chosen, t, i) for i in range(width)))
        if chosen:
            yield NamedPopulation("chosen", [again(proof) for proof in chosen])
        yield NamedPopulation(f"refinement {t}", newest)
        pool += newest


@dataclass(frozen=True)
class _Search:
    """The requests of one problem. Proof i of round t has the names (t, i)."""

    problem: Problem
    ask: Ask
    config: Constants

    async def write(self, t: int, i: int, messages: list[Message], *parents: int) -> _Proof:
        """Request a proof, and read its self-assessment."""
        member = await candidate(self.ask, self.config, messages, t, i, parents=parents)
        text, claim = read_proof(carried(member.completion, self.config))
        notes = list(member.notes)
        if text and claim is None:
            notes.append(UNASSESSED)
        return _Proof(member.completion, member.parents, notes=notes, text=text, claim=claim or 0.0)

    async def review_again(self, proof: _Proof, i: int) -> _Proof:
        """Review proof i of round 0 as a member of a second population."""
        copy = replace(proof, parents=[i], carried_over=True, notes=[])
        return await self.review(copy, 0, i)

    async def review(self, proof: _Proof, t: int, i: int) -> _Proof:
        """Review a proof, and sort its readable reviews. Reviews with equal scores are in random
        order."""
        if not proof.text:
            return proof
        names = [("verify", t, i, j) for j in range(self.config.VERIFY_SAMPLES)]
        await verify_one(self.problem, self.ask, self.config, REVIEWING, proof, proof.text, names)
        scored = list(zip(proof.verdicts or [], proof.side_calls, strict=True))
        seeds.rng(self.config.SEED, self.problem.id, "reviews", t, i).shuffle(scored)
        readable = [(score, reply.text) for score, reply in scored if score is not None]
        readable.sort(key=itemgetter(0))
        proof.reviews = [text for _, text in readable]
        return proof

    async def refine(self, chosen: Sequence[_Proof], t: int, i: int) -> _Proof:
        """Refine one of the `chosen` proofs, which take turns. Without any, write a new proof."""
        if not chosen:
            proof = await self.write(t, i, prove(self.problem))
            return await self.review(proof, t, i)
        number, index = divmod(i, len(chosen))
        earlier = chosen[index]
        messages = refine(self.problem, earlier.text, self._dealt(earlier.reviews, number))
        proof = await self.write(t, i, messages, index)
        return await self.review(proof, t, i)

    def _dealt(self, reviews: Sequence[str], number: int) -> list[str]:
        """Return the reviews for a proof's refinement of this number. Each refinement sees the next
        ones, and the first ones follow the last ones."""
        start = number * self.config.REVIEWS
        count = min(self.config.REVIEWS, len(reviews))
        return [reviews[(start + k) % len(reviews)] for k in range(count)]


def _max_completions(config: Constants) -> int:
    proofs = config.N
    for _ in range(config.ROUNDS):
        proofs += min(config.KEEP, proofs) * config.REFINEMENTS
    return proofs * (1 + config.VERIFY_SAMPLES)


DEEPSEEK_MATH = Scaffold(
    deepseek_math,
    constants=Constants,
    prompts=(PROVE, SCALE, REVIEW, REFINE, SCORE),
    max_completions=_max_completions,
    texts_shown=lambda config: 1 + min(config.REVIEWS, config.VERIFY_SAMPLES),
)
