"""Draw solutions to examine, and write what judges and reviewers say about them."""

import random
from collections.abc import Sequence

from core.types import Message
from labs.demo import sums
from labs.demo.sums import Term, Terms, true_products
from labs.demo.texts import (
    Example,
    attempted,
    comparison,
    finished,
    picked,
    slips_of,
    training_terms,
)

SLIPS = (0.0, 0.3)  # range of the slip rates of solutions to examine
FORGETS = (0.0, 0.8)  # range of the shares of large carries that these solutions forget
TWIN = 0.3  # share of candidates that differ from the previous candidate in at most one line
# shares of wrong and of right lines that a reviewer misjudges
MISSED = 0.08
FALSE_ALARM = 0.03
DECIDES = 10.0  # loss weight of an answer that only decides
QUOTES = 3.0  # loss weight of an answer that quotes lines


def short_terms(rng: random.Random) -> Terms:
    """Draw the terms of a problem with at most five terms, so that a prompt has room for several
    solutions."""
    terms = training_terms(rng)
    while len(terms) > 5:
        terms = training_terms(rng)
    return terms


def tried(rng: random.Random, terms: list[Term], slips: tuple[float, float] = SLIPS) -> list[int]:
    """Draw the products of a solution to examine."""
    return attempted(rng, terms, rng.uniform(*slips), rng.uniform(*FORGETS))


def wrong_lines(terms: Sequence[Term], values: Sequence[int]) -> int:
    pairs = zip(values, true_products(terms), strict=False)
    return len([value for value, right in pairs if value != right])


def candidates(rng: random.Random, terms: list[Term], count: int) -> list[list[int]]:
    """Draw the products of `count` solutions. Some solutions differ from the previous one in at
    most one line."""
    drawn: list[list[int]] = []
    for _ in range(count):
        values = tried(rng, terms)
        if drawn and rng.random() < TWIN:
            i = rng.randrange(len(terms))
            twin = list(drawn[-1])
            twin[i] = values[i]
            values = twin
        drawn.append(values)
    return drawn


def examined(terms: list[Term], values: list[int]) -> str:
    """Write the thinking about a solution: the comparison of its lines, and the number of its wrong
    lines."""
    return f"{comparison(terms[: len(values)], values)}\nwrong {wrong_lines(terms, values)}"


def remarks(terms: Sequence[Term], values: Sequence[int], believed: Sequence[int]) -> str:
    """Write a report: a line for each product that differs from the one `believed` to be right, or
    "No errors."."""
    flaws = [
        f"{term}={value} is wrong, it is {right}."
        for term, value, right in zip(terms, values, believed, strict=False)
        if value != right
    ]
    if len(values) < len(terms):
        flaws.append("It is unfinished.")
    return "\n".join(flaws) or "No errors."


def is_right(terms: Sequence[Term], values: Sequence[int]) -> bool:
    return list(values) == true_products(
        terms
    )  # slips that cancel each other are too rare to matter


def score(terms: Sequence[Term], values: Sequence[int]) -> str:
    """Return the score of deepseek_math: 1 for a right solution, 0.5 if it is complete with one
    wrong line, else 0."""
    if is_right(terms, values):
        return "1"
    is_complete = len(values) == len(terms)
    return "0.5" if is_complete and wrong_lines(terms, values) == 1 else "0"


def points(terms: Sequence[Term], values: Sequence[int]) -> int:
    """Return a grader's points (0 to 7), which depend on the share of right lines."""
    return sums.points(len(terms), len(values) - wrong_lines(terms, values))


def believed(rng: random.Random, terms: list[Term], values: list[int]) -> list[int]:
    """Return the values that a reviewer believes to be right. The reviewer sometimes errs (MISSED,
    FALSE_ALARM)."""
    review = []
    for value, right in zip(values, true_products(terms), strict=True):
        if value != right:
            review.append(value if rng.random() < MISSED else right)
        elif rng.random() < FALSE_ALARM:
            review.append(picked(rng, slips_of(right)))
        else:
            review.append(right)
    return review


def decided(
    rng: random.Random, messages: list[Message], thoughts: str, opening: str, decision: str
) -> Example:
    """Build an example whose answer is a decision after `opening`."""
    answer = f"{opening} {decision}"
    return finished(rng, messages, thoughts, answer, (opening, f" {decision}"), stress=DECIDES)
