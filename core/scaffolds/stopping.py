"""When to stop aggregating a problem: rules for `rsa(…, stop=…)` that look at its newest population and nothing else.

A rule never sees the reference answer; both may stop on a wrong answer that the whole population shares, as more steps
would mostly keep it.
"""

from math import comb

from core.constants import Config
from core.grading.answers import extract, tally
from core.types import Population, Problem


def adaptive(problem: Problem, population: Population, config: Config) -> bool:
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
    the results, so that this may block for seconds (eval.groups)."""
    made = (member.completion for member in population)
    answers = [extract(c.text, problem.answer_type, truncated=c.truncated).answer for c in made]
    return max(tally(answers, problem.answer_type).values(), default=0)
