"""Test an energy that is really trained: it learns the signal, and low is good."""

import asyncio
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from core.base.errors import UserError
from core.base.files import sha256
from labs.lean import energy, trajectories, trees
from labs.lean.energy import Energy, Guide
from labs.lean.theorem import State
from labs.lean.trees import NEGATIVES, Draws, Tree
from tests.helpers.once import once
from tests.labs.lean.embedding import MODEL, Told
from tests.labs.lean.forests import WIDTH, head, kept, rows, store, written
from tests.labs.training import helpers as training

# Each argument is a command line, run in one process: one import of torch for all. Steps are few and large.
COMMANDS = """
import sys
import torch
from pathlib import Path
from labs.lean import energy_training as training
training.BATCH, training.RATE = 16, 2e-3
for line in sys.argv[1:]:
    try:
        training.main(line.split())
    except SystemExit as end:
        print("status", end.code)

from labs.lean.energy import Energy
from safetensors.torch import load_file
folder = Path(sys.argv[1].split()[sys.argv[1].split().index("--out") + 1])
stored = load_file(folder / "energy.safetensors")
head = training.Head(stored["mean"].numel()).eval()
head.load_state_dict({name: stored[name] for name in head.state_dict()})
with torch.no_grad():
    vectors = 3 * torch.randn(200, stored["mean"].numel())
    there = head((vectors - stored["mean"]) / stored["scale"]).numpy()
here = Energy.load(folder)(vectors.numpy())
print("apart", max(abs(a - b) for a, b in zip(here, there.tolist())), "energies of", there.std())
"""
STEPS, PROBE = 40, -2.0


def line(folder: Path, name: str, data: str = "signal") -> str:
    at = folder / data
    paths = f"--trajectories {at / 'trajectories'} --embeddings {at / 'embeddings'} --out {folder / name}"
    return f"{paths} --steps {STEPS}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return trained energies; `log` has the output of their trainings."""

    def make(folder: Path) -> None:
        written(folder / "signal")
        written(folder / "noise", signal=0.0)
        given = ("once", "signal"), ("blind", "noise"), ("again", "signal"), ("once", "signal")
        onward = f"{line(folder, 'onward')} --begin {folder / 'once'}"
        done = training.run(COMMANDS, *(line(folder, *each) for each in given), onward)
        (folder / "log").write_text(done.stdout + done.stderr.replace("\n  ", " "))

    return once(tmp_path_factory, "energy", make)


@pytest.fixture(scope="module")
def log(folder: Path) -> str:
    return (folder / "log").read_text()


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "energy.json").read_text())
    return found


def forest(folder: Path, data: str = "signal") -> trees.Forest:
    return trees.forest([folder / data / "trajectories"], energy.stored_in(folder / data / "embeddings"), PROBE)


@training.needed
def test_on_held_out_theorems_it_tells_the_path_from_its_siblings(folder: Path, log: str) -> None:
    assert {path.name for path in (folder / "once").iterdir()} == {"energy.safetensors", "energy.json"}, log
    found = record(folder / "once")
    assert found["auc"]["held_out"]["value"] >= 0.75 and found["auc"]["held_out"]["low"] > 0.5
    assert found["auc"]["held_out"]["n"] >= 4 and found["auc"]["trained"]["n"] >= 20
    about = {"width": WIDTH, "steps": STEPS, "model": MODEL, "layers": [512, 256, 128, 1]}
    assert {name: found[name] for name in about} == about
    assert found["loss"][-1] < found["loss"][0] / 2 and found["temperature"] > 0
    assert found["states"] == len(forest(folder).vectors)
    assert found["sha256"] == forest(folder).sha256 and f"training: step {STEPS} of {STEPS}, loss " in log


@training.needed
def test_of_noise_it_learns_nothing_that_holds_elsewhere(folder: Path, log: str) -> None:
    found = record(folder / "blind")["auc"]["held_out"]
    assert found["low"] <= 0.5 <= found["high"], log


@training.needed
def test_low_is_good(folder: Path, log: str) -> None:
    whole = forest(folder)
    energies = np.array(Energy.load(folder / "once")(whole.vectors))
    held_out = [each for each in whole.trees if each.is_held_out and each.on_path]
    on = [number for each in held_out for number in each.on_path]
    off = [number for each in held_out for number in each.off_path]
    assert energies[on].mean() < energies[off].mean() - 0.1, log
    assert trees.auc(held_out, energies).value > 0.75 > 0.25 > trees.auc(held_out, -energies).value
    paths = [each for each in whole.trees if not each.is_held_out]
    left = [number for each in paths for number in each.remaining]
    near = energies[[number for each in paths for number in each.on_path]]
    assert np.corrcoef(near, left)[0, 1] > 0.2  # and lowest near the end


