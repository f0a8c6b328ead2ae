"""Serve a GGUF file on llama.cpp (xllamacpp) in this process.

llama.cpp loads a file in one call that stops all threads and that no signal interrupts.
core/engines/gguf_server.py serves a large file in a process of its own instead."""

import os
import socket
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.base import signals
from core.base.errors import UserError
from core.engines import environment, queries
from core.engines.dialects.llamacpp import ASKED, EXACT, FAST, Size, release
from core.engines.holding import Ready, nothing
from core.engines.wanted import Wanted


@dataclass(frozen=True)
class Launch:
    """A server to start: of the file `gguf`, with the model's `name` in requests."""

    gguf: Path
    name: str
    size: Size
    exact: bool  # whether replies are independent of the batch, if EXACT does not decide it
    port: int = 0  # 0: a free port
    embeds: bool = False  # whether it only embeds


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
    `launch.exact`, unless the server embeds. Only then a tag says so and enters journal keys, so
    the keys of default runs do not change. Raises UserError if the server does not start."""
    is_exact = launch.exact if launch.embeds else wanted.hosting.exact(launch.exact)
    tags = {release(), EXACT if is_exact else FAST}  # xllamacpp itself reports "b0-unknown"
    if is_exact != launch.exact:
        tags.add(f"{ASKED}{is_exact:d}")
    environment.let_openmp_sleep()
    import xllamacpp

    size = launch.size
    key = wanted.api_key
    params = xllamacpp.CommonParams()
    params.model.path = str(launch.gguf)
    params.model_alias = {launch.name}
    params.model_tags = tags
    params.hostnames = [wanted.hosting.BIND]
    params.port = launch.port
    params.reuse_port = bool(launch.port)  # core/engines/holding.py answers on the port meanwhile
    params.api_keys = [str(key)] if key else []  # xllamacpp refuses a subclass of str
    params.n_parallel = size.slots
    params.n_ctx = size.slots * size.context  # llama.cpp's n_ctx is the total over all slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = size.threads
    params.cache_ram_mib = size.cache
    params.verbosity = 0
    if launch.embeds:  # /v1/embeddings answers with the mean over a text's tokens
        # With several slots, llama.cpp would silently return wrong means (measured: off by 0.16),
        # because it cuts a batch into equal pieces.
        assert size.slots == 1
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        params.n_batch = params.n_ubatch = size.context  # a text must fit into one batch
    _set_exact(params, is_exact)
    try:
        return xllamacpp.Server(params)
    except Exception as error:
        hint = "Check the file and the memory"
        if launch.port:
            hint = f"If port {launch.port} is in use, choose another PORT"
        raise UserError(
            f"llama.cpp can't start with {launch.gguf.name} ({error}). {hint}"
        ) from None


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
