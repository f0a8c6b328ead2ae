"""The pages of the labs in a real browser: rounds of STaR, searches of Lean, and graded lines."""

from pathlib import Path

import pytest

from core.base.files import storable, write_atomically
from harness.report.report import main
from labs.lean.report import html
from labs.lean.searches import read
from labs.proofs import stats
from labs.star.record import read as read_record
from labs.training.stages import NAME
from tests.helpers import reports
from tests.helpers.browser import Tab
from tests.helpers.reports import EVIL
from tests.labs.lean import searches
from tests.labs.proofs.lines import scored, theirs
from tests.labs.star.helpers import changed, learnt

ARMS = ["no_rationalisation-seed0", "star-seed1"]

# Rounds


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The pages of one run, of several, and of one in which every text wants to be more."""
    paths = {}
    for kind, labels, reason in (
        ("one", ("seed0",), "wrong"),
        ("several", ARMS[::-1], "wrong"),
        ("evil", ("seed0",), EVIL),
    ):
        folder = reports.rounds(tmp_path_factory.mktemp(kind), *labels, reason=reason)
        if kind == "evil":
            data = {"name": EVIL, "train": 9, "held_out": 8, "held_out_name": EVIL}
            changed(folder, data=data, start={"name": EVIL, "digest": "a" * 64})
        paths[kind] = folder.parent / "page.html"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("RESULTS_DIR", str(folder.parent))
            main(["21_star", "--out", str(paths[kind])])
    return paths


def test_the_page_begins_with_the_rounds_and_its_views_fit_their_screen(
    tab: Tab, pages: dict[str, Path]
) -> None:
    shown = tab.open(pages["one"])
    assert shown.title() == "21_star · qed-rsa" and shown.inner_text("h1") == "21_star"
    assert (
        shown.inner_text("main h2") == "Rounds"
        and shown.inner_text("nav a[aria-current]") == "Rounds"
    )
    tables = shown.locator("main table")
    assert tables.count() == 3 and shown.locator("svg.chart polyline").count() == 2
    assert "2best, last" in tables.first.inner_text().replace(" ", "", 1).replace("\n", "")
    assert "the best round was chosen on the held-out problems" in shown.inner_text("main")
    with shown.expect_download() as saved:
        shown.get_by_role("button", name="SVG of 21_star-rounds").click()
    assert "<polyline" in saved.value.path().read_text()
    tab.fits("", "#/1/overview", "#/compare")


def test_each_round_opens_its_results_and_every_sample(tab: Tab, pages: dict[str, Path]) -> None:
    shown = tab.open(pages["one"])
    shown.get_by_role("link", name="evaluation: seed0-round2", exact=True).click()
    shown.wait_for_selector("h2:has-text('seed0-round2')")
    assert shown.title() == "seed0-round2 · 21_star · qed-rsa"
    shown.get_by_role("link", name="Rounds").click()
    shown.get_by_role("link", name="samples: seed0-round1-collected").first.click()
    rows = shown.locator("table.traces tbody tr")
    rows.first.wait_for()
    assert rows.count() == 16 and shown.inner_text("nav a[aria-current]") == "Samples"
    shown.get_by_label("show").select_option("✗ dropped: wrong")
    dropped = rows.count()
    assert 0 < dropped < 16 and all("✗ dropped: wrong" in row for row in rows.all_inner_texts())
    rows.first.get_by_role("link").click()
    shown.wait_for_selector(".member .prose")
    assert "dropped: wrong" in shown.inner_text(".member .facts") and "999" in shown.inner_text(
        ".member .prose"
    )


def test_only_evaluations_are_compared_each_with_round_0_of_its_run(
    tab: Tab, pages: dict[str, Path]
) -> None:
    shown = tab.open(pages["one"], "#/compare")
    assert shown.locator(".warning").count() == 0 and "collected" not in shown.inner_text("main")
    assert shown.locator("table").first.locator("tbody tr").count() == 4
    shown = tab.open(pages["several"])
    assert shown.locator("main table").first.locator("tbody th").all_inner_texts() == ARMS
    assert shown.locator("svg.chart polyline").count() == 2
    tab.fits("")
    tab.follow("#/compare")
    names = shown.locator("table").first.locator("tbody th").all_inner_texts()
    assert names == [f"{arm}-round{number}" for arm in ARMS for number in (1, 1, 2, 2)]
    shown.locator("summary", has_text="star-seed1-round0").click()
    shown.locator("table.map").get_by_role("link").first.click()
    shown.wait_for_selector("svg.lineage")


def test_learning_to_aggregate_shows_rsa_and_links_its_results(tab: Tab, results: Path) -> None:
    folder = learnt(results)
    main([folder.name])
    run = read_record(folder / "learn-seed0" / NAME)
    evaluated = [round_["evaluated"] for round_ in run.rounds]
    last = [figures["rsa"]["steps"][-1]["mean"]["value"] for figures in evaluated]
    assert last[0] != evaluated[0]["accuracy"]["value"], "else the test can't tell them apart"
    shown = tab.open(results / f"{folder.name}.html")
    cards = shown.locator(".cards .card strong").all_inner_texts()
    assert {cards[0], cards[-1]} == {f"{100 * value:.1f} %" for value in last}
    assert shown.locator("svg.chart polyline").count() == 2
    chart = shown.inner_text(".over-rounds")
    assert "at RSA's last step" in chart and "one sample" in chart
    tab.fits("", "#/compare")
    names = shown.locator("table").first.locator("tbody th").all_inner_texts()
    assert set(names) == {"learn-seed0-round1-rsa"}
    assert "Results at RSA's last step" in shown.inner_text("main")
    for link, name in (
        ("evaluation of round 0", "learn-seed0-round0-rsa"),
        ("RSA: learn-seed0-round0-rsa", "learn-seed0-round0-rsa"),
        ("vote: learn-seed0-round0-vote", "learn-seed0-round0-vote"),
        ("greedy: learn-seed0-round0", "learn-seed0-round0"),
    ):
        tab.follow("#/rounds").get_by_role("link", name=link, exact=True).first.click()
        shown.wait_for_selector(f"h2:has-text('{name}: ')")


def test_what_a_record_says_stays_text(tab: Tab, pages: dict[str, Path]) -> None:
    shown = tab.open(pages["evil"])
    assert "<script>window.pwned" in shown.inner_text("main")
    for route in ("", "#/1/overview", "#/1/problem/0/0/0", "#/compare"):
        tab.follow(route)
        assert (
            shown.evaluate("window.pwned") is None
            and shown.locator("main img, main script").count() == 0
        )


# Searches


def page_of(results: Path, out: Path) -> Path:
    write_atomically(out, html(read(results / "lean")))
    return out


def test_theorems_are_filtered_and_states_are_closed_by_keys(tab: Tab, results: Path) -> None:
    searches.searched(searches.record(results / "lean" / "baseline") / "trajectories", 4, None, 2)
    shown = tab.open(page_of(results, results / "x.html"), "#/figures")
    chain = (
        "treeView({}, {}, Array.from({length: 2500}, (_, n) => [n, n ? n - 1 : null, 'x', '⊢ p', "
        "0, null, false]))"
    )
    assert shown.evaluate(f"{chain}.at(-1).querySelectorAll('.state').length") == 2500, (
        "however deep a tree is"
    )
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
    searches.tree(folder, "t1", rows)
    shown = tab.open(page_of(results, results / "x.html"), "#/0/theorem/0")
    shown.wait_for_selector(".tree")
    kinds = {
        item.get_attribute("data-number"): item.get_attribute("class")
        for item in shown.locator("li.state").all()
    }
    assert len(kinds) == 8 and kinds["1"] == "state sibling" and kinds["2"] == "state leaf"
    assert kinds["3"] == "state on leaf" and kinds["4"] == "state sibling harvested leaf"
    text = shown.inner_text(".tree")
    assert "no goals left" in text and shown.locator(".proof").count() == 1
    assert [item.get_attribute("data-number") for item in shown.locator("li.state.on").all()] == [
        "0",
        "3",
    ]
    assert "energy 3.50" in text and "⊢ False (and 1 more)" in text and "null" not in text
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
    tab.open(path)
    for route in ("#/figures", "#/0/overview", "#/0/theorem/0", "#/0/theorem/1"):
        shown = tab.follow(route)
        if "theorem" in route:
            shown.wait_for_selector(".tree")
            shown.get_by_role("button", name="open all").click()
            assert "<script>window.pwned = 1</script>" in shown.inner_text("main")
        assert shown.evaluate("window.pwned") is None
        assert shown.locator("main :is(script, img, [href^='javascript'])").count() == 0
        assert shown.evaluate("document.documentElement.scrollWidth <= innerWidth"), route


def test_every_view_fits_its_screen(tab: Tab, results: Path) -> None:
    searches.iteration(results)
    folder = results / "lean" / "iteration_0" / "eval"
    long = "rcases h with ⟨x, hx⟩ <;> exact " + "a_lemma_with_a_name_that_is_long " * 5
    deep = [
        searches.row("t1", n, n - 1 if n else None, long * bool(n), "⊢ " + "f x + " * 40)
        for n in range(12)
    ]
    searches.tree(folder, "t1", deep)
    tab.open(page_of(results, results / "x.html"))
    tab.follow("#/2/theorem/0").wait_for_selector(".tree")
    assert (
        tab.page.locator(".state").count() == 12
        and tab.page.locator(".tree details:not([open])").count() == 0
    )
    tab.fits("#/figures", "#/3/overview", "#/2/theorem/0", "#/3/theorem/4")


# Graded lines


def test_the_page_shows_items_and_reasons_as_text_and_is_accessible(
    tab: Tab, tmp_path: Path
) -> None:
    hostile = "<script>window.pwned = 1</script>"
    scheme = [
        {"title": "First", "desc": "the start", "points": 3},
        {"title": hostile, "desc": "$x^2$", "points": 4},
    ]
    line = theirs(
        5, 2, schema_0=scheme, grade=[{"points": 3, "desc": "yes"}, {"points": 2, "desc": hostile}]
    )
    found = scored(tmp_path, [theirs(7, 1, model_solution=f"{hostile} $x^2$"), line])
    path = tmp_path / "x.html"
    path.write_bytes(b"".join(stats.html(found, "x")))
    tab.page.set_viewport_size({"width": 390, "height": 800})
    tab.page.goto(f"file://{path}")
    tab.page.get_by_role("button", name="wrong").click()
    rows = tab.page.locator("#rows details.member")
    assert rows.count() == 1 and "5 of 7" in rows.inner_text()
    rows.locator("summary").first.click()
    tab.page.wait_for_selector("#rows .prose")
    said = rows.inner_text()
    assert (
        "First: 3 of 3" in said
        and f"{hostile}: 2 of 4" in said
        and tab.page.locator("#rows .katex").count() == 1
    )
    assert (
        tab.page.evaluate("window.pwned") is None
        and tab.page.locator("main :is(script, img)").count() == 0
    )
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert tab.violations() == []
