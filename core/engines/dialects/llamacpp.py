"""Serve models on llama.cpp, the engine for machines without an NVIDIA GPU, and attach to llama.cpp
servers.

xllamacpp serves the embedded model in this process, and a larger GGUF file that MODEL names in a
process of its own (core/engines/gguf_server.py). The file's header and size, the longest request,
the memory and the cores determine the size of its server. If the header does not tell the memory of
a context, llama.cpp fits the context itself. The embedded model's server is fixed."""

import math
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.base.errors import UserError
from core.base.files import DATA
from core.engines import card_file, cards, environment, gguf_parts, queries, weights
from core.engines.cards import Card
from core.engines.chat_template import ChatTemplate
from core.engines.gguf_cache import Cache
from core.engines.identity import fingerprint, weights_at
from core.engines.need import Need
from core.engines.pinned import served_name
from core.engines.protocol import (
    KWARGS,
    WAITING,
    Dialect,
    Key,
    Server,
    is_local,
    template_arguments,
)
from core.engines.queries import count, line, page_of, rendered, tail_of
from core.engines.wanted import EMBEDDED, LLAMACPP, hub_model
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
# tags of the servers that `serving` starts
EXACT = "exact"
FAST = "fast"
ASKED = "EXACT="  # before the value of EXACT
TEMPLATE = "CHAT_TEMPLATE="  # before the tag of the chat template
# More slots may write more tokens/s, but each slot writes fewer (docs/benchmarks.md), and computes
# shared prefixes again. A completion should take at most PATIENCE seconds, half of the default
# TIMEOUT. Each number of slots is timed for STEPS tokens of each slot of the server. It is enough
# if it writes ENOUGH of the most tokens/s.
STEPS = 4
ENOUGH = 0.9
PATIENCE = 1800.0
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
    reading = 0.4
    sharing = 0.5  # two slots write 21 tokens/s, and 16 slots 53
    names = (LLAMACPP, EMBEDDED)
    is_in_keys = False  # our names contain the weights' digest
    is_in_process = True
    # it announces "Keep-Alive", but closes the connection 0.1 ms after a stream's end (measured)
    hangs_up = True
    ends_at_context = True
    neutral = NEUTRAL
    renders = ("apply-template", "prompt")

    def described(
        self, server: Server, entry: Mapping[str, Any], models: Mapping[str, Any]
    ) -> Server:
        props = page_of(server, "props")
        settings = props.get("default_generation_settings")
        path = str(props.get("model_path") or "")
        is_here = is_local(server.base_url)
        tags = _Tags.of(entry)
        identity = fingerprint(server.model, path, {}, is_here)
        if tags.asked:
            identity["exact"] = tags.asked
        if tags.template:
            identity["chat_template"] = tags.template
        server = replace(server, kind=self.kind)  # also for a server that names another owner
        return replace(
            server,
            limit=(count(props.get("total_slots")) or 1) + WAITING,
            context=count(settings.get("n_ctx")) if isinstance(settings, dict) else None,
            version=line(tags.release or props.get("build_info")),
            sha256=weights.sha256(EMBEDDED_GGUF) if server.model == embedded_name() else None,
            seeds=True,
            exact=tags.exact,
            templated=_is_templated(path, props) if is_here and not tags.template else None,
            weights=identity,
            tail=tail_of(rendered(server)),
        )

    def reasoning(self, effort: str, template: Mapping[str, Any]) -> dict[str, Any]:
        """Return the field of a request. llama.cpp passes an effort to the chat template only
        there."""
        arguments = template_arguments(effort, template)
        return {KWARGS: arguments} if arguments else {}

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
        if content.startswith(opening):
            return content.removeprefix(opening)
        return content or reasoning

    def cannot_continue(self, server: Server) -> str:
        name = server.weights.get("chat_template", "")
        if ChatTemplate.is_name(name):
            return f"llama.cpp can't continue a message with CHAT_TEMPLATE={name}"
        return ""


@dataclass(frozen=True)
class _Tags:
    """The tags that a server of this project has in its list of models. `server_of` sets them."""

    release: str | None = None  # of xllamacpp
    exact: bool | None = None  # whether replies are independent of the batch
    asked: str = ""  # the value of EXACT, if it differs from the model's default
    template: str = ""  # the tag of the chat template that CHAT_TEMPLATE selects

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> "_Tags":
        tags = entry.get("tags")
        release: str | None = None
        exact: bool | None = None
        asked = ""
        template = ""
        for tag in map(str, tags if isinstance(tags, list) else []):
            if tag.startswith("xllamacpp "):
                release = release or tag
            elif tag.startswith(ASKED):
                asked = asked or tag.removeprefix(ASKED)
            elif tag.startswith(TEMPLATE):
                template = template or tag.removeprefix(TEMPLATE)
            elif tag in (EXACT, FAST):
                exact = exact or tag == EXACT
        return cls(release, exact, asked, template)


def _is_templated(path: str, props: Mapping[str, Any]) -> bool | None:
    """Return whether the GGUF file at `path` has a chat template. Return None if it is not on this
    machine, or if the server's `props` show another template than ChatML (--chat-template)."""
    here = weights_at(path)
    if here is None or here.is_dir() or here == EMBEDDED_GGUF:
        return None
    reported = str(props.get("chat_template") or "")
    if reported and "<|im_start|>" not in reported:
        return None
    from core.engines.gguf_header import has_template  # slow to load, and rarely needed

    return has_template(here)


