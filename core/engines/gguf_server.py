"""Serve a GGUF file on llama.cpp: a small file in this process, a larger one in a process of its
own.

llama.cpp loads a file in one call that stops all threads and that no signal interrupts. A process
of its own can be ended meanwhile. `python -m core.engines.gguf_server REQUEST` is this process.
REQUEST is a JSON object."""

import json
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.base.files import write_atomically
from core.engines import environment, process
from core.engines.dialects import llamacpp
from core.engines.dialects.llamacpp import Size
from core.engines.holding import Ready, nothing

# bytes of a file that is loaded in this process, because that takes less than a second
SMALL = 50_000_000
SECONDS = 3600  # for a file to be loaded

# the address, and a function that returns why the server ended
Serving = tuple[str, Callable[[], str | None]]


def is_large(gguf: Path) -> bool:
    """Return whether a file takes longer than a second to load."""
    return gguf.stat().st_size >= SMALL


@contextmanager
def serving(
    gguf: Path,
    name: str,
    size: Size,
    exact: bool,
    port: int = 0,
    embeds: bool = False,
    ready: Ready = nothing,
) -> Iterator[Serving]:
    """Serve `gguf` as llamacpp.server_of does, and call `ready` once the file is loaded. Raises
    UserError."""
    if not is_large(gguf):
        with llamacpp.serving(gguf, name, size, exact, port, embeds, ready) as address:
            yield address, lambda: None
        return
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        given = {"gguf": str(gguf), "name": name, "exact": exact, "port": port, "embeds": embeds}
        request = json.dumps(given | {"size": asdict(size), "report": str(report)})
        args = [sys.executable, "-m", "core.engines.gguf_server", request]

        def reported() -> dict[str, Any] | None:
            return json.loads(report.read_bytes()) if report.exists() else None

        with process.running("llama.cpp", args, port, secret=environment.api_key()) as running:
            found = running.wait_until(reported, SECONDS)
            if "error" in found:
                raise UserError(found["error"])
            ready()
            yield found["address"], running.failure


def main(request: str) -> None:
    """Serve the file of a `request` until this process is ended. Write the address, or the error,
    to its report."""
    asked = json.loads(request)
    report, gguf, size = (
        Path(asked.pop("report")),
        Path(asked.pop("gguf")),
        Size(**asked.pop("size")),
    )
    server = None
    try:
        server = llamacpp.server_of(gguf, size=size, **asked)
        found = {"address": server.listening_address}
    except UserError as error:
        found = {"error": str(error)}
    write_atomically(report, json.dumps(found).encode())
    if server:
        threading.Event().wait()


if __name__ == "__main__":
    main(sys.argv[1])
