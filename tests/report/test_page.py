"""The report page in a real browser (Debian's Chromium): a run of the embedded engine, hostile results, a large run."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from core.generate.generator import KEY_VERSION
from core.generate.journal import Archive, content_key
from core.report import page
from core.types import Sampling
from tests.conftest import run
from tests.helpers import reports
from tests.helpers.browser import CHROMIUM, Tab

pytest.importorskip("playwright.sync_api")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: apt-get install chromium")


@pytest.fixture(scope="module")
def results_of_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two small runs of the embedded engine: RSA, and RSA with verification."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("02_rsa_basic", "03_rsa_verify"):
        status, _, err = run(name, "LIMIT=3", "N=4", "K=2", "T=2", "MAX_TOKENS=300", RESULTS_DIR=str(folder))
        assert status == 0, err
    return folder


def written(folder: Path, *names: str, out: Path | None = None) -> Path:
    runs = [page.read(folder / f"{name}.json") for name in names]
    path = out or folder / "report.html"
    page.write(runs, path)
    return path


def test_the_overview_tells_the_figures_of_the_results(tab: Tab, results_of_runs: Path) -> None:
    path = written(results_of_runs, "02_rsa_basic")
    document = json.loads((results_of_runs / "02_rsa_basic.json").read_text())
    shown = tab.open(path).inner_text("main")
    last = document["metrics"]["steps"][-1]
    assert f"{100 * last['mean_accuracy']['value']:.1f}" in shown
    assert all(f"{s['completion_tokens']:,}" in shown for s in document["metrics"]["steps"])
    assert "embedded model: a demonstration on sums of products" in shown
    assert document["provenance"]["git_commit"] in shown and document["started"] in shown
    assert tab.page.locator("svg.chart").count() == 2
    assert path.stat().st_size < page.PAGE_BYTES
    shares = [share / 1600 for share in range(1601)]
    assert tab.page.evaluate("shares => shares.map(percent)", shares) == [f"{100 * share:.1f}" for share in shares]


def test_tokens_that_no_server_told_are_unknown(tab: Tab, tmp_path: Path) -> None:
    reports.results(tmp_path, counted=False)
    (tmp_path / "02_rsa_basic.json").rename(tmp_path / "other.json")
    path = written(reports.results(tmp_path), "02_rsa_basic", "other")
    for route, least in (("#/1/overview", 7), ("#/1/map", 3), ("#/1/problem/0/0/0", 3), ("#/compare", 1)):
        shown = tab.open(path, route).inner_text("main")
        assert shown.count("unknown") >= least and "NaN" not in shown and "null" not in shown, (route, shown)
        tab.page.goto("about:blank")
    shown = tab.open(path, "#/0/overview").inner_text("main")
    assert "1,200" in shown and "the server did not report" not in shown


@pytest.mark.parametrize("reached", [[3, 2, 1, 3], [1, 1, 0, 0], [3, 3, 3, 3]])
def test_the_overview_says_over_how_many_problems_where_not_over_all(
    tab: Tab, tmp_path: Path, reached: list[int]
) -> None:
    reports.results(tmp_path, problems=4, complete=False, reached=reached)
    shown = tab.open(written(tmp_path, "02_rsa_basic.partial"))
    ns = [n for n in (sum(steps > t for steps in reached) for t in range(3)) if n]
    table = shown.locator("table:has(caption:has-text('Steps'))")
    heads = table.locator("thead th").all_inner_texts()
    assert len(heads) == len(table.locator("tbody tr").first.locator("th, td").all())
    said = f", n={ns[0]}" + (f" to {ns[-1]}" if ns[-1] < ns[0] else "")
    captions, cards = shown.locator("figcaption").all_inner_texts(), shown.locator(".card").all_inner_texts()
    if set(ns) == {4}:
        assert "n" not in heads and not any("n=" in text for text in captions + cards)
    else:
        assert heads[1] == "n" and table.locator("tbody td:nth-child(2)").all_inner_texts() == [str(n) for n in ns]
        assert all(said in text for text in captions) and len(captions) == 2
        assert all(f"n={ns[-1]} of 4" in text for text in cards[:2])


def test_without_scripts_the_tables_are_there(browser: Any, results_of_runs: Path) -> None:
    path = written(results_of_runs, "02_rsa_basic")
    plain = Tab(browser, java_script_enabled=False)
    plain.page.goto(f"file://{path}")
    assert "mean accuracy" in plain.page.inner_text("main") and "embedded model" in plain.page.inner_text("main")
    plain.close()


def test_the_map_sorts_filters_and_opens_a_population(tab: Tab, tmp_path: Path) -> None:
    path = written(reports.results(tmp_path, problems=4, lost=[2]), "02_rsa_basic")
    shown = tab.open(path, "#/0/map")
    assert shown.locator("table.map tbody tr").count() == 4
    assert shown.locator("tr.lost th").inner_text() == "p2"
    shown.select_option("label:has-text('show') select", "lost")
    assert shown.locator("table.map tbody tr").count() == 1
    shown.select_option("label:has-text('show') select", "all")
    shown.select_option("label:has-text('order') select", "gain")
    assert shown.locator("table.map tbody th").first.inner_text() == "p2"
    shown.locator("tr.lost td.cell a").last.click()
    shown.locator("svg.lineage").wait_for()
    assert "Problem p2" in shown.inner_text("main")


def test_a_problem_that_has_not_begun_leads_on(tab: Tab, tmp_path: Path) -> None:
    path = reports.results(tmp_path, complete=False) / "02_rsa_basic.partial.json"
    document = json.loads(path.read_text())
    document["problems"][1]["steps"] = []
    path.write_text(json.dumps(document))
    shown = tab.open(written(tmp_path, "02_rsa_basic.partial"), "#/0/problem/1")
    assert "No step is finished yet" in shown.inner_text("main") and "How much is 1 + 1?" in shown.inner_text("main")
    shown.get_by_role("link", name="next problem").click()
    shown.wait_for_selector("h2:has-text('Problem p2')")


def test_the_lineage_opens_candidates_and_lights_up_relatives(tab: Tab, results_of_runs: Path) -> None:
    path = written(results_of_runs, "02_rsa_basic")
    problem = json.loads((results_of_runs / "02_rsa_basic.json").read_text())["problems"][1]
    shown = tab.open(path, "#/0/problem/1")
    assert shown.locator(".node").count() == 3 * 4 and shown.locator(".edges path").count() == 2 * 4 * 2
    child = problem["steps"][2]["members"][3]
    shown.locator("[data-id='2,3']").hover()
    near = shown.locator(".node:not(.far)").evaluate_all("nodes => nodes.map(node => node.dataset.id)")
    parents = {f"1,{j}" for j in child["parents"]}
    grandparents = {f"0,{k}" for j in child["parents"] for k in problem["steps"][1]["members"][j]["parents"]}
    assert set(near) == {"2,3"} | parents | grandparents
    shown.locator("[data-id='2,3']").click()
    shown.wait_for_selector(".member .prose")
    article = shown.inner_text(".member")
    assert "t=2, member 3" in article and all(f"t=1 member {j}" in article for j in child["parents"])
    with Archive(results_of_runs / "journal") as archive:
        kept = archive.get(child["key"])
    assert kept is not None
    shown.get_by_label("source text").check()
    shown.wait_for_selector(".member .prose")
    assert kept["answer"].split("\n")[0] in shown.inner_text(".member")


def test_members_of_one_group_stand_together_however_they_spell_it(tab: Tab, tmp_path: Path) -> None:
    path = reports.results(tmp_path, problems=1, N=6, T=0) / "02_rsa_basic.json"
    document = json.loads(path.read_text())
    told = [("2", 1), (r"\sqrt8", 0), ("2.0", 1), (r"2\sqrt2", 0), (None, None), (r"2^{1.5}", 0)]
    for m, (said, group) in zip(document["problems"][0]["steps"][0]["members"], told, strict=True):
        m |= {"answer": said, "group": group, "correct": group == 0}
    document["problems"][0]["steps"][0]["members"][0] |= {"doubt": "several", "undecided": True}
    document["metrics"]["steps"][0]["undecided"] = 1
    path.write_text(json.dumps(document))
    shown = tab.open(written(tmp_path, "02_rsa_basic"), "#/0/problem/0/0/1")
    shown.get_by_label("group by answer").check()
    rows = {
        box.get_attribute("data-id"): float(box.locator("rect").first.get_attribute("y") or 0)
        for box in shown.locator(".node").all()
    }
    assert sorted(rows, key=lambda id: rows[id]) == ["0,1", "0,3", "0,5", "0,0", "0,2", "0,4"]
    shown.wait_for_selector(".member .prose")
    assert "votes for it" in shown.inner_text(".member") and "\n3\n" in shown.inner_text(".member .facts")
    shown.get_by_role("button", name="undecided 1").click()
    assert shown.locator(".node:not([opacity])").count() == 1
    shown.goto(shown.url.partition("#")[0] + "#/0/overview")
    shown.wait_for_selector("th:has-text('undecided')")


def test_the_prompt_is_the_one_that_was_sent(tab: Tab, results_of_runs: Path) -> None:
    """As the journal keeps it, and as the key of the completion, its hash with model, sampling and seed, has it."""
    path = written(results_of_runs, "02_rsa_basic")
    document = json.loads((results_of_runs / "02_rsa_basic.json").read_text())
    config = document["config"]
    shown = tab.open(path)
    for t, i in ((0, 1), (1, 0), (2, 3)):
        told = document["problems"][0]["steps"][t]["members"][i]
        prompt = shown.evaluate(
            "async ([t, i]) => { const [a, b] = await Promise.all(['a', 'b'].map((tier) => texts(0, 0, tier)));"
            "return sentMessages((a[`${t},${i}`].prompt ?? b[`${t},${i}`].prompt), a, b); }",
            [t, i],
        )
        with Archive(results_of_runs / "journal") as archive:
            kept = archive.record(told["key"])
        assert kept is not None and prompt == kept.messages and len(prompt) == 1
        sampling = Sampling(
            config["TEMPERATURE"],
            config["TOP_P"],
            config["TOP_K"],
            config["MIN_P"],
            config["MAX_TOKENS"],
            config["ANSWER_TOKENS"],
        )
        changed = {name: value for name, value in vars(sampling).items() if value != vars(Sampling())[name]}
        assert content_key([KEY_VERSION, document["model"]["name"], prompt, changed, told["seed"]]) == told["key"]


def test_prompts_of_side_calls_are_shown_as_they_were_sent(tab: Tab, results_of_runs: Path) -> None:
    shown = tab.open(written(results_of_runs, "03_rsa_verify"), "#/0/problem/0/0/0")
    shown.locator("summary", has_text="Prompt of verification 1, as it was sent").click()
    said = shown.locator("details[open] .prose").inner_text()
    assert "Candidate solution:" in said and "Check every step of the candidate solution" in said
    document = json.loads((results_of_runs / "03_rsa_verify.json").read_text())
    with Archive(results_of_runs / "journal") as archive:
        kept = archive.record(document["problems"][0]["steps"][0]["members"][0]["checks"][0]["key"])
    assert kept is not None and kept.messages is not None and said.split() == kept.messages[0]["content"].split()


def test_keys_go_from_member_to_member_and_from_problem_to_problem(tab: Tab, results_of_runs: Path) -> None:
    path = written(results_of_runs, "02_rsa_basic")
    shown = tab.open(path, "#/0/problem/0/0/0")
    for key, where in (("j", "/0/1"), ("j", "/0/2"), ("k", "/0/1")):
        shown.keyboard.press(key)
        shown.wait_for_url(f"**#/0/problem/0{where}")
    shown.locator("[data-id='0,1']").focus()
    shown.keyboard.press("ArrowRight")
    assert shown.evaluate("document.activeElement.dataset.id") == "1,1"
    shown.keyboard.press("Enter")
    shown.wait_for_url("**#/0/problem/0/1/1")
    shown.keyboard.press("n")
    shown.wait_for_url("**#/0/problem/1")
    shown.locator(".skip").focus()
    shown.keyboard.press("Enter")
    assert shown.evaluate("document.activeElement.id") == "main" and "Problem" in shown.inner_text("main h2")
    shown.keyboard.press("/")
    shown.locator("#search").wait_for()


def test_filters_and_search(tab: Tab, results_of_runs: Path) -> None:
    path = written(results_of_runs, "02_rsa_basic")
    document = json.loads((results_of_runs / "02_rsa_basic.json").read_text())
    members = [m for step in document["problems"][0]["steps"] for m in step["members"]]
    wrong = sum(not m["correct"] for m in members)
    shown = tab.open(path, "#/0/problem/0")
    assert 0 < wrong < len(members)
    shown.get_by_role("button", name=f"wrong {wrong}").click()
    assert shown.locator(".node[opacity='0.2']").count() == len(members) - wrong
    shown.goto(f"file://{path}#/0/search")
    answer = members[0]["answer"]
    shown.fill("#search", f"boxed{{{answer}}}")
    shown.keyboard.press("Enter")
    shown.wait_for_selector(".hits li")
    shown.locator(".hits a").first.click()
    shown.wait_for_selector(".member .prose")


def test_a_search_is_there_again_on_the_way_back(tab: Tab, tmp_path: Path) -> None:
    path = written(reports.results(tmp_path, problems=20), "02_rsa_basic")
    shown = tab.open(path, "#/0/search")
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
    folder = reports.results(tmp_path, lost=[0], say=lambda p, t, i: SOLUTION % (p + 1))
    shown = tab.open(written(folder, "02_rsa_basic"), "#/0/problem/0/0/0")
    shown.wait_for_selector(".member .prose")
    prose = shown.locator(".member .prose").first
    told = prose.inner_text()
    assert prose.locator(".katex").count() == 4, "n, x, align and the box"
    assert (
        prose.locator("strong").all_inner_texts()[1] == "Step 1." and prose.locator("strong.block .katex").count() == 1
    )
    assert prose.locator("code").all_inner_texts() == ["f(x)", 'print("**no** $x$")\n']
    for plain in ("*half*", "$5 or $6", "2*3*4", "\\begin{nonsense}", "$\\frac{3}$", "<b>", "**unclosed"):
        assert plain in told, plain
    nested = "[...rich('# '.repeat(20000)), ...rich('**a '.repeat(9000))].length"
    assert shown.evaluate(nested), "a text of nothing but marks is set, too"
    shown.get_by_label("source text").check()
    shown.locator(".member .prose", has_text="## Cases of $n$").first.wait_for()


DEEP = [
    begin * 130 + "x" + end * 130
    for begin, end in (
        (r"\frac{1}{1+", "}"),
        (r"\sqrt[3]", ""),
        ("x^{", "}"),
        (r"\begin{matrix}", r"\end{matrix}"),
        (r"\left(", r"\right)"),
        (r"\color{red}", ""),
    )
] + [r"\def\a#1{#1#1#1#1#1#1#1#1}\a{\a{\a{" + "x" * 100 + "}}}", r"\newcommand\b{x}\b"]


def test_formulas_that_would_crash_or_freeze_the_tab_stay_source(tab: Tab, tmp_path: Path) -> None:
    told = "\n".join(f"$${tex}$$" for tex in (*DEEP, r"\frac{1}{1+" * 12 + "x" + "}" * 12))
    folder = reports.results(tmp_path, lost=[0], say=lambda p, t, i: told + r" \boxed{1}")
    shown = tab.open(written(folder, "02_rsa_basic"), "#/0/problem/0/0/0")
    shown.wait_for_selector(".member .prose")
    prose = shown.locator(".member .prose").first
    assert prose.locator(".katex-display").count() == 1 and prose.locator(".katex").count() == 2, (
        "the last, and the box"
    )
    assert all(tex in prose.inner_text() for tex in DEEP)
    wide = (
        r"prose(`$$\\begin{matrix}${'&'.repeat(3900)}\\end{matrix}$$`.repeat(9), '').querySelectorAll('.katex').length"
    )
    assert shown.evaluate(wide) == 3, "what one text draws is bounded"


def test_the_focus_goes_on_where_the_reader_was(tab: Tab, tmp_path: Path) -> None:
    shown = tab.open(written(reports.results(tmp_path, N=32, T=6), "02_rsa_basic"), "#/0/problem/0/6/31")
    shown.wait_for_selector(".member .prose")
    frame, ring = (shown.locator(part).bounding_box() for part in (".lineage-frame", ".chosen"))
    for at, size in (("x", "width"), ("y", "height")):
        assert frame[at] <= ring[at] <= frame[at] + frame[size] - ring[size], "scrolled to the open member"
    shown.locator(".member a").first.focus()
    shown.keyboard.press("Enter")
    shown.wait_for_url("**#/0/problem/0/5/*")
    shown.wait_for_selector(".member:focus")
    assert shown.inner_text("#said").startswith("t=5, member ")
    shown.locator("[data-id='6,31']").focus()
    shown.keyboard.press("Enter")
    shown.wait_for_url("**#/0/problem/0/6/31")
    shown.wait_for_selector("[data-id='6,31']:focus")
    assert shown.evaluate("document.querySelector('.member h3').getBoundingClientRect().bottom < innerHeight")


def test_what_a_model_wrote_stays_text(tab: Tab, tmp_path: Path) -> None:
    path = written(reports.hostile(tmp_path), "02_rsa_basic")
    shown = tab.open(path, "#/0/problem/0/1/0")
    shown.wait_for_selector(".member .prose")
    for route in ("#/0/overview", "#/0/map", "#/0/search", "#/0/problem/0/0/0", "#/0/problem/0/0/1"):
        shown.goto(f"file://{path}{route}")
        shown.wait_for_timeout(50)
    shown.wait_for_selector(".member .prose")
    assert shown.evaluate("window.pwned") is None
    assert shown.locator("main script, main img, main iframe, main a[href^='javascript']").count() == 0
    assert "<script>window.pwned" in shown.inner_text("main")


def test_long_texts_are_shown_in_parts(tab: Tab, tmp_path: Path) -> None:
    path = written(reports.hostile(tmp_path), "02_rsa_basic")
    shown = tab.open(path, "#/0/problem/0/0/2")
    more = shown.get_by_role("button", name="show more")
    more.wait_for()
    assert path.stat().st_size < page.PAGE_BYTES, "ten million characters of one kind are packed"
    more.click()
    assert len(shown.locator(".prose").first.inner_text()) == 5 * 40_000


def test_what_does_not_fit_lies_beside_the_page(
    tab: Tab, results_of_runs: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    whole = written(results_of_runs, "02_rsa_basic", out=tmp_path / "whole.html").stat().st_size
    monkeypatch.setattr(page, "PAGE_BYTES", whole - 3000)
    made = page.write([page.read(results_of_runs / "02_rsa_basic.json")], tmp_path / "page.html")
    assert made == [tmp_path / "page.html", tmp_path / "page.texts"] and made[0].stat().st_size < whole
    shown = tab.open(made[0], "#/0/problem/1/2/0")
    shown.wait_for_selector(".member .prose")
    assert shown.locator(".member summary", has_text="Thinking").count() or "Answer" in shown.inner_text(".member")
    page.write([page.read(results_of_runs / "02_rsa_basic.json")], tmp_path / "page.html", everything=True)
    assert not (tmp_path / "page.texts").exists()


def test_a_missing_file_beside_the_page_is_said(
    browser: Any, results_of_runs: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(page, "PAGE_BYTES", 1)
    made = page.write([page.read(results_of_runs / "02_rsa_basic.json")], tmp_path / "page.html")
    shutil.rmtree(made[1])
    tab = Tab(browser)
    shown = tab.open(made[0], "#/0/problem/1/2/0")
    shown.wait_for_selector("text=is not beside this page")
    tab.close()


def test_many_comparisons_are_corrected_and_shown_with_their_n(tab: Tab, tmp_path: Path) -> None:
    path = reports.results(tmp_path, problems=8, complete=False, reached=[3] * 7 + [1]) / "02_rsa_basic.partial.json"
    for name in ("first", "third", "fourth"):
        shutil.copy(path, tmp_path / f"{name}.json")
    two, three = ("first", "third"), ("first", "third", "fourth")
    for names in (two, three):
        shown = tab.open(written(tmp_path, *names))
        table = shown.locator("table:has(caption:has-text('sign-flip'))")
        heads = table.locator("thead th").all_inner_texts()
        assert ("p (Holm)" in heads) == (names == three) and heads.count("problems") == 1
        rows = [row.locator("th, td").all_inner_texts() for row in table.locator("tbody tr").all()]
        assert {len(row) for row in rows} == {len(heads)} and len(rows) == 3 * (len(names) - 1)
        assert {row[heads.index("problems")] for row in rows} == {"7"}
        assert "first, n=8 to 7" in shown.locator("svg.chart").first.text_content()


def test_results_are_compared(tab: Tab, results_of_runs: Path) -> None:
    path = written(results_of_runs, "02_rsa_basic", "03_rsa_verify")
    shown = tab.open(path)
    assert shown.locator("h2").inner_text() == "Comparison" and shown.locator("svg.chart").count() == 2
    assert "03_rsa_verify" in shown.inner_text("table >> nth=0") and "mean accuracy" in shown.inner_text(
        "table >> nth=0"
    )
    assert shown.locator("table.map tbody tr").count() == 3
    shown.goto(f"file://{path}#/1/problem/0/0/0")
    shown.wait_for_selector(".member summary:has-text('Verification')")
    assert "score" in shown.inner_text(".member")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_every_view_fits_its_screen(browser: Any, results_of_runs: Path, width: int, scheme: str) -> None:
    """Readable on a phone, in the dark, and without violations that axe finds (contrast and names among them)."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    path = written(results_of_runs, "02_rsa_basic", "03_rsa_verify")
    tab = Tab(browser, viewport={"width": width, "height": 800}, color_scheme=scheme)
    for route in ("#/compare", "#/0/overview", "#/0/map", "#/0/search", "#/0/problem/0", "#/1/problem/0/1/0"):
        tab.fits(axe, path, route, width)
    tab.close()
    assert tab.trouble == []


