"""Stands in for SGLang with the folder that it is given: llama.cpp serves it, by way of a GGUF
file.

python -m tests.labs.training.sglang ARGUMENTS-OF-SGLANG

With --return-hidden-states-mode it also embeds, by a second llama.cpp: its mean over a text's
tokens is the hidden state. NOTES, if set, names a file that gets a line when it serves.
"""

import json
import os
import signal
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from core.engines import environment, in_process
from core.engines.dialects import llamacpp
from core.engines.in_process import Launch
from labs.training import to_gguf
from tests.fakes.http import Proxy, Request, answer, forwarded

# Behind the line that asks an interpreter what it can import, for a shell.
STARTED = f'[ "$1" = -c ] && exit 0\nexec {sys.executable} -m tests.labs.training.sglang "$@"\n'


class Both(Proxy):
    """A proxy of the server that generates at `target`, which takes hidden states from the server
    at `embeds`."""

    def __init__(self, target: str, embeds: str, port: int) -> None:
        self._embeds = embeds
        super().__init__(target, port)

    def get(self, request: Request) -> None:
        status, _, content = forwarded(self._target, request, None)
        if request.path == "/v1/models":
            listed = json.loads(content)
            content = json.dumps(
                {"data": [each | {"owned_by": "sglang"} for each in listed["data"]]}
            ).encode()
        answer(status, content)(request)

    def post(self, request: Request, body: bytes) -> None:
        asked = json.loads(body)
        if asked.get("return_hidden_states") != "last":
            return super().post(request, body)
        request.path = "/v1/embeddings"
        status, _, content = forwarded(
            self._embeds, request, json.dumps({"input": asked["prompt"]}).encode()
        )
        if status == 200:
            rows = json.loads(content)["data"]
            found = [
                {"index": row["index"], "text": "", "hidden_states": row["embedding"]}
                for row in rows
            ]
            content = json.dumps({"choices": found}).encode()
        answer(status, content)(request)


def main(argv: list[str]) -> None:
    port, name, folder = (
        argv[argv.index(flag) + 1] for flag in ("--port", "--served-model-name", "--model-path")
    )
    embeds, notes = "--return-hidden-states-mode" in argv, os.environ.get("NOTES", os.devnull)
    size = llamacpp.Size(4, 2048, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory() as kept, ExitStack() as running:
        gguf = Path(kept) / "model.gguf"
        to_gguf.convert(Path(folder), gguf, "f16")
        launch = Launch(gguf, name, size, exact=True, port=0 if embeds else int(port))
        serving = in_process.serving(launch, environment.wanted())
        address = running.enter_context(serving)
        if embeds:
            one = llamacpp.Size(1, 2048, 1)
            launch = Launch(gguf, name, one, exact=False, embeds=True)
            other = in_process.serving(launch, environment.wanted())
            running.callback(Both(address, running.enter_context(other), int(port)).close)
        with open(notes, "a") as file:
            print("serving", name, folder, file=file)
        signal.pause()


if __name__ == "__main__":
    main(sys.argv)
