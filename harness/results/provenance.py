"""Collect the provenance of a run: code, packages and machine."""

import os
import platform
import subprocess
from collections.abc import Sequence
from functools import cache
from importlib import metadata
from typing import Any

from core.base.files import IS_CHECKOUT, ROOT
from core.prompts import prompts_sha256
from core.types import Wording

PACKAGES = ("openai", "huggingface_hub", "numpy", "tqdm", "math-verify", "xllamacpp")
version = cache(metadata.version)  # it reads long texts


def collect(prompts: Sequence[str | Wording] = (), is_proof: bool = False) -> dict[str, Any]:
    """Return the "provenance" of the results JSON, without host names or keys. `prompts`: a
    scaffold's templates."""
    nvidia_smi = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version"]
    return {
        "git_commit": _git("rev-parse", "HEAD"),
        "git_dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "prompts_sha256": prompts_sha256(prompts, is_proof),
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "platform": f"{platform.system()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "gpu": _output([*nvidia_smi, "--format=csv,noheader"]),
    }


def _git(*args: str) -> str | None:
    """Run git in this checkout. Return None if git fails, or outside a checkout (ROOT may be in
    another repository)."""
    if not IS_CHECKOUT:
        return None
    return _output(["git", "--no-optional-locks", "-C", str(ROOT), *args])


def _output(command: list[str]) -> str | None:
    """Return the output of a command, or None if it fails or prints nothing."""
    try:
        process = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.strip() or None
