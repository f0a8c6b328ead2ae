"""Runs whose grades are between 0 and 1: tables, comparisons, exports, and the page."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from core.constants import SWEEP
from core.rsa import RSA
from harness.report import compare, jsonl, page, report
from harness.report.data import Results
from harness.report.equal_compute import compared_in
from harness.report.run_table import steps_table
from harness.run import run
from tests.conftest import ended, python
from tests.fakes.server import ScriptedServer
from tests.helpers import reports
from tests.helpers.browser import CHROMIUM, Tab
from tests.helpers.runs import load
from tests.helpers.scores import ROWS, by_table, scored


def figures_of(steps: list[dict[str, Any]], number: int) -> tuple[float, float, int]:
    """Compute the mean score, the full score and the partly right members of a step."""
    members = [member for step in steps for member in step["members"]]
    scores = [member.get("grade", float(member["correct"])) for member in members]
    full = sum(score == 1 for score in scores)
    return sum(scores) / len(scores), full / len(scores), sum(0 < s < 1 for s in scores)


def test_pass_at_k_counts_the_full_score_and_means_count_all(
    server: ScriptedServer, results: Path
) -> None:
    scored(results)
    document = load(results, "scored")
    for number, step in enumerate(document["metrics"]["steps"]):
        populations = [problem["steps"][number] for problem in document["problems"]]
        mean, full, partly = figures_of(populations, number)
        votes = [population["majority_correct"] for population in populations]
        assert step["mean_accuracy"]["value"] == pytest.approx(mean)
        assert step["majority_accuracy"]["value"] == pytest.approx(sum(votes) / len(votes))
        assert step["pass_at_k"]["1"]["value"] == pytest.approx(full) != mean
        assert step["partly_right"] == partly > 0


def test_a_program_prints_scores_and_not_accuracies(server: ScriptedServer, results: Path) -> None:
    program = (
        "import sys\nfrom core.rsa import RSA\nfrom harness.run import run\n"
        "from tests.helpers.scores import by_table\nN, K, T = 4, 2, 1\n"
        "run(RSA, globals(), grader=by_table)\n"
    )
    path = results / "mine.py"
    path.write_text(program)
    problems = results / "rows.jsonl"
    problems.write_text('{"problem": "What is 1?", "answer": "2"}\n')
    process = python(
        str(path), f"PROBLEMS={problems}", BASE_URL=server.url, RESULTS_DIR=str(results)
    )
    status, out, err = ended(process)
    assert status == 0, err
    assert "mean score" in out and "full score" in out and "final: majority score" in out
    assert "score t=0" in err and "accurac" not in out + err


def test_results_are_compared_by_their_scores(
    server: ScriptedServer, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Results(scored(results))
    other = Results(scored(results, "other", T=2))
    pair = compare.pair(compare.result(first), compare.result(other))
    assert list(pair.metrics) == list(compare.METRICS), "programs read these names"
    report.show([first, other])
    text = capsys.readouterr().out
    assert "majority without the full score at t=0" in text
    assert "Scores are in %" in text and "majority score" in text and "accurac" not in text
    table = compare.differences([pair], "first").text()
    assert "majority score" in table and "accurac" not in table


def test_an_export_has_the_scores(server: ScriptedServer, results: Path) -> None:
    path = scored(results)
    jsonl.write(path, "")
    lines = [json.loads(line) for line in path.with_suffix(".jsonl").read_text().splitlines()]
    replies = [m for line in lines for m in line["history"] if m["role"] == "assistant"]
    assert {reply.get("grade", float(reply["correct"])) for reply in replies} == {0, 0.4, 1}
    assert {row["grade"] for row in Results(path).rows} == {None, 0.4}


def test_inspects_mean_is_the_mean_score(server: ScriptedServer, results: Path) -> None:
    pytest.importorskip("inspect_ai")
    from inspect_ai.log import read_eval_log
    from inspect_ai.scorer import value_to_float

    from harness.report import inspect_log

    run = Results(scored(results))
    log = read_eval_log(str(inspect_log.write([run], results / "logs")[1]))
    number = value_to_float()
    values = [number(s.scores["boxed"].value) for s in log.samples or [] if s.scores]
    mean = run.head.metrics.steps[1].mean_accuracy.value
    assert sum(values) / len(values) == pytest.approx(mean)


def test_a_run_without_scores_has_no_columns_for_them(
    server: ScriptedServer, results: Path
) -> None:
    scored(results)
    document = load(results, "scored")
    heads = [column.head for column in steps_table(document).columns]
    assert heads[1:4] == ["mean score", "majority score", "full score"] and "partly right" in heads
    for step in document["metrics"]["steps"]:
        del step["partly_right"]
    heads = [column.head for column in steps_table(document).columns]
    assert heads[1:3] == ["mean accuracy", "majority accuracy"] and heads[3].startswith("pass@")
    assert "partly right" not in heads


def test_a_sweep_compares_scores(
    server: ScriptedServer, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (results / "rows.json").write_text(json.dumps(ROWS))
    words = [f"PROBLEMS={results / 'rows.json'}", "N=2,4", "K=1,2", SWEEP]
    monkeypatch.setattr("sys.argv", ["99_small.py", *words])
    run(RSA, {"__file__": "99_small.py", "T": 1}, grader=by_table)
    table = (results / "99_small_sweep" / "table.txt").read_text()
    assert "The score of the vote in %" in table and "mean: score of all members" in table
    assert "accuracy" not in table
    monkeypatch.undo()
    compared = compared_in(results / "99_small_sweep")
    assert compared.label([]) == "accuracy of the vote, %", "without rows with scores"


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_the_page_shows_scores_and_partly_right_members(
    tab: Tab, server: ScriptedServer, results: Path
) -> None:
    with ThreadPoolExecutor(1) as pool:  # the browser's event loop runs in this thread
        paths = pool.submit(lambda: [scored(results), scored(results, "one", T=0)]).result()
    document = load(results, "scored")
    shown = tab.open(page.write([Results(path) for path in paths], results / "report.html")[0])
    assert "Mean score against tokens" in shown.inner_text("main")
    for route in ("#/0/overview", "#/1/overview"):
        overview = tab.follow(route).inner_text("main")
        assert "full score, % of members" in overview and "mean score" in overview
        assert "accuracy" not in overview
    cells = tab.follow("#/0/map").locator("td.cell a").all_inner_texts()
    mean = document["problems"][0]["steps"][0]["mean_accuracy"]
    assert cells[0].startswith(f"{mean:.2f}"), cells
    members = [m for step in document["problems"][1]["steps"] for m in step["members"]]
    partly = sum("grade" in member for member in members)
    wrong = sum(not member["correct"] for member in members) - partly
    tab.follow("#/0/problem/1")
    assert partly and shown.get_by_role("button", name=f"wrong {wrong}").count() == 1
    shown.get_by_role("button", name=f"partly right {partly}").click()
    bright = shown.locator(".node:not([opacity])")
    assert bright.count() == partly and all("(0.40)" in t for t in bright.all_text_contents())
    bright.first.click()
    shown.wait_for_selector(".member .prose")
    assert "◐ 1 (0.40)" in shown.inner_text(".member h3")
    assert "◐ partly right, score 0.40" in shown.inner_text(".member .facts")
    tab.fits("#/0/overview", "#/0/map", "#/compare", "#/1/problem/0/0/0")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_a_page_without_scores_has_no_filter_for_them(tab: Tab, tmp_path: Path) -> None:
    path = reports.results(tmp_path) / "02_rsa_basic.json"
    shown = tab.open(page.write([Results(path)], tmp_path / "page.html")[0], "#/0/problem/0")
    chips = shown.locator(".chips button").all_inner_texts()
    assert chips and not any("partly" in chip for chip in chips)
    assert "◐" not in shown.inner_text("main")
