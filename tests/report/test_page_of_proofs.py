"""The page of graded proofs."""

import json
from pathlib import Path
from typing import Any

import pytest

from core.generate.journal import Journal, content_key
from core.report import page
from core.report.data import Results
from core.results import write as files
from core.results.points import proved
from core.types import Completion, Problem
from tests.helpers import documents
from tests.helpers.browser import Tab
from tests.helpers.graded import figures
from tests.helpers.reports import EVIL

PROOF = Problem("p0", "Show <b>it</b>.", None, "proof", solution="A reference.", guidelines=f"7 for all. {EVIL}")


def kept(journal: Journal, name: str, text: str, asked: str) -> str:
    reply = Completion(content_key([name]), 0, f"thinking of {name}", text, finish_reason="stop", completion_tokens=9)
    journal.put(reply, [{"role": "user", "content": asked}])
    return reply.key


@pytest.fixture
def graded(tmp_path: Path) -> Path:
    """Write a page of one problem in two steps. The last one has 7 points, 2.5 in two gradings, truncated, missing."""
    with Journal(tmp_path / "journal" / "18_proofs.jsonl") as journal:
        keys = [kept(journal, f"proof {i}", f"Proof {i}, by {EVIL}", "Prove it.") for i in range(4)]
        gradings = [kept(journal, f"grading {i}", f"I say {i}. {EVIL}", f"Grade this: {i} {EVIL}") for i in range(2)]
    grades: list[dict[str, Any]] = [
        {"grade": 7, "worth": 1.0, "grades": [7], "reasons": ["Flawless."]},
        {"grade": 2.5, "worth": 2.5 / 7, "grades": [2, 3], "reasons": ["Thin.", f"Thin. {EVIL}"]},
        {"grade": None, "worth": 0, "ungraded": "cut off"},
        {"grade": None, "worth": None, "ungraded": "grading unreadable", "grades": [None], "reasons": ["?"]},
    ]
    grades[1]["grading"] = [documents.cost(key=key) for key in gradings]
    first = [documents.member(key=key, answer=None, correct=None) for key in keys]
    last = [
        documents.member(40, [i], key=key, answer=None, correct=None if more["worth"] is None else more["worth"] == 1)
        | more
        for i, (key, more) in enumerate(zip(keys, grades, strict=True))
    ]
    mean = (7 + 2.5 + 0) / 3 / 7
    ungraded = {"majority_answer": None, "mean_accuracy": None, "majority_correct": None}
    steps = [documents.step(0, first) | ungraded, documents.step(1, last, mean, mean) | {"majority_answer": None}]
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
        if view.count("/") > 4:
            shown.wait_for_selector(".member .prose")
        shown.evaluate("document.querySelectorAll('details').forEach((each) => (each.open = true))")
        shown.wait_for_selector("main:has-text('reading …')", state="detached")
        shown.wait_for_timeout(50)
        assert shown.evaluate("window.pwned") is None
        assert shown.locator("main script, main img, main iframe").count() == 0
        texts.append(" ".join(shown.inner_text("main").split()))
    return texts


def test_a_graded_proof_shows_its_points_reasons_guidelines_and_gradings(tab: Tab, graded: Path) -> None:
    views = ["#/0/overview", "#/0/map", *(f"#/0/problem/0/1/{i}" for i in range(4))]
    overview, cells, full, thin, cut, missing = texts = drawn(tab, graded, *views)
    for text in texts:
        assert not any(word in text for word in ("majority", "accuracy", "vote", "pass@")), text
    assert "mean points, % of 7 45.2" in overview and "6 points or more, % 33.3" in overview
    assert "0 points: 1 truncated" in overview and "not counted: 1 grading unreadable" in overview
    assert "category <script>" in overview
    assert "p0 4 3.2 graded" in cells, "four ungraded ones, and 3.2 points on average"
    assert "Reference solution A reference." in full and "Guidelines for graders 7 for all. <script>" in full
    assert "judged 7 of 7 points" in full and "7 points Flawless." in full
    assert "judged 2.5 of 7 points" in thin and "gradings 2, 3" in thin and "3 points Thin. <script>" in thin
    assert "thinking of grading 1 I say 1. <script>" in thin and "Grade this: 0 <script>" in thin
    assert "no grade: truncated" in cut and "counts as 0 points" in cut
    assert "no grade: grading unreadable" in missing and "missing, not counted in means" in missing
    assert "3.2 of 7 points" in full, "above the last column of the lineage"
    assert EVIL[:20] not in graded.read_text(errors="replace"), "it is packed"


def test_the_lineage_is_coloured_by_points(tab: Tab, graded: Path) -> None:
    nodes = tab.open(graded, "#/0/problem/0").locator(".node [fill^='#']:not([fill='#ffffff']):not(text)")
    colours = [node.get_attribute("fill") for node in nodes.all()]
    right, wrong = "#1f5fa8", "#b35806"
    assert colours[0] == right and colours[2] == wrong and colours[1] not in (right, wrong) and len(colours) == 3
