"""Stop RSA early on a problem if all or most members of the newest population give the same answer.

A stop rule ignores the reference answer, so it may stop on a wrong answer that the whole population
shares. Further steps might have corrected that answer (docs/experiments.md)."""

from dataclasses import replace
from functools import partial
from math import comb

from core.constants import constant
from core.eval import groups, read_reply
from core.grading.kinds import kind_of
from core.rsa import RSA, RsaConstants, rsa
from core.types import Population, Problem


class Adaptive(RsaConstants):
    STOP_WHEN_UNANIMOUS: int = constant(
        1, "1: stop a problem when all members give the same answer, 0: off", 0, 1
    )
    STOP_CONFIDENCE: float = constant(
        0.0,
        "stop a problem if its leading answer has a majority with at least this probability, "
        "or 0 for off",
        0,
        1,
    )


def adaptive(problem: Problem, population: Population, config: Adaptive) -> bool:
    """Return whether the rule STOP_WHEN_UNANIMOUS or STOP_CONFIDENCE stops the problem."""
    votes = leading_votes(problem, population)
    n = len(population)
    if config.STOP_WHEN_UNANIMOUS and votes == n:
        return True
    if config.STOP_CONFIDENCE == 0:
        return False
    return confidence(votes, n) >= config.STOP_CONFIDENCE


def confidence(votes: int, n: int) -> float:
    """Return the posterior probability of a majority for the leading answer, which `votes` of `n`
    members give.

    Given the previous step, the members of a step are independent draws from one distribution. With
    a uniform prior, the answer's share p has the posterior Beta(votes + 1, n - votes + 1). P(p >
    1/2) is a binomial tail. In this model, the probability of a stop without a majority is at most
    T * (1 - STOP_CONFIDENCE)."""
    tail = sum(comb(n + 1, j) for j in range(votes + 1))
    return float(tail / 2 ** (n + 1))


def leading_votes(problem: Problem, population: Population) -> int:
    """Count the votes for the most frequent answer. Answers are compared as in the results, which
    may take seconds."""
    answers = [read_reply(problem, member.completion).answer for member in population]
    return max(groups(answers, kind_of(problem)).counts.values(), default=0)


RSA_ADAPTIVE = replace(RSA, run=partial(rsa, stop=adaptive), constants=Adaptive, for_proofs="rsa")
