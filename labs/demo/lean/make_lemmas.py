"""Generate the lemmas in data/lean/lemmas_{train,tune,test}.json, and check them with Lean.

    python -m labs.demo lean-lemmas [--seed 1] [--fresh 2] [--workers 2]

Lemmas are propositional (logic.py) or about natural numbers (numbers.py), with proofs of 1 to 14
tactics that labs/lean/accept.py accepts. A hash of the statement decides whether a lemma is held
out. `teach` marks training lemmas with proofs of at most TAUGHT tactics, which train the tiny
policy. Searches must find the longer proofs. `tune` has the held-out lemmas of the first seed,
which were used to choose settings. `test` has held-out lemmas of another seed, which were not used
to choose settings. This takes a minute.
"""

import argparse
import asyncio
import hashlib
import json
import random
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from pathlib import Path

from core.base.errors import UserError
from core.base.files import DATA, write_atomically
from labs.demo.lean import logic, numbers
from labs.lean import toolchain
from labs.lean.accept import rejected
from labs.lean.session import Workers
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain

# Propositional lemmas by the number of tactics in their proof. 11 means 11 or more.
BY_LENGTH = {2: 14, 3: 40, 4: 40, 5: 36, 6: 34, 7: 32, 8: 28, 9: 24, 10: 22, 11: 30}
HELD_OUT = 25  # percent of statements, on average
FRESH = 2  # propositional lemmas drawn for `test`, as a multiple of BY_LENGTH
FRESH_CHAINS = 4  # sets of equations (numbers.chains) drawn for `test`
TAUGHT = 3  # most tactics in a proof that trains the tiny policy
MOST_CALLS = 160  # most calls of Lean to find a proof by induction

Lemma = tuple[str, list[str]]


async def searched(workers: Workers, statement: str) -> Lemma | None:
    """Return the statement with its shortest proof by numbers.tries, or None if none is found in
    MOST_CALLS calls."""
    first = await workers.run(statement)
    if first.state is None:
        raise UserError(f"{statement}: {first.error}")
    paths: list[tuple[list[str], str]] = [([], first.state.pp)]
    seen = {first.state.pp}
    calls = 0
    for path, state in paths:
        for tactic in numbers.tries(state):
            calls += 1
            if calls > MOST_CALLS:
                return None
            step = await workers.run(statement, [*path, tactic])
            if step.state is None or step.state.pp in seen:
                continue
            if not step.state.goals:
                return statement, [*path, tactic]
            seen.add(step.state.pp)
            paths.append(([*path, tactic], step.state.pp))
    return None


async def shortened(workers: Workers, lemma: Lemma) -> Lemma:
    """Remove tactics after the end of a proof. Some tactics are superfluous, since `rw` also closes
    a goal by `rfl`."""
    statement, tactics = lemma
    for count in range(len(tactics)):
        step = await workers.run(statement, tactics[: count + 1])
        if step.state is None:
            raise UserError(f"{statement}: {tactics[count]}: {step.error}")
        if not step.state.goals:
            return statement, tactics[: count + 1]
    raise UserError(f"{statement}: {tactics} leave some goals unproved")


async def generated(lean: Toolchain, count: int, seed: int) -> list[Lemma]:
    """Return all lemmas of a seed whose proofs are known or found. Raises UserError if Lean rejects
    a proof."""
    rng = random.Random(seed)
    by_rule = [*numbers.chains(rng), *numbers.orders(), *numbers.predicates()]
    lemmas = dict(logic.lemmas(seed, BY_LENGTH))
    async with Workers(lean, count) as workers:
        shortening = [shortened(workers, lemma) for lemma in by_rule]
        for statement, tactics in await asyncio.gather(*shortening):
            lemmas.setdefault(statement, tactics)
        searches = [searched(workers, statement) for statement in numbers.by_induction()]
        proved = [lemma for lemma in await asyncio.gather(*searches) if lemma]
        for statement, tactics in proved:
            lemmas.setdefault(statement, tactics)
        print(f"found {len(proved)} of {len(searches)} proofs by induction")
    return await checked(lean, count, lemmas)


async def fresh(lean: Toolchain, count: int, seed: int, known: Container[str]) -> list[Lemma]:
    """Return held-out lemmas of another seed, without `known` statements. Raises UserError if Lean
    rejects a proof.

    Families of lemmas that are the same for all seeds are omitted."""
    rng = random.Random(seed)
    by_rule = [lemma for _ in range(FRESH_CHAINS) for lemma in numbers.chains(rng)]
    by_length = {length: FRESH * number for length, number in BY_LENGTH.items()}
    drawn = [*logic.lemmas(seed, by_length), *by_rule]
    lemmas = {
        statement: tactics
        for statement, tactics in drawn
        if is_held_out(statement) and statement not in known
    }
    async with Workers(lean, count) as workers:
        shortening = [shortened(workers, lemma) for lemma in lemmas.items()]
        lemmas = dict(await asyncio.gather(*shortening))
    return await checked(lean, count, lemmas)


async def checked(lean: Toolchain, count: int, lemmas: Mapping[str, list[str]]) -> list[Lemma]:
    """Return the lemmas, sorted by length of proof. Raises UserError if Lean rejects a proof."""
    gate = asyncio.Semaphore(count)

    async def check(statement: str, tactics: Sequence[str]) -> None:
        async with gate:
            reason = await rejected(lean, Theorem("lemma", statement), tactics)
        if reason:
            raise UserError(f"{statement}: {list(tactics)} is not a proof ({reason})")

    await asyncio.gather(*(check(statement, tactics) for statement, tactics in lemmas.items()))
    return sorted(lemmas.items(), key=lambda lemma: (len(lemma[1]), len(lemma[0]), lemma[0]))


def is_held_out(statement: str) -> bool:
    """Return whether a lemma is held out, by a hash of its statement."""
    digest = hashlib.sha256(statement.encode()).digest()
    return int.from_bytes(digest[:4], "big") % 100 < HELD_OUT


def write(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write the rows as {"theorems": […]}, with each row on one line."""
    lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    write_atomically(path, f'{{"theorems": [\n{lines}\n]}}\n'.encode())


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Generate lemmas, and check their proofs with Lean."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--fresh", type=int, default=2, help="seed of the test lemmas")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    lean = toolchain.find()
    lemmas = asyncio.run(generated(lean, args.workers, args.seed))
    statements = {statement for statement, _ in lemmas}
    parts = {
        "train": [lemma for lemma in lemmas if not is_held_out(lemma[0])],
        "tune": [lemma for lemma in lemmas if is_held_out(lemma[0])],
        "test": asyncio.run(fresh(lean, args.workers, args.fresh, statements)),
    }
    for part, chosen in parts.items():
        rows: list[dict[str, object]] = []
        for i, (statement, tactics) in enumerate(chosen, 1):
            row: dict[str, object] = {"name": f"{part}_{i}"}
            row |= {"statement": statement, "proof": tactics}
            if part == "train":
                row["teach"] = len(tactics) <= TAUGHT
            rows.append(row)
        write(DATA / "lean" / f"lemmas_{part}.json", rows)
        lengths = Counter(len(tactics) for _, tactics in chosen)
        print(
            f"{part}: {len(rows)} lemmas (number by length of proof: "
            f"{dict(sorted(lengths.items()))})"
        )
