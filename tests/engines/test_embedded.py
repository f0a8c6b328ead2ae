"""Test that documents agree on the embedded model's figures. Golden cases pin its answers."""

import hashlib
import re

import pytest

from core.engines.embedded_model import EMBEDDED_GGUF
from tests.conftest import ROOT

# Figures that more than one document gives, as a pattern for each: the numbers in its groups must be equal.
README, CARD, RESULTS = "README.md", "data/embedded/README.md", "docs/results.md"
RATE = r"([\d.]+%? \[[\d., ]+\])"
FIGURES: dict[str, dict[str, str]] = {
    "the file": {README: r"embedded@(\w{12})", CARD: r"sha256 `(\w{12})", RESULTS: r"model \(sha256 (\w{12})\)"},
    "greedy": {README: f"one greedy sample {RATE}", CARD: rf"greedy sample \(T=0; 240 problems\) \| {RATE}"},
    "the vote of 48": {README: f"the vote of 48 {RATE}", CARD: rf"majority of 48 \| {RATE}"},
    "best of 29": {
        README: f"best of 29 by its own verdicts {RATE}",
        CARD: rf"best of 29 by one verdict each \| {RATE}",
        RESULTS: f"best of 29 by one verdict each, it is at {RATE}",
    },
    "RSA": {README: f"members \\(N=8, K=3, T=5\\) {RATE}", CARD: rf"RSA, N=8 K=3 T=5, mean \(.*?\]\) \| {RATE}"},
    "stopping at 7 of 8": {
        README: r"at 7 votes of 8, that saves (.*?\]) and costs (.*?\])",
        CARD: r"\(7 votes of 8\) \| (.*?) \| .*? \| (.*?) \|",
    },
    "equal operations": dict.fromkeys(
        (README, RESULTS),
        r"RSA reads ([\d.]+ times) the .*? takes ([\d.]+ times) its .*? its lead over best-of is (.*?\])",
    ),
    "graded proofs": {CARD: r"of (157) proofs of its own it gives (153)", RESULTS: r"exactly right, of (\d+) \| (\d+)"},
    "STaR": {
        README: r"goes from ([\d.]+) to \[([\d.]+)\]",
        RESULTS: r"SEED=2 \| \|.*? \| 0 \| ([\d.]+) .*?\| 5 \| ([\d.]+)",
    },
}


@pytest.mark.parametrize("name", FIGURES)
def test_documents_agree_on_its_figures(name: str) -> None:
    """They are compared as sets, because a word may replace a minus sign and so turn an interval around."""
    figures = {}
    for path, pattern in FIGURES[name].items():
        found = re.search(pattern, re.sub(r"\s+", " ", (ROOT / path).read_text(encoding="utf-8")))
        assert found, f"{path} lacks {pattern}"
        figures[path] = sorted(re.findall(r"[\w.]*\d", " ".join(found.groups())))
    assert len({tuple(each) for each in figures.values()}) == 1, figures


def test_the_card_names_the_committed_file_which_is_small() -> None:
    content = EMBEDDED_GGUF.read_bytes()
    card = (EMBEDDED_GGUF.parent / "README.md").read_text()
    assert content[:4] == b"GGUF" and len(content) <= 6_000_000
    assert hashlib.sha256(content).hexdigest() in card
