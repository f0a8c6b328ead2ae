"""The report page in a real browser (Debian's Chromium): small runs, hostile results, a large
run."""

import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from core.client.journal import Archive, Journal, content_key
from core.types import Completion, Problem
from harness.report import live, page, plot, transitions_table
from harness.report.data import Results
from harness.results import progress
from harness.results import write as files
from harness.results.find import archive
from harness.results.progress import Progress
from harness.results.proof_points import proved
from harness.run import solve_sync
from harness.scaffolds.best_of import BEST_OF
from tests.helpers import documents, reports
from tests.helpers.browser import CHROMIUM, Tab
from tests.helpers.graded import figures
from tests.helpers.reports import EVIL

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


def written(folder: Path, *names: str) -> Path:
    path = folder / "report.html"
    page.write([Results(folder / f"{name}.json") for name in names or ("02_rsa_basic",)], path)
    return path


def document_of(folder: Path, name: str = "02_rsa_basic") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return found


def test_the_overview_shows_the_figures_of_the_results(tab: Tab, tmp_path: Path) -> None:
    results = reports.results(tmp_path) / "02_rsa_basic.json"
    document = document_of(tmp_path)
    within = {"value": 0.625, "low": 0.5, "high": 0.75, "n": 2}
    document["metrics"]["verification"] = {
        "right": 3,
        "wrong": 2,
        "auc": 0.75,
        "auc_within": within,
    }
    results.write_text(json.dumps(document))
    path = written(tmp_path)
    shown = tab.open(path).inner_text("main")
    assert "within a problem, %: 62.5" in shown
    last = document["metrics"]["steps"][-1]
    assert f"{100 * last['mean_accuracy']['value']:.1f}" in shown
    assert all(f"{s['completion_tokens']:,}" in shown for s in document["metrics"]["steps"])
    assert document["provenance"]["git_commit"][:12] in shown and document["started"] in shown
    assert tab.page.locator("svg.chart").count() == 2 and path.stat().st_size < page.PAGE_BYTES
    shares = [share / 1600 for share in range(1601)]
    assert tab.page.evaluate("shares => shares.map(percent)", shares) == [
        f"{100 * share:.1f}" for share in shares
    ]


def test_uncounted_tokens_are_unknown(tab: Tab, tmp_path: Path) -> None:
    reports.results(tmp_path, counted=False)
    (tmp_path / "02_rsa_basic.json").rename(tmp_path / "other.json")
    tab.open(written(reports.results(tmp_path), "02_rsa_basic", "other"))
    for route, least in (
        ("#/1/overview", 7),
        ("#/1/map", 3),
        ("#/1/problem/0/0/0", 3),
        ("#/compare", 1),
    ):
        shown = tab.follow(route).inner_text("main")
        assert shown.count("unknown") >= least and "NaN" not in shown and "null" not in shown, (
            route,
            shown,
        )
    assert "1,200" in tab.follow("#/0/overview").inner_text("main")


def test_the_overview_shows_n_if_problems_are_lacking(tab: Tab, tmp_path: Path) -> None:
    reports.results(tmp_path, problems=4, complete=False, reached=[3, 2, 1, 3])
    shown = tab.open(written(tmp_path, "02_rsa_basic.partial"))
    table = shown.locator("table:has(caption:has-text('Steps'))")
    heads = table.locator("thead th").all_inner_texts()
    captions, cards = (
        shown.locator("figcaption").all_inner_texts(),
        shown.locator(".card").all_inner_texts(),
    )
    assert heads[1] == "n" and table.locator("tbody td:nth-child(2)").all_inner_texts() == [
        "4",
        "3",
        "2",
    ]
    assert all(", n=4 to 2" in text for text in captions) and len(captions) == 2
    assert all("n=2 of 4" in text for text in cards[:2])


