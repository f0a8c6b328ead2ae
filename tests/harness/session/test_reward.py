"""A reward model that chooses: SCORE=reward, which asks the scorer for scores instead of texts."""

import json
import math
import statistics
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from harness.run import solve_sync
from harness.scaffolds.best_of import BEST_OF
from harness.scaffolds.reward import UNSCORED
from harness.scaffolds.rsa_verified import RSA_VERIFIED
from harness.scaffolds.stepwise import STEPWISE
from harness.session.equal_compute import Comparison, compare, entry
from tests import conftest
from tests.fakes.server import ScriptedServer
from tests.helpers.rewards import MARK, RewardModel, worth
from tests.helpers.runs import TWO, journal_lines, load, timeless

SIZE: dict[str, Any] = {"N": 3, "SCORE": "reward"}
CARD = 'model = "default"\nbase_url = "{url}"\nstep_mark = "{mark}"\n'
HIGH = 0.7
PRICE = "[price]\nread = 1.0\nwritten = 10.0\non = 2026-11-23\n"
COMBINED: dict[str, Callable[[list[float]], float]] = {
    "last": lambda scores: scores[-1],
    "min": lambda scores: sorted(scores)[0],
    "prod": lambda scores: math.exp(sum(map(math.log, scores))) if all(scores) else 0.0,
    "mean": statistics.mean,
}


class Writer(ScriptedServer):
    """A model that writes solutions of two paragraphs."""

    def reply(self, messages: list[dict[str, str]], number: int) -> str:
        return f"I add {number}.\n\nIt is \\boxed{{{number % 3}}}."


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Writer]:
    with closing(Writer()) as writer:
        monkeypatch.setenv("BASE_URL", writer.url)
        yield writer


@pytest.fixture
def rater(monkeypatch: pytest.MonkeyPatch) -> Iterator[RewardModel]:
    with closing(RewardModel()) as rater:
        monkeypatch.setenv("SCORER_URL", rater.url)
        yield rater


def members_of(document: dict[str, Any], step: int) -> list[dict[str, Any]]:
    return [m for problem in document["problems"] for m in problem["steps"][step]["members"]]


