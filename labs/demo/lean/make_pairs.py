"""Extract pairs of a state and a tactic from the proofs in a file of lemmas. Real Lean computes the
states.

    python -m labs.demo lean-pairs OUT.jsonl [--variants 16] [--workers 2]

Only lemmas marked `teach` are used. A variant of a lemma replaces one variable by a formula or a
term. A variant is kept if Lean accepts the lemma's proof for it.
"""

import argparse
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import DATA, read_json
from labs.lean import pairs, toolchain
from labs.lean.control import of_lemmas
from labs.lean.pairs import Pair

# Replacements of a variable, by its type. Random variables replace x and y in them.
REPLACEMENTS = {
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
    statement = _STATEMENT.fullmatch(lemma["statement"])
    if statement is None:
        return None
    type_, variables = statement["type"], statement["names"].split()
    letters = LETTERS[type_]
    drawn = dict(zip("xy", rng.choices(letters, k=2), strict=True))
    template = rng.choice(REPLACEMENTS[type_])
    replacement = re.sub(r"\b[xy]\b", lambda name: drawn[name[0]], template)
    replaced = rng.choice(variables)
    formula = re.sub(rf"\b{replaced}\b", replacement, statement["formula"])
    names = sorted(set(re.findall(r"\b[a-z]\b", formula)) & {*letters, *variables})
    binder = f"({' '.join(names)} : {type_})" if names else ""
    return lemma | {"statement": f"{binder} : {formula}".strip()}


def with_variants(
    lemmas: Sequence[dict[str, Any]], variants: int, count: int, seed: int
) -> list[Pair]:
    rng = random.Random(seed)
    drawn = [variant(lemma, rng) for lemma in lemmas for _ in range(variants)]
    different = {lemma["statement"]: lemma for lemma in drawn if lemma}
    pairs_by_lemma = of_lemmas(toolchain.find(), count, [*lemmas, *different.values()])
    if not all(pairs_by_lemma[: len(lemmas)]):
        raise UserError("Lean rejects the proof of a lemma. Generate the lemmas again")
    proved = list(filter(None, pairs_by_lemma[len(lemmas) :]))
    print(f"{len(proved)} of {len(different)} variants have the same proof as their lemma")
    return pairs.merged(pairs_by_lemma)


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
    remedy = "Run python -m labs.demo lean-lemmas"
    rows = read_json(args.lemmas, "the lemmas", remedy)["theorems"]
    chosen = [row for row in rows if row.get("proof") and row.get("teach")]
    written = with_variants(chosen, args.variants, args.workers, args.seed)
    pairs.write(args.out, written)
    print(f"wrote {len(written)} pairs from {len(chosen)} lemmas")