def test_the_overview_shows_how_aggregations_turn_out(tab: Tab, tmp_path: Path) -> None:
    reports.results(tmp_path, T=0)
    (tmp_path / "02_rsa_basic.json").rename(tmp_path / "01_baseline.json")
    path = written(reports.results(tmp_path), "02_rsa_basic", "01_baseline")
    shown = tab.open(path, "#/0/overview")
    with archive(tmp_path / "02_rsa_basic.json", "02_rsa_basic") as journals:
        report = transitions_table.report(Results(tmp_path / "02_rsa_basic.json"), journals)
    for table in report.tables:
        drawn = shown.locator(f"table:has(caption:has-text('{table.title}'))")
        assert drawn.locator("thead th").all_inner_texts() == [c.head for c in table.columns]
        for number, column in enumerate(table.columns, 1):
            cells = drawn.locator(f"tbody tr > :nth-child({number})").all_inner_texts()
            assert cells == list(column.cells)
    assert report.line in shown.inner_text("main")
    tab.fits("#/0/overview")
    assert "Transitions" not in tab.follow("#/1/overview").inner_text("main")


def test_the_map_sorts_filters_and_opens_a_population(tab: Tab, tmp_path: Path) -> None:
    shown = tab.open(written(reports.results(tmp_path, problems=4, lost=[2])), "#/0/map")
    assert shown.locator("table.map tbody tr").count() == 4
    assert shown.locator("tr.lost th").inner_text() == "p2"
    for label, option, count in (("show", "lost", 1), ("show", "all", 4), ("order", "gain", 4)):
        shown.select_option(f"label:has-text('{label}') select", option)
        assert shown.locator("table.map tbody tr").count() == count
    assert shown.locator("table.map tbody th").first.inner_text() == "p2"
    shown.locator("tr.lost td.cell a").last.click()
    shown.locator("svg.lineage").wait_for()
    assert "Problem p2" in shown.inner_text("main")


def test_a_problem_that_has_not_begun_leads_on(tab: Tab, tmp_path: Path) -> None:
    reports.results(tmp_path, complete=False, reached=[3, 0, 3])
    shown = tab.open(written(tmp_path, "02_rsa_basic.partial"), "#/0/problem/1")
    assert (
        "How much is 1 + 1?" in shown.inner_text("main")
        and shown.locator("svg.lineage").count() == 0
    )
    shown.get_by_role("link", name="next problem").click()
    shown.wait_for_selector("h2:has-text('Problem p2')")


def test_the_lineage_opens_candidates_and_lights_up_relatives(tab: Tab, tmp_path: Path) -> None:
    path = written(reports.results(tmp_path))
    problem = document_of(tmp_path)["problems"][1]
    shown = tab.open(path, "#/0/problem/1")
    assert (
        shown.locator(".node").count() == 3 * 4
        and shown.locator(".edges path").count() == 2 * 4 * 2
    )
    child = problem["steps"][2]["members"][3]
    shown.locator("[data-id='2,3']").hover()
    near = shown.locator(".node:not(.far)").evaluate_all(
        "nodes => nodes.map(node => node.dataset.id)"
    )
    parents = {f"1,{j}" for j in child["parents"]}
    grandparents = {
        f"0,{k}" for j in child["parents"] for k in problem["steps"][1]["members"][j]["parents"]
    }
    assert set(near) == {"2,3"} | parents | grandparents
    shown.locator("[data-id='2,3']").click()
    shown.wait_for_selector(".member .prose")
    article = shown.inner_text(".member")
    assert "t=2, member 3" in article and all(
        f"t=1 member {j}" in article for j in child["parents"]
    )
    shown.get_by_label("source text").check()
    shown.wait_for_selector(".member .prose")
    script = """async ([t, i]) => { const [a, b] = await Promise.all(['a', 'b'].map((tier) => \
texts(0, 1, tier)));
        return sentMessages((a[`${t},${i}`].prompt ?? b[`${t},${i}`].prompt), a, b); }"""
    with Archive(tmp_path / "journal") as archive:
        assert (got := archive.get(child["key"])) and got.answer in shown.inner_text(".member")
        for t, i in ((0, 1), (1, 0), (2, 3)):
            record, prompt = (
                archive.record(problem["steps"][t]["members"][i]["key"]),
                shown.evaluate(script, [t, i]),
            )
            assert record is not None and prompt == record.messages and len(prompt) == 1


