"""llama.cpp, a server of its own or in this process through xllamacpp: the engine for machines without an NVIDIA GPU.

In this process it serves the embedded model, or the GGUF file that MODEL names, sized by the file's header and the
machine's memory.
"""

import os
import socket
import subprocess
import sys
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.base import signals
from core.base.errors import UserError
from core.engines import chat_template, client, environment, weights
from core.engines.client import count, line, page_of
from core.engines.embedded_model import embedded_card, embedded_name, embedded_sha256
from core.engines.identity import fingerprint
from core.engines.need import PROMPT_TOKENS, Need
from core.engines.server import WAITING, Dialect, Server, digest_in, is_local
from core.types import Message

if TYPE_CHECKING:
    from core.engines.gguf_header import Gguf

# Bytes that, beside a tenth of the memory, are left to the system, other programs and llama.cpp's own buffers (0.1 GB
# with QED-Nano's shape, two slots and contexts of 6,656). An assumption.
SPARE = 2 * 2**30
BLOCK = 256  # tokens: llama.cpp rounds the context of a slot up to a multiple of it
CACHE_MIB = 256  # of memory for prompts that have left their slot, with a model as small as the embedded one
HOW = "Make one: bash scripts/to_gguf.sh FOLDER OUT.gguf"


class LlamaCpp(Dialect):
    """llama.cpp's server. It honours seeds, and renders an assistant's message with a reasoning field as it is."""

    kind = "llama.cpp"
    owner = "llamacpp"
    engines = ("llamacpp", "embedded")
    is_in_keys = False  # a name of ours tells its weights
    is_in_process = True
    has_version = False  # one in this process and one attached to call their releases by different names
    ends_at_context = True

    def recognised(self, found: Server, about: Mapping[str, Any], models: Mapping[str, Any]) -> Server | None:
        is_provider = found.card.name and not found.card.engine
        if is_provider and not self.is_owner(about):
            return None
        props = page_of(found, "props")
        return self._described(found, about, props) if props or self.is_owner(about) else None

    def _described(self, found: Server, about: Mapping[str, Any], props: Mapping[str, Any]) -> Server:
        path, settings = str(props.get("model_path") or ""), props.get("default_generation_settings")
        is_embedded = digest_in(found.model) and found.model.partition("@")[0] == embedded_card().model
        return replace(
            found,
            kind=self.kind,
            limit=(count(props.get("total_slots")) or 1) + WAITING,
            context=count(settings.get("n_ctx")) if isinstance(settings, dict) else None,
            version=line(release_in(about) or props.get("build_info")),
            sha256=embedded_sha256() if is_embedded and found.model == embedded_name() else None,
            seeds=True,
            weights=fingerprint(found.model, path, {}, is_local(found.base_url)),
            template=tail,
        )

    def closed(self, server: Server, messages: Sequence[Message], thinking: str, opening: str) -> dict[str, Any]:
        return _reasoned(messages, thinking, opening)

    def left_open(self, server: Server, messages: Sequence[Message], thinking: str) -> dict[str, Any]:
        """Return the fields of a request. llama.cpp leaves the thinking of a message without content open."""
        return _reasoned(messages, thinking, "")

    def continuation(self, content: str, reasoning: str, opening: str) -> str:
        """Return the text behind `opening`: llama.cpp gives the whole message, with the thinking that it was given."""
        return content.removeprefix(opening) if content.startswith(opening) else content or reasoning


def _reasoned(messages: Sequence[Message], thinking: str, content: str) -> dict[str, Any]:
    return {"messages": [*messages, {"role": "assistant", "reasoning_content": thinking, "content": content}]}


def tail(server: Server) -> str | None:
    """Return the text that the chat template puts behind a question; None if the server does not tell."""
    return chat_template.tail_of(page_of(server, "apply-template", chat_template.question(server)).get("prompt"))


DIALECT = LlamaCpp()
ENGINE, EMBEDDED = DIALECT.engines


@dataclass(frozen=True)
class Size:
    """`slots`: requests decoded together; `context`: tokens each of them may hold; `threads`: of the CPU."""

    slots: int
    context: int
    threads: int


