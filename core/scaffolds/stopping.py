"""Stop RSA early on a problem whose newest population agrees.

A rule never sees the reference answer. It may stop on a wrong answer that the whole population shares: more steps would
mostly keep it.
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
    STOP_WHEN_UNANIMOUS: int = constant(1, "1: a problem ends when all members give the same answer; 0 is off", 0, 1)
    STOP_CONFIDENCE: float = constant(
        0.0, "a problem ends when its leading answer has a majority with this probability; 0 is off", 0, 1
    )


def adaptive(problem: Problem, population: Population, config: Adaptive) -> bool:
    """Return whether STOP_WHEN_UNANIMOUS or STOP_CONFIDENCE ends the problem."""
    leader, n = leading_votes(problem, population), len(population)
    if config.STOP_WHEN_UNANIMOUS and leader == n:
        return True
    return bool(0 < config.STOP_CONFIDENCE <= confidence(leader, n))


def confidence(votes: int, n: int) -> float:
    """Return the posterior probability that more than half of all possible members give the leading answer, if `votes`
    of `n` do.

    The members of a step are independent draws from one distribution, given the step before. With a uniform prior, the
    share p of the answer is Beta(votes + 1, n - votes + 1), and P(p > 1/2) is a binomial tail. The chance of a wrong
    stop in T steps is at most T times 1 - confidence."""
    return float(sum(comb(n + 1, j) for j in range(votes + 1)) / 2 ** (n + 1))


def leading_votes(problem: Problem, population: Population) -> int:
    """Return the votes of the most frequent answer, counted as in the results. Comparing answers may take seconds."""
    completions = (member.completion for member in population)
    answers = [extract(c.text, problem.answer_type, truncated=c.truncated).answer for c in completions]
    return max(groups(answers, problem.answer_type).counts.values(), default=0)


RSA_ADAPTIVE = replace(RSA, run=partial(rsa, stop=adaptive), constants=Adaptive, for_proofs="rsa")