@training.needed
def test_numpy_says_what_torch_says(log: str) -> None:
    apart = next(each for each in log.splitlines() if each.startswith("apart")).split()
    assert float(apart[1]) < 1e-5 and float(apart[-1]) > 0.05


@training.needed
def test_equal_searches_and_seeds_give_equal_bits(folder: Path, log: str) -> None:
    weights = [(folder / name / "energy.safetensors").read_bytes() for name in ("once", "again")]
    assert weights[0] == weights[1], log


@training.needed
def test_a_training_that_begins_with_an_energy_goes_on_from_its_loss(folder: Path, log: str) -> None:
    once, onward = (record(folder / name) for name in ("once", "onward"))
    assert sum(onward["loss"][:5]) < sum(once["loss"][:5]) / 2, log
    assert onward["begin"] == sha256(folder / "once" / "energy.safetensors") and "begin" not in once


@training.needed
def test_an_energy_that_exists_is_not_trained_again(folder: Path, log: str) -> None:
    assert log.count("error: ") == log.count("status 2") == 1 and "Traceback" not in log, log
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_an_energy_of_another_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="model@1"):
        Guide(Energy.load(kept(tmp_path / "energy")), Told(lambda text: text, "model@1"))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("energy.json", b"[]"),
        ("energy.safetensors", b"\xff" * 100),
        ("energy.safetensors", save(head())[:-4]),
    ],
)
def test_a_damaged_energy_is_refused(name: str, content: bytes, tmp_path: Path) -> None:
    (kept(tmp_path / "energy") / name).write_bytes(content)
    with pytest.raises(UserError, match=str(tmp_path)):
        Energy.load(tmp_path / "energy")


def test_a_states_energy_does_not_depend_on_those_beside_it(tmp_path: Path) -> None:
    found = Energy.load(kept(tmp_path / "energy"))
    vectors = np.random.default_rng(1).normal(size=(50, WIDTH)).astype(np.float32)
    assert found(vectors) == [found(vectors[n : n + 1])[0] for n in range(50)]
    assert np.isfinite(found(np.full((1, WIDTH), 1e30, np.float32))).all()


# The trees


def distinct(texts: Sequence[str]) -> dict[str, "np.typing.NDArray[np.float64]"]:
    """Return vectors without a signal."""
    return {text: np.arange(1, WIDTH + 1, dtype=np.float64) + number for number, text in enumerate(texts)}


def test_what_is_on_any_path_is_on_the_path_nearest_to_an_end(tmp_path: Path) -> None:
    first, second = rows("a", depth=2, beside=1), rows("a", depth=2, beside=1)
    swapped = {"a\n⊢ on 1": "a\n⊢ off 0 0", "a\n⊢ off 0 0": "a\n⊢ on 1"}
    for row in second:  # there, what was beside the path leads to the end at once
        row["state_pp"] = swapped.get(row["state_pp"], row["state_pp"])
        row["remaining_depth"] -= row["remaining_depth"] > 1
    others = rows("b") + rows("c", is_proved=False)
    for name, results in (("1", first), ("2", second + others)):
        (tmp_path / f"{name}.parquet").write_bytes(trajectories.encoded(results))
    texts = trees.texts_in([tmp_path])
    assert len(texts) == len(set(texts)) and "" not in texts
    store(tmp_path / "e", distinct(texts))
    stored = energy.stored_in(tmp_path / "e")
    paths = [tmp_path / "1.parquet", tmp_path / "2.parquet"]
    built = trees.forest(paths, stored, PROBE)
    assert trees.forest(paths[::-1], stored, PROBE).sha256 == built.sha256
    a, b, c = built.trees
    names = {int(n): text for text, n in zip(sorted(texts, key=energy.hash_of), range(len(texts)), strict=True)}
    on = {names[n]: left for n, left in zip(a.on_path, a.remaining, strict=True)}
    assert on == {"a\n⊢ on 0": 2, "a\n⊢ on 1": 2, "a\n⊢ off 0 0": 1, "a\n⊢ on 2": 1}
    assert {names[n] for n in a.siblings} == {"a\n⊢ off 1 0", "a\n⊢ off 2 0"}
    assert {names[n] for n in a.others} == {f"a\n⊢ far {n} 0" for n in range(3)}
    families = [({names[n] for n in on}, {names[n] for n in off}) for on, off in a.families]
    assert families == 2 * [({"a\n⊢ on 2"}, {"a\n⊢ off 1 0"})]
    assert len(b.families) == 3 and not c.on_path and not c.families and len(c.off_path) > 20
    # Of the policy's own tactics: all but those with the log probability of a probe, which one sibling of "b" gets.
    assert a.own == a.families and not any(each.own for each in trees.forest(paths, stored, -0.5).trees)
    next(row for row in others if row["state_pp"] == "b\n⊢ off 1 0")["llm_log_prob"] = -2.0
    (tmp_path / "2.parquet").write_bytes(trajectories.encoded(second + others))
    own = trees.forest(paths, stored, PROBE).trees[1].own
    assert [(len(on), len(off)) for on, off in own] == [(1, 3), (1, 2), (1, 3)]