def test_members_of_one_group_are_neighbours_in_any_spelling(tab: Tab, tmp_path: Path) -> None:
    path = reports.results(tmp_path, problems=1, N=6, T=0) / "02_rsa_basic.json"
    document = document_of(tmp_path)
    members = document["problems"][0]["steps"][0]["members"]
    answers = [("2", 1), (r"\sqrt8", 0), ("2.0", 1), (r"2\sqrt2", 0), (None, None), (r"2^{1.5}", 0)]
    for m, (answer, group) in zip(members, answers, strict=True):
        m |= {"answer": answer, "group": group, "correct": group == 0}
    members[0] |= {"doubt": "several", "undecided": True}
    path.write_text(json.dumps(document))
    shown = tab.open(written(tmp_path), "#/0/problem/0/0/1")
    shown.get_by_label("group by answer").check()
    boxes = {
        box.get_attribute("data-id"): box.bounding_box()["y"]
        for box in shown.locator(".node").all()
    }
    assert sorted(boxes, key=lambda id: boxes[id]) == ["0,1", "0,3", "0,5", "0,0", "0,2", "0,4"]
    shown.wait_for_selector(".member .prose")
    assert "\n3\n" in shown.inner_text(".member .facts")
    shown.get_by_role("button", name="undecided 1").click()
    assert shown.locator(".node:not([opacity])").count() == 1


def test_keys_go_from_member_to_member_and_from_problem_to_problem(
    tab: Tab, tmp_path: Path
) -> None:
    shown = tab.open(written(reports.results(tmp_path)), "#/0/problem/0/0/0")
    for key, member in (("j", "0,1"), ("j", "0,2"), ("k", "0,1")):
        shown.keyboard.press(key)
        # the address changes before the page
        shown.wait_for_selector(f"[data-id='{member}'][aria-pressed='true']")
    shown.locator("[data-id='0,1']").focus()
    shown.keyboard.press("ArrowRight")
    assert shown.evaluate("document.activeElement.dataset.id") == "1,1"
    shown.keyboard.press("Enter")
    shown.wait_for_selector("[data-id='1,1'][aria-pressed='true']")
    shown.keyboard.press("n")
    # wait_for_function would evaluate text, which the page's policy forbids
    shown.wait_for_url("**#/0/problem/1")
    shown.wait_for_selector("#main:focus")
    shown.locator(".skip").focus()
    shown.keyboard.press("Enter")
    assert shown.evaluate("document.activeElement.id") == "main" and "Problem" in shown.inner_text(
        "main h2"
    )
    shown.keyboard.press("/")
    shown.locator("#search").wait_for()


def test_filters_and_a_search_that_is_there_again_on_the_way_back(tab: Tab, tmp_path: Path) -> None:
    reports.results(tmp_path, problems=20)
    members = [m for step in document_of(tmp_path)["problems"][0]["steps"] for m in step["members"]]
    wrong = sum(not m["correct"] for m in members)
    shown = tab.open(written(tmp_path), "#/0/problem/0")
    assert 0 < wrong < len(members)
    shown.get_by_role("button", name=f"wrong {wrong}").click()
    assert shown.locator(".node[opacity='0.2']").count() == len(members) - wrong
    tab.follow("#/0/search")
    shown.fill("#search", "Adding up")
    shown.keyboard.press("Enter")
    shown.wait_for_selector("main p[role=status]:has-text('members')")
    hits = shown.locator(".hits li").count()
    assert hits and shown.evaluate("parts.size <= KEPT && awaited.size === 0")
    shown.locator(".hits a").last.click()
    shown.wait_for_selector(".member .prose")
    shown.go_back()
    shown.locator(".hits").wait_for()
    assert shown.locator(".hits li").count() == hits and shown.input_value("#search") == "Adding up"


