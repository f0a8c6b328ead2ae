"""Draw training examples for the embedded model: prompts, and the replies to learn.

The examples teach three skills on one problem family (sums.py): SOLVE, AGGREGATE and VERIFY. The
module roles.py adds the scaffolds' other roles. AGGREGATE's targets follow designed rules, as the
model card says. If a candidate has the right value of a line, the target mostly takes this value.
Otherwise the target is a new attempt, or the most frequent value."""

import random
from collections.abc import Iterator

from core import prompts
from core.types import Message
from labs.demo.grammar import STATEMENTS
from labs.demo.instructions import aggregate_prompt, drawn, solve_prompt, verify_prompt
from labs.demo.roles import role_example
from labs.demo.sums import Term, Terms, expression, problem, statement, true_products
from labs.demo.texts import (
    Example,
    Mix,
    attempt,
    attempted,
    comparison,
    finished,
    merged,
    products,
    solution,
    solved,
    training_terms,
    user,
)

# share of examples with the prompts of core/prompts.py (if a proof is asked for: all)
OWN_PROMPTS = 0.3
CUT_CANDIDATE = 0.02  # share of candidates that stop early, without a box
CANDIDATE_THINKING = 0.04  # share of aggregations whose candidates show their thinking
WRONG_SUM = 0.03  # share of candidates with one wrong running sum
CANDIDATE_SLIPS = (0.0, 0.25)  # range of the candidates' slip rates
CANDIDATE_FORGETS = (0.0, 0.9)  # range of the shares of large carries that candidates forget
SUBSETS = (1, 2, 3, 3, 3, 4)  # numbers of candidates, one of which is drawn
LARGE_SUBSETS = (5, 6, 7, 8)
LARGE_SUBSET = 0.06  # share with LARGE_SUBSETS, in aggregations for problems of at most four terms


def problem_text(rng: random.Random, terms: list[Term]) -> str:
    if rng.random() < 0.85:
        return statement(terms)
    return drawn(rng, rng.choice(STATEMENTS)).replace("{e}", expression(terms))


def uses_own_prompt(rng: random.Random, terms: Terms) -> bool:
    return terms.is_proof or rng.random() < OWN_PROMPTS


def solve_example(rng: random.Random, mix: Mix) -> Example:
    terms = training_terms(rng)
    messages: list[Message]
    if uses_own_prompt(rng, terms):
        messages = prompts.solve(problem(terms))
    else:
        messages = user(solve_prompt(rng, problem_text(rng, terms)))
    return solved(rng, messages, terms, [attempt(term, mix.slips, mix.forgets) for term in terms])


def aggregate_example(rng: random.Random, mix: Mix) -> Example:
    terms = training_terms(rng)
    large = len(terms) <= 4 and rng.random() < LARGE_SUBSET
    count = rng.choice(LARGE_SUBSETS if large else SUBSETS)
    slips = rng.uniform(*CANDIDATE_SLIPS)
    forgets = rng.uniform(*CANDIDATE_FORGETS)
    show_thinking = rng.random() < CANDIDATE_THINKING
    votes: list[list[int]] = [[] for _ in terms]
    texts = []
    for _ in range(count):
        values = attempted(rng, terms, slips, forgets)
        if rng.random() < CUT_CANDIDATE:
            values = values[: rng.randrange(1, len(terms))]
        for value, values_of_term in zip(values, votes, strict=False):
            values_of_term.append(value)
        text = candidate(rng, terms, values)
        texts.append(f"{products(terms, values)}\n\n{text}" if show_thinking else text)
    messages: list[Message]
    if uses_own_prompt(rng, terms):
        messages = prompts.aggregate(problem(terms), texts)
    else:
        messages = user(aggregate_prompt(rng, problem_text(rng, terms), texts))
    return solved(rng, messages, terms, merged(terms, votes, mix))


def candidate(rng: random.Random, terms: Terms, values: list[int]) -> str:
    """Write a candidate with these products, sometimes with one wrong running sum."""
    wrong_at = rng.randrange(1, len(terms)) if rng.random() < WRONG_SUM else -1
    return solution(terms, values, wrong_at, rng.choice((-100, -10, -1, 1, 10, 100)))


def verify_example(rng: random.Random, mix: Mix) -> Example:
    terms = training_terms(rng)
    values = attempted(rng, terms, rng.uniform(*mix.corruption), rng.uniform(*CANDIDATE_FORGETS))
    text = solution(terms, values)
    # slips that cancel each other are too rare to matter
    right = values == true_products(terms)
    messages: list[Message]
    if uses_own_prompt(rng, terms):
        messages = prompts.verify(problem(terms), text)
    else:
        messages = user(verify_prompt(rng, problem_text(rng, terms), text))
    forced = (prompts.VERDICT, f" {right}")
    return finished(rng, messages, comparison(terms, values), f"{prompts.VERDICT} {right}", forced)


def examples(seed: int, mix: Mix) -> Iterator[Example]:
    """Yield examples of one mix without end. Equal seeds give equal examples."""
    rng = random.Random(seed)
    skills = (solve_example, aggregate_example, verify_example, role_example)
    shares = (mix.solve, mix.aggregate, mix.verify, mix.roles)
    while True:
        skill = rng.choices(skills, shares)[0]
        yield skill(rng, mix)
