"""The last lines of a run: its answer, its gain over step 0, and its control at equal tokens."""

from pathlib import Path
from typing import Any

import pytest

from core.types import Completion, Member, Problem
from harness.report.data import Results
from harness.report.final import control, final
from tests.fakes.model import graded_step
from tests.helpers import graded

TOKENS = 100


def member(key: int, is_right: bool) -> Member:
    text = "\\boxed{1}" if is_right else "\\boxed{2}"
    reply = Completion(
        f"{key:032x}", 0, "", text, finish_reason="stop", completion_tokens=TOKENS, prompt_tokens=5
    )
    return Member(reply)


def run(folder: Path, name: str, steps: int, n: int, right: int, **config: Any) -> Results:
    """Write the results of a run whose last votes are right on the first `right` of 10 problems."""
    rows = []
    for number in range(10):
        problem = Problem(f"p{number}", "How much is 0 + 1?", "1")
        records = []
        for step in range(steps):
            is_right = number < right and step == steps - 1
            members = [member(1000 * number + 10 * step + i, is_right) for i in range(n)]
            records.append(graded_step(problem, step, members))
        rows.append(graded.row(problem.id, records, statement=problem.statement, answer="1"))
    constants = {"N": n, "MAX_TOKENS": 300, "SEED": 0} | config
    document = graded.document(
        rows,
        True,
        12.0,
        experiment=name,
        model={"name": "m"},
        config=constants,
        problem_set={"name": "s", "n": 10},
    )
    return Results(graded.save(document, folder))


def line(results: Results) -> str:
    return final(results.document, results.problems)


def test_a_gain_has_its_interval_and_the_ratio_of_its_tokens(tmp_path: Path) -> None:
    shown = line(run(tmp_path, "02_rsa_basic", steps=3, n=4, right=10))
    assert "+100.0 [" in shown and "over step 0's vote, at 3 times its tokens" in shown
    single = line(run(tmp_path, "01_baseline", steps=1, n=4, right=10))
    assert "step 0" not in single and "times" not in single


def test_the_control_spends_as_many_tokens_on_the_same_problems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL", "a model.gguf")
    monkeypatch.setenv("API_KEY", "secret")
    rsa = run(tmp_path, "02_rsa_basic", steps=3, n=4, right=10, LIMIT=10, SEED=7)
    command = control(rsa)
    assert command.startswith("MODEL='a model.gguf' bash scripts/run.sh 12_majority N=12 ")
    assert "MAX_TOKENS=300" in command and "LIMIT=10" in command and "SEED=7" in command
    assert "secret" not in command


def test_a_run_compares_with_its_control_if_the_folder_has_it(tmp_path: Path) -> None:
    rsa = run(tmp_path, "02_rsa_basic", steps=3, n=4, right=10)
    run(tmp_path, "12_majority", steps=1, n=64, right=10)
    assert control(rsa).startswith("bash scripts/run.sh "), (
        "five times as many tokens are no control"
    )
    run(tmp_path, "01_baseline", steps=1, n=12, right=0)
    compared = control(rsa)
    assert compared.startswith("+100.0 [") and "01_baseline N=12" in compared
    assert "100% of the tokens" in compared


@pytest.mark.parametrize(("steps", "n"), [(1, 4), (3, 1)])
def test_a_run_without_later_steps_or_without_a_vote_needs_no_control(
    tmp_path: Path, steps: int, n: int
) -> None:
    assert control(run(tmp_path, "x", steps, n, right=5)) == ""