SOLUTION = r"""## Cases of $n$
**Step 1.** Let $x$ be *half* of `f(x)`, which costs $5 or $6.
\begin{align*}
a &= \frac{1}{2} \\
\end{align*}
```python
print("**no** $x$")
```
Then 2*3*4 = 24, \begin{nonsense} and $\frac{3}$.
<b>\boxed{%s}</b> **unclosed"""


def test_formulas_and_markdown_of_an_answer_are_set(tab: Tab, tmp_path: Path) -> None:
    reports.results(tmp_path, lost=[0], say=lambda p, t, i: SOLUTION % (p + 1))
    shown = tab.open(written(tmp_path), "#/0/problem/0/0/0")
    shown.wait_for_selector(".member .prose")
    prose = shown.locator(".member .prose").first
    assert prose.locator(".katex").count() == 4, "n, x, align and the box"
    assert prose.locator("strong").all_inner_texts()[1] == "Step 1."
    assert prose.locator("strong.block .katex").count() == 1
    assert prose.locator("code").all_inner_texts() == ["f(x)", 'print("**no** $x$")\n']
    for plain in (
        "*half*",
        "$5 or $6",
        "2*3*4",
        "\\begin{nonsense}",
        "$\\frac{3}$",
        "<b>",
        "**unclosed",
    ):
        assert plain in prose.inner_text(), plain
    nested = "[...rich('# '.repeat(20000)), ...rich('**a '.repeat(9000))].length"
    assert shown.evaluate(nested), "a text of nothing but marks is set, too"
    shown.get_by_label("source text").check()
    shown.locator(".member .prose", has_text="## Cases of $n$").first.wait_for()


NESTS = [
    (r"\frac{1}{1+", "}"),
    (r"\sqrt[3]", ""),
    ("x^{", "}"),
    (r"\begin{matrix}", r"\end{matrix}"),
    (r"\left(", r"\right)"),
    (r"\color{red}", ""),
]
DEEP = [begin * 130 + "x" + end * 130 for begin, end in NESTS] + [
    r"\def\a#1{#1#1#1#1#1#1#1#1}\a{\a{\a{" + "x" * 100 + "}}}",
    r"\newcommand\b{x}\b",
]


def test_formulas_that_would_crash_or_freeze_the_tab_stay_source(tab: Tab, tmp_path: Path) -> None:
    formulas = "\n".join(f"$${tex}$$" for tex in (*DEEP, r"\frac{1}{1+" * 12 + "x" + "}" * 12))
    reports.results(tmp_path, lost=[0], say=lambda p, t, i: formulas + r" \boxed{1}")
    shown = tab.open(written(tmp_path), "#/0/problem/0/0/0")
    shown.wait_for_selector(".member .prose")
    prose = shown.locator(".member .prose").first
    assert prose.locator(".katex-display").count() == 1 and prose.locator(".katex").count() == 2, (
        "the last, the box"
    )
    assert all(tex in prose.inner_text() for tex in DEEP)
    wide = (
        r"prose(`$$\\begin{matrix}${'&'.repeat(3900)}\\end{matrix}$$`.repeat(4), "
        r"'').querySelectorAll('.katex')"
    )
    assert shown.evaluate(f"{wide}.length") == 3, "what one text draws is bounded"


