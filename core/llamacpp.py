"""llama.cpp in this process, through xllamacpp: the engine for machines without an NVIDIA GPU."""

import os
import signal
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from core.errors import UserError


@dataclass(frozen=True)
class Size:
    """`slots`: requests decoded together; `context`: tokens each of them may hold; `threads`: of the CPU."""

    slots: int
    context: int
    threads: int


def release() -> str:
    return f"xllamacpp {version('xllamacpp')}"


@contextmanager
def serving(gguf: Path, name: str, host: str, port: int, size: Size, key: str, exact: bool) -> Iterator[str]:
    """The address (http://host:port) of a server of `gguf` that calls its model `name`; port 0 takes a free one. With a
    `key`, requests must carry it.

    `exact`: equal seeds give equal completions whatever else is in the batch, at a third of the speed. Raises UserError
    where it does not start.
    """
    # Before the import: OpenMP threads that spin on busy cores bring llama.cpp down from 1,400 to 3-13 tokens/s.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("GOMP_SPINCOUNT", "0")
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(gguf)
    params.model_alias = {name}
    params.hostnames = [host]
    params.port = port
    params.api_keys = [key] if key else []
    params.n_parallel = size.slots
    params.n_ctx = size.slots * size.context  # llama.cpp's n_ctx is the total over all slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = size.threads
    params.cache_ram_mib = 0  # no second prompt cache in memory
    params.verbosity = 0
    if exact:  # attention must be: no flash attention, KV cache in F32
        params.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cache_type_k = params.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    engine = None
    try:
        with _signals_held():
            try:
                engine = xllamacpp.Server(params)
                # One token, so that its loop surely runs: an engine stopped before that waits for ever, now and then.
                url = f"{engine.listening_address}/completion"
                first = urllib.request.Request(url, b'{"prompt": "1", "n_predict": 1}')
                first.add_header("Authorization", f"Bearer {key}")
                urllib.request.build_opener(urllib.request.ProxyHandler({})).open(first, timeout=600).read()
            except Exception as error:
                where = f" on port {port}. Is it in use? Choose another PORT" if port else ""
                raise UserError(f"llama.cpp does not start with {gguf.name}{where} ({error})") from None
        yield engine.listening_address
    finally:
        # Dropping the last reference stops the server. Here and at once: at the interpreter's end, where a traceback
        # would keep it until, it waits for ever.
        engine = None


@contextmanager
def _signals_held() -> Iterator[None]:
    """Signals that would stop us wait until the body ends: one that arrives inside llama.cpp's constructor deadlocks
    it. A mask does not do it: another thread (numpy has some) takes the signal then, and Python raises in the main one
    all the same."""
    caught: list[int] = []
    heeded = [sign for sign in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(sign)]
    is_main = threading.current_thread() is threading.main_thread()  # Python runs handlers there alone
    before = {sign: signal.signal(sign, lambda number, _: caught.append(number)) for sign in heeded if is_main}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
    for number in caught[:1]:
        signal.raise_signal(number)
