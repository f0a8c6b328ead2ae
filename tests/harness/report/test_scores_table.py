"""The table of scores, its verdict, and the command that prints it."""

import json
from pathlib import Path

import pytest

from harness.report import page, scores_table
from harness.report.data import Results
from harness.report.report import main
from harness.run import solve_sync
from harness.scaffolds.best_of import BEST_OF
from tests.fakes.server import ScriptedServer
from tests.helpers import reports
from tests.helpers.browser import CHROMIUM, Tab
from tests.helpers.documents import document, member, problem, step
from tests.helpers.runs import TWO


def written(folder: Path, right: float, wrong: float, problems: int = 60) -> Path:
    """Write results in which right and wrong candidates have these scores. Two of three candidates
    are wrong, with one answer."""
    rows = []
    for number in range(problems):
        members = [
            member(correct=True, group=1, self_score=right),
            member(correct=False, answer="2", group=0, self_score=wrong),
            member(correct=False, answer="2", group=0, self_score=wrong),
        ]
        rows.append(problem(f"p{number}", [step(0, members)]))
    path = folder / "scored.json"
    config = {"MAX_TOKENS": 100, "TEMPERATURE": 0.7, "SEED": 0, "SCORE": "p_true"}
    path.write_text(json.dumps(document(rows, config=config, experiment="scored")))
    return path


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        (
            0.9,
            0.1,
            ["score above wrong", "best score is right more", "weighted vote is right more"],
        ),
        (0.9, 0.6, ["score above wrong", "best score is right more", "weighted vote is right as"]),
        (0.1, 0.9, ["score above right", "The best score is right as often as the vote"]),
        (0.5, 0.5, ["uncertain whether right", "best score is right more often"]),
    ],
)
def test_the_interval_chooses_the_verdict(
    results: Path, right: float, wrong: float, words: list[str]
) -> None:
    report = scores_table.Report(Results(written(results, right, wrong)))
    assert [word for word in words if word not in report.line] == []


def test_the_command_prints_one_table_for_all_runs(
    server: ScriptedServer, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, score in (("sure", "confidence"), ("judged", "verdict")):
        solve_sync(BEST_OF, TWO, name=name, N=4, VERIFY_SAMPLES=2, SCORE=score)
    reports.results(results)
    capsys.readouterr()
    main(["sure", "judged", "02_rsa_basic", "--scores"])
    text = capsys.readouterr().out
    heads = text.splitlines()[2].split()
    assert heads == ["figure", "sure", "judged"]
    assert "confidence (mean)" in text and "verdict" in text
    assert text.count("Accuracy by score") == 2
    assert f"02_rsa_basic: {scores_table.NO_SCORES}" in text
    assert not (results / "sure.html").exists()
    main(["sure", "judged", "--scores", "--markdown"])
    assert "| figure | sure | judged |" in capsys.readouterr().out


def test_the_page_has_the_tables_only_with_scores(results: Path) -> None:
    run = Results(written(results, 0.9, 0.1))
    on_page = scores_table.Report(run).page()
    assert on_page is not None
    main_table, parts = on_page["tables"]
    assert main_table["rows"][0] == ["score", "p_true"]
    assert parts["rows"] == [
        ["0.1", "120", parts["rows"][0][2]],
        ["0.9", "60", parts["rows"][1][2]],
    ]
    reports.results(results)
    assert scores_table.Report(Results(results / "02_rsa_basic.json")).page() is None


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")
def test_the_overview_shows_the_tables_and_the_verdict(tab: Tab, results: Path) -> None:
    run = Results(written(results, 0.9, 0.1))
    shown = tab.open(page.write([run], results / "page.html")[0], "#/0/overview")
    drawn = shown.locator(f"table:has(caption:has-text('{scores_table.TITLE}'))")
    names = drawn.locator("tbody tr > :nth-child(1)").all_inner_texts()
    report = scores_table.Report(run)
    figures = [name for name, figure in report.figures.items() if figure != "0"]
    assert names == figures
    assert report.line in shown.inner_text("main")
    tab.fits("#/0/overview")