def test_the_focus_stays_with_the_reader(tab: Tab, tmp_path: Path) -> None:
    tab.page.set_viewport_size({"width": 390, "height": 400})
    shown = tab.open(
        written(reports.results(tmp_path, problems=1, N=18, T=4)), "#/0/problem/0/4/17"
    )
    shown.wait_for_selector(".member .prose")
    frame, ring = (shown.locator(part).bounding_box() for part in (".lineage-frame", ".chosen"))
    for at, size in (("x", "width"), ("y", "height")):
        assert frame[at] <= ring[at] <= frame[at] + frame[size] - ring[size], (
            "scrolled to the open member"
        )
    shown.locator(".member a").first.focus()
    shown.keyboard.press("Enter")
    shown.wait_for_url("**#/0/problem/0/3/*")
    shown.wait_for_selector(".member:focus")
    assert shown.inner_text("#status").startswith("t=3, member ")
    shown.locator("[data-id='4,17']").focus()
    shown.keyboard.press("Enter")
    shown.wait_for_url("**#/0/problem/0/4/17")
    shown.wait_for_selector("[data-id='4,17']:focus")


def test_texts_of_models_stay_text_and_are_shown_in_parts(tab: Tab, tmp_path: Path) -> None:
    path = written(reports.hostile(tmp_path))
    assert path.stat().st_size < 1_000_000, "a million characters of one kind are packed"
    shown = tab.open(path, "#/0/problem/0/1/0")
    shown.wait_for_selector(".member .prose")
    for route in (
        "#/0/overview",
        "#/0/map",
        "#/0/search",
        "#/0/problem/0/0/0",
        "#/0/problem/0/0/1",
    ):
        tab.follow(route).wait_for_timeout(50)
    shown.wait_for_selector(".member .prose")
    assert shown.evaluate("window.pwned") is None
    assert (
        shown.locator("main script, main img, main iframe, main a[href^='javascript']").count() == 0
    )
    assert "<script>window.pwned" in shown.inner_text("main")
    tab.follow("#/0/problem/0/0/2").get_by_role("button", name="show more").click()
    assert len(shown.locator(".prose").first.inner_text()) == 5 * 40_000


def test_texts_that_do_not_fit_are_next_to_the_page(
    tab: Tab, tmp_path: Path, monkeypatch: Any
) -> None:
    run = Results(reports.results(tmp_path) / "02_rsa_basic.json")
    whole = written(tmp_path).stat().st_size
    for room, tiers in ((whole - 300, "b"), (1, "ab")):
        monkeypatch.setattr(page, "PAGE_BYTES", room)
        path, texts = page.write([run], tmp_path / f"{tiers}.html")
        assert {part.stem[-1] for part in texts.iterdir()} == set(
            tiers
        ) and path.stat().st_size < whole
        tab.open(path, "#/0/problem/1/2/0").wait_for_selector(
            ".member summary:has-text('Thinking')"
        )
    assert tab.trouble == []
    shutil.rmtree(texts)
    tab.page.reload()
    tab.page.wait_for_selector("text=ab.texts/p0-1-a.js")
    tab.trouble.clear()  # the browser notes what is missing
    page.write([run], tmp_path / "ab.html", whole=True)
    assert not texts.exists()


OFFSETS = """(curves) => curves.map(
    (curve) => `${curve.tagName} ${curve.getAttribute("stroke-dashoffset")}`
)"""


def test_results_are_compared_with_their_n_and_many_are_corrected(tab: Tab, tmp_path: Path) -> None:
    path = (
        reports.results(tmp_path, problems=8, complete=False, reached=[3] * 7 + [1])
        / "02_rsa_basic.partial.json"
    )
    for name in ("first", "third", "fourth"):
        shutil.copy(path, tmp_path / f"{name}.json")
    two, three = ("first", "third"), ("first", "third", "fourth")
    for names in (two, three):
        shown = tab.open(written(tmp_path, *names))
        assert (
            shown.locator("h2").inner_text() == "Comparison"
            and shown.locator("svg.chart").count() == 2
        )
        assert shown.locator("table.map tbody tr").count() == 8
        table = shown.locator("table:has(caption:has-text('sign-flip'))")
        heads = table.locator("thead th").all_inner_texts()
        rows = [row.locator("th, td").all_inner_texts() for row in table.locator("tbody tr").all()]
        assert ("p (Holm)" in heads) == (names == three) and len(rows) == 3 * (len(names) - 1)
        assert {row[heads.index("problems")] for row in rows} == {"7"}
        assert "first, n=8 to 7" in shown.locator("svg.chart").first.text_content()
        curves = shown.locator("svg.chart").first.locator("polyline, polygon")
        offsets = curves.evaluate_all(OFFSETS)
        assert len(set(offsets)) == len(offsets), "equal lines and bands alternate in dashes"


