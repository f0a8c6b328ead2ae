"""Plans of the labs: every experiment, and the commands that are no experiments."""

from pathlib import Path
from typing import Any

import pytest

from core import constants
from core.engines.dialects.llamacpp import EMBEDDED_GGUF, embedded_card
from harness import experiment_file
from harness.plan.plan import main
from harness.plan.work import Requests, Work
from labs.endpoint.answer import planned as serve_rsa
from labs.proofs.grade import asking
from labs.proofs.grade.cli import GradeConstants
from tests.conftest import ROOT

EXPERIMENTS = sorted(path.stem for path in (ROOT / "experiments").glob("2*.py"))


def work(name: str, *overrides: str) -> tuple[Work, Any]:
    found = experiment_file.load(name)
    planned: Any = found.planned
    config = constants.read(planned.constants, found.namespace, overrides)
    return planned.work(config, embedded_card()), config


def count(of: Work) -> int:
    return sum(each.count for each in of.requests)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_is_planned_without_a_gpu_too(
    name: str, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The golden files have the plans with a GPU."""
    monkeypatch.setenv("MODEL", str(EMBEDDED_GGUF))
    main([name, "--price", "2"])
    out = capsys.readouterr().out
    for row in ("lengths", "completions", "output", "input", "time"):
        assert f"\n{row} " in out
    assert "\nGPU " not in out


@pytest.mark.parametrize(
    "name",
    ["21_star", "22_star_controls", "29_learn_to_aggregate", "24_lean_iteration", "25_lean_all"],
)
def test_weights_that_are_served_elsewhere_are_not_planned(
    name: str, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MODEL", "openai")
    with pytest.raises(SystemExit, match="2"):
        main([name])
    assert capsys.readouterr().err.count("\n") == 1


def test_star_counts_its_samples() -> None:
    first, _ = work(
        "21_star", "LIMIT=6", "ROUNDS=2", "TRIES=2", "SEEDS=63-64", "EPOCHS=1", "VOTES=3"
    )
    assert [each.count for each in first.requests] == [2 * 6 * 2, 2 * 6, 3 * 6, 3 * 6 * 2 * 3]
    again, _ = work("21_star", "LIMIT=6", "ROUNDS=2", "TRIES=2", "SEEDS=63-64", "REPEAT=1")
    assert [each.count for each in again.requests][:2] == [6 * 2, 6], (
        "the first round's samples serve all"
    )
    greedy, _ = work("21_star", "LIMIT=6", "ROUNDS=2", "TRIES=1", "TEMPERATURE=0")
    assert greedy.requests[3].count == 0


def test_controls_count_all_arms() -> None:
    one, _ = work("21_star", "LIMIT=6", "ROUNDS=3", "TRIES=4", "SEEDS=63")
    all_arms, _ = work("22_star_controls", "LIMIT=6")
    assert 12 * count(one) < count(all_arms) < 18 * count(one), "two of six arms ask for less"
    assert all_arms.rows[-1][1].startswith(f"{6 * 3 * 4} server starts")


def test_a_card_s_constants_reach_the_commands_without_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "own.toml"
    path.write_text(
        'base_url = "http://127.0.0.1:9/v1"\n[constants]\nN = 2\nMAX_TOKENS = 77\nLIMIT = 3\n'
    )
    graded = asking.with_card(GradeConstants, [f"GRADER={path}", "GRADES=2"])
    assert graded == ["MAX_TOKENS=77", f"GRADER={path}", "GRADES=2"]
    assert asking.with_card(GradeConstants, []) == []
    monkeypatch.setenv("MODEL", str(path))
    assert asking.with_card(GradeConstants, []) == ["MAX_TOKENS=77"]
    _, scaffold, words = serve_rsa(["N=4"])
    config = constants.read(scaffold.constants, {}, words)
    assert (config.N, config.MAX_TOKENS) == (4, 77)
    monkeypatch.setenv("GRADER_URL", "http://127.0.0.1:9/v1")
    assert asking.with_card(GradeConstants, []) == [], "the card is of another server"


def test_a_search_sends_no_more_than_its_nodes() -> None:
    search, _ = work(
        "23_lean_baseline", "EVAL_THEOREMS=3", "MAX_NODES=8", "CANDIDATES=4", "INDEX=none"
    )
    assert search.requests == (Requests("tactics", 3 * 8 * 4, 200, 64, 16),)
    assert search.rows[0][1].startswith("at most 24 tactics")


def test_the_settings_of_the_lean_guide_choose_the_planned_model(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LLM_BASE", str(EMBEDDED_GGUF))
    main(["23_lean_baseline"])
    assert EMBEDDED_GGUF.name in capsys.readouterr().out.splitlines()[0]


def test_graders_and_the_endpoint_are_planned(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = tmp_path / "proofs.jsonl"
    lines.write_text(
        '{"problem": "Prove it.", "solution": "So it is.", "proof": "Thus.", "grading_guidelines": '
        '"7"}\n'
    )
    main(["grade", str(lines), "GRADES=3", "--gpu", "H100"])
    assert "3 at most: 3 gradings" in capsys.readouterr().out
    main(["serve_rsa", "N=8", "K=3", "T=5", "--gpu", "H100"])
    assert "48 (48 for each of 1 problem)" in capsys.readouterr().out
    main(["serve_rsa", "SCAFFOLD=13_best_of", "N=3", "VERIFY_SAMPLES=2", "--gpu", "H100"])
    assert "9 (9 for each of 1 problem)" in capsys.readouterr().out
