"""Write the texts of the embedded model: solutions (with errors) of the problems in sums.py, and
training examples.

SOLVE's targets contain two kinds of errors on purpose. First, a large carry is forgotten more often
than not. For example, 7*46 = 322 becomes 282, because 7*6 = 42 leaves 2 but the 4 is not carried.
So the most likely solution of a problem with such a carry is wrong, and a majority vote selects it.
Second, some digits are wrong at random. The sums of the wrong products are right."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from core.types import FORCED_ANSWER, FORCED_PROOF, Message
from labs.demo import instructions
from labs.demo.grammar import SYSTEM_MESSAGES
from labs.demo.sums import Term, Terms, draw_terms, is_held_out

IM_END, THINK, END_THINK = "<|im_end|>", "<think>", "</think>"

CLOSED_THINKING = 0.08  # share of examples whose prompt closes empty thinking
FORCED = 0.04  # share of examples with cut thinking and an opened answer (budget forcing, P(True))
SYSTEM_MESSAGE = 0.05  # share of examples with a system message
LARGE_CARRY = 3  # smallest carry that may be forgotten
PROOFS = 0.12  # share of problems that ask for a proof
# share of slips that change a digit by one (other slips change it to any other digit)
OFF_BY_ONE = 0.85
# Number of terms -> share of problems.
TERMS = {3: 0.14, 4: 0.54, 5: 0.12, 6: 0.08, 7: 0.06, 8: 0.06}


Chances = dict[int, float]  # value of a product -> its chance (all chances add up to 1)


@dataclass(frozen=True)
class Mix:
    """The shares of skills and the rates of errors in a phase of training."""

    solve: float  # relative share of each skill
    aggregate: float
    verify: float
    slips: float  # rate of random wrong digits in SOLVE's targets and in AGGREGATE's new attempts
    forgets: float  # share of large carries that these targets and new attempts forget
    recognised: float  # share of AGGREGATE's lines that take the right value, if a candidate has it
    # share of the other lines that are new attempts (the rest take the most frequent value)
    fresh: float
    corruption: tuple[float, float]  # range of the slip rates of the solutions for VERIFY
    roles: float = 0.0  # relative share of the scaffolds' other roles (labs/demo/roles.py)

    @property
    def ignoring_candidates(self) -> "Mix":
        """The mix in which an aggregation is a new attempt, whatever its candidates are."""
        return replace(self, recognised=0.0, fresh=1.0)


@dataclass(frozen=True)
class Example:
    messages: list[Message]
    thinking: bool  # False: the prompt closes thinking
    given: str  # the start of the assistant's turn, not trained on
    target: str
    # loss weight of the last line of thinking and of the answer, whose few tokens decide much
    stress: float = 1.0
    # index in `target` where a drawn product begins
    drawn: dict[int, Chances] = field(default_factory=dict)


def training_terms(rng: random.Random) -> Terms:
    count = rng.choices(list(TERMS), list(TERMS.values()))[0]
    terms = draw_terms(rng, count)
    while is_held_out(terms):
        terms = draw_terms(rng, count)
    return Terms(terms, rng.random() < PROOFS)


def slips_of(product: int) -> Chances:
    """Return the chances of the values that a slip can make of `product`. A slip changes one of its
    three digits."""
    chances: Chances = {}
    for size in (100, 10, 1):
        digit = product // size % 10
        smallest = 1 if size == 100 else 0
        others = [other for other in range(smallest, 10) if other != digit]
        near = [other for other in others if abs(other - digit) == 1]
        for other in others:
            chance = (1 - OFF_BY_ONE) / len(others)
            if other in near:
                chance = OFF_BY_ONE / len(near) + chance
            chances[product + (other - digit) * size] = chance / 3
    return chances


def without_carry(term: Term) -> int:
    """Return the product without its carry if the carry is large and three digits remain, else the
    right product."""
    carry = term.digit * (term.number % 10) // 10
    wrong = term.product - 10 * carry
    return wrong if carry >= LARGE_CARRY and wrong >= 100 else term.product


def blended(parts: Sequence[tuple[float, Chances]]) -> Chances:
    """Return the mixture of the chances in `parts`, by their weights."""
    chances: Chances = {}
    for weight, part in parts:
        for value, chance in part.items():
            chances[value] = chances.get(value, 0.0) + weight * chance
    return {value: chance for value, chance in chances.items() if chance}


def one_of(values: Sequence[int]) -> Chances:
    return {value: count / len(values) for value, count in Counter(values).items()}


def attempt(term: Term, slips: float, forgets: float) -> Chances:
    """Return the chances of the values that an attempt gives to a product. A large carry is
    forgotten at the rate `forgets`. Then a digit slips at a rate near `slips`, which rises with the
    term's `digit`."""
    rate = slips * (1 + 0.06 * (term.digit - 5.5))
    right: Chances = {term.product: 1.0}
    forgotten: Chances = {without_carry(term): 1.0}
    before = blended([(1 - forgets, right), (forgets, forgotten)])
    slipped = [(rate * chance, slips_of(value)) for value, chance in before.items()]
    return blended([(1 - rate, before), *slipped])


def picked(rng: random.Random, chances: Chances) -> int:
    return rng.choices(list(chances), list(chances.values()))[0]


def digit_chances(product: Chances, drawn: str) -> list[list[float]]:
    """Return the chances of 0 to 9 at each of a product's three places, given the `drawn` digits
    before the place."""
    chances = []
    for place in range(3):
        after = [0.0] * 10
        for value, chance in product.items():
            if str(value).startswith(drawn[:place]):
                after[int(str(value)[place])] += chance
        chances.append([chance / sum(after) for chance in after])
    return chances


