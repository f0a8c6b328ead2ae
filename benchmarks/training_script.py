"""A script of training (scripts/finetune.py, scripts/energy.py), run by this very Python as the harness runs it."""

import os
import subprocess
import sys

from core.base.files import ROOT


def ran(script: str, *args: str) -> "subprocess.CompletedProcess[str]":
    """It has ended; all that it said is in `stdout`."""
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), *args],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
