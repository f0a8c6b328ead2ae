"""What the embedded model writes: solutions of the sums of sums.py with errors, and examples made of them.

SOLVE's targets are wrong on purpose, in two ways. A large carry is forgotten more often than not: 7*46 = 322 becomes
282, for 42 leaves 2 and the 4 is not carried. This follows from the problem, so that the most likely solution is wrong
and a vote confirms it. And digits slip at random. Both are honestly summed.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from core.types import FORCED_ANSWER, Message
from scripts.embedded.sums import Term, draw_terms, is_held_out
from scripts.embedded.words import SYSTEM_MESSAGES, drawn

IM_END, THINK, END_THINK = "<|im_end|>", "<think>", "</think>"

CLOSED_THINKING = 0.08  # share of examples with closed empty thinking
FORCED = 0.04  # share whose thinking is cut at random and the answer opened for the model (budget forcing, P(True))
SYSTEM_MESSAGE = 0.05
LARGE_CARRY = 3
OFF_BY_ONE = 0.85  # share of slips that move a digit by one; the others replace it
TERMS = {3: 0.14, 4: 0.54, 5: 0.12, 6: 0.08, 7: 0.06, 8: 0.06}


@dataclass(frozen=True)
class Mix:
    """What a phase of training asks for."""

    solve: float  # shares of the skills, relative to each other
    aggregate: float
    verify: float
    slips: float  # rate of random wrong digits in the products of SOLVE's targets and of AGGREGATE's own attempts
    forgets: float  # share of large carries that are forgotten in them
    recognised: float  # share of AGGREGATE's lines that take the right value where a candidate has it;
    fresh: float  # of the others, the share that is tried anew; the rest take the most frequent value
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


def without_carry(term: Term) -> int:
    """The product with its carry forgotten, where that is large and leaves three digits; else the product."""
    carry = term.digit * (term.number % 10) // 10
    product = term.digit * term.number
    return product - 10 * carry if carry >= LARGE_CARRY and product - 10 * carry >= 100 else product


def attempt(rng: random.Random, terms: list[Term], slips: float, forgets: float) -> list[int]:
    """The products of the terms: large carries are forgotten at the rate `forgets`, and then digits slip at a rate
    around `slips`, more for the larger tables."""
    values = []
    for term in terms:
        value = without_carry(term) if rng.random() < forgets else term.digit * term.number
        hardness = 1 + 0.06 * (term.digit - 5.5)
        values.append(slipped(rng, value) if rng.random() < slips * hardness else value)
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


def merged(rng: random.Random, terms: list[Term], found: Sequence[Sequence[int]], mix: Mix) -> list[int]:
    """For each term one value, of those `found` (for each term) and an own attempt: a right value is recognised where
    there is one, mostly; else the most frequent counts, ties at random, or now and then the own attempt."""
    return [
        term.digit * term.number
        if term.digit * term.number in votes and rng.random() < mix.recognised
        else own
        if not votes or rng.random() < mix.fresh
        else plurality(rng, votes)
        for term, votes, own in zip(terms, found, attempt(rng, terms, mix.slips, mix.forgets), strict=True)
    ]


def plurality(rng: random.Random, votes: Sequence[int]) -> int:
    """The most frequent value, ties at random."""
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
