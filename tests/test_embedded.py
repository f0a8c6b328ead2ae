"""The embedded model: its training data hold nothing that is measured, and the committed file shows the effect."""

import hashlib
import json
import re
from itertools import islice
from pathlib import Path

from core import problems, server, sums
from scripts.embedded_data import Mix, examples
from tests.conftest import ROOT, run

MIX = Mix(0.4, 0.4, 0.2, 0.55, 0.95, (0.05, 0.4))


def factors(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(sorted((int(a), int(b)) for a, b in re.findall(r"\b(\d)\s*[*×·x]\s*(\d\d)\b", text)))


def test_training_examples_are_the_same_for_a_seed_and_hold_no_held_out_problem() -> None:
    drawn = list(islice(examples(1, MIX), 3000))
    assert drawn[:200] == list(islice(examples(1, MIX), 200)) != list(islice(examples(2, MIX), 200))
    measured = {factors(p.statement) for name in problems.BUNDLED for p in problems.load(name).problems}
    seen = 0
    for example in drawn:
        solution = example.target.split("</think>")[-1]
        terms = [sums.Term(int(a), int(b)) for a, b in re.findall(r"^(\d)\*(\d\d)=", solution, re.MULTILINE)]
        if "\\boxed" in solution and len(terms) >= 3:
            seen += 1
            assert not sums.is_held_out(terms)
            assert tuple(sorted(terms)) not in measured
    assert seen > 1000


def test_the_card_names_the_committed_file_which_is_small() -> None:
    content = server.EMBEDDED_GGUF.read_bytes()
    card = (server.EMBEDDED_GGUF.parent / "README.md").read_text()
    assert content[:4] == b"GGUF" and len(content) <= 6_000_000
    assert hashlib.sha256(content).hexdigest() in card


def test_the_committed_model_shows_the_effect_over_the_api(results: Path) -> None:
    status, _, err = run("03_rsa_verify", "LIMIT=10", "T=2")
    assert status == 0, err
    assert run("02_rsa_basic", "LIMIT=10", "T=2")[0] == 0
    rsa = json.loads((results / "02_rsa_basic.json").read_text())["metrics"]["steps"]
    first, last = (rsa[t]["mean_accuracy"]["value"] for t in (0, 2))
    assert 0.15 < first < 0.55 and last > first + 0.3
    verified = json.loads((results / "03_rsa_verify.json").read_text())["metrics"]["verification"]
    assert verified["auc"] > 0.85 and verified["unreadable"] == 0


def test_importing_core_needs_no_torch() -> None:
    heavy = re.compile(r"^\s*(?:import|from) (?:torch|sglang|transformers)\b", re.MULTILINE)
    assert not [file.name for file in (ROOT / "core").glob("*.py") if heavy.search(file.read_text())]
