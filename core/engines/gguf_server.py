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
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from core.base.errors import UserError
from core.base.files import in_words, write_atomically
from core.base.terminal import heartbeat
from core.engines import environment, gguf_parts, in_process, process, queries
from core.engines.chat_template import WAY
from core.engines.dialects import llamacpp
from core.engines.dialects.llamacpp import EMBEDDED_SLOTS
from core.engines.holding import Ready, nothing
from core.engines.in_process import NO_BACKTRACE, Launch
from core.engines.need import Need
from core.engines.wanted import Wanted

# bytes of a file that is loaded in this process, because that takes less than a second
SMALL = 50_000_000
# architectures whose small files are loaded in this process
USUAL = ("llama", "qwen2", "qwen3")
SECONDS = 3600  # for a file to be loaded


class Serving(NamedTuple):
    """A server that answers at `address`. `failure` returns why it ended, or None while it runs."""

    address: str
    failure: Callable[[], str | None]


@contextmanager
def serving_for(
    need: Need, gguf: Path, wanted: Wanted, port: int = 0, ready: Ready = nothing
) -> Iterator[Serving]:
    """Serve `gguf`, sized for `need`, on `port` or a free one, and call `ready` once the file is
    loaded. Raises UserError. If `need` embeds, the server only embeds. Slots are timed on another
    port. A run that found the server meanwhile would disturb the timing, and would lose the server
    if the file is loaded again."""
    with ExitStack() as running:
        with step(gguf, loading(gguf)):
            launch = _sized(need, gguf, wanted, port)
            size = launch.size
            is_timed = not need.embeds and size.slots > size.threads
            trial = serving(replace(launch, port=0), wanted)
            served = running.enter_context(trial if is_timed else serving(launch, wanted, ready))
        if is_timed:
            with step(gguf, f"timing up to {size.slots} requests at a time", "up to a minute"):
                slots = llamacpp.slots_in_time(served.address, size, need, wanted.api_key)
            if port or slots < size.slots:
                running.close()
                launch = replace(launch, size=replace(size, slots=slots))
                with step(gguf, f"loading it again with {slots} slots"):
                    served = running.enter_context(serving(launch, wanted, ready))
        if launch.template:
            _check_template(served.address, wanted)
        yield served


def _check_template(address: str, wanted: Wanted) -> None:
    """Raise UserError if the server at `address` can't render a message, because llama.cpp does not
    know the name in CHAT_TEMPLATE."""
    body = {"messages": [{"role": "user", "content": "1"}]}
    try:
        queries.send(f"{address}/apply-template", wanted.api_key, body, seconds=60)
    except OSError as error:
        raise UserError(
            f"llama.cpp can't render a message with CHAT_TEMPLATE={wanted.hosting.CHAT_TEMPLATE} "
            f"({error}). {WAY}"
        ) from None


def _sized(need: Need, gguf: Path, wanted: Wanted, port: int) -> Launch:
    """Return the largest server of `gguf` for `need` that fits this machine's memory. Raises
    UserError if none fits."""
    from core.engines.gguf_header import Gguf  # slow to load, and rarely needed

    model = Gguf.read(gguf)
    size = llamacpp.size(
        model,
        need,
        llamacpp.memory(),
        llamacpp.physical_cores(),
        wanted.hosting.exact(False),
        slots=1 if need.embeds else EMBEDDED_SLOTS,
    )
    return Launch(
        gguf,
        llamacpp.name_of(gguf),
        size,
        exact=False,
        port=port,
        embeds=need.embeds,
        template=wanted.hosting.CHAT_TEMPLATE,
        is_unusual=model.architecture not in USUAL,
    )


@contextmanager
def serving(launch: Launch, wanted: Wanted, ready: Ready = nothing) -> Iterator[Serving]:
    """Serve a file as in_process.server_of does, and call `ready` once the file is loaded. Raises
    UserError."""
    if not (launch.is_unusual or is_large(launch.gguf)):
        with in_process.serving(launch, wanted, ready) as address:
            yield Serving(address, lambda: None)
        return
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        request = launch.to_json() | {"report": str(report)}
        args = [sys.executable, "-m", "core.engines.gguf_server", json.dumps(request)]

        def reported() -> dict[str, Any] | None:
            return json.loads(report.read_bytes()) if report.exists() else None

        # the process reads the key from the environment, because others may read its arguments
        key = wanted.api_key
        with process.running(
            "llama.cpp", args, launch.port, changes=NO_BACKTRACE, secret=key
        ) as running:
            result = running.wait_until(reported, SECONDS)
            if "error" in result:
                raise UserError(result["error"])
            ready()
            yield Serving(result["address"], running.failure)


def is_large(gguf: Path) -> bool:
    """Return whether a file takes longer than a second to load."""
    return gguf_parts.size(gguf) >= SMALL


def loading(gguf: Path) -> str:
    """Return the name of the step that loads a file."""
    return f"loading {gguf.name} ({in_words(gguf_parts.size(gguf))})"


def step(gguf: Path, name: str, usual: str = "") -> AbstractContextManager[None]:
    """Return the heartbeat of a step of a start, which does nothing for a small file."""
    return heartbeat(name, usual, is_long=True) if is_large(gguf) else nullcontext()


def main(request: str) -> None:
    """Serve the file of a `request` until this process is ended. Write the address, or the error,
    to its report."""
    fields = json.loads(request)
    report = Path(fields.pop("report"))
    launch = Launch.from_json(fields)
    try:
        server = in_process.server_of(launch, environment.wanted())  # it stops without a reference
        result = {"address": server.listening_address}
    except UserError as error:
        result = {"error": str(error)}
    write_atomically(report, json.dumps(result).encode())
    threading.Event().wait()  # until the parent has read the report, and ends this process


if __name__ == "__main__":
    main(sys.argv[1])
