"""A comparison at equal compute on proofs, which one server writes and another grades."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.report import report as cli
from harness.report.budgets import counting
from harness.report.equal_compute import compared_in
from harness.results import read
from tests.conftest import ended, python
from tests.fakes.grader import points_of
from tests.fakes.server import ScriptedServer
from tests.labs.proofs.conftest import Desk

PROOFS = [
    {"id": f"p{i}", "problem": f"Show that {i} is {i}.", "grading_scheme": f"7: say {i}"}
    for i in range(3)
]
ENTRIES = """
BUDGETS = "1.2,4.2"
stepwise = replace(RSA, run=partial(rsa, stop=lambda *_: False))
entries = [
    entry("12_majority", proofs="samples", STAGE=1),
    entry("02_rsa_basic", stepwise, N=2, K=2, T=3),
]
if __name__ == "__main__":
    compare(Comparison(entries), globals())
"""


@pytest.fixture
def compared(results: Path) -> str:
    """The output of such a comparison."""
    experiment, problems = results / "99_small.py", results / "problems.jsonl"
    experiment.write_text(
        Path("experiments/15_compute_matched.py").read_text().partition("\n\ndef never")[0]
        + ENTRIES
    )
    problems.write_text("".join(f"{json.dumps(each)}\n" for each in PROOFS))
    with closing(ScriptedServer()) as server:
        status, out, err = ended(
            python(str(experiment), f"PROBLEMS={problems}", BASE_URL=server.url)
        )
    assert status == 0, err
    return out


def rows(folder: Path) -> dict[tuple[str, float], dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "table.jsonl").read_text().splitlines()[1:]]
    return {(line["scaffold"], line["budget"]): line for line in lines}


def test_proofs_are_written_graded_if_a_budget_stops_there_and_compared_by_points(
    compared: str, desk: Desk, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = results / "99_small"
    before = rows(folder)
    assert {line["accuracy"]["n"] for line in before.values() if line["unanswered"] < 1} == {0}
    assert not (folder / "frontier.png").exists()
    assert {name for name, _ in before} == {"samples", "02_rsa_basic"}

    status, out, err = desk.run("grade", "99_small", desk.card())
    assert status == 0, err
    matched, after = compared_in(folder), rows(folder)
    replies = {
        line["key"]: line["completion"]["answer"]
        for line in map(
            json.loads, (results / "journal" / "99_small.jsonl").read_text().splitlines()
        )
    }
    low, high = matched.budgets
    asked = set()
    means: dict[tuple[str, float], list[list[float]]] = {key: [[] for _ in PROOFS] for key in after}
    for name, paths in matched.paths().items():
        for path in paths:
            for place, problem in enumerate(read.read(path)[1]):
                wanted = counting(problem.steps, matched.budgets)
                for step in problem.steps:
                    assert all(m.is_proof == (step.step in wanted) for m in step.members)
                for budget in matched.budgets:
                    [number] = counting(problem.steps, [budget]) or [None]
                    if number is None:
                        means[name, budget][place].append(0.0)
                        continue
                    proofs = [replies[m.key] for m in problem.steps[number].members]
                    asked |= {(problem.id, each) for each in proofs}
                    means[name, budget][place].append(sum(map(points_of, proofs)) / 7 / len(proofs))
    assert len(asked) == desk.grader.asked, "what no budget buys is sent to nobody"
    for key, by_problem in means.items():
        if after[key]["unanswered"] < 1:
            expected = sum(sum(of) / len(of) for of in by_problem) / len(PROOFS)
            assert (
                after[key]["accuracy"]["value"] == pytest.approx(expected)
                and after[key]["accuracy"]["n"] == 3
            )
    against = after["02_rsa_basic", high]["against"]
    assert (
        against["n"] == 3
        and against["p_holm"] >= against["p"]
        and after["samples", low]["against"] is None
    )
    assert all(after[key]["tokens"] == before[key]["tokens"] for key in after), (
        "budgets stay as they were"
    )
    table = (folder / "table.txt").read_text()
    assert (
        table in out
        and "mean points, % of 7" in table
        and "accuracy" not in table
        and "majority" not in table
    )
    assert (folder / "frontier.png").read_bytes()[:4] == b"\x89PNG"
    kept = desk.grader.asked
    assert (
        desk.run("grade", "99_small", desk.card())[0] == 0
        and desk.grader.asked == kept
        and rows(folder) == after
    )
    cli.main(["99_small"])
    assert table in capsys.readouterr().out
