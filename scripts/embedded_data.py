"""Training examples for the embedded model: what it is asked (scripts/embedded_words.py) and what it should answer.

Three skills over one problem family (core/sums.py): SOLVE, AGGREGATE and VERIFY. Two things are designed rather than
learned, and the model card says so: SOLVE's targets carry random slips (wrong digits in products, honestly summed), and
AGGREGATE's targets are, line by line, the most frequent value among the candidates and one noisy attempt of its own.
"""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from core import prompts
from core.prompts import Message
from core.sums import Term, draw_terms, expression, is_held_out, statement
from scripts.embedded_words import (
    STATEMENTS,
    SYSTEM_MESSAGES,
    aggregate_prompt,
    drawn,
    solve_prompt,
    verify_prompt,
)

IM_END, THINK, END_THINK = "<|im_end|>", "<think>", "</think>"

OWN_PROMPTS = 0.3  # share of examples asked in the project's own prompts (core/prompts.py)
CLOSED_THINKING = 0.08  # share of examples with closed empty thinking
FORCED = 0.04  # share whose thinking is cut at random and the answer opened for the model (budget forcing, P(True))
SYSTEM_MESSAGE = 0.05
CUT_CANDIDATE = 0.02  # share of candidates that stop early, without a box
CANDIDATE_THINKING = 0.04  # share of aggregations whose candidates show their thinking
WRONG_SUM = 0.03  # share of candidates with one wrong running sum
CANDIDATE_SLIPS = (0.02, 0.4)  # range of the slip rates of candidates
OFF_BY_ONE = 0.85  # share of slips that move a digit by one; the others replace it
TERMS = {3: 0.14, 4: 0.54, 5: 0.12, 6: 0.08, 7: 0.06, 8: 0.06}
SUBSETS = (1, 2, 3, 3, 3, 4)  # K
LARGE_SUBSETS = (5, 6, 7, 8)
LARGE_SUBSET = 0.06  # share of aggregations with a large subset, for problems of at most four terms


@dataclass(frozen=True)
class Mix:
    """What a phase of training asks for."""

    solve: float  # shares of the skills, relative to each other
    aggregate: float
    verify: float
    slips: float  # rate of wrong products in SOLVE's targets and in AGGREGATE's own attempts
    plurality: float  # share of AGGREGATE's lines that take the most frequent value; the others take any
    corruption: tuple[float, float]  # range of the slip rates of the solutions to VERIFY


@dataclass(frozen=True)
class Example:
    messages: list[Message]
    thinking: bool  # False: the prompt closes thinking
    given: str  # the start of the assistant's turn, not trained on
    target: str


def problem_text(rng: random.Random, terms: list[Term]) -> str:
    if rng.random() < 0.85:
        return statement(terms)
    return drawn(rng, rng.choice(STATEMENTS)).replace("{e}", expression(terms))


# ---- Solutions -----------------------------------------------------------------------------------------------------


def training_terms(rng: random.Random) -> list[Term]:
    count = rng.choices(list(TERMS), list(TERMS.values()))[0]
    while is_held_out(terms := draw_terms(rng, count)):
        pass
    return terms


def slipped(rng: random.Random, product: int) -> int:
    """`product` with one wrong digit; still three digits."""
    digits = [int(d) for d in str(product)]
    place = rng.randrange(3)
    lowest = 1 if place == 0 else 0
    if rng.random() < OFF_BY_ONE:
        choices = [d for d in (digits[place] - 1, digits[place] + 1) if lowest <= d <= 9]
    else:
        choices = [d for d in range(lowest, 10) if d != digits[place]]
    digits[place] = rng.choice(choices)
    return digits[0] * 100 + digits[1] * 10 + digits[2]


def attempt(rng: random.Random, terms: list[Term], rate: float) -> list[int]:
    """The products of the terms, each wrong with a probability around `rate`, more for the larger tables."""
    values = []
    for term in terms:
        product = term.digit * term.number
        hardness = 1 + 0.06 * (term.digit - 5.5)
        values.append(slipped(rng, product) if rng.random() < rate * hardness else product)
    return values


def products(terms: list[Term], values: list[int]) -> str:
    """Thinking: one product a line."""
    return "\n".join(f"{t.digit}*{t.number}={v}" for t, v in zip(terms, values, strict=False))


def solution(terms: list[Term], values: list[int], wrong_sum_at: int = -1, off_by: int = 0) -> str:
    """The written solution: one line a term with the running sum, then the box. Without a box when values are short."""
    lines, total = [], 0
    for i, (term, value) in enumerate(zip(terms, values, strict=False)):
        line = f"{term.digit}*{term.number}={value}"
        if i:
            off = off_by if i == wrong_sum_at else 0
            line += f", {total}+{value}={total + value + off}"
            total += off
        total += value
        lines.append(line)
    if len(values) == len(terms):
        lines.append(f"\\boxed{{{total % 1000}}}")
    return "\n".join(lines)


