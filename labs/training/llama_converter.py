"""Hand a model over to llama.cpp's own converter, if the user has installed it. It needs torch, and
no package contains it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from core.base.errors import UserError
from core.base.files import draft_of
from core.base.terminal import say
from core.engines.process import last_words

VARIABLE = "CONVERT_HF_TO_GGUF"
SCRIPT = "convert_hf_to_gguf.py"


def script() -> Path | None:
    """Return the path of llama.cpp's converter: the file in CONVERT_HF_TO_GGUF, or SCRIPT on the
    PATH, or None. Raises UserError if the variable names no file."""
    named = os.environ.get(VARIABLE, "").strip()
    if not named:
        on_path = shutil.which(SCRIPT)
        return Path(on_path) if on_path else None
    path = Path(named).expanduser()
    if not path.is_file():
        raise UserError(
            f"{VARIABLE}={named} is no file. Set it to llama.cpp's {SCRIPT}, or unset it"
        )
    return path


def convert(converter: Path, folder: Path, out: Path, type: str) -> None:
    """Write the model in `folder` to the file `out` with llama.cpp's `converter`, or nothing on an
    error. It runs with the python3 on the PATH, which needs torch. Raises UserError."""
    say(f"llama.cpp's converter takes over: {converter} …", sys.stderr)
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    with draft_of(out, "the file", size) as draft:
        arguments = [str(folder), "--outfile", str(draft), "--outtype", type]
        python = shutil.which("python3") or sys.executable
        done = subprocess.run(
            [python, str(converter), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode or not draft.is_file():
            reason = last_words(done.stderr.splitlines()) or f"status {done.returncode}"
            raise UserError(
                f"{converter} can't convert {folder}: {reason}. It runs with {python}, which needs "
                "torch and llama.cpp's requirements"
            )
