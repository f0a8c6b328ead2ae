"""Test transformers serve, an unknown server: it gives no logprobs, and begins a new turn instead
of continuing one."""

from pathlib import Path

import pytest

from core.client.completed import NEW_TURN
from core.engines.protocol import Server
from tests.helpers.runs import journal_lines
from tests.real.conftest import FIGURES, begun, members, run

pytestmark = pytest.mark.engines
SMALL = ("LIMIT=2", "N=3", "CONCURRENCY=1")


def test_forcing_is_left_and_counted(unknown: Server, tmp_path: Path) -> None:
    assert unknown.kind == "other"
    document = run("01_baseline", tmp_path, unknown, *SMALL, "MAX_TOKENS=24", "ANSWER_TOKENS=24")
    truncated = [m for m in members(document) if m["finish_reason"] == "length"]
    assert len(truncated) == 6 and all(
        m["not_forced"] == NEW_TURN and "unforced" not in m for m in truncated
    )
    assert all(m["answer"] is None for m in truncated), "no answer combines a box with another turn"
    assert document["metrics"]["not_forced"] == {NEW_TURN: 6}
    assert any(warning.startswith("6 ") for warning in document["warnings"])
    FIGURES.append(f"transformers serve, 01 with forcing: {document['metrics']['not_forced']}")


def test_rsa_runs_and_a_second_run_asks_nothing(unknown: Server, tmp_path: Path) -> None:
    rsa = run("02_rsa_basic", tmp_path, unknown, *SMALL, "K=2", "T=1", "MAX_TOKENS=300")
    assert (
        rsa["complete"]
        and all(m["answer"] for m in members(rsa))
        and "not_forced" not in rsa["metrics"]
    )
    assert len({m["seed"] for m in members(rsa)}) == 12
    lines = journal_lines(tmp_path, "02_rsa_basic")
    again = run("02_rsa_basic", tmp_path, unknown, *SMALL, "K=2", "T=1", "MAX_TOKENS=300")
    assert journal_lines(tmp_path, "02_rsa_basic") == lines and members(again) == members(rsa)
    steps = [step["mean_accuracy"]["value"] for step in rsa["metrics"]["steps"]]
    # one process seeds torch for each request, so requests one by one repeat
    seeds = rsa["engine"]["seeds"]
    FIGURES.append(f"transformers serve, 02: mean accuracy by step {steps}, seeds {seeds}")


def test_verdicts_are_read_and_p_true_is_refused_before_a_sample(
    unknown: Server, tmp_path: Path
) -> None:
    small = (*SMALL, "K=2", "T=1", "MAX_TOKENS=300")
    verdicts = run("03_rsa_verify", tmp_path / "verdict", unknown, *small, "VERIFY_TOKENS=300")
    checked = verdicts["metrics"]["verification"]
    assert checked["verdicts"] == 6 and checked["unreadable"] < 6
    folder = tmp_path / "p_true"
    refused = begun("03_rsa_verify", folder, unknown, *small, "SCORE=p_true")
    _, err = refused.communicate(timeout=900)
    assert refused.returncode == 2 and "SCORE=verdict" in err, err
    assert journal_lines(folder, "03_rsa_verify") == [], "no sample is paid for"
    FIGURES.append(f"transformers serve, 03 verdict: {checked}")
