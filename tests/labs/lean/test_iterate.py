"""Expert iteration: a policy in a folder end to end, as a user runs it. Golden files pin an iteration's files."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from labs.lean.experiments import check_apart
from labs.lean.iterate import Iterations
from labs.lean.served import POLICY
from labs.lean.theorem import Theorem
from labs.lean.toolchain import Toolchain
from labs.training import to_hf
from labs.training.served import Weights
from tests.conftest import run
from tests.labs.lean.small import HELD_OUT, ITERATION, LEARNED, written
from tests.labs.training import helpers as training


@pytest.mark.usefixtures("lean")
@training.needed
def test_a_policy_in_a_folder_is_trained_by_lora_and_served(tmp_path: Path) -> None:
    folder = tmp_path / "policy"
    to_hf.convert(POLICY, folder)
    learned = f"TRAIN_{written(tmp_path / 'learned', *LEARNED)}"
    constants = learned, written(tmp_path, *HELD_OUT), *ITERATION, "LORA_RANK=4", "SKIP_BASELINE=1", "ENERGY=0"
    status, out, err = run("24_lean_iteration", *constants, RESULTS_DIR=str(tmp_path), MODEL=str(folder))
    assert status == 0 and "baseline" not in out, err
    own = tmp_path / "lean" / "iteration_0"
    assert (own / "model" / "adapter").is_dir() and list((own / "model" / "model").glob("*.safetensors"))
    record = json.loads((own / "record.json").read_text())
    assert record["complete"] and record["evaluated"]["theorems"] == len(HELD_OUT)
    assert "gain" not in record["evaluated"] and not (own / "eval_before").exists()


def test_an_iteration_without_the_one_before_is_refused(lean: Toolchain, tmp_path: Path) -> None:
    session: Any = None
    with pytest.raises(UserError, match="ITERATION=0"):
        Iterations(session, Weights(POLICY), [], [], ("", ""), lean, tmp_path).policy(0)


def test_a_held_out_theorem_is_not_learned_from() -> None:
    learned = [Theorem(*each) for each in LEARNED]
    check_apart(learned, [Theorem(*each) for each in HELD_OUT])
    with pytest.raises(UserError, match="identity"):
        check_apart(learned, [Theorem("other", " (p :  Prop) : p → p")])