def test_names_of_problems_are_readable_on_a_phone(browser: Any, tmp_path: Path) -> None:
    path = reports.results(tmp_path, T=6) / "02_rsa_basic.json"
    document = json.loads(path.read_text())
    for problem, name in zip(document["problems"], ("aime_2026_01", "x" * 200, "of several words " * 10), strict=True):
        problem["id"] = name
    path.write_text(json.dumps(document))
    tab = Tab(browser, viewport={"width": 390, "height": 800})
    shown = tab.open(written(tmp_path, "02_rsa_basic"), "#/0/map")
    boxes = [name.bounding_box() for name in shown.locator("table.map tbody th").all()]
    assert boxes[0]["height"] < 45 and all(100 < box["width"] < 200 for box in boxes)
    tab.close()
    assert tab.trouble == []


def test_pictures_can_be_saved(tab: Tab, results_of_runs: Path, tmp_path: Path) -> None:
    path = written(results_of_runs, "02_rsa_basic")
    shown = tab.open(path, "#/0/problem/0")
    for kind, head in (("SVG", b"<svg"), ("PNG", b"\x89PNG")):
        with shown.expect_download() as download:
            shown.get_by_role("button", name=kind).click()
        assert download.value.suggested_filename.endswith(f"lineage.{kind.lower()}")
        assert Path(download.value.path()).read_bytes().startswith(head)
    shown.goto(f"file://{path}#/0/overview")
    shown.locator("svg.chart").first.wait_for()
    with shown.expect_download() as download:
        shown.get_by_role("button", name="SVG").first.click()
    svg = Path(download.value.path()).read_text()
    assert ">majority<" in svg and ">mean (pass@1)<" in svg, "a picture says what its lines are"


