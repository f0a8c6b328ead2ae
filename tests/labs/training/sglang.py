"""Stands in for SGLang with the folder that it is given: llama.cpp serves it, by way of a GGUF file, or embeds by it.

python -m tests.labs.training.sglang ARGUMENTS-OF-SGLANG

NOTES, if set, names a file that gets a line when it serves.
"""

import os
import signal
import sys
import tempfile
from pathlib import Path

from core.engines.dialects import llamacpp
from labs.training import to_gguf

# Behind the line that asks an interpreter what it can import, for a shell.
STARTED = f'[ "$1" = -c ] && exit 0\nexec {sys.executable} -m tests.labs.training.sglang "$@"\n'


def main(argv: list[str]) -> None:
    port, name, folder = (argv[argv.index(flag) + 1] for flag in ("--port", "--served-model-name", "--model-path"))
    embeds, notes = "--is-embedding" in argv, os.environ.get("NOTES", os.devnull)
    size = llamacpp.Size(1 if embeds else 4, 2048, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory() as kept:
        gguf = Path(kept) / "model.gguf"
        to_gguf.convert(Path(folder), gguf, "f16")
        with llamacpp.serving(gguf, name, "127.0.0.1", int(port), size, "", exact=not embeds, embeds=embeds):
            with open(notes, "a") as file:
                print("serving", name, folder, file=file)
            signal.pause()


if __name__ == "__main__":
    main(sys.argv)
