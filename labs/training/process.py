"""Run a training in a separate process, with .venv-train or TRAIN_PYTHON, after checks that need no
torch."""

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import ROOT, in_words, make_folder, read_json, results_dir, set_up
from core.engines import environment, gpus
from core.engines.dialects import llamacpp
from core.engines.need import PROMPT_TOKENS
from core.engines.process import last_words, running
from labs.training import starts
from labs.training.outcome import LINE, RECORD, Options
from labs.training.starts import Start

MODULES = ("torch", "trl", "peft")  # the modules that an environment for training must have
POLL = 0.1  # seconds between two checks of the progress
GB = 1e9


def python_of() -> str:
    """Return the path of the Python for training: TRAIN_PYTHON, or else the one in .venv-train,
    which setup.sh updates. Raises UserError if TRAIN_PYTHON lacks a module, and SystemExit if
    setup.sh fails."""
    named = environment.python("train")
    if not named:
        set_up("train")
        return str(ROOT / ".venv-train" / "bin" / "python")
    # Only find the modules. Importing them would take ten seconds.
    program = (
        f"import importlib.util, sys\nsys.exit(not all(map(importlib.util.find_spec, {MODULES})))"
    )
    try:
        subprocess.run([named, "-c", program], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        raise UserError(
            f"TRAIN_PYTHON={named} is no Python with {', '.join(MODULES)}. Install them, or unset "
            "TRAIN_PYTHON"
        ) from None
    return named


def check(weights: Path, rank: int, max_tokens: int, rounds: int) -> None:
    """Raise UserError if the model `weights` can't be trained by LoRA of `rank` (0: all weights)
    for `rounds` rounds. Memory must suffice for samples of `max_tokens` tokens, and the disk of the
    results for the models of all rounds."""
    start = starts.start(weights, rank)
    _check_memory(start, rank, max_tokens)
    need = rounds * start.bytes
    results = results_dir()
    free = shutil.disk_usage(results).free
    if need > free:
        raise UserError(
            f"the models to train from {start.path.name} ({rounds} in all) take {in_words(need)}, "
            f"but {results} has only {in_words(free)} free. Free some space, train fewer rounds, "
            "or set RESULTS_DIR to a larger disk"
        )


def _check_memory(start: Start, rank: int, max_tokens: int) -> None:
    """Raise UserError if training on the longest possible rows needs more memory than the device
    has."""
    device = "cuda" if gpus.count() and not start.is_gguf else "cpu"
    room = gpus.here().memory if device == "cuda" else llamacpp.memory()
    longest = min(PROMPT_TOKENS + max_tokens, start.longest, starts.LONGEST)
    need = starts.needed(start.shape, rank, longest * starts.rows_at_once(longest, device), device)
    if need > room:
        raise UserError(
            f"training {start.path.name} (LORA_RANK={rank}, rows of up to {longest:,} tokens) "
            f"needs about {need / GB:.1f} GB of memory ({device}), but this machine has "
            f"{room / GB:.1f} GB. Lower MAX_TOKENS, use a smaller model, or train a folder by LoRA "
            "(LORA_RANK=16 or lower)"
        )


def train(options: Options, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Train a model, and return the content of its train.json. The folder `options.out` is written
    completely, or not at all. The log is next to that folder. `say` gets progress lines. If this
    process ends, the training ends too. Raises UserError with the training's last error and the
    path of the log."""
    args = []
    for name, value in vars(options).items():
        if name != "out" and value is not None:
            args += [f"--{name.replace('_', '-')}", str(value)]
    return supervised("labs.training.finetune", args, options.out, RECORD, say)


def supervised(
    module: str, args: Sequence[str], out: Path, record: str, say: Callable[[str], None]
) -> dict[str, Any]:
    """Run the training `module` with `args` and `--out` (see `train`). Return the content of its
    file `record`."""
    args = [python_of(), "-m", module, *args, "--out", str(out)]
    log = out.with_name(f"{out.name}.log")
    last = ""
    make_folder(out.parent)
    with running("training", args, 0, log) as process:
        while (status := process.status()) is None:
            time.sleep(POLL)
            lines = [line for line in process.tail if line.startswith(LINE)]
            line = lines[-1] if lines else ""
            if line != last:
                say(line.rstrip())
            last = line
    if status:
        reason = last_words(list(process.tail)).removeprefix("error: ")
        if status == 128 + 9:
            reason = "it was killed, probably because the machine ran out of memory"
        reason = reason or "it printed no error"
        raise UserError(f"training ended with status {status}: {reason}. Its log is {log}")
    remedy = f"Remove {out} and train again"
    content: dict[str, Any] = read_json(out / record, "the record of a training", remedy)
    return content
