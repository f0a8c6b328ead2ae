"""Serve a GGUF file on llama.cpp (xllamacpp) in this process.

llama.cpp loads a file in one call that stops all threads and that no signal interrupts.
core/engines/gguf_server.py serves a large file in a process of its own instead.

`python -m core.engines.in_process REQUEST` tries to load a file again with llama.cpp's log, after
it failed. REQUEST is a JSON object."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from core.base import signals
from core.base.errors import UserError, one_line
from core.engines import environment, queries
from core.engines.chat_template import WAY, ChatTemplate
from core.engines.dialects.llamacpp import ASKED, EXACT, FAST, TEMPLATE, Size, release
from core.engines.gguf_cache import CHECKPOINTS
from core.engines.holding import Ready, nothing
from core.engines.wanted import Wanted

# An error in llama.cpp's log after the time and the function, or a failed assertion.
_ERROR = re.compile(
    r"^(?:[\d.]+ E (?:\w+ +)?\S+: (?:error(?: loading model)?: )?|\S+\.(?:c|cpp|h):\d+: )(.+)$",
    re.MULTILINE,
)
# otherwise llama.cpp starts a debugger if an assertion fails
NO_BACKTRACE = {"GGML_NO_BACKTRACE": "1"}


@dataclass(frozen=True)
class Launch:
    """A server to start: of the file `gguf`, with the model's `name` in requests."""

    gguf: Path
    name: str
    size: Size
    exact: bool  # whether replies are independent of the batch, if EXACT does not decide it
    port: int = 0  # 0: a free port
    embeds: bool = False  # whether it only embeds
    template: str = ""  # the value of CHAT_TEMPLATE
    # whether llama.cpp might end its process while it loads the file (an unusual architecture)
    is_unusual: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"gguf": str(self.gguf)}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> "Launch":
        return cls(**fields | {"gguf": Path(fields["gguf"]), "size": Size(**fields["size"])})


@contextmanager
def serving(launch: Launch, wanted: Wanted, ready: Ready = nothing) -> Iterator[str]:
    """Serve a file in this process, as `server_of` does, and yield the address. Call `ready` once
    the file is loaded. While llama.cpp loads the file, this process reacts to no signal.
    core/engines/gguf_server.py avoids that."""
    engine = None
    try:
        with signals.held():  # a signal inside llama.cpp's constructor deadlocks it
            engine = server_of(launch, wanted)
            ready()
            # One token shows that the loop runs. An engine that is stopped earlier sometimes waits
            # forever.
            url = f"{engine.listening_address}/completion"
            body = {"prompt": "1", "n_predict": 1}
            try:
                queries.send(url, wanted.api_key, body, seconds=600)
            except OSError as error:
                raise UserError(
                    f"llama.cpp does not answer with {launch.gguf.name} ({error}). Check the file"
                ) from None
        yield engine.listening_address
    finally:
        if engine:
            _hang_up(engine.listening_address)
        # Dropping the last reference stops the server. A traceback could keep a reference until the
        # interpreter ends, and then stopping the server waits forever.
        engine = None


def server_of(launch: Launch, wanted: Wanted) -> Any:
    """Start a server in this process, and return it (xllamacpp.Server). It stops when its last
    reference is dropped. Requests must carry API_KEY, if it is set. EXACT may replace
    `launch.exact`, unless the server embeds. Raises UserError with llama.cpp's reason if the server
    does not start."""
    params = _params(launch, wanted)
    import xllamacpp

    try:
        return xllamacpp.Server(params)
    except Exception as error:
        raise UserError(
            f"llama.cpp can't start with {launch.gguf.name}: {_reason(launch, str(error))}"
        ) from None


