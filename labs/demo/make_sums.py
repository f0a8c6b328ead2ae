"""Write a problem set of sums for the embedded model. All sets but two contain only held-out
problems.

    python -m labs.demo sums OUT.json --seed 1 --n 30 --terms 4 4 [--proofs | --products
    kept|withheld]

`python -m labs.demo sums --bundled` writes all bundled sets except sums_graded. Two
sets contain problems that are not held out: the set to train on with STaR (TO_TRAIN_ON), and the
control set of `--products kept`."""

import argparse
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from labs.demo.sums import (
    PRODUCTS,
    WITHHELD,
    Term,
    Terms,
    answer,
    claim,
    guidelines,
    held_out,
    statement,
    to_train_on,
    true_products,
)
from labs.demo.texts import solution

# name -> (seed, problems, fewest terms, most terms).
BUNDLED = {
    # the default set of the embedded model, on which a run takes less than a minute
    "sums": (1, 20, 4, 4),
    # harder sums, to show the difference between aggregation and voting
    "sums_hard": (2, 30, 6, 8),
    "sums_card": (3, 240, 4, 4),  # for the figures of the model card
    "sums_hard_card": (4, 100, 6, 8),
}
PROOFS = {"sums_proof": (5, 20, 4, 4)}  # sums whose remainders are to be proved
STAR = {
    "sums_star": (7, 1500, 4, 4),  # five rounds of 300 problems
    "sums_star_eval": (8, 200, 4, 4),
}
TO_TRAIN_ON = ("sums_star",)


def rows(name: str, seed: int, n: int, low: int, high: int) -> list[dict[str, object]]:
    return _rows(f"{name}_{{:03d}}", islice(held_out(seed, low, high), n))


def star_rows(name: str, seed: int, n: int, low: int, high: int) -> list[dict[str, object]]:
    """Return the rows with short ids (star-0001 or star-eval-001), because every trace contains its
    problem's id."""
    draw = to_train_on if name in TO_TRAIN_ON else held_out
    ids = f"{name.removeprefix('sums_').replace('_', '-')}-{{:0{len(str(n))}d}}"
    return _rows(ids, islice(draw(seed, low, high), n))


def control_rows(
    products: str, name: str, seed: int, n: int, low: int, high: int
) -> list[dict[str, object]]:
    """Return a control set of STaR: training problems without WITHHELD products, or held-out
    problems of only these."""
    if products == "withheld":
        drawn = held_out(seed, low, high, WITHHELD)
    else:
        drawn = to_train_on(seed, low, high, PRODUCTS.keys() - WITHHELD)
    return _rows(f"{name}_{{:04d}}", islice(drawn, n))


def _rows(ids: str, drawn: Iterator[list[Term]]) -> list[dict[str, object]]:
    return [
        {"id": ids.format(i), "problem": statement(terms), "answer": answer(terms)}
        for i, terms in enumerate(drawn, 1)
    ]


def proof_rows(name: str, seed: int, n: int, low: int, high: int) -> list[dict[str, object]]:
    """Return rows that ask for proofs, with a worked solution and a marking scheme."""
    drawn = islice(held_out(seed, low, high), n)
    return [
        {
            "id": f"{name}_{i:03d}",
            "problem": claim(terms),
            "solution": solution(Terms(terms, is_proof=True), true_products(terms)),
            "grading_guidelines": guidelines(terms),
            "answer_type": "proof",
        }
        for i, terms in enumerate(drawn, 1)
    ]


def write(path: Path, problems: list[dict[str, object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(row) for row in problems)
    path.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
    print(f"{len(problems)} rows in {path}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n", type=int, default=30)
    parser.add_argument("--terms", type=int, nargs=2, default=(4, 4), metavar=("LOW", "HIGH"))
    parser.add_argument(
        "--proofs", action="store_true", help="write problems that ask to prove a remainder"
    )
    parser.add_argument(
        "--products",
        choices=("kept", "withheld"),
        help="write a control set of STaR with kept or withheld products",
    )
    parser.add_argument("--bundled", action="store_true", help="write the bundled sets to data/")
    args = parser.parse_args()
    if args.bundled:
        write_bundled()
        return
    if args.out is None:
        parser.error("give the file to write, or --bundled")
    shape = (args.out.stem, args.seed, args.n, *args.terms)
    if args.products:
        write(args.out, control_rows(args.products, *shape))
    elif args.proofs:
        write(args.out, proof_rows(*shape))
    else:
        write(args.out, rows(*shape))


def write_bundled() -> None:
    data = Path(__file__).resolve().parents[2] / "data"
    for name, shape in BUNDLED.items():
        write(data / f"{name}.json", rows(name, *shape))
    for name, shape in PROOFS.items():
        write(data / f"{name}.json", proof_rows(name, *shape))
    for name, shape in STAR.items():
        write(data / f"{name}.json", star_rows(name, *shape))
