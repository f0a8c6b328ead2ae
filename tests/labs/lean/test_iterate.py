"""Test the training of a policy, and refused input. Golden files pin the files of a whole iteration."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from core.base.errors import UserError
from labs.lean.constants import IterationConstants
from labs.lean.iterate import Iterations, check_apart
from labs.lean.outcome import Record
from labs.lean.served import POLICY
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain
from labs.training import process, to_hf
from labs.training.outcome import Options
from labs.training.served import Weights
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


def test_an_iteration_without_the_one_before_is_refused(lean: Toolchain, tmp_path: Path) -> None:
    session: Any = None
    with pytest.raises(UserError, match="ITERATION=0"):
        Iterations(session, Weights(POLICY), [], [], ("", ""), lean, tmp_path).policy(0)


def test_a_held_out_theorem_is_not_learned_from() -> None:
    learned = [Theorem(*each) for each in LEARNED]
    check_apart(learned, [Theorem(*each) for each in HELD_OUT])
    with pytest.raises(UserError, match="identity"):
        check_apart(learned, [Theorem("other", " (p :  Prop) : p → p")])
