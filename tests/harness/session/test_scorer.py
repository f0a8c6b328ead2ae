"""A second model that verifies: VERIFIER=scorer, which asks the model at SCORER_URL."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import prompts
from core.base.errors import UserError
from core.rsa import RSA
from core.types import Ask, Member, Population, Problem
from harness.results.merge import merge
from harness.run import solve_sync
from harness.scaffolds.best_of import BEST_OF
from harness.scaffolds.rsa_verified import RSA_VERIFIED
from harness.scaffolds.stepwise import STEPWISE
from harness.session import regrade
from harness.session.equal_compute import Comparison, compare, entry
from tests.conftest import run
from tests.fakes.server import ScriptedServer
from tests.helpers.runs import TWO, journal_lines, load, timeless

SIZE: dict[str, Any] = {"N": 3, "VERIFY_SAMPLES": 1, "VERIFIER": "scorer"}
CARD = """model = "scripted"
base_url = "{url}"
thinking = "field"
streams = true
continues = true
[price]
read = 1.0
written = 10.0
on = 2026-11-23
"""


class Judge(ScriptedServer):
    """A scorer that finds exactly the answer 1 right."""

    def reply(self, messages: list[dict[str, str]], number: int) -> str:
        return f"Verdict: {'boxed{1}' in messages[-1]['content']}"


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[Judge]:
    with closing(Judge()) as judge:
        monkeypatch.setenv("SCORER_URL", judge.url)
        monkeypatch.setenv("SCORER_MODEL", "scripted")
        yield judge


def test_a_scorer_chooses_and_its_tokens_are_counted_apart_and_in_the_sums(
    server: ScriptedServer, judge: Judge, results: Path
) -> None:
    solve_sync(BEST_OF, TWO, name="best", **SIZE)
    assert len(server.asked) == len(judge.asked) == 2 * 3
    assert all('"Verdict: True"' in body for body in map(_prompt, judge.asked))
    document = load(results, "best")
    assert document["config"]["VERIFIER"] == "scorer"
    assert document["scorer"]["model"]["name"] == "scripted"
    assert judge.url in document["scorer"]["engine"]["origin"]
    metrics = document["metrics"]
    assert metrics["scorer"]["completions"] == 6 and metrics["scorer"]["failed"] == 0
    assert metrics["scorer"]["tokens"]["completion"] == 6 * 20
    assert metrics["tokens"]["completion"] == 2 * 6 * 20
    assert metrics["models"] == metrics["scorer"]["models"] == {"scripted": 6}
    for problem in document["problems"]:
        solutions, verified, (best,) = (step["members"] for step in problem["steps"])
        assert [m["verdicts"] for m in verified] == [[float(m["answer"] == "1")] for m in solutions]
        if "1" in [m["answer"] for m in solutions]:
            assert best["answer"] == "1"


def _prompt(body: str) -> str:
    return str(json.loads(body)["messages"][-1]["content"])


@pytest.mark.parametrize("scaffold", [BEST_OF, RSA_VERIFIED, STEPWISE])
def test_a_repeated_run_asks_neither_server(
    server: ScriptedServer, judge: Judge, results: Path, scaffold: Any
) -> None:
    sizes: dict[str, Any] = {"K": 2, "T": 1} if scaffold is RSA_VERIFIED else {}
    if scaffold is STEPWISE:
        sizes = {"STEPS": 2, "SCORE": "verdict"}
    documents = []
    for _ in range(2):
        solve_sync(scaffold, TWO, name="mine", **SIZE, **sizes)
        documents.append(load(results, "mine"))
        asked = len(server.asked), len(judge.asked)
    assert len(server.asked) + len(judge.asked) == len(journal_lines(results, "mine"))
    assert (len(server.asked), len(judge.asked)) == asked and min(asked) > 0
    first, second = documents
    assert timeless(first["problems"]) == timeless(second["problems"])
    assert first["metrics"]["scorer"]["tokens"] == second["metrics"]["scorer"]["tokens"]
    reused = sum(second["metrics"]["scorer"]["reused"].values())
    assert reused == second["metrics"]["scorer"]["completions"] == asked[1]
    assert not [warning for warning in second["warnings"] if "other servers" in warning]


def test_regraded_and_merged_results_keep_the_scorers_figures(
    server: ScriptedServer, judge: Judge, results: Path
) -> None:
    for seed in (0, 1):
        solve_sync(BEST_OF, TWO, name=f"best-seed{seed}", SEED=seed, **SIZE)
    path = results / "best-seed0.json"
    before = load(results, "best-seed0")
    regrade.regrade(path)
    after = load(results, "best-seed0")
    assert after["metrics"]["scorer"] == before["metrics"]["scorer"]
    assert after["problems"] == before["problems"]
    merged = merge([path, results / "best-seed1.json"], "both", results)[1]
    assert merged["metrics"]["scorer"]["completions"] == 12 and merged["scorer"]


def test_a_scorer_without_an_address_is_refused_before_the_first_request(
    server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCORER_URL", raising=False)
    monkeypatch.delenv("SCORER_MODEL", raising=False)
    with pytest.raises(UserError, match="VERIFIER=scorer.*SCORER_URL"):
        solve_sync(BEST_OF, TWO, **SIZE)
    with pytest.raises(UserError, match="VERIFIER"):
        solve_sync(replace(RSA, run=_asks_scorer), TWO, name="undeclared")
    assert not server.asked


async def _asks_scorer(problem: Problem, ask: Ask, config: Any) -> AsyncIterator[Population]:
    yield [Member(await ask(prompts.solve(problem), 0, 0, to="scorer"))]


def test_a_lost_scorer_ends_the_run_which_the_next_one_continues(
    server: ScriptedServer,
    judge: Judge,
    results: Path,
    monkeypatch: pytest.MonkeyPatch,
    hurried: None,
) -> None:
    closed = Judge()
    monkeypatch.setenv("SCORER_URL", closed.url)

    def lost(messages: Any, number: int) -> str:
        closed.close()
        raise ConnectionError

    monkeypatch.setattr(closed, "reply", lost)
    with pytest.raises(UserError):
        solve_sync(BEST_OF, TWO, name="best", **SIZE)
    assert load(results, "best.partial")["scorer"]
    asked = len(server.asked)
    monkeypatch.setenv("SCORER_URL", judge.url)
    solve_sync(BEST_OF, TWO, name="best", **SIZE)
    assert len(server.asked) == asked and len(judge.asked) == 6


def test_the_budget_counts_the_scorer(
    server: ScriptedServer,
    judge: Judge,
    results: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, url in (("model", server.url), ("judge", judge.url)):
        (tmp_path / f"{name}.toml").write_text(CARD.format(url=url))
    monkeypatch.setenv("SCORER_MODEL", str(tmp_path / "judge.toml"))
    monkeypatch.delenv("SCORER_URL")
    with pytest.raises(UserError, match=r"MAX_DOLLARS.*card"):
        solve_sync(BEST_OF, TWO, name="best", MAX_DOLLARS=1, **SIZE)
    monkeypatch.delenv("BASE_URL")
    monkeypatch.setenv("MODEL", str(tmp_path / "model.toml"))
    # at this temperature no trial of seeds is paid for
    solve_sync(BEST_OF, TWO, name="best", MAX_DOLLARS=1, TEMPERATURE=0, **SIZE)
    document = load(results, "best")
    metrics = document["metrics"]
    tokens = metrics["scorer"]["tokens"]
    dollars = (tokens["prompt"] * 1.0 + tokens["completion"] * 10.0) / 1e6
    assert metrics["scorer"]["cost"] == pytest.approx(dollars)
    assert metrics["cost"] > metrics["scorer"]["cost"] > 0
    assert metrics["spent"] == pytest.approx(metrics["cost"])
    assert document["scorer"]["prices"]["written"] == 10.0


def test_a_comparison_counts_the_tokens_of_a_scorer(
    server: ScriptedServer, judge: Judge, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = entry("12_majority", N=4)
    scored = entry("13_best_of", name="scored", N=2, VERIFY_SAMPLES=1, VERIFIER="scorer")
    words = ["PROBLEMS=sums", "LIMIT=2", "BUDGETS=4"]
    monkeypatch.setattr("sys.argv", ["99_small.py", *words])
    compare(Comparison([reference, scored]), {"__file__": "99_small.py"})
    asked = len(judge.asked)
    lines = (results / "99_small" / "table.jsonl").read_text().splitlines()
    rows = {row["scaffold"]: row for row in map(json.loads, lines[1:])}
    assert asked == 4 and rows["scored"]["tokens"] == 2 * 2 * 20
    monkeypatch.setattr("sys.argv", ["99_small.py", *words, "BUDGET_IN=flops"])
    with pytest.raises(SystemExit, match="2"):
        compare(Comparison([reference, scored]), {"__file__": "99_small.py"})


def test_the_embedded_model_scores_for_itself_as_a_second_server(
    engine: Any, results: Path
) -> None:
    words = ("LIMIT=2", "N=2", "MAX_TOKENS=300", "VERIFIER=scorer")
    urls = {"BASE_URL": engine.base_url, "SCORER_URL": engine.base_url}
    status, out, err = run("13_best_of", *words, **urls)
    assert status == 0 and "scorer" in out.partition("mean accuracy")[0], err
    document = load(results, "13_best_of")
    assert document["scorer"]["model"]["name"] == document["model"]["name"]
    assert document["metrics"]["scorer"]["completions"] == 2 * 2 * 4
    status, _, err = run("13_best_of", *words, BASE_URL=engine.base_url)
    assert status == 2 and "SCORER_URL" in err and err.count("\n") == 1


def test_a_scorer_without_an_address_is_started_here(engine: Any, results: Path) -> None:
    words = ("LIMIT=1", "N=2", "MAX_TOKENS=300", "VERIFIER=scorer", "SCORE=p_true")
    settings = {"BASE_URL": engine.base_url, "SCORER_MODEL": "embedded"}
    status, out, err = run("13_best_of", *words, **settings)
    assert status == 0, err
    scorer = load(results, "13_best_of")["scorer"]
    assert scorer["model"]["embedded"] and scorer["engine"]["why"] == "SCORER_MODEL is set"
    assert engine.base_url not in scorer["engine"]["origin"]
    assert "SCORER_MODEL is set" in " ".join(out.split())