def test_runs_of_another_set_have_an_axis_of_their_own(tab: Tab, tmp_path: Path) -> None:
    path = reports.results(tmp_path, N=8, T=0) / "02_rsa_basic.json"
    for name in ("first", "third"):
        shutil.copy(path, tmp_path / f"{name}.json")
    other = document_of(tmp_path)
    other["problem_set"]["name"] = "another"
    path.write_text(json.dumps(other))
    shown = tab.open(written(tmp_path, "first", "third", "02_rsa_basic"))
    titles = shown.locator("figcaption").all_inner_texts()
    assert [title.partition("\n")[0] for title in titles] == [
        "Majority accuracy against tokens: made-up on made up",
        "Mean accuracy against tokens: made-up on made up",
        "Majority accuracy against tokens: made-up on another",
        "Mean accuracy against tokens: made-up on another",
    ]
    points = shown.locator("svg.chart").nth(2).locator("title").all_text_contents()
    assert [point.split(", ")[1] for point in points] == [f"vote of {k}" for k in (1, 2, 4, 8)]


def test_a_sweep_or_race_is_shown_and_all_views_fit_their_screen(
    tab: Tab, results: Path, server: Any
) -> None:
    constants: dict[str, Any] = {"N": 3, "VERIFY_SAMPLES": 2, "name": "13_best_of"}
    with ThreadPoolExecutor(1) as pool:  # the browser's event loop runs in this thread
        pool.submit(
            lambda: solve_sync(BEST_OF, [Problem("p0", "1 + 0?", "1")], **constants)
        ).result()
    runs = [
        Results(reports.results(results) / f"{name}.json")
        for name in ("02_rsa_basic", "13_best_of")
    ]
    folder = results / "02_sweep"
    folder.mkdir()
    (folder / "table.txt").write_text(
        "run   vote\n----  ----\nN=2   50.0\n\n     K=1\n---  ---\nN=2  2.0\n\nnote: one\nnote: "
        "two\n"
    )
    estimates = [{"difference": -0.5, "low": -1.0, "high": 0.5}] * 3
    many = [(f"{i}", estimates) for i in range(8)]  # test_race.py draws few, with bands
    plot.race(runs[0].document, many, "first", folder / "race.png")
    shutil.copy(folder / "race.png", folder / "again.png")
    shown = tab.open(page.write(runs, results / "report.html", compared=folder)[0])
    assert shown.locator("h1").inner_text() == shown.locator("h2").inner_text() == folder.name
    notes, images = shown.locator("main p.quiet").all_inner_texts(), shown.locator("img")
    assert shown.locator("main pre").count() == 2 and notes[:2] == ["one", "two"]
    assert images.count() == 2 and all(
        images.evaluate_all("all => all.map(each => each.naturalWidth)")
    )
    tab.fits("", "#/0/overview", "#/0/map", "#/0/search", "#/0/problem/0", "#/1/problem/0/1/0")


def test_pictures_can_be_saved(tab: Tab, tmp_path: Path) -> None:
    shown = tab.open(written(reports.results(tmp_path)))
    for route, name in (("problem/0", "p0-lineage"), ("overview", "accuracy")):
        with tab.follow(f"#/0/{route}").expect_download() as download:
            shown.get_by_role("button", name="SVG").first.click()
        svg = Path(download.value.path()).read_text()
        assert download.value.suggested_filename == f"02_rsa_basic-{name}.svg" and svg.startswith(
            "<svg"
        )
        assert (">mean (pass@1)<" in svg) is (name == "accuracy")


