"""Define the embedded model's family of problems: the remainder of a sum of products.

One problem is "Find the remainder when 7*43 + 6*58 + 9*27 + 4*81 is divided by 1000", for example.
Each term is a digit times a two-digit number. The model gets some of the terms wrong, so
aggregation can combine right terms of several solutions. A problem can also ask for a proof, as in
"Prove that the remainder … is 216". A hash of the factors splits the family. An eighth of the
problems is held out, and training never sees this part.
"""

import hashlib
import random
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from core.types import PROOF, Problem

POINTS = 7  # most points of a proof


class Term(NamedTuple):
    digit: int  # 2..9
    number: int  # 12..99; the product is 100 or more

    @property
    def product(self) -> int:
        return self.digit * self.number

    def __str__(self) -> str:
        return f"{self.digit}*{self.number}"


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


ALL_TERMS = [Term(digit, number) for digit in range(2, 10) for number in range(12, 100)]
# all 614
PRODUCTS = {term: _hash(str(term)) for term in ALL_TERMS if term.product >= 100}
# 122, for a control of STaR
WITHHELD = frozenset(sorted(PRODUCTS, key=PRODUCTS.__getitem__)[: len(PRODUCTS) // 5])


class Terms(list[Term]):
    """The terms of a problem, and whether it asks for a proof."""

    def __init__(self, terms: Iterable[Term] = (), is_proof: bool = False) -> None:
        super().__init__(terms)
        self.is_proof = is_proof


def expression(terms: list[Term]) -> str:
    return " + ".join(map(str, terms))


def statement(terms: list[Term]) -> str:
    return f"Find the remainder when {expression(terms)} is divided by 1000."


def claim(terms: list[Term]) -> str:
    return (
        f"Prove that the remainder when {expression(terms)} is divided by 1000 is {answer(terms)}."
    )


def guidelines(terms: list[Term]) -> str:
    """Return the marking scheme of a proof. The proof's right products earn points."""
    count = len(terms)
    fewer = [f"{points(count, right)} for {right}" for right in reversed(range(count))]
    return (
        f"Points go by the products: {POINTS} points where all {count} are right, "
        f"{', '.join(fewer)}. "
        "Sums of wrong products that are added up rightly cost nothing more."
    )


def points(count: int, right: int) -> int:
    """Return 0 to 7 points for a proof in which `right` of `count` products are right."""
    return round(POINTS * right / count)


def points_of(terms: list[Term], proof: str) -> int:
    """Return the points of a written proof. A product is right if line number i begins with term
    number i and its true product ("7*43=301"). The rest of the line is ignored, even if it contains
    a wrong sum."""
    lines = proof.strip().splitlines()
    right = 0
    for term, line in zip(terms, lines, strict=False):
        product = line.partition(",")[0].strip()
        if product == f"{term}={term.product}":
            right += 1
    return points(len(terms), right)


def problem(terms: Terms) -> Problem:
    if terms.is_proof:
        return Problem("", claim(terms), None, PROOF)
    return Problem("", statement(terms), str(answer(terms)))


def true_products(terms: Iterable[Term]) -> list[int]:
    return [term.product for term in terms]


def answer(terms: list[Term]) -> int:
    return sum(true_products(terms)) % 1000


def is_held_out(terms: list[Term]) -> bool:
    """Return whether the terms belong to the held-out eighth of the family. The order of the terms
    does not matter, so no held-out problem is a rearranged training problem."""
    factors = "+".join(sorted(map(str, terms)))
    return _hash(factors)[0] % 8 == 0


def draw_terms(
    rng: random.Random, count: int, among: Collection[Term] = PRODUCTS.keys()
) -> list[Term]:
    """Draw `count` terms uniformly from `among` (default: all products of three digits)."""
    terms: list[Term] = []
    while len(terms) < count:
        term = Term(rng.randint(2, 9), rng.randint(12, 99))
        if term in among:
            terms.append(term)
    return terms


def held_out(
    seed: int, low: int, high: int, among: Collection[Term] = PRODUCTS.keys()
) -> Iterator[list[Term]]:
    """Yield different held-out problems of `low` to `high` terms, without end. Equal arguments give
    equal problems."""
    return _drawn(seed, low, high, among, from_held_out=True)


def to_train_on(
    seed: int, low: int, high: int, among: Collection[Term] = PRODUCTS.keys()
) -> Iterator[list[Term]]:
    """Yield different problems that training may see, without end. The arguments are as in
    held_out."""
    return _drawn(seed, low, high, among, from_held_out=False)


def _drawn(
    seed: int, low: int, high: int, among: Collection[Term], from_held_out: bool
) -> Iterator[list[Term]]:
    rng = random.Random(seed)
    seen: set[tuple[Term, ...]] = set()
    while True:
        terms = draw_terms(rng, rng.randint(low, high), among)
        key = tuple(sorted(terms))
        if is_held_out(terms) is from_held_out and key not in seen:
            seen.add(key)
            yield terms
