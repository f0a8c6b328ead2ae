"""The bundled problem family of the embedded model: the remainder of a sum of products.

"Find the remainder when 7*43 + 6*58 + 9*27 + 4*81 is divided by 1000." Each term is a digit times a two-digit
number. Such a problem has parts, and the model slips at random in one part or another, which is where aggregation
pays. As a proof: "Prove that the remainder … is 216." A hash of the factors splits the family: an eighth is held out,
and training never sees it.
"""

import hashlib
import random
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from core.types import PROOF, Problem

POINTS = 7  # of a proof


class Term(NamedTuple):
    digit: int  # 2..9
    number: int  # 12..99; digit * number >= 100


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


PRODUCTS = {Term(d, n): _hash(f"{d}*{n}") for d in range(2, 10) for n in range(12, 100) if d * n >= 100}  # all 614
WITHHELD = frozenset(sorted(PRODUCTS, key=PRODUCTS.__getitem__)[: len(PRODUCTS) // 5])  # a control of STaR: 122 of them


class Terms(list[Term]):
    """The terms of a problem, and whether it asks for a proof."""

    def __init__(self, terms: Iterable[Term] = (), is_proof: bool = False) -> None:
        super().__init__(terms)
        self.is_proof = is_proof


def expression(terms: list[Term]) -> str:
    return " + ".join(f"{t.digit}*{t.number}" for t in terms)


def statement(terms: list[Term]) -> str:
    return f"Find the remainder when {expression(terms)} is divided by 1000."


def claim(terms: list[Term]) -> str:
    return f"Prove that the remainder when {expression(terms)} is divided by 1000 is {answer(terms)}."


def guidelines(terms: list[Term]) -> str:
    """Return the marking scheme: the right products earn points."""
    all_right, counts = len(terms), range(len(terms) - 1, -1, -1)
    fewer = ", ".join(f"{points(all_right, right)} for {right}" for right in counts)
    return (
        f"Points go by the products: {POINTS} points where all {all_right} are right, {fewer}. Sums of wrong products "
        "that are added up rightly cost nothing more."
    )


def points(count: int, right: int) -> int:
    """Return 0 to 7 points: the share of `right` products among `count`."""
    return round(POINTS * right / count)


def points_of(terms: list[Term], proof: str) -> int:
    """Return the points of a written proof. A product is right if line number i begins with term number i and its true
    product ("7*43=301"). The rest of a line, sums too, costs nothing."""
    lines = [*proof.strip().splitlines(), *[""] * len(terms)]
    right = sum(
        line.partition(",")[0].strip() == f"{term.digit}*{term.number}={term.digit * term.number}"
        for term, line in zip(terms, lines, strict=False)
    )
    return points(len(terms), right)


def problem(terms: Terms) -> Problem:
    if terms.is_proof:
        return Problem("", claim(terms), None, PROOF)
    return Problem("", statement(terms), str(answer(terms)))


def answer(terms: list[Term]) -> int:
    return sum(t.digit * t.number for t in terms) % 1000


def is_held_out(terms: list[Term]) -> bool:
    """Return whether the terms belong to the eighth of the family that is kept for measuring. Their order does not
    matter, so no held-out problem is a training problem rearranged."""
    factors = "+".join(sorted(f"{t.digit}*{t.number}" for t in terms))
    return _hash(factors)[0] % 8 == 0


def draw_terms(rng: random.Random, count: int, among: Collection[Term] = PRODUCTS.keys()) -> list[Term]:
    """Draw `count` terms, uniformly from `among`; by default from all products of three digits."""
    terms: list[Term] = []
    while len(terms) < count:
        term = Term(rng.randint(2, 9), rng.randint(12, 99))
        if term in among:
            terms.append(term)
    return terms


def held_out(seed: int, low: int, high: int, among: Collection[Term] = PRODUCTS.keys()) -> Iterator[list[Term]]:
    """Yield endless held-out problems of `low`..`high` terms, with different factors; equal seeds, equal problems."""
    return _of_one_side(seed, low, high, True, among)


def to_train_on(seed: int, low: int, high: int, among: Collection[Term] = PRODUCTS.keys()) -> Iterator[list[Term]]:
    """Yield endless problems that training may see, as held_out does."""
    return _of_one_side(seed, low, high, False, among)


def _of_one_side(seed: int, low: int, high: int, side: bool, among: Collection[Term]) -> Iterator[list[Term]]:
    rng = random.Random(seed)
    seen: set[tuple[Term, ...]] = set()
    while True:
        terms = draw_terms(rng, rng.randint(low, high), among)
        key = tuple(sorted(terms))
        if is_held_out(terms) is side and key not in seen:
            seen.add(key)
            yield terms