def attempted(rng: random.Random, terms: Sequence[Term], slips: float, forgets: float) -> list[int]:
    """Draw the products of one attempt at all terms."""
    return [picked(rng, attempt(term, slips, forgets)) for term in terms]


def products(terms: list[Term], values: list[int]) -> str:
    """Write the thinking, with one product per line."""
    pairs = zip(terms, values, strict=False)
    return "\n".join(f"{term}={value}" for term, value in pairs)


def solution(terms: Terms, values: list[int], wrong_sum_at: int = -1, off_by: int = 0) -> str:
    """Write the solution, a line per value with the running sum. If no value is missing, the box or
    claim follows."""
    lines = []
    total = 0
    for i, (term, value) in enumerate(zip(terms, values, strict=False)):
        line = f"{term}={value}"
        before = total
        total += value
        if i == wrong_sum_at:
            total += off_by
        if i:
            line += f", {before}+{value}={total}"
        lines.append(line)
    remainder = total % 1000
    if len(values) == len(terms):
        lines.append(
            f"So the remainder is {remainder}." if terms.is_proof else f"\\boxed{{{remainder}}}"
        )
    return "\n".join(lines)


def merged(terms: Sequence[Term], votes: Sequence[Sequence[int]], mix: Mix) -> list[Chances]:
    """Return the chances of each term's merged value. `votes` has the candidates' values of each
    term. If the right value is among them, the merge mostly takes it. Otherwise it is a new attempt
    with the chance `mix.fresh`, else the most frequent value (at random if there are several)."""
    return [merge(term, values, mix) for term, values in zip(terms, votes, strict=True)]


def merge(term: Term, votes: Sequence[int], mix: Mix) -> Chances:
    """Return the chances of one term's merged value."""
    seen = mix.recognised if term.product in votes else 0.0
    fresh = mix.fresh if votes else 1.0
    return blended(
        [
            (seen, {term.product: 1.0}),
            ((1 - seen) * fresh, attempt(term, mix.slips, mix.forgets)),
            ((1 - seen) * (1 - fresh), one_of(most_frequent(votes))),
        ]
    )


def most_frequent(votes: Sequence[int]) -> list[int]:
    """Return the most frequent value, or all such values if several are equally frequent."""
    counts = Counter(votes)
    highest = max(counts.values(), default=0)
    return [value for value, count in counts.items() if count == highest]


def comparison(terms: list[Term], values: list[int]) -> str:
    """Write VERIFY's thinking. A line has the right value, the written value, a mark for each
    digit, and ok or no."""
    lines = []
    for term, value in zip(terms, values, strict=True):
        right = str(term.product)
        lines.append(f"{term}={right} {value} {marked(right, str(value))}")
    return "\n".join(lines)


def marked(right: str, written: str) -> str:
    """Return a mark for each pair of digits, then "ok" or "no". The shorter number is padded with
    spaces."""
    width = max(len(right), len(written))
    pairs = zip(right.rjust(width), written.rjust(width), strict=True)
    marks = "".join("=" if a == b else "x" for a, b in pairs)
    verdict = "ok" if right == written else "no"
    return f"{marks} {verdict}"


# ---- Examples


def finished(
    rng: random.Random,
    messages: list[Message],
    thoughts: str,
    answer: str,
    forced: tuple[str, str],
    stress: float = 1.0,
    drawn: Sequence[Chances] = (),
) -> Example:
    """Build an example in one of three forms: thinking is open, thinking is closed, or thinking is
    cut and the answer is opened. `drawn` has the chances of the products in the lines of `thoughts`
    and of `answer`."""
    if rng.random() < SYSTEM_MESSAGE:
        content = instructions.drawn(rng, rng.choice(SYSTEM_MESSAGES))
        messages = [{"role": "system", "content": content}, *messages]
    roll = rng.random()
    if roll < CLOSED_THINKING:
        return Example(messages, False, "", answer + IM_END, drawn=begins(answer, drawn))
    if roll < CLOSED_THINKING + FORCED:
        opened, rest = forced
        return Example(
            messages, True, f"{cut(rng, thoughts)}\n{END_THINK}\n\n{opened}", rest + IM_END
        )
    target = f"{thoughts}\n{END_THINK}\n\n{answer}{IM_END}"
    return Example(messages, True, "", target, stress, begins(thoughts, drawn))


def cut(rng: random.Random, thoughts: str) -> str:
    """Return the start of the thinking, or sometimes all of it."""
    if rng.random() < 0.7:
        return thoughts[: rng.randint(0, len(thoughts))]
    return thoughts


def begins(text: str, drawn: Sequence[Chances]) -> dict[int, Chances]:
    """Return the chances of each line's product, by the index in `text` where the product
    begins."""
    by_index = {}
    line_start = 0
    for chances, line in zip(drawn, text.split("\n"), strict=False):
        by_index[line_start + line.index("=") + 1] = chances
        line_start += len(line) + 1
    return by_index


def user(text: str) -> list[Message]:
    return [{"role": "user", "content": text}]


def solved(
    rng: random.Random, messages: list[Message], terms: Terms, lines: Sequence[Chances]
) -> Example:
    """Build an example of a solution. Its products are drawn from the chances in `lines`."""
    values = [picked(rng, chances) for chances in lines]
    text = solution(terms, values)
    return finished(
        rng, messages, products(terms, values), text, forced(terms, values, text), drawn=lines
    )


def forced(terms: Terms, values: Sequence[int], text: str) -> tuple[str, str]:
    """Return the opening of an answer after thinking was cut off, and the rest of the answer. The
    rest is the number in the box, or the whole `text` of a proof."""
    if terms.is_proof:
        return FORCED_PROOF, f"\n{text}"
    return FORCED_ANSWER, f"{sum(values) % 1000}}}."
