"""Grading again: from results and journal, with no server; the same figures, and what changed where grading has."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.scaffolds import experiment_file
from core.session import regrade
from tests import conftest
from tests.fakes.server import ScriptedServer
from tests.session.test_run import load

FIELDS = (
    "config",
    "model",
    "engine",
    "problem_set",
    "provenance",
    "started",
    "ended",
    "warnings",
    "problems",
    "metrics",
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a run whose server is gone."""
    folder = tmp_path_factory.mktemp("regrade")
    problems = folder / "problems.json"
    rows = [{"id": f"p{i}", "problem": f"What is {i}?", "answer": rf"\frac{{{i}}}{{2}}"} for i in range(3)]
    problems.write_text(json.dumps(rows))
    server = ScriptedServer()
    try:
        status, _, err = conftest.run(
            "03_rsa_verify", f"PROBLEMS={problems}", "N=4", "T=2", BASE_URL=server.url, RESULTS_DIR=str(folder)
        )
        assert status == 0, err
    finally:
        server.close()
    return folder


def test_graded_again_with_the_same_grader_the_results_are_the_same(made: Path) -> None:
    before = load(made, "03_rsa_verify")
    path, _, _, changes = regrade.regrade(made / "03_rsa_verify.json")
    after = json.loads(path.read_text())
    assert changes == [] and path == made / "03_rsa_verify.json"
    assert {name: after[name] for name in FIELDS} == {name: before[name] for name in FIELDS}
    assert after["complete"] and after["regraded"] >= before["ended"]
    kept = list(made.glob("03_rsa_verify.2*.json"))
    assert [json.loads(each.read_text()) for each in kept] == [before]


def test_what_changed_is_printed_answer_by_answer(
    made: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESULTS_DIR", str(made))
    document: dict[str, Any] = load(made, "03_rsa_verify")
    step = document["problems"][1]["steps"][0]
    truth = step["members"][2]["answer"]
    step["members"][2] |= {"answer": "41", "correct": True}  # as an older reader had it
    (made / "03_rsa_verify.json").write_text(json.dumps(document))
    regrade.main(["03_rsa_verify"])
    out = capsys.readouterr().out
    assert "p1, t=0, member 2: 41 (right" in out and f"-> {truth} (" in out
    assert "1 of 36 readings and votes changed" in out and "graded again" in out
    assert load(made, "03_rsa_verify")["problems"][1]["steps"][0]["members"][2]["answer"] == truth


def test_an_experiments_own_grader_grades_again(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An experiment's file names its grader, and results name the experiment."""
    (tmp_path / "99_halves.py").write_text(
        "from core.scaffolds.rsa import RSA\nfrom core.session.run import run\n"
        "from core.types import Grade, Graded\n\n\n"
        "async def by_halves(problem, population, ask):\n"
        "    return Graded([Grade(0.5) for _ in population], score=0.5)\n\n\n"
        'if __name__ == "__main__":\n    run(RSA, globals(), grader=by_halves)\n'
    )
    monkeypatch.setattr(experiment_file, "FOLDER", tmp_path)
    path = made / "99_halves.json"
    document = load(made, "03_rsa_verify") | {"experiment": "99_halves-seed1", "grader": "by_halves"}
    path.write_text(json.dumps(document))
    (made / "journal" / "99_halves-seed1.jsonl").write_bytes((made / "journal" / "03_rsa_verify.jsonl").read_bytes())
    _, _, after, _ = regrade.regrade(path)
    assert {step["mean_accuracy"]["value"] for step in after["metrics"]["steps"]} == {0.5}


@pytest.mark.parametrize("argv", [[], ["--all"], ["02_nothing"]])
def test_bad_input_is_one_line(argv: list[str], made: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESULTS_DIR", str(made))
    with pytest.raises(SystemExit) as ended:
        regrade.main(argv)
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.startswith("error: ") and err.count("\n") == 1


def test_without_its_journal_nothing_is_graded(made: Path, tmp_path: Path, capsys: Any) -> None:
    path = tmp_path / "03_rsa_verify.json"
    path.write_bytes((made / path.name).read_bytes())
    (tmp_path / "journal").mkdir()
    with pytest.raises(SystemExit) as ended:
        regrade.main([str(path)])
    assert ended.value.code == 2 and "in no journal beside it" in capsys.readouterr().err
    assert list(tmp_path.glob("*.json")) == [path]


def test_results_that_are_none_of_ours_are_refused_in_one_line(made: Path, tmp_path: Path, capsys: Any) -> None:
    document: dict[str, Any] = load(made, "03_rsa_verify")
    document["problems"][1]["steps"][0]["members"][0].pop("parents")
    path = tmp_path / "03_rsa_verify.json"
    path.write_text(json.dumps(document))
    with pytest.raises(SystemExit) as ended:
        regrade.main([str(path)])
    err = capsys.readouterr().err
    assert ended.value.code == 2 and "is not a results file of this project" in err and err.count("\n") == 1
