"""Serve the embedded engine in its own process, with as many slots as a benchmark needs.

    python -m benchmarks.embedded SLOTS CACHE_MIB

It prints its address, serves until its standard input closes, and then prints the CPU seconds of
serving."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from core.engines import in_process
from core.engines.dialects import llamacpp
from core.engines.dialects.llamacpp import EMBEDDED_CONTEXT, EMBEDDED_GGUF, embedded_name
from core.engines.environment import wanted
from core.engines.in_process import Launch

ROOT = Path(__file__).resolve().parent.parent
# variables that choose a server or the problems
SERVERS = ("BASE_URL", "API_KEY", "MODEL", "PROBLEMS", "ENGINE")


@dataclass
class Engine:
    base_url: str
    cpu_seconds: float = 0.0  # CPU seconds of serving, set when the engine has ended


def serve(slots: int, cache_mib: int) -> None:
    size = llamacpp.Size(slots, EMBEDDED_CONTEXT, threads=1, cache=cache_mib)
    launch = Launch(EMBEDDED_GGUF, embedded_name(), size, exact=True)
    with in_process.serving(launch, wanted()) as address:
        began = time.process_time()
        print(f"{address}/v1", flush=True)
        sys.stdin.read()
        print(time.process_time() - began, flush=True)


@contextmanager
def engine(slots: int, cache_mib: int = llamacpp.CACHE_MIB) -> Iterator[Engine]:
    """Start a fresh engine with an empty cache. Yields it when it is ready for requests."""
    command = [sys.executable, "-m", "benchmarks.embedded", str(slots), str(cache_mib)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=environment(),
    ) as process:
        assert process.stdin and process.stdout
        try:
            started = Engine(process.stdout.readline().strip())
            yield started
            process.stdin.close()
            started.cpu_seconds = float(process.stdout.readline())
        finally:
            process.stdin.close()


def environment(**changes: str) -> dict[str, str]:
    """Return the environment for a program of this project. Only `changes` can set the variables in
    SERVERS."""
    inherited = {name: value for name, value in os.environ.items() if name not in SERVERS}
    return inherited | {"PYTHONPATH": str(ROOT)} | changes


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
