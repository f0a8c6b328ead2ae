"""Test embeddings by the real engine, and an energy that is really trained: it learns the signal,
and low is good."""

import asyncio
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save

from core.base.errors import RunFailed, UserError
from core.base.files import sha256
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.protocol import Server
from labs.lean import energy, trajectories, trees
from labs.lean.energy import Energy, Guide, embed, stored_in, text_of
from labs.lean.theorem import State
from labs.lean.trees import NEGATIVES, PADDING, Draws, Tree
from labs.training.embeddings import Embedder, Vectors
from labs.training.served import Weights, embedding
from tests.fakes.http import Proxy, Request, answer, reset
from tests.helpers.once import once
from tests.labs.lean.embedding import MODEL, Given, Refusing, Told, asked
from tests.labs.lean.forests import WIDTH, head, kept, rows, store, written
from tests.labs.training import helpers as training

# Each argument is a command line, run in one process: one import of torch for all. Steps are few
# and large.
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
    paths = (
        f"--trajectories {at / 'trajectories'} --embeddings {at / 'embeddings'} --out "
        f"{folder / name}"
    )
    return f"{paths} --steps {STEPS}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return trained energies; `log` has the output of their trainings."""

    def make(folder: Path) -> None:
        written(folder / "signal")
        written(folder / "noise", signal=0.0)
        given = ("once", "signal"), ("blind", "noise"), ("again", "signal"), ("once", "signal")
        onward = f"{line(folder, 'onward')} --steps 8 --begin {folder / 'once'}"
        done = training.run(COMMANDS, *(line(folder, *each) for each in given), onward)
        (folder / "log").write_text(done.stdout + done.stderr.replace("\n  ", " "))

    return once(tmp_path_factory, "energy", make)


@pytest.fixture(scope="module")
def log(folder: Path) -> str:
    return (folder / "log").read_text()


def record(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "energy.json").read_text())
    return found


def forest(folder: Path) -> tuple[tuple[Tree, ...], Vectors]:
    stored = energy.stored_in(folder / "signal" / "embeddings")
    return trees.forest([folder / "signal" / "trajectories"], stored, PROBE), stored.vectors


@training.needed
def test_on_held_out_theorems_it_tells_the_path_from_its_siblings(folder: Path, log: str) -> None:
    assert {path.name for path in (folder / "once").iterdir()} == {
        "energy.safetensors",
        "energy.json",
    }, log
    found = record(folder / "once")
    assert found["auc"]["held_out"]["value"] >= 0.75 and found["auc"]["held_out"]["low"] > 0.5
    assert found["auc"]["held_out"]["n"] >= 4 and found["auc"]["trained"]["n"] >= 20
    about = {"width": WIDTH, "steps": STEPS, "model": MODEL, "layers": [512, 256, 128, 1]}
    assert {name: found[name] for name in about} == about
    assert found["loss"][-1] < found["loss"][0] / 2 and found["temperature"] > 0
    assert found["states"] == len(forest(folder)[1])
    assert f"training: step {STEPS} of {STEPS}, loss " in log


@training.needed
def test_of_noise_it_learns_nothing_that_holds_elsewhere(folder: Path, log: str) -> None:
    found = record(folder / "blind")["auc"]["held_out"]
    assert found["low"] <= 0.5 <= found["high"], log


@training.needed
def test_low_is_good(folder: Path, log: str) -> None:
    whole, vectors = forest(folder)
    energies = np.array(Energy.load(folder / "once")(vectors))
    held_out = [each for each in whole if each.is_held_out and each.on_path]
    on = [number for each in held_out for number in each.on_path]
    off = [number for each in held_out for number in each.off_path]
    assert energies[on].mean() < energies[off].mean() - 0.1, log
    assert trees.auc(held_out, energies).value > 0.75 > 0.25 > trees.auc(held_out, -energies).value
    paths = [each for each in whole if not each.is_held_out]
    left = [number for each in paths for number in each.on_path.values()]
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
def test_a_training_that_begins_with_an_energy_goes_on_from_its_loss(
    folder: Path, log: str
) -> None:
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
    ("name", "content"), [("energy.json", b"[]"), ("energy.safetensors", save(head())[:-4])]
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
    return {
        text: np.arange(1, WIDTH + 1, dtype=np.float64) + number
        for number, text in enumerate(texts)
    }


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
    assert trees.forest(paths[::-1], stored, PROBE) == built
    a, b, c = built
    names = {stored.row(text): text for text in texts}
    on = {names[n]: left for n, left in a.on_path.items()}
    assert on == {"a\n⊢ on 0": 2, "a\n⊢ on 1": 2, "a\n⊢ off 0 0": 1, "a\n⊢ on 2": 1}
    assert {names[n] for n in a.siblings} == {"a\n⊢ off 1 0", "a\n⊢ off 2 0"}
    assert {names[n] for n in a.others} == {f"a\n⊢ far {n} 0" for n in range(3)}
    assert [(names[on], names[off]) for on, off in a.pairs] == 2 * [("a\n⊢ on 2", "a\n⊢ off 1 0")]
    assert len(b.pairs) == 9 and not c.on_path and not c.pairs and len(c.off_path) > 20
    # Of the policy's own tactics: all but those with the log probability of a probe, which one
    # sibling of "b" gets.
    assert a.own == a.pairs and not any(each.own for each in trees.forest(paths, stored, -0.5))
    next(row for row in others if row["state_pp"] == "b\n⊢ off 1 0")["llm_log_prob"] = -2.0
    (tmp_path / "2.parquet").write_bytes(trajectories.encoded(second + others))
    assert len(trees.forest(paths, stored, PROBE)[1].own) == 8


