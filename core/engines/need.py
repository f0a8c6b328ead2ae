"""Compute how a GPU serves a model for a run: the context, the KV cache, and the requests at a
time.

The inputs are the model's config.json, the GPU's memory, and the experiment's constants. If the
formulas do not hold for the model, the engine decides instead, and the started server reports its
KV cache."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.base.errors import UserError
from core.base.files import in_words
from core.constants import Constants, Rule, rules
from core.engines.gpus import Gpu
from core.engines.shape import Shape, kv_tokens, mem_fraction

PROMPT_TOKENS = 2048  # room for a problem's statement and the instructions around it
# of MAX_TOKENS, in the cache per request (assumed: traces end at two thirds, and are half written)
TRACE_SHARE = 1 / 3
MOST_RUNNING = 256  # requests (more requests bring no gain on one GPU)
# tokens of KV cache that a request holds, if its length is unknown
FEWEST_HELD = 2048


@dataclass(frozen=True)
class Need:
    """The size of an experiment's longest request, with `k` texts (candidates, reports, summaries)
    and a new text."""

    k: int = 3
    max_tokens: int = 16384  # of each text, thinking included
    answer_tokens: int = 512  # of the forced answer
    shots: int = 0  # tokens of the worked examples and the system message before each prompt
    embeds: bool = False  # whether this server also embeds

    @classmethod
    def read(cls, argv: Sequence[str]) -> "tuple[Need, list[str]]":
        """Read a need from NAME=value arguments. Return the need and the other arguments. Raises
        UserError."""
        fields = {"K": "k", "MAX_TOKENS": "max_tokens", "ANSWER_TOKENS": "answer_tokens"}
        rule_of = rules(Constants) | {"K": Rule("texts that one prompt shows", int, 1, 1024)}
        given: dict[str, Any] = {}
        others = []
        for argument in argv:
            if not re.fullmatch(r"[A-Z_]+=.*", argument):
                others.append(argument)
                continue
            name, _, value = argument.partition("=")
            if name not in fields:
                raise UserError(f"unknown constant {name}. A server takes only {', '.join(fields)}")
            given[fields[name]] = rule_of[name].read(name, value)
        return cls(**given), others

    @property
    def context(self) -> int:
        """The tokens of the longest prompt, its completion and the forced answer."""
        return self.least + self.k * self.max_tokens

    @property
    def least(self) -> int:
        """The tokens of a request that shows no texts."""
        return PROMPT_TOKENS + self.shots + self.max_tokens + self.answer_tokens


@dataclass(frozen=True)
class ServerSize:
    """The size of a server on GPUs: its context, KV cache and requests at a time. The engine
    decides numbers that are 0."""

    context: int  # tokens of one request
    kv: str  # "bf16" (or the model's own type) or "fp8"
    fraction: float  # of the GPU's free memory, for weights and KV cache
    running: int  # the most requests decoded together
    tokens: int  # of KV cache, as computed here (the server has its own count)
    embeds: bool = False  # whether the server also embeds
    gpus: int = 1  # used together (tensor parallelism)


def kv_type(kv: str, gpu: Gpu, is_full: bool = False) -> str:
    """Return the type of the KV cache. "auto" is fp8 on GPUs that support it, unless it `is_full`.
    It is full for a server that also embeds, because an fp8 cache would change a vector if the
    text's beginning is cached. It is full too if the engine may lack an fp8 cache for the
    architecture. Raises UserError without fp8."""
    if kv == "fp8" and not gpu.fp8:
        raise UserError(
            f"{gpu.name} is not known to support an fp8 KV cache. Unset KV, or set KV=bf16"
        )
    if kv != "auto":
        return kv
    return "fp8" if gpu.fp8 and not is_full else "bf16"


def server_size(
    shape: Shape | None, longest: int, gpu: Gpu, need: Need, kv: str = "auto", gpus: int = 1
) -> ServerSize:
    """Return the size of a server for `need` on so many `gpus` like `gpu`. Raises UserError if one
    request may not fit, or if `gpu` lacks fp8. `longest` is the model's trained context in tokens.
    Without a `shape` the engine decides."""
    kv = kv_type(kv, gpu, is_full=need.embeds or shape is None)
    if shape is None:
        return ServerSize(0, kv, 0, 0, 0, need.embeds, gpus)
    tokens = kv_tokens(shape, gpu.memory, kv, gpus)
    if tokens < need.least:
        smaller = "set KV=fp8, " if kv == "bf16" and gpu.fp8 else ""
        raise UserError(
            f"{gpu.name} has room for {tokens:,} tokens of KV cache ({kv}) besides the weights, "
            f"but one request may need {need.least:,}. Lower MAX_TOKENS, {smaller}use a larger "
            "GPU, or several GPUs (TP=2)"
        )
    return ServerSize(
        context=min(need.context, longest, tokens),
        kv=kv,
        fraction=mem_fraction(gpu.memory),
        running=running(tokens, need.max_tokens),
        tokens=tokens,
        embeds=need.embeds,
        gpus=gpus,
    )


def check_fits(weight_bytes: int, gpu: Gpu, gpus: int = 1) -> None:
    """Raise UserError if weights are larger than the memory of so many `gpus` like `gpu`."""
    memory = gpu.memory * gpus
    if weight_bytes <= memory:
        return
    named = gpu.name if gpus == 1 else f"{gpus} x {gpu.name}"
    raise UserError(
        f"the weights take {in_words(weight_bytes)}, but {named} has {in_words(memory)}. Use more "
        f"memory, more GPUs together (TP={2 * gpus}), or a smaller or quantized model"
    )


def in_flight(tokens: int, most: int, max_tokens: int = 0) -> int:
    """Return how many requests fill a server whose KV cache holds `tokens`, from 1 to `most`. A
    request is assumed to hold FEWEST_HELD tokens, or fewer if its `max_tokens` suggest it."""
    held = float(FEWEST_HELD)
    if max_tokens:
        held = min(held, max_tokens * TRACE_SHARE)
    return _holding(tokens, held, most)


def running(tokens: int, max_tokens: int) -> int:
    """Return how many requests of up to `max_tokens` a cache of `tokens` holds on average, from 1
    to MOST_RUNNING."""
    return _holding(tokens, max_tokens * TRACE_SHARE, MOST_RUNNING)


def _holding(tokens: int, held: float, most: int) -> int:
    """Return how many requests that hold `held` tokens each fit into `tokens`, from 1 to `most`."""
    return max(1, min(most, int(tokens // held)))
