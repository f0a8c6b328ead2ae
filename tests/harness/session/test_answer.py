"""Runs whose replies state answers in words: ANSWER, the card's field, and a warning about unread
replies."""

from pathlib import Path

import pytest

from core.engines.cards import Card
from core.rsa import BASELINE, RSA, SampleConstants
from harness.results.missing_answers import MissingAnswers
from harness.run import solve_sync
from harness.session import regrade
from tests.fakes import server as fakes
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import load

ROWS = [{"id": f"p{i}", "problem": f"What is {i}?", "answer": "42"} for i in range(3)]
SAID = "30 + 12 = 42 \x1b[31m\nThe answer is 42 apples."


@pytest.fixture
def speaking(
    server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch
) -> ScriptedServer:
    monkeypatch.setattr(fakes, "reply", lambda *_: SAID)
    return server


def test_a_run_that_cannot_read_its_model_says_so_and_can_be_read_in_another_way(
    speaking: ScriptedServer, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    solve_sync(BASELINE, ROWS, name="words", N=8)
    head = load(results, "words")
    counts = head["metrics"]["unstated"]
    assert (counts["replies"], counts["unstated"]) == (24, 24) and "\x1b" not in counts["quote"]
    assert any("ANSWER=text" in each and counts["quote"] in each for each in head["warnings"])
    err = capsys.readouterr().err
    assert err.count("ANSWER=text") == 1 and "\x1b" not in err and "ANSWER" not in head["config"]
    asked = len(speaking.asked)
    regrade.main([str(results / "words.json"), "ANSWER=text"])
    regraded = regrade.regrade(results / "words.json")[1]
    assert (
        regraded["config"]["ANSWER"] == "text"
        and regraded["metrics"]["final"]["mean_accuracy"]["value"] == 1
    )
    assert "unstated" not in regraded["metrics"] and len(speaking.asked) == asked


def test_prompts_ask_for_the_form_that_is_read(speaking: ScriptedServer, results: Path) -> None:
    solve_sync(RSA, ROWS, name="text", N=2, K=2, T=1, ANSWER="text")
    found = load(results, "text")
    assert (
        found["config"]["ANSWER"] == "text"
        and found["metrics"]["final"]["mean_accuracy"]["value"] == 1
    )
    assert all("The answer is" in body and "boxed" not in body for body in speaking.asked)
    for way, words in (("auto", "boxed"), ("number", "only the final answer, as a number")):
        solve_sync(BASELINE, ROWS, name=way, N=1, ANSWER=way)
        assert words in speaking.asked[-1]


def test_the_constant_wins_over_the_card() -> None:
    assert Card().answer_form(SampleConstants()) == "boxed"
    assert Card(answer="text").answer_form(SampleConstants()) == "text"
    assert Card(answer="text").answer_form(SampleConstants(ANSWER="boxed")) == "boxed"


@pytest.mark.parametrize(
    ("length", "doubt", "warns"),
    [(0, "no answer", True), (15, "truncated", False), (0, None, False)],
)
def test_a_warning_needs_replies_that_mostly_ended(
    length: int, doubt: str | None, warns: bool
) -> None:
    one = {"answer": None, "correct": False, "doubt": doubt}
    members = [one | {"finish_reason": "length" if i < length else "stop"} for i in range(20)]
    counts = MissingAnswers()
    assert not counts.add({"members": members[:19]}) and counts.metrics() == {}
    assert counts.add({"members": members[19:]}) is warns and bool(counts.metrics()) is warns
    assert not counts.add({"members": members})
