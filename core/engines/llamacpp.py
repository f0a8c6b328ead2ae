"""llama.cpp in this process, through xllamacpp: the engine for machines without an NVIDIA GPU.

Serves the embedded model, or the GGUF file that MODEL names, sized from what the file says of its model and from the
machine's memory.
"""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

from core.engines.flags import PROMPT_TOKENS, Need
from core.engines.gguf_header import Gguf
from core.engines.origin import SameOrigin
from core.errors import UserError

KV_ELEMENT = 2  # bytes: f16
# Bytes that, beside a tenth of the memory, are left to the system, other programs and llama.cpp's own buffers (0.1 GB
# with QED-Nano's shape, two slots and contexts of 6,656). An assumption.
SPARE = 2 * 2**30
BLOCK = 256  # tokens: llama.cpp rounds the context of a slot up to a multiple of it
CACHE_MIB = 256  # of memory for prompts that have left their slot, with a model as small as the embedded one
HOW = "Make one: bash scripts/to_gguf.sh FOLDER OUT.gguf"


@dataclass(frozen=True)
class Size:
    """`slots`: requests decoded together; `context`: tokens each of them may hold; `threads`: of the CPU."""

    slots: int
    context: int
    threads: int


def size(model: Gguf, need: Need, memory: int, cores: int) -> Size:
    """How to serve `need` with `memory` bytes and `cores` physical cores. Raises UserError where not even one request
    fits.

    No more slots than cores: each decodes about 3 tokens/s of a 4B model (6.5 to 7.2 on two, in Q4_0), and with more
    slots requests of 16k tokens would outlast their TIMEOUT.
    """
    tokens = max(0, int(0.9 * memory - SPARE - model.bytes) // (KV_ELEMENT * model.kv_elements))
    least = min(model.longest, PROMPT_TOKENS + need.max_tokens + need.answer_tokens)
    if tokens < least:
        raise UserError(
            f"{model.path.name} ({model.bytes / 2**30:.1f} GiB) leaves room for {tokens:,} tokens of KV cache in "
            f"{memory / 2**30:.1f} GiB of memory and one request may need {least:,}. Lower MAX_TOKENS, or take a "
            "smaller file of the model (fewer bits a weight)"
        )
    context = min(-(-need.context // BLOCK) * BLOCK, model.longest)
    if context > tokens:
        context = tokens // BLOCK * BLOCK or tokens
    return Size(max(1, min(cores, tokens // context)), context, cores)


def chosen() -> Path:
    """The GGUF file that MODEL names. Raises UserError."""
    named = os.environ.get("MODEL", "").strip()
    if not named:
        raise UserError(f"ENGINE=llamacpp needs MODEL, the path of a GGUF file. {HOW}")
    path = Path(named).resolve()
    if path.is_dir():
        raise UserError(f"MODEL={named} is a folder and ENGINE=llamacpp needs a GGUF file. {HOW}")
    try:
        with open(path, "rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise UserError(
            f"MODEL={named} can't be read ({error.strerror}). Give the path of a GGUF file. {HOW}"
        ) from None
    if magic != b"GGUF":
        raise UserError(f"MODEL={named} is no GGUF file. {HOW}")
    return path


def name_of(path: Path) -> str:
    """What requests and journals call the model in `path`: it tells the file's content."""
    return f"{path.stem}@{sha256(path)[:12]}"


@lru_cache  # a run asks several times, and gigabytes take seconds
def sha256(path: Path) -> str:
    """Of the file's content. Raises OSError."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def memory() -> int:
    """Bytes of memory of this machine, or of the container that this process runs in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    told = limit.read_text().strip() if limit.is_file() else ""
    return min(total, int(told)) if told.isdigit() else total


def physical_cores() -> int:
    """Cores that this process may use; a core with two threads is one, and of a Mac's only the fast ones count."""
    if sys.platform == "darwin":
        for name in ("hw.perflevel0.physicalcpu", "hw.physicalcpu"):  # the first: Apple's own chips
            told = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False).stdout.strip()
            if told.isdigit():
                return int(told)
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    siblings = [Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in allowed]
    return len({file.read_text() if file.is_file() else str(file) for file in siblings})


def release() -> str:
    return f"xllamacpp {version('xllamacpp')}"


@contextmanager
def serving(gguf: Path, name: str, host: str, port: int, size: Size, key: str, exact: bool) -> Iterator[str]:
    """The address (http://host:port) of a server of `gguf` that calls its model `name`; port 0 takes a free one. With a
    `key`, requests must carry it.

    `exact`: equal seeds give equal completions whatever else is in the batch, at a third of the speed. Else llama.cpp
    is as fast as it can: flash attention, KV cache in f16, and as many layers on the GPU (Metal; others as the build
    has them) as fit there. Raises UserError where it does not start.
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
    params.cache_ram_mib = CACHE_MIB if exact else 0  # llama.cpp shares a prefix between slots by way of memory alone
    params.verbosity = 0
    attention, kv = xllamacpp.llama_flash_attn_type, xllamacpp.ggml_type
    if exact:  # attention must be: no flash attention, KV cache in F32, and no GPU, whose sums follow the batch
        params.flash_attn_type = attention.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cache_type_k = params.cache_type_v = kv.GGML_TYPE_F32
        params.n_gpu_layers = 0
    else:
        params.flash_attn_type = attention.LLAMA_FLASH_ATTN_TYPE_AUTO  # on, except on a device that lacks it
        params.cache_type_k = params.cache_type_v = kv.GGML_TYPE_F16
        params.n_gpu_layers = -1  # all that fit
        params.fit_params = True  # this is what counts them
    engine = None
    try:
        with _signals_held():
            try:
                engine = xllamacpp.Server(params)
                # One token, so that its loop surely runs: an engine stopped before that waits for ever, now and then.
                url = f"{engine.listening_address}/completion"
                first = urllib.request.Request(url, b'{"prompt": "1", "n_predict": 1}')
                first.add_header("Authorization", f"Bearer {key}")
                direct = urllib.request.build_opener(SameOrigin, urllib.request.ProxyHandler({}))
                direct.open(first, timeout=600).read()
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