def test_a_large_run_opens(tab: Tab, tmp_path: Path) -> None:
    folder = reports.results(tmp_path, problems=100, N=32, T=10)
    path = written(folder, "02_rsa_basic")
    assert path.stat().st_size < page.PAGE_BYTES
    shown = tab.open(path, "#/0/problem/7")
    assert shown.locator(".node").count() == 32 * 11
    shown.goto(f"file://{path}#/0/map")
    shown.wait_for_selector("table.map tbody tr >> nth=99")


def test_live_pages_follow_the_run(tab: Tab, results_of_runs: Path, tmp_path: Path) -> None:

    from core.report import live

    folder = reports.results(tmp_path, problems=2, complete=False)
    watched = live.Live([], folder)
    with reports.served(live.application(watched)) as port:
        shown = tab.page
        shown.goto(f"http://127.0.0.1:{port}/#/0/map")
        shown.wait_for_selector("table.map tbody tr >> nth=1")
        shown.goto(f"http://127.0.0.1:{port}/#/0/problem/0/0/0")
        shown.wait_for_selector(".member .prose")
        shown.evaluate("document.querySelector('.member .prose').id = 'read'")
        with shown.expect_response(lambda answer: answer.url.endswith("/data") and answer.status == 200):
            os.utime(tmp_path / "02_rsa_basic.partial.json")
        shown.wait_for_timeout(200)
        assert shown.locator("#read").count() == 1, "who reads is left alone where nothing is new"
        shown.goto(f"http://127.0.0.1:{port}/#/0/map")
        reports.results(tmp_path, problems=5, complete=False)
        shown.wait_for_selector("table.map tbody tr >> nth=4")
    shown.wait_for_selector("#pulse:has-text('does not answer')")
    tab.trouble.clear()  # the browser notes what was refused
