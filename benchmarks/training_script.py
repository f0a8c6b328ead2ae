"""Run a script of training (scripts/finetune.py, scripts/energy.py) by this Python, as the harness runs it."""

import os
import subprocess
import sys

from core.base.files import ROOT


def ran(script: str, *args: str) -> "subprocess.CompletedProcess[str]":
    """Run the script to its end; `stdout` has all its output."""
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), *args],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
