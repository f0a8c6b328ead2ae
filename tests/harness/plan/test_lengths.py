"""Lengths that an earlier run measured, and damaged results."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.rsa import RSA
from harness.plan.lengths import FEWEST, measured
from harness.plan.work import loads_of
from tests.conftest import run
from tests.harness.plan.helpers import JSON, line, rsa
from tests.helpers import documents


def test_measured_lengths_replace_the_assumed_ones(
    results: Path, printed: Callable[..., str]
) -> None:
    small = ("LIMIT=2", "N=4", "K=2", "T=2", "MAX_TOKENS=300")
    status, _, err = run("02_rsa_basic", *small)
    assert status == 0, err
    path = results / "02_rsa_basic.json"
    document = json.loads(path.read_text())
    model, tokens = document["model"]["name"], document["metrics"]["tokens"]
    lengths = measured(results, model)
    assert lengths and lengths.source.endswith(". Assumed: verifications")
    expected = loads_of(rsa(*small), 2, lengths, RSA)
    assert sum(load.tokens for load in expected) == pytest.approx(tokens["completion"])
    assert sum(load.prompts for load in expected) == pytest.approx(tokens["prompt"], rel=0.02)
    by_step = [step["completion_tokens"] for step in document["metrics"]["steps"]]
    assert [load.tokens for load in expected] == pytest.approx(by_step)
    # The same file under QED-Nano's name, with one solution cut off: what a GPU run leaves behind.
    document["problems"][0]["steps"][0]["members"][0]["finish_reason"] = "length"
    document["model"]["name"] = "lm-provers/QED-Nano"
    path.write_text(json.dumps(document))
    out = printed("02_rsa_basic", "--gpu", "RTX 4090")
    assert "measured: 02_rsa_basic.json (24 completions on sums[:2]" in line(out, "lengths")
    assert "4% of them truncated at 300). Assumed: verifications. " in out
    (results / "big.json").write_text(json.dumps(document | {"experiment": "big"}))
    for words, file in ([], path.name), (["OUT=big"], "big.json"), (["OUT=new"], path.name):
        assert f"measured: {file} " in line(
            printed("02_rsa_basic", "--gpu", "RTX 4090", *words), "lengths"
        )


def test_a_run_with_few_members_does_not_fill_the_server(tmp_path: Path) -> None:
    members = [documents.member(10)] * FEWEST  # a second each
    document = documents.document([documents.problem("p", [documents.step(0, members)])])
    document["engine"]["concurrency"] = 4 * FEWEST
    (tmp_path / "x.json").write_text(json.dumps(document))
    lengths = measured(tmp_path, "m")
    assert lengths and lengths.speed == pytest.approx([1 / (10 * FEWEST)] * 2)


@given(
    whole=JSON,
    place=st.sampled_from(["schema", "model", "config", "engine", "problems", "steps", "members"]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_damaged_results_file_is_skipped(whole: Any, place: str, tmp_path: Path) -> None:
    document = documents.document(
        [documents.problem("p", [documents.step(0, [documents.member(9)] * FEWEST)])]
    )
    (tmp_path / "x.json").write_text(json.dumps(document))
    assert measured(tmp_path, "m") is not None
    if place == "steps":
        document["problems"][0]["steps"] = whole
    elif place == "members":
        document["problems"][0]["steps"][0]["members"] = whole
    else:
        document[place] = whole
    (tmp_path / "x.json").write_text(json.dumps(document))
    assert measured(tmp_path, "m") is None or place == "config"