def test_a_live_page_says_how_far_the_run_is(tab: Tab, tmp_path: Path) -> None:
    folder = reports.results(tmp_path, problems=2, complete=False)
    path = progress.path_of(folder, "02_rsa_basic")
    state = Progress(
        name="02_rsa_basic",
        done=106,
        total=960,
        unit="completions",
        seconds_left=240.0,
        speed=634.0,
        notes=["t=0 22%, 10 of 20 problems"],
    )
    with reports.served(live.application(live.Live([], folder))) as port:
        progress.write(state, path)
        shown = tab.page
        shown.goto(f"http://127.0.0.1:{port}/")
        shown.wait_for_selector("#progress p")
        line = shown.inner_text("#progress")
        assert line == f"02_rsa_basic: {state.text}"
        assert line.startswith("02_rsa_basic: 11% of 960 completions, about 04:00 left, 634 tok/s")
        tab.fits("")
        silent = path.stat().st_mtime - 2 * progress.SILENCE
        os.utime(path, (silent, silent))
        shown.wait_for_selector("#progress:has-text('no news since')")
        progress.remove(path)
        shown.wait_for_selector("#progress:has-text('no requests at the moment')")
        reports.results(tmp_path, problems=2)
        shown.wait_for_selector("#progress:has-text('the run ended at')")
        shown.goto("about:blank")
    tab.trouble.clear()


def test_live_pages_follow_the_run(tab: Tab, tmp_path: Path) -> None:
    folder = reports.results(tmp_path, problems=2, complete=False)
    with reports.served(live.application(live.Live([], folder))) as port:
        shown = tab.page
        shown.goto(f"http://127.0.0.1:{port}/#/0/map")
        shown.wait_for_selector("table.map tbody tr >> nth=1")
        shown.goto(f"http://127.0.0.1:{port}/#/0/problem/0/0/0")
        shown.wait_for_selector(".member .prose")
        shown.evaluate("document.querySelector('.member .prose').id = 'read'")
        with shown.expect_response(
            lambda answer: answer.url.endswith("/data") and answer.status == 200
        ):
            os.utime(tmp_path / "02_rsa_basic.partial.json")
        shown.wait_for_timeout(200)
        assert shown.locator("#read").count() == 1, "without news, the reader is not disturbed"
        shown.goto(f"http://127.0.0.1:{port}/#/0/map")
        reports.results(tmp_path, problems=5, complete=False)
        shown.wait_for_selector("table.map tbody tr >> nth=4")
    shown.wait_for_selector("#pulse:has-text('does not answer')")
    shown.goto("about:blank")  # it asks no longer
    tab.trouble.clear()  # the browser notes what was refused


# Graded proofs

PROOF = Problem(
    "p0", "Show <b>it</b>.", None, "proof", solution="A reference.", guidelines=f"7 for all. {EVIL}"
)