def _reasoned(messages: Sequence[Message], thinking: str, content: str) -> dict[str, Any]:
    reply = {"role": "assistant", "reasoning_content": thinking, "content": content}
    return {"messages": [*messages, reply]}


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
    `threads`, and `cache` (MiB of memory for prompts that have left their slot). If `context` is 0,
    llama.cpp chooses the context, with at least `least` tokens if they fit."""

    slots: int
    context: int
    threads: int
    cache: int = CACHE_MIB
    least: int = 0


def size(
    model: "Gguf",
    need: Need,
    memory: int,
    cores: int,
    exact: bool = False,
    slots: int = EMBEDDED_SLOTS,
) -> Size:
    """Return a server's size for `need`, `memory` bytes and `cores` physical cores, with at most
    `slots` slots. `exact` is explained in core/engines/in_process.py. Raises UserError if one
    request may not fit."""
    room = max(0, int(0.9 * memory - SPARE - model.bytes))
    least = min(model.longest, need.least)
    cache = model.cache or Cache(0, is_bound=True)
    factor = 2 if exact else 1  # in float32
    token_bytes = factor * cache.token
    slot_bytes = factor * cache.slot
    tokens = _tokens(room - slot_bytes, token_bytes, model.longest)
    if tokens < least and not (room and cache.is_bound):
        raise UserError(
            f"{model.path.name} ({model.bytes / 2**30:.1f} GiB) leaves room for {tokens:,} tokens "
            f"of KV cache in {memory / 2**30:.1f} GiB of memory. One request may need {least:,}. "
            "Lower MAX_TOKENS, or use a smaller file of the model (fewer bits per weight)"
        )
    if tokens < least or model.cache is None:
        return Size(slots=1, context=0, threads=cores, cache=0, least=least)
    context = min(math.ceil(need.context / BLOCK) * BLOCK, model.longest)
    if context > tokens:
        context = tokens // BLOCK * BLOCK or tokens
    of_slot = context * token_bytes + slot_bytes
    slots = max(1, min(slots, room // of_slot))
    # for prompts that have left their slot, as much as the slots hold
    rest = min(room - slots * of_slot, slots * of_slot)
    if rest < of_slot:
        return Size(slots, context, cores, cache=0)
    whole_tokens = rest // token_bytes * token_bytes if token_bytes else rest
    return Size(slots, context, cores, whole_tokens // 2**20)


def _tokens(room: int, token_bytes: int, longest: int) -> int:
    """Return the tokens of one slot's context that fit in `room` bytes. Without `token_bytes`, any
    context fits if anything does."""
    if token_bytes:
        return max(0, room // token_bytes)
    return longest if room > 0 else 0


def slots_in_time(address: str, size: Size, need: Need, key: Key) -> int:
    """Return the fewest slots that write ENOUGH at `address`. One slot per core, four per core, and
    all slots are timed. There are fewer if the longest completion takes over PATIENCE seconds, but
    at least one per core."""

    def write(tokens: int) -> None:
        body = {"prompt": "1", "n_predict": tokens, "ignore_eos": True, "cache_prompt": False}
        queries.send(f"{address}/completion", key, body, seconds=600)

    rates = {}
    timed = {min(number, size.slots) for number in (size.threads, 4 * size.threads, size.slots)}
    for slots in sorted(timed):
        tokens = math.ceil(STEPS * size.slots / slots)
        began = time.monotonic()
        pool = ThreadPoolExecutor(slots)
        try:
            list(pool.map(write, [tokens] * slots))
        finally:
            # a stop does not wait for the requests in flight
            pool.shutdown(wait=False, cancel_futures=True)
        rates[slots] = slots * tokens / (time.monotonic() - began)
    enough = ENOUGH * max(rates.values())
    slots = min(slots for slots, rate in rates.items() if rate >= enough)
    longest = min(need.max_tokens + need.answer_tokens, size.context)
    in_time = int(rates[slots] * PATIENCE / longest)
    return min(slots, max(size.threads, in_time))


def gguf_file(named: str, card: Card | None = None) -> Path:
    """Return the absolute path of the file in MODEL=`named`, or of its first part. A file on the
    hub, or the file of the `card` (None: MODEL's), is fetched if needed. Raises UserError if there
    is no such file, or a part is missing."""
    card = card or environment.card()
    if not named and (file := card.file):
        return card_file.fetch(file).resolve()
    if on_hub := hub_model(named):
        return gguf_parts.first(weights.fetch_gguf(*on_hub))
    if not Path(named).is_file():
        raise UserError(f"MODEL={named} is no file, but ENGINE=llamacpp needs a GGUF file. {HOW}")
    return gguf_parts.first(Path(named))


def name_of(path: Path) -> str:
    """Return the model's name in requests and journals: the file's name and the digest of its
    content."""
    return served_name(path.name, weights.sha256(path))


def memory() -> int:
    """Return the memory of this machine or container in bytes."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = Path("/sys/fs/cgroup/memory.max")
    allowed = limit.read_text().strip() if limit.is_file() else ""
    return min(total, int(allowed)) if allowed.isdigit() else total


def physical_cores() -> int:
    """Return the number of physical cores that this process may use. On Apple's own chips, only
    fast cores count."""
    if sys.platform == "darwin":
        command = ["sysctl", "-n", "hw.perflevel0.physicalcpu"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return int(done.stdout or os.cpu_count() or 1)
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text() if siblings.is_file() else str(siblings))
    return len(cores)


def release() -> str:
    return f"xllamacpp {version('xllamacpp')}"
