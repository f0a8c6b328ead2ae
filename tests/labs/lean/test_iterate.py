"""Test the training of a policy, and refused input. Golden files pin the files of a whole
iteration."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.base.errors import UserError
from labs.lean import pairs
from labs.lean.burnqed import POLICY
from labs.lean.constants import IterationConstants
from labs.lean.iterate import Iterations
from labs.lean.iteration_files import check_apart
from labs.lean.outcome import Record
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain
from labs.training import process, to_hf
from labs.training.outcome import Options
from labs.training.served import Weights
from tests.labs.lean import searches
from tests.labs.lean.small import HELD_OUT, LEARNED


def test_a_folder_is_trained_by_lora_and_a_gguf_file_in_full_and_neither_twice(
    lean: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    to_hf.convert(POLICY, tmp_path / "policy")
    ranks: list[int] = []

    def train(options: Options, say: Any) -> dict[str, Any]:
        ranks.append(options.lora_rank)
        options.out.mkdir()
        copy = shutil.copytree if options.model.is_dir() else shutil.copy
        copy(options.model, options.out / ("model" if options.lora_rank else "model.gguf"))
        return {}

    monkeypatch.setattr(process, "train", train)
    session: Any = SimpleNamespace(config=IterationConstants(LORA_RANK=4))
    for start, rank in ((Weights(tmp_path / "policy"), 4), (Weights(POLICY), 0)):
        iterations = Iterations(session, start, [], [], ("", ""), lean, tmp_path / str(rank))
        record = Record(iterations.own(0), {})
        (iterations.own(0) / "model").mkdir(parents=True)  # left by a run that was killed
        trained = iterations.train(0, start, record)
        assert iterations.train(0, start, record) == trained == iterations.policy(0)
        assert ranks.pop() == rank and not ranks
        assert record.stage("trained")["digest"] == trained.digest == start.digest


class Trained(Exception):
    """Raised instead of a training."""


def test_a_reset_trains_the_first_policy_on_all_earlier_searches_once(
    lean: Toolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(options: Options, say: Any) -> dict[str, Any]:
        assert options.model == POLICY
        raise Trained

    def run(reset: int, *held_out: Theorem) -> None:
        session: Any = SimpleNamespace(
            config=IterationConstants(RESET=reset, SKIP_BASELINE=1, ITERATION=0)
        )
        with pytest.raises(Trained):
            Iterations(session, Weights(POLICY), [], held_out, ("", ""), lean, tmp_path).run()

    monkeypatch.setattr(process, "train", train)
    own, once = tmp_path / "iteration_0", tmp_path / "iteration_0" / "kept" / "iteration_0"
    with pytest.raises(UserError, match="RESET=1"):
        run(1)  # there is no iteration yet
    searches.search(own / "trajectories", "a", 1)
    searches.search(tmp_path / "iteration_1" / "noisy", "b", 1, states=["⊢ q"])
    for reset, is_twice in ((1, False), (1, False), (2, True)):
        run(reset)
        assert {path.name for path in tmp_path.iterdir()} == {"iteration_0"}
        assert {pair.theorem for pair in pairs.read(own / "taught.jsonl")} == {"a", "b"}
        assert (once / "kept").exists() == is_twice
    assert "2 training pairs" in (own / "log.txt").read_text()
    with pytest.raises(UserError, match="training theorem a"):
        run(2, Theorem("held out", "(p : Prop) : a → p"))


def test_an_iteration_without_the_one_before_is_refused(lean: Toolchain, tmp_path: Path) -> None:
    session: Any = None
    with pytest.raises(UserError, match="ITERATION=0"):
        Iterations(session, Weights(POLICY), [], [], ("", ""), lean, tmp_path).policy(0)


def test_a_held_out_theorem_is_not_learned_from() -> None:
    learned = [Theorem(*each) for each in LEARNED]
    check_apart(learned, [Theorem(*each) for each in HELD_OUT])
    with pytest.raises(UserError, match="identity"):
        check_apart(learned, [Theorem("other", " (p :  Prop) : p → p")])
