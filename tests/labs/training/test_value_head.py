"""The file of a value head, and its values."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.base import stats
from core.base.errors import UserError
from labs.training import value_head
from labs.training.value_head import Head, Regression

VECTORS = np.array([[0, 1], [0, 2], [0, 3], [0, 4], [0, 5], [0, 6]], np.float32)
RIGHT = np.array([0.0, 0.0, 1.0, 0.0, 1.0, 1.0])
HEAD = Head(
    model="tiny@0123456789ab",
    run="13_best_of",
    sampled_by="tiny-chat@0123456789ab",
    problems=2,
    samples=6,
    held_out_auc=stats.Estimate(0.75, 0.5, 0.875, 2),
    regression=Regression.of(VECTORS, RIGHT),
)


def fields(**changes: Any) -> dict[str, Any]:
    return asdict(HEAD) | changes


def test_a_file_returns_the_same_head(tmp_path: Path) -> None:
    path = tmp_path / "head.json"
    path.write_bytes(HEAD.content)
    again = Head.read(path)
    assert (again, again.name, again.about) == (HEAD, HEAD.name, HEAD.about)
    assert HEAD.name.startswith("tiny-value@")
    again.check_model("tiny@0123456789ab")


def test_another_head_has_another_name() -> None:
    other = replace(HEAD, regression=replace(HEAD.regression, constant=0.5))
    assert other.name != HEAD.name


def test_a_value_is_the_chance_of_a_logistic_regression_on_scaled_inputs() -> None:
    found = HEAD.regression
    for vector, value in zip(VECTORS, found.values(VECTORS), strict=True):
        logit = found.constant
        for number, mean, scale, weight in zip(
            vector, found.mean, found.scale, found.weights, strict=True
        ):
            logit += weight * (number - mean) / scale
        assert value == pytest.approx(1 / (1 + math.exp(-logit)))
    assert found.weights[1] > 0 and found.weights[0] == 0, "the first input never varies"


def test_the_text_is_the_statement_and_the_answer_text() -> None:
    statement, answer = "What is 1+1?", "It is \\boxed{2}."
    text = value_head.text_of(
        [{"role": "user", "content": statement}, {"role": "assistant", "content": answer}]
    )
    assert text == "What is 1+1?\n\nIt is \\boxed{2}."


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[1, 2",
        "{}",
        '{"schema": 1, "experiment": "13_best_of", "model": {"name": "tiny"}}',
        json.dumps(fields(regression=fields()["regression"] | {"weights": [1.0]})),
        json.dumps(fields(regression=fields()["regression"] | {"scale": [1.0, 0.0]})),
        json.dumps(fields(regression=fields()["regression"] | {"constant": float("nan")})),
        json.dumps(fields(model="")),
    ],
)
def test_another_file_is_no_head(tmp_path: Path, content: str) -> None:
    path = tmp_path / "head.json"
    path.write_text(content)
    with pytest.raises(UserError, match="head.json"):
        Head.read(path)


def test_a_missing_file_and_another_model_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="missing.json"):
        Head.read(tmp_path / "missing.json")
    for other in ("tiny@ba9876543210", "tiny-last@0123456789ab"):
        with pytest.raises(UserError, match=other):
            HEAD.check_model(other)
