"""Run a training script (scripts/finetune.py or scripts/energy.py) with this Python, as the harness
does."""

import os
import subprocess
import sys

from core.base.files import ROOT


def ran(script: str, *args: str) -> "subprocess.CompletedProcess[str]":
    """Run the script to its end. The result's `stdout` also contains its standard error."""
    return subprocess.run(
        [sys.executable, str(ROOT / "scripts" / script), *args],
        env=os.environ
        | {"PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))},
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
