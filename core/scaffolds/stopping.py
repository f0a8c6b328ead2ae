"""When to stop aggregating a problem: rules for `rsa(…, stop=…)` that look at its newest population and nothing else.

A rule never sees the reference answer; both may stop on a wrong answer that the whole population shares, as more steps
would mostly keep it.
"""

from dataclasses import dataclass, replace
from functools import partial
from math import comb

from core.constants import constant
from core.grading.answers import groups
from core.grading.boxed import extract
from core.scaffolds.rsa import RSA, RsaConstants, rsa
from core.types import Population, Problem


@dataclass(frozen=True, kw_only=True)
class Adaptive(RsaConstants):
    STOP_WHEN_UNANIMOUS: int = constant(
        1, "1: a problem ends when all its members give the same answer; 0 is off", 0, 1
    )
    STOP_CONFIDENCE: float = constant(
        0.0, "a problem ends when the leading answer holds a majority this surely; 0 is off", 0, 1
    )


def adaptive(problem: Problem, population: Population, config: Adaptive) -> bool:
    """Whether STOP_WHEN_UNANIMOUS (1: on) or STOP_CONFIDENCE (0: off) says that nothing is left to gain."""
    leader, n = leading_votes(problem, population), len(population)
    if config.STOP_WHEN_UNANIMOUS and leader == n:
        return True
    return bool(0 < config.STOP_CONFIDENCE <= confidence(leader, n))


def confidence(votes: int, n: int) -> float:
    """Posterior probability that an answer given by `votes` of `n` members is what more than half of all possible
    members of this step would give.

    The members of one step are independent draws from one distribution, given the step before. With a uniform prior
    the share p of the leading answer is Beta(votes + 1, n - votes + 1), and P(p > 1/2) is a binomial tail. With n = 8:
    8 votes 0.998, 7 votes 0.980, 6 votes 0.910. Asked after every step, so that the chance of stopping too early once
    in T steps is at most T times 1 - confidence.
    """
    return float(sum(comb(n + 1, j) for j in range(votes + 1)) / 2 ** (n + 1))


def leading_votes(problem: Problem, population: Population) -> int:
    """Votes of the most frequent answer; those without one don't vote. Members are read and votes are counted as for
    the results, so that this may block for seconds (core.grading.answers.groups)."""
    made = (member.completion for member in population)
    answers = [extract(c.text, problem.answer_type, truncated=c.truncated).answer for c in made]
    return max(groups(answers, problem.answer_type).counts.values(), default=0)


RSA_ADAPTIVE = replace(RSA, run=partial(rsa, stop=adaptive), constants=Adaptive, for_proofs="rsa")
