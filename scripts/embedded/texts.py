"""What the embedded model writes: solutions of the sums of sums.py with slips, and examples made of them.

SOLVE's targets carry random slips on purpose: wrong digits in products, honestly summed.
"""

import random
from collections import Counter
from dataclasses import dataclass

from core.types import FORCED_ANSWER, Message
from scripts.embedded.sums import Term, draw_terms, is_held_out
from scripts.embedded.words import SYSTEM_MESSAGES, drawn

IM_END, THINK, END_THINK = "<|im_end|>", "<think>", "</think>"

CLOSED_THINKING = 0.08  # share of examples with closed empty thinking
FORCED = 0.04  # share whose thinking is cut at random and the answer opened for the model (budget forcing, P(True))
SYSTEM_MESSAGE = 0.05
OFF_BY_ONE = 0.85  # share of slips that move a digit by one; the others replace it
TERMS = {3: 0.14, 4: 0.54, 5: 0.12, 6: 0.08, 7: 0.06, 8: 0.06}


@dataclass(frozen=True)
class Mix:
    """What a phase of training asks for."""

    solve: float  # shares of the skills, relative to each other
    aggregate: float
    verify: float
    slips: float  # rate of wrong products in SOLVE's targets and in AGGREGATE's own attempts
    plurality: float  # share of AGGREGATE's lines that take the most frequent value; the others take any
    corruption: tuple[float, float]  # range of the slip rates of the solutions to VERIFY
    roles: float = 0.0  # share of what scaffolds ask besides (scripts/embedded/roles.py)


@dataclass(frozen=True)
class Example:
    messages: list[Message]
    thinking: bool  # False: the prompt closes thinking
    given: str  # the start of the assistant's turn, not trained on
    target: str
    stress: float = 1.0  # weight of the last line of thinking and the answer: much may hang on few tokens


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


# ---- Examples -------------------------------------------------------------------------------------------------------


def finished(
    rng: random.Random,
    messages: list[Message],
    thoughts: str,
    answer: str,
    forced: tuple[str, str],
    stress: float = 1.0,
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
    return Example(messages, True, "", f"{thoughts}\n{END_THINK}\n\n{answer}{IM_END}", stress)


def user(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


def solved(rng: random.Random, messages: list[Message], terms: list[Term], values: list[int]) -> Example:
    forced = (FORCED_ANSWER, f"{sum(values) % 1000}}}.")
    return finished(rng, messages, products(terms, values), solution(terms, values), forced)