def test_the_solution_with_the_best_score_wins_and_only_reading_costs(
    writer: Writer, rater: RewardModel, results: Path
) -> None:
    solve_sync(BEST_OF, TWO, name="best", **SIZE)
    document = load(results, "best")
    assert document["config"]["SCORE"] == "reward"
    assert "sampling" not in document["scorer"]["engine"]
    questions = [body["messages"][0]["content"] for body in rater.bodies]
    assert sorted(questions) == sorted(3 * [row["problem"] for row in TWO])
    for problem in document["problems"]:
        _, scored, (best,) = (step["members"] for step in problem["steps"])
        scores = [member["self_score"] for member in scored]
        assert best["parents"] == [scores.index(max(scores))]
        assert set(scores) <= {worth(text) for text in rater.scored}
    tokens = document["metrics"]["scorer"]["tokens"]
    read = sum(len(text) // 4 + 9 for text in rater.scored)
    assert (tokens["prompt"], tokens["completion"]) == (read, 0)
    assert document["metrics"]["tokens"]["completion"] == 6 * 20


@pytest.mark.parametrize("combination", COMBINED)
def test_a_process_model_s_scores_are_recomputed_from_the_journal(
    writer: Writer,
    results: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    combination: str,
) -> None:
    with closing(RewardModel(mark=MARK)) as rater:
        card = tmp_path / "prm.toml"
        card.write_text(CARD.format(url=rater.url, mark=MARK))
        monkeypatch.setenv("SCORER_MODEL", str(card))
        solve_sync(BEST_OF, TWO, name="best", STEP_SCORES=combination, **SIZE)
        assert all(text.count(MARK) == 2 for text in rater.scored)
    journal = {}
    for line in map(json.loads, journal_lines(results, "best")):
        journal[line["key"]] = line
    for member in members_of(load(results, "best"), 1):
        (call,) = member["side_calls"]
        first, last = journal[call["key"]]["completion"]["scores"]
        paragraphs = journal[member["key"]]["completion"]["answer"].split("\n\n")
        assert first == pytest.approx(worth(paragraphs[0]))
        assert last == pytest.approx(worth(MARK.join(paragraphs)))
        expected = COMBINED[combination]([first, last])
        assert member["self_score"] == pytest.approx(expected)


@pytest.mark.parametrize("scaffold", [BEST_OF, RSA_VERIFIED, STEPWISE])
def test_a_repeated_run_asks_neither_server(
    server: ScriptedServer, rater: RewardModel, results: Path, scaffold: Any
) -> None:
    sizes: dict[str, Any] = {}
    if scaffold is RSA_VERIFIED:
        sizes = {"K": 2, "T": 1}
    if scaffold is STEPWISE:
        sizes = {"STEPS": 2, "BEAM": 2}
    documents = []
    for _ in range(2):
        solve_sync(scaffold, TWO, name="mine", **SIZE, **sizes)
        documents.append(load(results, "mine"))
        asked = len(server.asked), len(rater.scored)
    assert sum(asked) == len(journal_lines(results, "mine")) and min(asked) > 0
    first, second = documents
    assert timeless(first["problems"]) == timeless(second["problems"])


def test_scores_of_another_model_are_not_reused(
    server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for root in ("/models/a", "/models/b"):
        with closing(RewardModel(root=root)) as rater:
            monkeypatch.setenv("SCORER_URL", rater.url)
            solve_sync(BEST_OF, TWO, name="best", **SIZE)
            assert len(rater.scored) == 6
    assert len(server.asked) == 6


def test_killed_and_run_again_a_run_ends_as_undisturbed(
    server: ScriptedServer,
    rater: RewardModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "reply", lambda messages, number: f"Step {number}.")
    problems = tmp_path / "problems.json"
    problems.write_text(json.dumps(TWO))
    words = (f"PROBLEMS={problems}", "N=2", "BEAM=2", "STEPS=3", "SCORE=reward", "CONCURRENCY=1")
    disturbed, whole = tmp_path / "disturbed", tmp_path / "whole"
    urls = {"BASE_URL": server.url, "SCORER_URL": rater.url}
    server.life = 8
    process = conftest.start("28_stepwise", *words, RESULTS_DIR=str(disturbed), **urls)
    server.kill(process)
    assert rater.scored
    for folder in (disturbed, whole):
        status, _, err = conftest.run("28_stepwise", *words, RESULTS_DIR=str(folder), **urls)
        assert status == 0, err
    documents = [load(folder, "28_stepwise") for folder in (disturbed, whole)]
    first, second = (timeless(document["problems"]) for document in documents)
    assert first == second


def test_a_missing_score_is_noted_and_counted(
    writer: Writer, results: Path, monkeypatch: pytest.MonkeyPatch, hurried: None
) -> None:
    def spoil(page: dict[str, Any]) -> dict[str, Any]:
        (score,) = page["data"][0]["data"]
        page["data"][0]["data"] = [None if score > HIGH else score]
        return page

    with closing(RewardModel(spoil=spoil)) as rater:
        monkeypatch.setenv("SCORER_URL", rater.url)
        solve_sync(BEST_OF, TWO, name="best", CONCURRENCY=1, **SIZE)
    document = load(results, "best")
    failed = document["metrics"]["scorer"]["failed"]
    assert document["metrics"]["notes"] == {UNSCORED: failed} and 1 <= failed <= 3
    noted = [m for m in members_of(document, 1) if UNSCORED in m.get("notes", [])]
    assert len(noted) == failed and not any("self_score" in member for member in noted)


def test_its_tokens_are_paid_as_read(
    server: ScriptedServer, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tmp_path / "model.toml"
    model.write_text(f'model = "scripted"\nbase_url = "{server.url}"\n{PRICE}')
    with closing(RewardModel()) as rater:
        card = tmp_path / "rm.toml"
        card.write_text(f'model = "default"\nbase_url = "{rater.url}"\n{PRICE}')
        monkeypatch.delenv("BASE_URL")
        monkeypatch.setenv("MODEL", str(model))
        monkeypatch.setenv("SCORER_MODEL", str(card))
        solve_sync(BEST_OF, TWO, name="best", MAX_DOLLARS=1, TEMPERATURE=0, **SIZE)
    scorer = load(results, "best")["metrics"]["scorer"]
    assert scorer["cost"] == pytest.approx(scorer["tokens"]["prompt"] / 1e6)


def test_a_comparison_counts_the_tokens_that_it_reads(
    writer: Writer, rater: RewardModel, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = [entry("12_majority", N=4), entry("13_best_of", name="scored", N=2, SCORE="reward")]
    words = ["PROBLEMS=sums", "LIMIT=2", "BUDGETS=4", "BUDGET_IN=read_cold"]
    monkeypatch.setattr("sys.argv", ["99_small.py", *words])
    compare(Comparison(entries), {"__file__": "99_small.py"})
    lines = (results / "99_small" / "table.jsonl").read_text().splitlines()
    (row,) = [row for row in map(json.loads, lines[1:]) if row["scaffold"] == "scored"]
    asked = {json.loads(body)["messages"][-1]["content"] for body in writer.asked}
    asked = {prompt for prompt in asked if "random letters" not in prompt}
    read = sum(len(text) // 4 + 9 for text in rater.scored)
    of_solutions = sum(2 * (len(prompt) // 4) for prompt in asked)
    assert len(rater.scored) == 4 and row["tokens"] == 2 * 20
    assert row["read_cold"] - row["tokens"] == (read + of_solutions) / 2


def test_a_scorer_that_gives_no_scores_is_refused_before_the_first_request(
    server: ScriptedServer, results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match="SCORER_URL"):
        solve_sync(BEST_OF, TWO, **SIZE)
    monkeypatch.setenv("SCORER_MODEL", "embedded")
    with pytest.raises(UserError, match="SCORER_URL"):
        solve_sync(BEST_OF, TWO, **SIZE)
    monkeypatch.delenv("SCORER_MODEL")
    with closing(ScriptedServer()) as chats:
        monkeypatch.setenv("SCORER_URL", chats.url)
        with pytest.raises(UserError, match="SCORE=reward.*vLLM"):
            solve_sync(BEST_OF, TWO, **SIZE)
    monkeypatch.delenv("SCORER_URL")
    with closing(RewardModel(is_sglang=True)) as rater:
        card = tmp_path / "prm.toml"
        card.write_text(CARD.format(url=rater.url, mark=MARK))
        monkeypatch.setenv("SCORER_MODEL", str(card))
        with pytest.raises(UserError, match="step_mark"):
            solve_sync(BEST_OF, TWO, **SIZE)
    assert not server.asked
