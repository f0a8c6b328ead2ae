"""Measure by teacher forcing how likely the embedded model gets a product right if it may forget
the carry.

    python -m labs.demo.chances data/embedded/model.gguf [--lines 150] [--wording teacher]

This needs requirements-train.txt. The problems are held out, and all lines before the measured line
are right. For solving, the script prints the chances of the right product and of the product
without the carry, at temperature 1. For merging three candidates, it prints the chance of the right
product if 0, 1, 2 or all candidates have it. The other candidates have the product without the
carry. `--wording` uses the prompts of a wording in measure_wordings.py."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from core import prompts
from core.types import Message
from labs.demo.gguf_file import chat_prompt
from labs.demo.measure_wordings import REWORDED
from labs.demo.sums import Terms, held_out, problem
from labs.demo.texts import products, solution, without_carry
from labs.training.loop import started_from

SEED = 41
K = 3
MERGED = 60  # largest number of lines that are measured for merging


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
    parser.add_argument("--wording", choices=sorted(REWORDED))
    args = parser.parse_args()
    for name, text in REWORDED.get(args.wording, {}).items():
        setattr(prompts, name, text)
    model, tokenizer = started_from(args.model)

    def chance(messages: list[Message], before: str, value: int) -> float:
        """Return the chance that the model continues with `value` after `before`."""
        given = tokenizer.encode(chat_prompt(messages, True) + before).ids
        digits = tokenizer.encode(str(value)).ids
        with torch.no_grad():
            scores = model.logits(model.hidden(torch.tensor([given + digits]))[0]).log_softmax(-1)
        places = range(len(given) - 1, len(given) + len(digits) - 1)
        return float(
            sum(scores[place, digit] for place, digit in zip(places, digits, strict=True)).exp()
        )

    solving: list[float] = []
    carried: list[float] = []
    merging: list[list[float]] = [[] for _ in range(K + 1)]
    for drawn in held_out(SEED, 4, 4):
        terms = Terms(drawn)
        right = [term.digit * term.number for term in terms]
        for place, term in enumerate(terms):
            if without_carry(term) == right[place] or len(solving) == args.lines:
                continue
            done = products(terms, right[:place])
            before = (
                f"{done}\n{term.digit}*{term.number}=" if place else f"{term.digit}*{term.number}="
            )
            asked = prompts.solve(problem(terms))
            solving.append(chance(asked, before, right[place]))
            carried.append(chance(asked, before, without_carry(term)))
            if len(merging[0]) < MERGED:
                wrong = [*right[:place], without_carry(term), *right[place + 1 :]]
                for knowing, chances in enumerate(merging):
                    texts = [solution(terms, right if i < knowing else wrong) for i in range(K)]
                    chances.append(
                        chance(prompts.aggregate(problem(terms), texts), before, right[place])
                    )
        if len(solving) == args.lines:
            break
    print(
        f"solving, {len(solving)} lines: the right value {spread(solving)}, without the carry "
        f"{spread(carried)}"
    )
    for knowing, chances in enumerate(merging):
        print(
            f"merging, {len(chances)} lines, {knowing} of {K} candidates right: {spread(chances)}"
        )


def spread(chances: Sequence[float]) -> str:
    low, high = np.quantile(chances, (0.1, 0.9))
    return (
        f"{np.mean(chances):.2f} ({min(chances):.2f} to {max(chances):.2f}, middle 80% {low:.2f} "
        f"to {high:.2f})"
    )


if __name__ == "__main__":
    main()
