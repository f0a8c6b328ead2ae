"""Expert iteration: a policy in a folder end to end, as a user runs it, and input that is refused. test_faults.py has
the iterations that are killed; golden files pin what one leaves."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from labs.lean.constants import IterationConstants
from labs.lean.experiments import check_apart
from labs.lean.served import POLICY
from labs.lean.theorem import Theorem
from labs.training import to_hf
from tests.conftest import run
from tests.labs.lean.small import HELD_OUT, ITERATION, LEARNED, written
from tests.labs.training import helpers as training


def iterate(results: Path, *overrides: str, **changes: str) -> tuple[int, str, str]:
    learned = f"TRAIN_{written(results / 'learned', *LEARNED)}"
    constants = learned, written(results, *HELD_OUT), *ITERATION, "NUM_WORKERS=1", *overrides
    return run("24_lean_iteration", *constants, RESULTS_DIR=str(results), **changes)


@pytest.mark.usefixtures("lean")
@training.needed
def test_a_policy_in_a_folder_is_trained_by_lora_served_and_embedded(tmp_path: Path) -> None:
    folder = tmp_path / "policy"
    to_hf.convert(POLICY, folder)
    status, out, err = iterate(tmp_path, "LORA_RANK=4", "SKIP_BASELINE=1", MODEL=str(folder))
    assert status == 0 and "baseline" not in out, err
    own = tmp_path / "lean" / "iteration_0"
    assert (own / "model" / "adapter").is_dir() and list((own / "model" / "model").glob("*.safetensors"))
    record = json.loads((own / "record.json").read_text())
    assert record["complete"] and record["guided"]["gain"]["n"] == len(HELD_OUT)
    assert "gain" not in record["evaluated"] and not (own / "eval_before").exists()
    energy = json.loads((own / "energy" / "energy.json").read_text())
    assert energy["model"].startswith(f"served-{record['trained']['digest'][:12]}")  # not by the first policy


@pytest.mark.usefixtures("lean")
@training.needed
def test_an_iteration_without_the_one_before_is_one_line(tmp_path: Path) -> None:
    status, out, err = iterate(tmp_path, "ITERATION=1", "MAX_ITERATION=1")
    assert status == 2 and err.count("error: ") == 1 and "ITERATION=0" in err and "Traceback" not in err, (out, err)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"ITERATION": 3}, "MAX_ITERATION"),
        ({"TRAIN_NODES": 2, "EXPLORE": "lemmas"}, "MAX_NODES"),
    ],
)
def test_constants_that_contradict_each_other_are_refused(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(UserError, match=name):
        IterationConstants(**changes)


def test_a_held_out_theorem_is_not_learned_from() -> None:
    learned = [Theorem(*each) for each in LEARNED]
    check_apart(learned, [Theorem(*each) for each in HELD_OUT])
    with pytest.raises(UserError, match="identity"):
        check_apart(learned, [Theorem("other", " (p :  Prop) : p → p")])
