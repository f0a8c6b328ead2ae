"""Test that documents agree on the embedded model's figures. Golden cases pin its answers."""

import hashlib
import re

import pytest

from core.engines.embedded_model import EMBEDDED_GGUF
from tests.conftest import ROOT

# Figures that several documents give, with a pattern for each document. The numbers in all groups must be equal.
README, CARD, RESULTS, EXPERIMENTS = "README.md", "data/embedded/README.md", "docs/results.md", "docs/experiments.md"
RATE = r"([\d.]+%? \[[\d., ]+\])"
FIGURES: dict[str, dict[str, str]] = {
    "the file": {README: r"embedded@(\w{12})", CARD: r"sha256 `(\w{12})", RESULTS: r"model \(sha256 (\w{12})\)"},
    "best of 29": {
        CARD: rf"best of 29 by one verdict each \| {RATE} \| (.*?) \|",
        RESULTS: rf"with one verdict each. Then it solves {RATE} of 200 other problems. That is (.*?) less than",
    },
    "stopping at 7 of 8": {
        EXPERIMENTS: r"at 7 votes of 8, that saves (.*?\]) and costs (.*?\])",
        CARD: r"\(7 votes of 8\) \| (.*?) \| .*? \| (.*?) \|",
    },
    "graded proofs": {CARD: r"graded (157) of .*? gave (153) of them", RESULTS: r"exactly right, of (\d+) \| (\d+)"},
    "STaR": {
        EXPERIMENTS: r"goes from ([\d.]+)% to \[([\d.]+)%",
        RESULTS: r"SEED=2 \| \|.*? \| 0 \| ([\d.]+) .*?\| 5 \| ([\d.]+)",
    },
}


@pytest.mark.parametrize("name", FIGURES)
def test_documents_agree_on_its_figures(name: str) -> None:
    """Compare sorted numbers without signs, because a word may replace a minus sign and so reverse an interval."""
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
