"""Extract pairs of a state and a tactic from the proofs in a file of lemmas. Real Lean computes the
states.

    python -m labs.demo.lean.make_pairs OUT.jsonl [--lemmas data/lean/lemmas_train.json] [--variants
    16] [--workers 2]

Only lemmas marked `teach` are used. A variant of a lemma replaces one variable by a formula or a
term. A variant is kept if Lean accepts the lemma's proof for it.
"""

import argparse
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.base.errors import UserError, command
from core.base.files import DATA, read_json
from labs.lean import pairs, toolchain
from labs.lean.control import of_lemmas
from labs.lean.pairs import Pair

# Replacements of a variable, by its type. Random variables replace x and y in them.
PLACES = {
    "Prop": (
        "(x ∧ y)",
        "(x ∨ y)",
        "(x → y)",
        "¬x",
        "(x ↔ y)",
        "False",
        "((x ∧ y) → x)",
        "(x ∨ ¬y)",
    ),
    "Nat": ("(x + y)", "(x * y)", "(x + 2)", "(3 * x)", "0"),
}
LETTERS = {"Prop": "pqrs", "Nat": "abcde"}
_STATEMENT = re.compile(r"\((?P<names>[a-z](?: [a-z])*) : (?P<type>Prop|Nat)\) : (?P<formula>.*)")


def variant(lemma: dict[str, Any], rng: random.Random) -> dict[str, Any] | None:
    """Return a lemma with one variable replaced, or None if its variables are neither all Prop nor
    all Nat."""
    found = _STATEMENT.fullmatch(lemma["statement"])
    if found is None:
        return None
    letters, places = LETTERS[found["type"]], PLACES[found["type"]]
    parts = dict(zip("xy", rng.choices(letters, k=2), strict=True))
    place = re.sub(r"\b[xy]\b", lambda name: parts[name[0]], rng.choice(places))
    formula = re.sub(rf"\b{rng.choice(found['names'].split())}\b", place, found["formula"])
    names = sorted(set(re.findall(r"\b[a-z]\b", formula)) & {*letters, *found["names"].split()})
    binder = f"({' '.join(names)} : {found['type']})" if names else ""
    return lemma | {"statement": f"{binder} : {formula}".strip()}


def with_variants(
    lemmas: Sequence[dict[str, Any]], variants: int, count: int, seed: int
) -> list[Pair]:
    rng = random.Random(seed)
    drawn = [variant(lemma, rng) for lemma in lemmas for _ in range(variants)]
    others = {one["statement"]: one for one in drawn if one}
    found = of_lemmas(toolchain.find(), count, [*lemmas, *others.values()])
    if not all(found[: len(lemmas)]):
        raise UserError("Lean rejects the proof of a lemma. Generate the lemmas again")
    print(
        f"{sum(map(bool, found[len(lemmas) :]))} of {len(others)} variants have the same proof as "
        "their lemma"
    )
    return pairs.merged(found)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--lemmas", type=Path, default=DATA / "lean" / "lemmas_train.json")
    parser.add_argument(
        "--variants", type=int, default=16, help="random variants to try for each lemma"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    rows = read_json(args.lemmas, "the lemmas", "Run python -m labs.demo.lean.make_lemmas")[
        "theorems"
    ]
    chosen = [row for row in rows if row.get("proof") and row.get("teach")]
    found = with_variants(chosen, args.variants, args.workers, args.seed)
    pairs.write(args.out, found)
    print(f"wrote {len(found)} pairs from {len(chosen)} lemmas")


if __name__ == "__main__":
    with command():
        main()