def size(model: "Gguf", need: Need, memory: int, cores: int, exact: bool = False) -> Size:
    """How to serve `need` with `memory` bytes and `cores` physical cores; `exact` as in `serving`. Raises UserError
    where not even one request fits.

    No more slots than cores: each decodes about 3 tokens/s of a 4B model (6.5 to 7.2 on two, in Q4_0), and with more
    slots requests of 16k tokens would outlast their TIMEOUT.
    """
    a_token = model.shape.kv_bytes() * (2 if exact else 1)
    tokens = max(0, int(0.9 * memory - SPARE - model.bytes) // a_token)
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


def gguf_file(named: str) -> Path:
    """The file that MODEL, which is `named`, names. Raises UserError if there is none."""
    if not Path(named).is_file():
        raise UserError(f"ENGINE=llamacpp needs the path of a GGUF file as MODEL, and MODEL={named} is none. {HOW}")
    return Path(named).resolve()


def name_of(path: Path) -> str:
    """What requests and journals call the model in `path`: it ends in the digest of the file's content."""
    return f"{path.stem}@{weights.sha256(path)[:12]}"


def memory() -> int:
    """Bytes of memory of this machine, or of the container that this process runs in."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    most = limit.read_text().strip() if limit.is_file() else ""
    return min(total, int(most)) if most.isdigit() else total


def physical_cores() -> int:
    """Cores that this process may use; a core with two threads is one, and of a Mac's only the fast ones count."""
    if sys.platform == "darwin":
        for name in ("hw.perflevel0.physicalcpu", "hw.physicalcpu"):  # the first: Apple's own chips
            said = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False).stdout.strip()
            if said.isdigit():
                return int(said)
        return os.cpu_count() or 1
    allowed = os.sched_getaffinity(0)
    siblings = [Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list") for cpu in allowed]
    return len({file.read_text() if file.is_file() else str(file) for file in siblings})


def release() -> str:
    return f"xllamacpp {version('xllamacpp')}"


def release_in(about: Mapping[str, Any]) -> str | None:
    """The release of a server that `serving` started, from a model's entry in its list; None for other servers."""
    tags = about.get("tags")
    named = map(str, tags) if isinstance(tags, list) else ()
    return next((tag for tag in named if tag.startswith("xllamacpp ")), None)


@contextmanager
def serving(
    gguf: Path, name: str, host: str, port: int, size: Size, key: str, exact: bool, embeds: bool = False
) -> Iterator[str]:
    """The address (http://host:port) of a server of `gguf` that calls its model `name`; port 0 takes a free one. With a
    `key`, requests must carry it.

    `exact`: equal seeds give equal completions whatever else is in the batch, at a third of the speed. Else llama.cpp
    is as fast as it can: flash attention, KV cache in f16, and as many layers on the GPU (Metal; others as the build
    has them) as fit there. Raises UserError where it does not start.

    `embeds`: it answers /v1/embeddings too, the mean over the tokens of each text, and gives all of its one slot to a
    text. It has one slot, for with several llama.cpp cuts texts that go through together into pieces of equal length,
    and gives the mean of the last piece alone (measured: vectors off by 0.16, and no error).
    """
    assert size.slots == 1 or not embeds
    environment.let_openmp_sleep()
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(gguf)
    params.model_alias = {name}
    params.model_tags = {release()}  # it calls its own build "b0-unknown"
    params.hostnames = [host]
    params.port = port
    params.api_keys = [str(key)] if key else []  # takes no subclass of str
    params.n_parallel = size.slots
    params.n_ctx = size.slots * size.context  # llama.cpp's n_ctx is the total over all slots
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = size.threads
    params.cache_ram_mib = CACHE_MIB if exact else 0  # llama.cpp shares a prefix between slots by way of memory alone
    params.verbosity = 0
    if embeds:
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        params.n_batch = params.n_ubatch = size.context  # a text must go through in one piece
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
        with signals.held():  # one that arrives inside llama.cpp's constructor deadlocks it
            try:
                engine = xllamacpp.Server(params)
                # One token, so that its loop surely runs: an engine stopped before that waits for ever, now and then.
                first = {"prompt": "1", "n_predict": 1}
                client.send(f"{engine.listening_address}/completion", key, first, seconds=600)
            except Exception as error:
                where = f" on port {port}. Is it in use? Choose another PORT" if port else ""
                raise UserError(f"llama.cpp does not start with {gguf.name}{where} ({error})") from None
        yield engine.listening_address
    finally:
        if engine:
            _hang_up(engine.listening_address)
        # Dropping the last reference stops the server. Here and at once: at the interpreter's end, where a traceback
        # would keep it until, it waits for ever.
        engine = None


def _hang_up(address: str) -> None:
    """Close each connection to the server at `address`, which is in this process. A server that stops waits for its
    clients, and they for it."""
    port = urllib.parse.urlsplit(address).port
    for _ in range(2):  # the first time it may just accept one more
        for name in os.listdir("/dev/fd"):
            with suppress(OSError):  # no socket, or closed by now
                each = socket.socket(fileno=int(name))
                try:
                    if each.getsockname()[1:2] == (port,):
                        each.shutdown(socket.SHUT_RDWR)
                finally:
                    each.detach()
