"""Share the results of a baseline."""

import signal
import time
from pathlib import Path

import pytest

from labs.lean import pairs
from labs.lean.pairs import Pair
from labs.lean.toolchain import Toolchain
from tests.conftest import ended, run, start
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
def baseline(tmp_path_factory: pytest.TempPathFactory, lean: Toolchain) -> Path:
    """Return the results of 23_lean_baseline, stopped after its first search and resumed with an
    index of KNOWN. The file `printed` has its output."""

    def make(results: Path) -> None:
        process = start("23_lean_baseline", *BASELINE, RESULTS_DIR=str(results))
        while process.poll() is None and not list(
            results.glob("lean/baseline/trajectories/*.json")
        ):
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        status, _, err = ended(process)
        assert status in (0, 130) and "Traceback" not in err, err
        pairs.write(results / "known.jsonl", KNOWN)
        constants = *BASELINE, f"INDEX={results / 'known.jsonl'}"
        status, out, err = run("23_lean_baseline", *constants, RESULTS_DIR=str(results))
        assert status == 0, err
        (results / "printed").write_text(out)

    return once(tmp_path_factory, "baseline", make)
