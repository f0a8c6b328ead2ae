"""Searches in several orders: the comparison by hand, and the experiment end to end on what an iteration has left."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from core.base.stats import paired
from labs.lean import ablation
from labs.lean.outcome import Outcome
from tests.conftest import run
from tests.labs.lean.test_faults import theorems, whole
from tests.labs.training import helpers as training

__all__ = ["theorems", "whole"]

SEARCHED = Outcome("run", "one", "(p : Prop) : p", "budget", "", 8, None, [], [], [], {}, {}, {"lean": 1.0, "all": 2.0})


def outcomes(*ats: int | None) -> list[Outcome]:
    """Of theorems that were proved within so many nodes, or not."""
    return [replace(SEARCHED, name=str(place), at=at, reason="" if at else "budget") for place, at in enumerate(ats)]


def test_orders_are_compared_by_theorem_over_all_seeds() -> None:
    found = {
        ablation.LOGPROB: [outcomes(2, None, 7, None), outcomes(2, None, None, None)],
        ablation.BOTH: [outcomes(2, 8, 7, None), outcomes(1, 8, 7, None)],
        ablation.RANDOM: [outcomes(None, None, None, None)] * 2,
    }
    told = ablation.compared(found, [4, 8])
    assert told[ablation.LOGPROB]["solved"]["8"]["value"] == pytest.approx((1 + 0 + 0.5 + 0) / 4)
    assert told[ablation.LOGPROB]["solved"]["4"]["value"] == pytest.approx(1 / 4)
    assert told[ablation.LOGPROB]["by_seed"] == [0.5, 0.25] and "gain" not in told[ablation.LOGPROB]
    both, random = (told[order]["gain"] for order in (ablation.BOTH, ablation.RANDOM))
    assert both["difference"] == pytest.approx((0 + 1 + 0.5 + 0) / 4) and (both["wins"], both["losses"]) == (2, 0)
    assert random["difference"] == pytest.approx(-0.375) and (random["wins"], random["losses"]) == (0, 2)
    by_hand = paired([[1, 1], [0, 0], [1, 0], [0, 0]], [[1, 1], [1, 1], [1, 1], [0, 0]])
    assert both["p"] == by_hand.p and both["p_holm"] == min(1.0, 2 * by_hand.p)
    text = ablation.table(told, [4, 8], 100)
    assert max(map(len, text.splitlines())) <= 100 and "+37.5" in text and "budget 5" in text


@pytest.mark.usefixtures("lean")
@training.needed
def test_an_iteration_is_searched_in_all_orders(whole: Path, theorems: list[str]) -> None:
    command = ("26_lean_energy", theorems[1], "MAX_NODES=12", "SEEDS=2", "CANDIDATES=2")
    status, out, err = run(*command, RESULTS_DIR=str(whole))
    assert status == 0, err
    folder = whole / "lean" / "iteration_0" / "orders"
    record = json.loads((folder / "record.json").read_text())
    assert record["complete"] and list(record["orders"]) == list(ablation.ORDERS)
    assert all(len(of["by_seed"]) == 2 and of["gain"]["n"] == 3 for of in list(record["orders"].values())[1:])
    searched = {path.parent.relative_to(folder).as_posix() for path in folder.rglob("*.parquet")}
    assert searched == {f"{order.replace(' ', '-')}/seed{seed}" for order in ablation.ORDERS for seed in (0, 1)}
    again = run(*command, RESULTS_DIR=str(whole))
    assert again[0] == 0 and json.loads((folder / "record.json").read_text())["orders"] == record["orders"]
    assert "minus log probability" in out and "random" in (folder / "table.txt").read_text()


@pytest.mark.usefixtures("lean")
def test_without_an_energy_is_one_line(tmp_path: Path) -> None:
    status, out, err = run("26_lean_energy", "ITERATION=4", RESULTS_DIR=str(tmp_path))
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert status == 2 and len(lines) == 1 and "24_lean_iteration ITERATION=4 ENERGY=1" in lines[0], (out, err)
    assert "Traceback" not in err