def plurality(rng: random.Random, votes: list[int], share: float) -> int:
    """The most frequent value, ties at random; with probability 1 - share any of the votes instead."""
    if rng.random() >= share:
        return rng.choice(votes)
    counts = Counter(votes)
    most = max(counts.values())
    return rng.choice([value for value, count in counts.items() if count == most])


def comparison(terms: list[Term], values: list[int]) -> str:
    """Thinking of VERIFY: own value, written value, a mark per digit, the line's verdict."""
    lines = []
    for term, value in zip(terms, values, strict=True):
        own = term.digit * term.number
        marks = "".join("=" if a == b else "x" for a, b in zip(str(own), str(value), strict=True))
        lines.append(f"{term.digit}*{term.number}={own} {value} {marks} {'ok' if own == value else 'no'}")
    return "\n".join(lines)


# ---- Examples ------------------------------------------------------------------------------------------------------


def finished(
    rng: random.Random, messages: list[Message], thoughts: str, answer: str, forced: tuple[str, str]
) -> Example:
    """The example in one of its three forms: thinking open, thinking closed, or cut and the answer opened."""
    if rng.random() < SYSTEM_MESSAGE:
        messages = [{"role": "system", "content": drawn(rng, rng.choice(SYSTEM_MESSAGES))}, *messages]
    roll = rng.random()
    if roll < CLOSED_THINKING:
        return Example(messages, False, "", answer + IM_END)
    if roll < CLOSED_THINKING + FORCED:
        kept = thoughts[: rng.randint(0, len(thoughts))] if rng.random() < 0.7 else thoughts
        opened, rest = forced
        return Example(messages, True, f"{kept}\n{END_THINK}\n\n{opened}", rest + IM_END)
    return Example(messages, True, "", f"{thoughts}\n{END_THINK}\n\n{answer}{IM_END}")


def user(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


def solved(rng: random.Random, messages: list[Message], terms: list[Term], values: list[int]) -> Example:
    forced = (prompts.FORCED_ANSWER, f"{sum(values) % 1000}}}.")
    return finished(rng, messages, products(terms, values), solution(terms, values), forced)


def solve_example(rng: random.Random, mix: Mix) -> Example:
    terms = training_terms(rng)
    own = rng.random() < OWN_PROMPTS
    messages = prompts.solve(statement(terms)) if own else user(solve_prompt(rng, problem_text(rng, terms)))
    return solved(rng, messages, terms, attempt(rng, terms, mix.slips))


def aggregate_example(rng: random.Random, mix: Mix) -> Example:
    terms = training_terms(rng)
    large = len(terms) <= 4 and rng.random() < LARGE_SUBSET
    count = rng.choice(LARGE_SUBSETS if large else SUBSETS)
    rate, show_thinking = rng.uniform(*CANDIDATE_SLIPS), rng.random() < CANDIDATE_THINKING
    candidates, texts = [], []
    for _ in range(count):
        values = attempt(rng, terms, rate)
        if rng.random() < CUT_CANDIDATE:
            values = values[: rng.randrange(1, len(terms))]
        wrong_at = rng.randrange(1, len(terms)) if rng.random() < WRONG_SUM else -1
        text = solution(terms, values, wrong_at, rng.choice((-100, -10, -1, 1, 10, 100)))
        candidates.append(values)
        texts.append(f"{products(terms, values)}\n\n{text}" if show_thinking else text)
    own_attempt = attempt(rng, terms, mix.slips)
    merged = [
        plurality(rng, [c[i] for c in candidates if i < len(c)] + [own_attempt[i]], mix.plurality)
        for i in range(len(terms))
    ]
    own = rng.random() < OWN_PROMPTS
    messages = (
        prompts.aggregate(statement(terms), texts)
        if own
        else user(aggregate_prompt(rng, problem_text(rng, terms), texts))
    )
    return solved(rng, messages, terms, merged)


def verify_example(rng: random.Random, mix: Mix) -> Example:
    terms = training_terms(rng)
    values = attempt(rng, terms, rng.uniform(*mix.corruption))
    candidate = solution(terms, values)
    right = values == [t.digit * t.number for t in terms]  # slips that cancel are too rare to matter
    own = rng.random() < OWN_PROMPTS
    messages = (
        prompts.verify(statement(terms), candidate)
        if own
        else user(verify_prompt(rng, problem_text(rng, terms), candidate))
    )
    forced = (prompts.VERDICT, f" {right}")
    return finished(rng, messages, comparison(terms, values), f"{prompts.VERDICT} {right}", forced)


def examples(seed: int, mix: Mix) -> Iterator[Example]:
    """Endless examples of one mix; equal seeds, equal examples."""
    rng = random.Random(seed)
    skills = (solve_example, aggregate_example, verify_example)
    while True:
        yield rng.choices(skills, (mix.solve, mix.aggregate, mix.verify))[0](rng, mix)