def plain_tree(theorem: str, on: int, siblings: int, others: int, begin: int) -> Tree:
    numbers = iter(range(begin, begin + on + siblings + others))
    one, two, three = (
        tuple(next(numbers) for _ in range(count)) for count in (on, siblings, others)
    )
    return Tree(theorem, dict.fromkeys(one, 1), two, three)


def in_training(count: int) -> list[str]:
    """Return names of theorems that are not held out."""
    names = (f"t{number}" for number in range(10_000))
    return list(
        islice((name for name in names if not plain_tree(name, 0, 0, 0, 0).is_held_out), count)
    )


def test_the_seven_others_are_of_the_three_kinds_by_their_shares() -> None:
    forest = [plain_tree(name, 3, 20, 20, 1000 * n) for n, name in enumerate(in_training(10))]
    drawn, _ = Draws(forest).batch(2000, np.random.default_rng(0))
    assert (drawn != PADDING).all() and drawn.shape == (2000, 1 + NEGATIVES)
    kinds = np.zeros(3)
    for states in drawn:
        its = forest[states[0] // 1000]
        assert states[0] in its.on_path and len(set(states)) == 1 + NEGATIVES
        for state in states[1:]:
            kind = 0 if state in its.siblings else 1 if state in its.others else 2
            assert kind < 2 or state // 1000 != states[0] // 1000
            kinds[kind] += 1
    assert kinds / kinds.sum() == pytest.approx([0.3, 0.4, 0.3], abs=0.02)


@pytest.mark.parametrize(
    ("siblings", "others", "beside", "expected"),
    [
        (0, 0, 50, 7),
        (2, 0, 50, 7),
        (0, 3, 50, 7),
        (2, 1, 0, 3),
        (9, 9, 0, 7),
        (1, 1, 2, 4),
        (0, 0, 3, 3),
    ],
)
def test_where_a_kind_has_too_few_the_others_stand_in(
    siblings: int, others: int, beside: int, expected: int
) -> None:
    first, second = in_training(2)
    forest = [plain_tree(first, 2, siblings, others, 0), plain_tree(second, 0, beside, 0, 1000)]
    drawn, _ = Draws(forest).batch(50, np.random.default_rng(0))
    # of few from elsewhere, not all are drawn
    assert ((drawn != PADDING).sum(axis=1) == 1 + expected).mean() > 0.7
    for states in ([number for number in row if number != PADDING] for row in drawn.tolist()):
        assert len(set(states)) == len(states) and not set(states[1:]) & set(forest[0].on_path)


def test_a_theorem_is_held_out_by_its_name_alone() -> None:
    held = [n for n in range(2000) if plain_tree(f"lemma {n}", 0, 0, 0, 0).is_held_out]
    assert 300 < len(held) < 500


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


# Embeddings


STATES = [f"case {i}\np q r : Prop\nh{i} : p → q\n⊢ {'p ∧ ' * (i % 9)}r" for i in range(20)]


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with embedding(Weights(EMBEDDED_GGUF), Path()) as found:
        yield found


@pytest.fixture(scope="module")
def vectors(server: Server) -> Vectors:
    """Return the vectors of STATES, each from its own request."""
    return asked(server, lambda embedder: embedder([text_of(state) for state in STATES]), batch=1)


def into(folder: Path, states: Sequence[str] = STATES) -> "Given[int]":
    return lambda embedder: embed(states, folder, embedder, lambda line: None)


def test_a_state_has_one_vector_in_any_batch(server: Server, vectors: Vectors) -> None:
    assert vectors.shape == (len(STATES), 128) and len(np.unique(vectors, axis=0)) == len(STATES)
    together = asked(server, lambda embedder: embedder([text_of(state) for state in STATES]))
    np.testing.assert_allclose(together, vectors, atol=1e-5)


def test_stored_vectors_come_back_and_no_text_is_embedded_twice(
    server: Server, vectors: Vectors, tmp_path: Path
) -> None:
    folder = tmp_path / "embeddings"
    assert asked(server, into(folder, [*STATES[:15], *STATES[:5], ""])) == 15
    spaced = [state.replace(" : ", "  :   ") + "\n\n" for state in STATES]
    assert asked(server, into(folder, spaced)) == 5
    assert asked(server, into(folder)) == 0 and len(os.listdir(folder)) == 2
    stored = stored_in(folder)
    rows = [stored.row(text_of(state)) for state in STATES]
    np.testing.assert_allclose(stored.vectors[rows], vectors, atol=1e-5)
    assert (
        stored.model == server.model and stored.vectors.dtype == np.float32 and not stored.cut.any()
    )
    with pytest.raises(UserError, match="⊢ new"):
        stored.row("⊢ new")


def test_what_is_too_long_loses_its_middle_and_nothing_beside_it_does(
    server: Server, tmp_path: Path
) -> None:
    long = ["h : p\n⊢ " + f"{name} ∨ " * 1000 + "True" for name in ("p", "q")]
    asked(server, into(tmp_path, [*STATES[:5], *long]))
    stored = stored_in(tmp_path)
    cut = {row for row in range(len(stored.cut)) if stored.cut[row]}
    assert cut == {stored.row(text_of(state)) for state in long}


def test_parts_before_a_lost_server_are_kept(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(energy, "PART", 5)
    proxy = Refusing(server.base_url)
    through, proxy.left = replace(server, base_url=proxy.url), 2
    with pytest.raises(RunFailed, match="503"):
        asked(through, into(tmp_path), batch=5)
    assert len(stored_in(tmp_path).vectors) == 10
    proxy.left = 10**9
    assert asked(through, into(tmp_path)) == len(STATES) - 10
    proxy.close()


def test_no_connection_is_used_twice(server: Server) -> None:
    """A server closes an idle connection at the moment of a request, which is then lost."""
    proxy, clients = Proxy(server.base_url), set[Any]()

    def answered(request: Request) -> None:
        clients.add(request.client_address)
        answer(200, reply(embedded(0, [1.0])))(request)

    proxy.script = [answered] * 2

    async def twice(embedder: Embedder) -> None:
        await embedder(["⊢ p"])
        await embedder(["⊢ q"])

    asked(replace(server, base_url=proxy.url), twice)
    assert len(clients) == 2
    proxy.close()


def embedded(index: int, numbers: Any) -> dict[str, Any]:
    return {"object": "embedding", "index": index, "embedding": numbers}


def reply(*rows: Any) -> dict[str, Any]:
    return {"object": "list", "data": list(rows)}


REPLIES: dict[str, Any] = {
    "an error": answer(501, {"error": {"message": "not here."}}),
    "none": reset,
    "a chat": answer(200, {"choices": []}),
    "null": answer(200, reply(embedded(0, [None, 1.0]), embedded(1, [1.0, 1.0]))),
    "zero": answer(200, reply(embedded(0, [0.0, 0.0]), embedded(1, [1.0, 1.0]))),
}


@pytest.mark.parametrize("case", REPLIES)
def test_a_server_without_sound_embeddings_ends_the_run_in_one_line(
    case: str, server: Server
) -> None:
    proxy = Proxy(server.base_url)
    proxy.script = [REPLIES[case]]
    with pytest.raises(RunFailed, match=proxy.url):
        asked(replace(server, base_url=proxy.url), lambda embedder: embedder(["⊢ p", "⊢ q"]))
    proxy.close()


def test_parts_that_do_not_go_together_or_are_damaged_are_refused(
    server: Server, tmp_path: Path
) -> None:
    def write(*rows: Sequence[float], cut: bool = False) -> None:
        texts = [f"{len(os.listdir(tmp_path))} {number}" for number in range(len(rows))]
        energy.store(tmp_path, "it", texts, np.array(rows, np.float32), [cut] * len(rows))

    write((1, 2), (3, 4))
    write((5, 6), (5, 6), cut=True)  # these may differ in the middle alone
    assert stored_in(tmp_path).vectors.tolist() == [[1, 2], [3, 4], [5, 6], [5, 6]]
    with pytest.raises(UserError, match=server.model):
        asked(server, into(tmp_path))
    write((1, 2))
    with pytest.raises(UserError, match="1 of 3"):
        stored_in(tmp_path)
    part = tmp_path / "00000.npz"
    for content in (part.read_bytes()[:-40], b"", b"no archive"):
        part.write_bytes(content)
        with pytest.raises(UserError, match=r"00000\.npz"):
            stored_in(tmp_path)
