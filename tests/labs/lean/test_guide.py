"""Test the environment variables of BurnQED's guide, and the constants of a named policy."""

import pytest

from core import constants
from core.base.errors import UserError
from core.engines import environment
from labs.lean import served
from labs.lean.constants import AblationConstants, ControlledConstants, IterationConstants

FILE = {"MAX_NODES": 30, "CANDIDATES": 8, "NUM_WORKERS": 2, "THEOREMS": "auto"}  # the constants of an experiment
ALL = (*served.CONSTANTS, *served.SETTINGS, "MODEL", "ENGINE", "BASE_URL")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ALL:
        monkeypatch.delenv(name, raising=False)


def test_a_variable_sets_the_constant_that_the_experiment_has(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"MAX_ITER": "3", "EBM_STEPS": "70", "EBM_RESUME": "auto", "THEOREM_INDEX": "index.json",
             "NUM_WORKERS": "9", "EVAL_MAX_THEOREMS": "5", "MAX_THEOREMS": "6", "SKIP_BASELINE": "1"}  # fmt: skip
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    found = constants.read(IterationConstants, FILE)
    expected = {"MAX_ITERATION": 3, "STEPS": 70, "ENERGY_START": "auto", "TRAIN_THEOREMS": "index.json",
                "NUM_WORKERS": 9, "EVAL_THEOREMS": 5, "MAX_THEOREMS": 6, "SKIP_BASELINE": 1}  # fmt: skip
    assert {name: getattr(found, name) for name in expected} == expected
    assert (found.MAX_NODES, found.CANDIDATES, found.THEOREMS) == (30, 8, "auto"), "the tiny policy keeps the file's"
    baseline = constants.read(ControlledConstants, FILE)
    assert (baseline.THEOREMS, baseline.EVAL_THEOREMS) == ("index.json", 5)
    assert "MAX_ITER=3 sets MAX_ITERATION" in dict(served.rows(found))["environment"]
    assert "MAX_ITER" not in dict(served.rows(baseline))["environment"], "a baseline has no iterations"


def test_the_command_line_replaces_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_ITER", "3")
    found = constants.read(IterationConstants, FILE, ["MAX_ITERATION=1"])
    assert found.MAX_ITERATION == 1 and served.rows(found) == []
    monkeypatch.setenv("MAX_ITER", "many")
    with pytest.raises(UserError, match="MAX_ITERATION=many"):
        constants.read(IterationConstants, FILE)


def test_a_named_policy_has_the_guides_constants_and_the_tiny_one_has_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for named, expected in ((str(served.POLICY), (30, 8)), ("policy.gguf", (100, 4))):
        monkeypatch.setenv("MODEL", named)
        found = constants.read(ControlledConstants, FILE)
        assert expected == (found.MAX_NODES, found.CANDIDATES)
        assert served.is_named() == (named == "policy.gguf")
    found = constants.read(ControlledConstants, FILE, ["CANDIDATES=5"])
    assert (found.CANDIDATES, found.BATCH, found.NUM_WORKERS) == (5, 32, 6)
    told = dict(served.rows(found))["constants"]
    assert "MAX_NODES=100" in told and "CANDIDATES" not in told
    monkeypatch.setenv("NUM_WORKERS", "8")
    assert constants.read(ControlledConstants, FILE).NUM_WORKERS == 8


@pytest.mark.parametrize(
    ("kind", "url"), [(ControlledConstants, "http://localhost:1"), (IterationConstants, ""), (AblationConstants, "")]
)
def test_the_guides_model_and_server_are_settings(
    kind: type[ControlledConstants], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LLM_BASE", "owner/policy")
    monkeypatch.setenv("SGLANG_URL", "http://localhost:1")
    with environment.setting(**kind.settings()):
        assert (environment.model(), environment.base_url()) == ("owner/policy", url)
        told = dict(served.rows(constants.read(kind, FILE)))["environment"]
        assert "LLM_BASE=owner/policy sets MODEL" in told and ("SGLANG_URL has no effect" in told) == (not url)
    assert not environment.model()
    monkeypatch.setenv("MODEL", "mine")
    with environment.setting(**kind.settings()):
        assert environment.model() == "mine"
