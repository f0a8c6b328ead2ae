"""Share the results of an undisturbed baseline."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.lean import pairs
from labs.lean.pairs import Pair
from labs.lean.toolchain import Toolchain
from tests.conftest import run
from tests.helpers.once import once
from tests.labs.lean.small import BASELINE

KNOWN = [
    Pair("a", "p : Prop\n⊢ p → p", "intro h1"),
    Pair("a", "p : Prop\nh1 : p\n⊢ p", "assumption"),
    Pair("b", "p q : Prop\n⊢ False → p ∧ q", "intro h1"),
    Pair("b", "p q : Prop\nh1 : False\n⊢ p ∧ q", "contradiction"),
    Pair("false", "p : Prop\n⊢ p", "its own"),  # of a theorem that is searched
]


@pytest.fixture(scope="session")
def baseline(tmp_path_factory: pytest.TempPathFactory, stored_run: Callable[[str], Path], lean: Toolchain) -> Path:
    """Return the results of the golden case 23_lean_baseline with an index of KNOWN; `printed` has its output."""

    def make(results: Path) -> None:
        shutil.copytree(stored_run("23_lean_baseline"), results, dirs_exist_ok=True)
        pairs.write(results / "known.jsonl", KNOWN)
        constants = *BASELINE, f"INDEX={results / 'known.jsonl'}"
        status, out, err = run("23_lean_baseline", *constants, RESULTS_DIR=str(results))
        assert status == 0, err
        (results / "printed").write_text(out)

    return once(tmp_path_factory, "baseline", make)
