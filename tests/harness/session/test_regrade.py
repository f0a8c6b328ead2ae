"""Regrading from results and journal without a server: equal figures, and the changes if the grader
has changed."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from harness.run import solve_sync
from harness.scaffolds.majority import MAJORITY
from harness.scaffolds.rsa_verified import RSA_VERIFIED
from harness.session import regrade
from tests.fakes.http import answer
from tests.fakes.moody import Moody, chat
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import load


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of a run whose server is gone."""
    folder = tmp_path_factory.mktemp("regrade")
    rows = [
        {"id": f"p{i}", "problem": f"What is {i}?", "answer": rf"\frac{{{i}}}{{2}}"}
        for i in range(3)
    ]
    server = ScriptedServer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BASE_URL", server.url)
        solve_sync(RSA_VERIFIED, rows, name="03_rsa_verify", folder=folder, N=4, K=2, T=2)
    server.close()
    return folder


def test_graded_again_with_the_same_grader_the_results_are_the_same(stored: Path) -> None:
    before = load(stored, "03_rsa_verify")
    path, _, _, changes = regrade.regrade(stored / "03_rsa_verify.json")
    after = json.loads(path.read_text())
    assert changes == [] and path == stored / "03_rsa_verify.json"
    assert after["complete"] and after.pop("regraded") >= before["ended"] and after == before
    kept = list(stored.glob("03_rsa_verify.2*.json"))
    assert [json.loads(each.read_text()) for each in kept] == [before]


def test_the_reason_of_a_failed_continuation_is_kept(
    moody: Moody, results: Path, monkeypatch: Any
) -> None:
    """The journal lacks it, so that the next run forces the answer again."""
    monkeypatch.setenv("BASE_URL", moody.url)
    cut = answer(200, chat({"content": "", "reasoning_content": "so far"}, finish_reason="length"))
    refused = answer(400, {"error": {"message": "no prefix"}})
    moody.choose = lambda n, prompt: cut if "6*7" in prompt else refused
    rows = [{"id": "p", "problem": "How much is 6*7?", "answer": "42"}]
    solve_sync(MAJORITY, rows, name="12_majority", folder=results, N=2, ANSWER_TOKENS=20)
    before = load(results, "12_majority")["metrics"]["not_forced"]
    assert list(before.values()) == [2]
    regrade.regrade(results / "12_majority.json")
    assert load(results, "12_majority")["metrics"]["not_forced"] == before


def test_what_changed_is_printed_answer_by_answer(
    stored: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESULTS_DIR", str(stored))
    document: dict[str, Any] = load(stored, "03_rsa_verify")
    step = document["problems"][1]["steps"][0]
    truth = step["members"][2]["answer"]
    step["members"][2] |= {"answer": "4\n1", "correct": True}  # as an older reader had it
    (stored / "03_rsa_verify.json").write_text(json.dumps(document))
    regrade.main(["03_rsa_verify"])
    out = capsys.readouterr().out
    assert "p1, t=0, member 2: 4 1 (right" in out and f"-> {truth} (" in out
    assert (
        "changed answers, grades and votes: 1 (36 completions were graded)" in out
        and "new grades" in out
    )
    assert load(stored, "03_rsa_verify")["problems"][1]["steps"][0]["members"][2]["answer"] == truth


def test_a_changed_score_is_listed_though_both_are_not_right(stored: Path) -> None:
    document: dict[str, Any] = load(stored, "03_rsa_verify")
    member = next(m for m in document["problems"][0]["steps"][0]["members"] if not m["correct"])
    member["grade"] = 0.4
    path = stored / "scored.json"
    path.write_text(json.dumps(document | {"experiment": "03_rsa_verify"}))
    _, _, _, changes = regrade.regrade(path)
    ((_, old, new),) = changes
    assert "score 0.4" in old and "(wrong" in new


@pytest.mark.parametrize(
    "words", ["", "--all", "02_nothing", "03_rsa_verify ANSWER=some", "03_rsa_verify N=4"]
)
def test_bad_input_is_one_line(
    words: str, stored: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RESULTS_DIR", str(stored))
    with pytest.raises(SystemExit) as ended:
        regrade.main(words.split())
    err = capsys.readouterr().err
    assert ended.value.code == 2 and err.startswith("error: ") and err.count("\n") == 1


def test_without_its_journal_nothing_is_graded(stored: Path, tmp_path: Path) -> None:
    path = tmp_path / "03_rsa_verify.json"
    path.write_bytes((stored / path.name).read_bytes())
    (tmp_path / "journal").mkdir()
    with pytest.raises(UserError, match=str(tmp_path / "journal")):
        regrade.regrade(path)
    assert list(tmp_path.glob("*.json")) == [path]