def plain_tree(theorem: str, on: int, siblings: int, others: int, begin: int) -> Tree:
    numbers = iter(range(begin, begin + on + siblings + others))
    one, two, three = (tuple(next(numbers) for _ in range(count)) for count in (on, siblings, others))
    return Tree(theorem, one, (1,) * on, two, three, ())


def in_training(count: int) -> list[str]:
    """Return names of theorems that are not held out."""
    names = (f"t{number}" for number in range(10_000))
    return list(islice((name for name in names if not plain_tree(name, 0, 0, 0, 0).is_held_out), count))


def test_the_seven_others_are_of_the_three_kinds_by_their_shares() -> None:
    forest = [plain_tree(name, 3, 20, 20, 1000 * n) for n, name in enumerate(in_training(10))]
    batch = Draws(forest).batch(2000, np.random.default_rng(0))
    assert batch.is_there.all() and batch.states.shape == (2000, 1 + NEGATIVES)
    kinds = np.zeros(3)
    for states in batch.states:
        its = forest[states[0] // 1000]
        assert states[0] in its.on_path and len(set(states)) == 1 + NEGATIVES
        for state in states[1:]:
            kind = 0 if state in its.siblings else 1 if state in its.others else 2
            assert kind < 2 or state // 1000 != states[0] // 1000
            kinds[kind] += 1
    assert kinds / kinds.sum() == pytest.approx([0.3, 0.4, 0.3], abs=0.02)


@pytest.mark.parametrize(
    ("siblings", "others", "beside", "expected"),
    [(0, 0, 50, 7), (2, 0, 50, 7), (0, 3, 50, 7), (2, 1, 0, 3), (9, 9, 0, 7), (1, 1, 2, 4), (0, 0, 3, 3)],
)
def test_where_a_kind_has_too_few_the_others_stand_in(siblings: int, others: int, beside: int, expected: int) -> None:
    first, second = in_training(2)
    forest = [plain_tree(first, 2, siblings, others, 0), plain_tree(second, 0, beside, 0, 1000)]
    batch = Draws(forest).batch(50, np.random.default_rng(0))
    assert (batch.is_there.sum(axis=1) == 1 + expected).mean() > 0.7  # of very few from elsewhere, not all are drawn
    for states, there in zip(batch.states, batch.is_there, strict=True):
        assert len(set(states[there])) == there.sum() and not set(states[there][1:]) & set(forest[0].on_path)


def test_a_theorem_is_held_out_by_its_name_alone() -> None:
    held = [n for n in range(2000) if plain_tree(f"lemma {n}", 0, 0, 0, 0).is_held_out]
    assert 300 < len(held) < 500
    first, *_ = in_training(1)
    held_out = plain_tree(f"lemma {held[0]}", 2, 2, 2, 0)
    assert {place for place, _, _ in Draws([held_out, plain_tree(first, 2, 2, 2, 10)]).examples} == {0}
    assert Draws([held_out, plain_tree(first, 2, 2, 2, 10)]).examples[0][1] == 10


def test_trajectories_without_a_proof_teach_nothing(tmp_path: Path) -> None:
    (tmp_path / "1.parquet").write_bytes(trajectories.encoded(rows("a", is_proved=False)))
    store(tmp_path / "e", distinct(trees.texts_in([tmp_path])))
    with pytest.raises(UserError, match=str(tmp_path)):
        trees.forest([tmp_path], energy.stored_in(tmp_path / "e"), PROBE)


# The guide


def test_a_state_is_embedded_once_however_it_is_spaced(tmp_path: Path) -> None:
    results = Told(lambda text: np.full(WIDTH, float(len(text))))
    guide = Guide(Energy.load(kept(tmp_path / "energy")), results)
    first = asyncio.run(guide([State("p : Prop\n⊢ p"), State("⊢ q"), State("p :  Prop\n⊢ p\n")]))
    assert first and first[0] == first[2] != first[1] and results.asked == ["p : Prop\n⊢ p", "⊢ q"]
    assert asyncio.run(guide([State("⊢ q")])) == first[1:2] and len(results.asked) == 2
