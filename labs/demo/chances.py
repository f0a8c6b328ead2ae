"""Measure by teacher forcing how likely the embedded model gets a product right if it may forget
the carry.

    python -m labs.demo chances data/embedded/model.gguf [--lines 150] [--wording teacher]

This needs requirements-train.txt. The problems are held out, and all lines before the measured line
are right. For solving, the task prints the chances of the right product and of the product
without the carry, at temperature 1. For merging three candidates, it prints the chance of the right
product if 0, 1, 2 or all candidates have it. The other candidates have the product without the
carry. `--wording` uses the prompts of a wording in wordings.toml."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from tokenizers import Tokenizer

from core import prompts
from core.types import Message
from labs.demo import wordings
from labs.demo.gguf_file import chat_prompt
from labs.demo.sums import Terms, held_out, problem, true_products
from labs.demo.texts import products, solution, without_carry
from labs.training.loop import started_from
from labs.training.network import Qwen3

SEED = 41
K = 3
MERGED = 60  # largest number of lines that are measured for merging


class Line(NamedTuple):
    """The line of a product that may be wrong, because its large carry may be forgotten."""

    terms: Terms
    number: int  # of the line's term, from 0

    @property
    def right(self) -> list[int]:
        return true_products(self.terms)

    @property
    def carried(self) -> int:
        """The line's product without the carry."""
        return without_carry(self.terms[self.number])

    @property
    def before(self) -> str:
        """The start of the thinking, up to the product."""
        term = self.terms[self.number]
        earlier = products(self.terms, self.right[: self.number])
        opening = f"{earlier}\n" if earlier else ""
        return f"{opening}{term.digit}*{term.number}="

    def candidates(self, right_count: int) -> list[str]:
        """Return K solutions. Only the first `right_count` have the carry in this line."""
        wrong = list(self.right)
        wrong[self.number] = self.carried
        values = [self.right] * right_count + [wrong] * (K - right_count)
        return [solution(self.terms, each) for each in values]


def lines() -> Iterator[Line]:
    """Yield lines of held-out problems without end."""
    for drawn in held_out(SEED, 4, 4):
        terms = Terms(drawn)
        for i, term in enumerate(terms):
            if without_carry(term) != term.product:
                yield Line(terms, i)


@dataclass
class Measured:
    """A model and its tokenizer."""

    model: Qwen3
    tokenizer: Tokenizer

    def chance(self, messages: list[Message], before: str, value: int) -> float:
        """Return the chance that the model continues with `value` after `before`."""
        given = self.tokenizer.encode(chat_prompt(messages, True) + before).ids
        digits = self.tokenizer.encode(str(value)).ids
        with torch.no_grad():
            hidden = self.model.hidden(torch.tensor([given + digits]))[0]
            scores = self.model.logits(hidden).log_softmax(-1)
        # a token's position has the scores of the next token
        log_chances = [scores[i, digit] for i, digit in enumerate(digits, len(given) - 1)]
        return float(sum(log_chances).exp())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument(
        "--lines",
        type=int,
        default=150,
        help=f"lines to measure (default: 150). Merging uses the first {MERGED}",
    )
    parser.add_argument("--wording", choices=sorted(wordings.REWORDED))
    args = parser.parse_args()
    if args.wording:
        wordings.use(args.wording)
    model = Measured(*started_from(args.model))
    chosen = list(islice(lines(), args.lines))
    measure_solving(model, chosen)
    measure_merging(model, chosen[:MERGED])


def measure_solving(model: Measured, chosen: Sequence[Line]) -> None:
    right: list[float] = []
    carried: list[float] = []
    for line in chosen:
        messages = prompts.solve(problem(line.terms))
        right.append(model.chance(messages, line.before, line.right[line.number]))
        carried.append(model.chance(messages, line.before, line.carried))
    print(
        f"solving, {len(chosen)} lines: the right value {spread(right)}, without the carry "
        f"{spread(carried)}"
    )


def measure_merging(model: Measured, chosen: Sequence[Line]) -> None:
    for count in range(K + 1):
        chances: list[float] = []
        for line in chosen:
            messages = prompts.aggregate(problem(line.terms), line.candidates(count))
            chances.append(model.chance(messages, line.before, line.right[line.number]))
        print(f"merging, {len(chances)} lines, {count} of {K} candidates right: {spread(chances)}")


def spread(chances: Sequence[float]) -> str:
    low, high = np.quantile(chances, (0.1, 0.9))
    return (
        f"{np.mean(chances):.2f} ({min(chances):.2f} to {max(chances):.2f}, middle 80% {low:.2f} "
        f"to {high:.2f})"
    )