def _params(launch: Launch, wanted: Wanted) -> Any:
    """Return the parameters of a server (xllamacpp.CommonParams). Raises UserError if
    CHAT_TEMPLATE is wrong."""
    is_exact = launch.exact if launch.embeds else wanted.hosting.exact(launch.exact)
    template = ChatTemplate.of(launch.template)
    environment.let_openmp_sleep()
    import xllamacpp

    size = launch.size
    key = wanted.api_key
    params = xllamacpp.CommonParams()
    params.model.path = str(launch.gguf)
    params.model_alias = {launch.name}
    params.model_tags = _tags(launch, is_exact, template)
    params.hostnames = [wanted.hosting.BIND]
    params.port = launch.port
    params.reuse_port = bool(launch.port)  # core/engines/holding.py answers on the port meanwhile
    params.api_keys = [str(key)] if key else []  # xllamacpp refuses a subclass of str
    params.n_parallel = size.slots
    # llama.cpp's n_ctx is the total over all slots, and 0 lets it fit the context to the memory
    params.n_ctx = size.slots * size.context
    params.fit_params_min_ctx = size.slots * (size.context or size.least)
    params.n_ctx_checkpoints = CHECKPOINTS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = size.threads
    params.cache_ram_mib = size.cache
    params.verbosity = 0
    params.chat_template = template.content
    params.use_jinja = template.is_jinja or not template.content
    if launch.embeds:  # /v1/embeddings answers with the mean over a text's tokens
        # With several slots, llama.cpp would silently return wrong means (measured: off by 0.16),
        # because it cuts a batch into equal pieces.
        assert size.slots == 1
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        # a text must fit into one batch
        params.n_batch = params.n_ubatch = size.context or size.least
    _set_exact(params, is_exact)
    return params


def _tags(launch: Launch, is_exact: bool, template: ChatTemplate) -> set[str]:
    """Return the tags by which the server tells its settings. A setting that differs from its
    default enters journal keys, so the keys of default runs do not change."""
    tags = {release(), EXACT if is_exact else FAST}  # xllamacpp itself reports "b0-unknown"
    if is_exact != launch.exact:
        tags.add(f"{ASKED}{is_exact:d}")
    if template.tag:
        tags.add(f"{TEMPLATE}{template.tag}")
    return tags


def _set_exact(params: Any, is_exact: bool) -> None:
    """Set the parameters (xllamacpp.CommonParams) that decide whether replies depend on the batch.
    If `is_exact`, equal seeds give equal completions in any batch with the embedded model, and
    mostly with quantised files, at a third of the speed. Otherwise llama.cpp uses flash attention,
    a KV cache in f16, and the GPU (Metal, or as built) for as many layers as fit."""
    import xllamacpp

    attention = xllamacpp.llama_flash_attn_type
    kv = xllamacpp.ggml_type
    if is_exact:  # with flash attention, a KV cache in F16 or a GPU, sums depend on the batch
        params.flash_attn_type = attention.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cache_type_k = params.cache_type_v = kv.GGML_TYPE_F32
        params.n_gpu_layers = 0
        return
    # on, unless the device lacks it
    params.flash_attn_type = attention.LLAMA_FLASH_ATTN_TYPE_AUTO
    params.cache_type_k = params.cache_type_v = kv.GGML_TYPE_F16
    params.n_gpu_layers = -1  # as many layers as fit
    params.fit_params = True  # llama.cpp counts these layers


def _reason(launch: Launch, error: str) -> str:
    """Return llama.cpp's reason for not loading a file, with a remedy, in one line. It loads the
    file again in another process, with its log of errors. Without an entry there, the reason is
    `error`."""
    args = [sys.executable, "-m", "core.engines.in_process", json.dumps(launch.to_json())]
    done = subprocess.run(
        args,
        env=environment.with_changes(NO_BACKTRACE),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    entries = _ERROR.findall(done.stderr) or [error]
    reason = one_line(entries[0], 300).rstrip(".")
    if "chat template" in done.stderr:
        return f"its chat template can't be parsed ({reason}). {WAY}"
    if launch.port and "bind" in reason:
        return f"{reason}. If port {launch.port} is in use, choose another PORT"
    if done.returncode == -signal.SIGKILL:
        reason = "it was killed, most often because the memory ran out"
    return f"{reason}. Check the file and the memory. A newer xllamacpp may know more models"


def main(request: str) -> None:
    """Load the file of a `request` with llama.cpp's log of errors, and end."""
    params = _params(Launch.from_json(json.loads(request)), environment.wanted())
    params.verbosity = 1  # errors
    import xllamacpp

    try:
        xllamacpp.Server(params)
    except RuntimeError:
        return  # llama.cpp writes its log later, at the latest when the process exits
    os._exit(0)  # a server that starts this time might not stop


def _hang_up(address: str) -> None:
    """Close all connections to a server in this process. Otherwise a stopping server and its
    clients wait forever."""
    port = urllib.parse.urlsplit(address).port
    for _ in range(2):  # during the first pass, the server may accept another connection
        for name in os.listdir("/dev/fd"):
            with suppress(OSError):  # not a socket, or already closed
                connection = socket.socket(fileno=int(name))
                try:
                    if connection.getsockname()[1:2] == (port,):
                        connection.shutdown(socket.SHUT_RDWR)
                finally:
                    connection.detach()


if __name__ == "__main__":
    main(sys.argv[1])
