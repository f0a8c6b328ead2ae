"""Run a module that trains (labs.training.finetune or labs.lean.energy_training) with this Python,
as a lab does."""

import os
import subprocess
import sys

from core.base.files import ROOT


def ran(module: str, *args: str) -> "subprocess.CompletedProcess[str]":
    """Run the module to its end. The result's `stdout` also contains its standard error."""
    return subprocess.run(
        [sys.executable, "-m", module, *args],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