def kept(journal: Journal, name: str, text: str, asked: str) -> str:
    reply = Completion(
        content_key([name]),
        0,
        f"thinking of {name}",
        text,
        finish_reason="stop",
        completion_tokens=9,
    )
    journal.put(reply, [{"role": "user", "content": asked}])
    return reply.key


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    """Write a page of one problem in two steps. The last one has 7 points, 2.5 in two gradings,
    truncated, missing."""
    with Journal(tmp_path / "journal" / "18_proofs.jsonl") as journal:
        keys = [kept(journal, f"proof {i}", f"Proof {i}, by {EVIL}", "Prove it.") for i in range(4)]
        gradings = [
            kept(journal, f"grading {i}", f"I say {i}. {EVIL}", f"Grade this: {i} {EVIL}")
            for i in range(2)
        ]
    grades: list[dict[str, Any]] = [
        {"grade": 7, "points_share": 1.0, "grades": [7], "reasons": ["Flawless."]},
        {
            "grade": 2.5,
            "points_share": 2.5 / 7,
            "grades": [2, 3],
            "reasons": ["Thin.", (f"Thin. {EVIL}")],
        },
        {"grade": None, "points_share": 0, "ungraded": "cut off"},
        {
            "grade": None,
            "points_share": None,
            "ungraded": "grading unreadable",
            "grades": [None],
            "reasons": ["?"],
        },
    ]
    grades[1]["grading_calls"] = [documents.cost(key=key) for key in gradings]
    first = [documents.member(key=key, answer=None, correct=None) for key in keys]
    last = [
        documents.member(
            40,
            [i],
            key=key,
            answer=None,
            correct=None if more["points_share"] is None else more["points_share"] == 1,
        )
        | more
        for i, (key, more) in enumerate(zip(keys, grades, strict=True))
    ]
    mean = (7 + 2.5 + 0) / 3 / 7
    ungraded = {"majority_answer": None, "mean_accuracy": None, "majority_correct": None}
    steps = [
        documents.step(0, first) | ungraded,
        documents.step(1, last, mean, mean) | {"majority_answer": None},
    ]
    sums = figures([{"steps": steps, "finished": True}])
    sums.proofs = proved({"id": "p0", "columns": {"Category": EVIL}, "steps": steps})
    run = documents.document(experiment="18_proofs", metrics=sums.metrics(1.0))
    del run["problems"]
    rows = [files.row(PROOF, True, [json.dumps(step).encode() for step in steps])]
    return page.write([Results(files.save(run, rows, tmp_path))], tmp_path / "page.html")[0]


def drawn(tab: Tab, path: Path, *views: str) -> list[str]:
    """Return the text of each view, with everything opened that can be."""
    shown, texts = tab.open(path), []
    for view in views:
        tab.follow(view)
        shown.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        shown.wait_for_selector("main:has-text('reading …')", state="detached")
        shown.wait_for_timeout(50)
        assert shown.evaluate("window.pwned") is None
        assert shown.locator("main script, main img, main iframe").count() == 0
        texts.append(" ".join(shown.inner_text("main").split()))
    return texts


def test_a_graded_proof_shows_its_points_reasons_guidelines_and_gradings(
    tab: Tab, graded: Path
) -> None:
    views = ["#/0/overview", "#/0/map", *(f"#/0/problem/0/1/{i}" for i in range(4))]
    overview, cells, full, thin, cut, missing = texts = drawn(tab, graded, *views)
    for text in texts:
        assert not any(word in text for word in ("majority", "accuracy", "vote", "pass@")), text
    assert "mean points, % of 7 45.2" in overview and "6 points or more, % 33.3" in overview
    assert "0 points: 1 truncated" in overview and "not counted: 1 grading unreadable" in overview
    assert "category <script>" in overview
    assert "p0 4 3.2 graded" in cells, "four ungraded ones, and 3.2 points on average"
    assert (
        "Reference solution A reference." in full
        and "Guidelines for graders 7 for all. <script>" in full
    )
    assert "judged 7 of 7 points" in full and "7 points Flawless." in full
    assert (
        "judged 2.5 of 7 points" in thin
        and "gradings 2, 3" in thin
        and "3 points Thin. <script>" in thin
    )
    assert "thinking of grading 1 I say 1. <script>" in thin and "Grade this: 0 <script>" in thin
    assert "no grade: truncated" in cut and "counts as 0 points" in cut
    assert "no grade: grading unreadable" in missing and "missing, not counted in means" in missing
    assert "3.2 of 7 points" in full, "above the last column of the lineage"
    assert EVIL[:20] not in graded.read_text(errors="replace"), "it is packed"


def test_the_lineage_is_coloured_by_points(tab: Tab, graded: Path) -> None:
    nodes = tab.open(graded, "#/0/problem/0").locator(
        ".node [fill^='#']:not([fill='#ffffff']):not(text)"
    )
    colours = [node.get_attribute("fill") for node in nodes.all()]
    right, wrong = "#1f5fa8", "#b35806"
    assert (
        colours[0] == right
        and colours[2] == wrong
        and colours[1] not in (right, wrong)
        and len(colours) == 3
    )
