"""What a run needs of a server, and how a model is served on a GPU for it: context, KV cache, requests at a time.

What can be is derived: from the model's config.json, the card's memory, and what the experiment will ask.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.base.errors import UserError
from core.constants import Constants, Rule, rules
from core.engines.gpus import Gpu
from core.engines.shape import RUNTIME_BYTES, Shape, kv_tokens, mem_fraction

PROMPT_TOKENS = 2048  # room for a problem's statement and the instructions around it
TRACE_SHARE = 1 / 3  # of MAX_TOKENS that a request holds on average over its life: half of a length of two thirds
MOST_RUNNING = 256  # requests; more gain nothing on one card
FEWEST_HELD = 2048  # tokens that a request holds at the least: more of them in flight than that cannot all run
# A server that embeds: tokens of its longest text, and those that it reads together; bytes for the activations of these
# (an assumption: a layer of QED-Nano's shape writes 0.5 GB for 8,192 tokens).
EMBEDDED_TOKENS, TOGETHER, EMBEDDING_SPARE = 2048, 8192, 2**30


@dataclass(frozen=True)
class Need:
    """What the longest request of an experiment holds: `k` texts (candidates, reports, summaries) and the new one, each
    `max_tokens` at most (thinking included), and the forced answer behind it. `embeds`: the GPU holds the same weights
    once more, in a server that embeds and starts first."""

    k: int = 3
    max_tokens: int = 16384
    answer_tokens: int = 512
    embeds: bool = False

    @classmethod
    def read(cls, argv: Sequence[str]) -> "tuple[Need, list[str]]":
        """From NAME=value arguments, and the others that are left. Raises UserError."""
        rest = [arg for arg in argv if not re.fullmatch(r"[A-Z_]+=.*", arg)]
        names = {"K": "k", "MAX_TOKENS": "max_tokens", "ANSWER_TOKENS": "answer_tokens"}
        known = rules(Constants) | {"K": Rule("texts that one prompt shows", int, 1, 1024)}
        given: dict[str, Any] = {}
        for name, _, value in (arg.partition("=") for arg in argv if arg not in rest):
            if name not in names:
                raise UserError(f"unknown constant {name}. What a server has to hold follows from {', '.join(names)}")
            given[names[name]] = known[name].read(name, value)
        return cls(**given), rest

    @property
    def context(self) -> int:
        """Tokens of the longest prompt and its completion."""
        return PROMPT_TOKENS + (self.k + 1) * self.max_tokens + self.answer_tokens


@dataclass(frozen=True)
class Settings:
    """How a model is served on a card. `context`: tokens of one request; `running`: requests decoded together;
    `fraction`: of the card's free memory, for weights and KV cache."""

    context: int
    kv: str  # "bf16" or "fp8"
    fraction: float
    running: int
    tokens: int  # of KV cache, as computed; the server gives its own count
    deterministic: bool = False  # equal requests with equal seeds get equal answers, whatever else is in flight
    share: float = 1  # of the GPU's memory: what is left to this server, where there are two


def settings(shape: Shape, longest: int, gpu: Gpu, need: Need, kv: str = "", deterministic: bool = False) -> Settings:
    """The settings for `need` on `gpu`. `longest`: tokens of context the model was made for. `kv`: a type, or "" for
    fp8 where the card has it. Raises UserError where the model, or one request, does not fit."""
    kv = kv or ("fp8" if gpu.fp8 else "bf16")
    if kv == "fp8" and not gpu.fp8:
        raise UserError(f"{gpu.name} has no fp8. Unset KV, or set KV=bf16")
    memory = gpu.memory - (embedding_bytes(shape) if need.embeds else 0)
    tokens = kv_tokens(shape, memory, kv)
    least = PROMPT_TOKENS + need.max_tokens + need.answer_tokens
    if tokens < least and need.embeds:
        raise UserError(
            f"{gpu.name} does not hold the model twice: to embed takes {embedding_bytes(shape) / 2**30:.1f} GiB, which "
            f"leaves room for {tokens:,} tokens of KV cache, and one request may need {least:,}. Leave the energy out "
            "(ENERGY=0), or take a larger GPU, or two: the second one then embeds"
        )
    if tokens < least:
        raise UserError(
            f"the model leaves room for {tokens:,} tokens of KV cache ({kv}) on {gpu.name} and one request may need "
            f"{least:,}. Lower MAX_TOKENS, {'set KV=fp8, ' if kv == 'bf16' and gpu.fp8 else ''}or take a larger GPU"
        )
    return Settings(
        context=min(need.context, longest, tokens),
        kv=kv,
        fraction=mem_fraction(memory),
        running=running(tokens, need.max_tokens),
        tokens=tokens,
        deterministic=deterministic,
        share=memory / gpu.memory,
    )


def embedding_settings(shape: Shape, longest: int, gpu: Gpu) -> Settings:
    """The settings of a server that embeds on `gpu`: weights and keys and values of TOGETHER tokens. Raises UserError
    where these do not fit."""
    if (needed := embedding_bytes(shape)) > gpu.memory:
        raise UserError(
            f"{gpu.name} has {gpu.memory / 2**30:.1f} GiB of memory, and to embed by this model takes "
            f"{needed / 2**30:.1f}. Leave the energy out (ENERGY=0), or take a larger GPU"
        )
    return Settings(
        context=min(EMBEDDED_TOKENS, longest),
        kv="bf16",
        fraction=mem_fraction(gpu.memory),
        running=MOST_RUNNING,
        tokens=TOGETHER,
        share=needed / gpu.memory,
    )


def embedding_bytes(shape: Shape) -> float:
    """Bytes of a GPU's memory that a server which embeds takes."""
    return RUNTIME_BYTES + shape.weight_bytes + TOGETHER * shape.kv_bytes("bf16") + EMBEDDING_SPARE


def running(tokens: int, max_tokens: int) -> int:
    """Requests that a KV cache of so many tokens holds together, capped at `max_tokens` each."""
    return max(1, min(int(tokens // (max_tokens * TRACE_SHARE)), MOST_RUNNING))
