"""Test the lemmas of data/lean, with real Lean on a sample."""

import asyncio
import random

from core.base.files import DATA, read_json
from labs.demo.lean.make_lemmas import TAUGHT, is_held_out
from labs.lean import theorems
from labs.lean.accept import rejected
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain

FOLDER = DATA / "lean"
SAMPLE = 2  # of each file


def rows(part: str) -> list[dict[str, object]]:
    path = FOLDER / f"lemmas_{part}.json"
    read = theorems.read(path)
    found: list[dict[str, object]] = read_json(path, "the lemmas", "")["theorems"]
    assert [theorem.statement for theorem in read] == [row["statement"] for row in found]
    return found


def test_the_files_are_split_by_a_hash_graded_and_small() -> None:
    train, tune, test = rows("train"), rows("tune"), rows("test")
    statements = [str(row["statement"]) for row in (*train, *tune, *test)]
    assert len(set(statements)) == len(statements)
    assert not any(is_held_out(str(row["statement"])) for row in train)
    assert all(is_held_out(str(row["statement"])) for row in (*tune, *test))
    assert len(train) >= 250 and len(tune) >= 70 and len(test) >= 150
    for part in (train, tune, test):
        lengths = {len(row["proof"]) for row in part if isinstance(row["proof"], list)}
        assert lengths >= set(range(2, 11))
    for row in train:
        assert isinstance(row["proof"], list) and row["teach"] == (len(row["proof"]) <= TAUGHT)
    assert sum(path.stat().st_size for path in FOLDER.glob("lemmas_*.json")) < 150_000


def test_the_proofs_of_a_sample_are_accepted(lean: Toolchain) -> None:
    rng = random.Random(3)
    sample = [row for part in ("train", "tune", "test") for row in rng.sample(rows(part), SAMPLE)]
    for row in sample:
        proof = row["proof"]
        assert isinstance(proof, list)
        why = asyncio.run(rejected(lean, Theorem("a", str(row["statement"])), proof))
        assert not why, (row, why)
