"""Estimate the time of decoding on one GPU from bytes and operations (the roofline model of
Williams et al. 2009).

One decoding step writes one token for each of R requests in flight. It reads all weights once, and
the KV cache of each request, which has C tokens on average. It multiplies each new token with every
weight, and attends to C tokens:

    bytes = 2 P + R C kv                FLOPs = R (2 P + 4 layers heads head_dim C)
    step  = max(bytes / bandwidth, FLOPs / peak)

P is the number of parameters that a step uses, in bf16. kv is the size of the KV cache in bytes per
token. Reading a prompt of p tokens takes p (2 P_layers + 2 layers heads head_dim p) FLOPs. Its
tokens attend to p / 2 tokens on average. Reading is bound by compute and interrupts decoding. So
the times of reading and decoding are added.

In a mixture of experts, a token is multiplied only with its active experts. A step reads the
experts that any of its R tokens uses. Quantized weights have the bytes of their files. Several GPUs
share bytes and operations. The time of their communication is not counted.

A request reads p tokens and writes L tokens in L steps. So it has p + L / 2 tokens in the KV cache
on average. Long requests are more likely to be in flight at a random moment:  C = p + E[L^2] / (2
E[L]). R is (tokens of the KV cache) / C, or the number of requests sent at a time if that number is
lower.

All problems run at the same time. Each step of a problem waits for the slowest member of the
previous step. `work` is the time of all tokens with R requests in flight. `path` is the time of one
problem's slowest members, one after the other. No schedule is faster than max(work, path). A server
that is never idle while a request waits takes at most work + path (Graham 1966). The best and the
worst case assume shares of the data sheet's bandwidth and FLOP/s, and of the KV cache in use. These
shares are assumptions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.base.errors import UserError
from core.constants import Asking
from core.engines.gpus import Gpu
from core.engines.need import running
from core.engines.shape import Shape, kv_tokens

# (t,) for step t's solutions, ("verify", t) for their verifications, (name,) for others
Kind = tuple[str | int, ...]


@dataclass(frozen=True)
class Reach:
    """The shares of the GPU's bandwidth, FLOP/s and KV cache that the server uses, each in (0,
    1]."""

    bandwidth: float
    compute: float
    fill: float


BEST = Reach(0.85, 0.7, 0.95)
WORST = Reach(0.6, 0.4, 0.7)
MIDDLE = Reach(0.725, 0.55, 0.825)


@dataclass(frozen=True)
class Load:
    """The requests of one kind: `count` completions with `prompt` tokens each. `lengths` samples
    their new tokens. The share `cut` gets a forced or elicited answer: a second request reads the
    prompt and the output, and writes `forced` tokens. These are the longest completions. `at_most`
    bounds one's prompt tokens (0: unknown) and new tokens."""

    kind: Kind
    count: int
    prompt: float
    lengths: NDArray[np.float64]
    cut: float = 0.0
    forced: float = 0.0
    at_most: tuple[float, float] = (0, 0)

    @property
    def prompts(self) -> float:
        """The number of prompt tokens of all requests."""
        return self.count * (self.prompt + self.cut * self.cut_prompt)

    @property
    def tokens(self) -> float:
        """The number of completion tokens of all requests."""
        return self.count * (float(self.lengths.mean()) + self.cut * self.forced)

    @property
    def context(self) -> float:
        """The mean number of tokens in the KV cache for a request in flight (C)."""
        mean_square = (self.lengths**2).mean()
        return self.prompt + float(mean_square / self.lengths.mean()) / 2

    @property
    def cut_prompt(self) -> float:
        """The mean number of tokens in the second prompt of a continued completion."""
        if self.cut == 1:
            return self.prompt + float(self.lengths.mean())
        return self.prompt + float(self.lengths.max())

    def longest(self, n: int) -> float:
        """Return the expected length in tokens of the longest of `n` completions."""
        ordered = np.sort(self.lengths)
        below = np.arange(ordered.size + 1) / ordered.size  # the share of shorter completions
        is_longest = np.diff(below**n)
        return float((ordered * is_longest).sum())


def in_words(name: str, gpus: int) -> str:
    """Return the name of a GPU, and their number if there are several."""
    return name if gpus == 1 else f"{gpus} x {name}"


@dataclass(frozen=True)
class Machine:
    """A model on so many `gpus` together. Its KV cache of type `kv` holds `kv_tokens`. It serves at
    most `limit` requests at a time. `weight_bytes` is the size of its weights (0: in bf16)."""

    shape: Shape
    gpu: Gpu
    kv: str
    kv_tokens: int
    limit: int
    gpus: int = 1
    weight_bytes: int = 0

    @classmethod
    def of(
        cls,
        shape: Shape,
        gpu: Gpu,
        kv: str,
        config: Asking,
        gpus: int = 1,
        weight_bytes: int = 0,
    ) -> "Machine":
        """Return the server for a model of this `shape` on so many `gpus` like `gpu`. Raises
        UserError if the model does not fit."""
        tokens = kv_tokens(shape, gpu.memory, kv, gpus, weight_bytes)
        if tokens == 0:
            size = weight_bytes or shape.weight_bytes
            raise UserError(
                "the model does not fit. It needs memory for its weights "
                f"({size / 1e9:.1f} GB) and a KV cache, but {in_words(gpu.name, gpus)} has "
                f"{gpus * gpu.memory / 1e9:.1f} GB. Choose a larger GPU, or several (--gpu "
                f"{2 * gpus}x{gpu.name.removeprefix('RTX ')})"
            )
        limit = config.CONCURRENCY or running(tokens, config.MAX_TOKENS)
        return cls(shape, gpu, kv, tokens, limit, gpus, weight_bytes)

    def fits(self, context: float, reach: Reach) -> float:
        """Return the number of requests with `context` tokens each that fit the KV cache, at least
        1."""
        return max(1.0, reach.fill * self.kv_tokens / context)

    def in_flight(self, load: Load, reach: Reach) -> float:
        """Return the mean number of requests in flight (R)."""
        return min(self.fits(load.context, reach), self.limit, load.count)

    def step(self, requests: float, context: float, reach: Reach) -> float:
        """Return the seconds of one decoding step."""
        shape = self.shape
        parameter_bytes = (self.weight_bytes or shape.weight_bytes) / shape.parameters
        weights = parameter_bytes * shape.read_parameters(requests) / self.gpus
        token_bytes = shape.kv_bytes(self.kv) / min(self.gpus, shape.kv_heads)
        kv_cache = requests * context * token_bytes
        attention = 4 * shape.layers * shape.heads * shape.head_dim * context
        flops = requests * (2 * shape.step_parameters + attention) / self.gpus
        reading = (weights + kv_cache) / (self.gpu.bandwidth * reach.bandwidth)
        computing = flops / (self.gpu.flops * reach.compute)
        return max(reading, computing)

    def prefill(self, prompt: float, reach: Reach) -> float:
        """Return the seconds to read one prompt."""
        shape = self.shape
        attention = 2 * shape.layers * shape.heads * shape.head_dim * prompt
        per_token = 2 * shape.layer_parameters + attention
        return prompt * per_token / (self.gpus * self.gpu.flops * reach.compute)

    def work_and_path(
        self, loads: Sequence[Load], problems: int, reach: Reach, alone: bool = False
    ) -> tuple[float, float]:
        """Return the seconds of all tokens and the seconds of the critical path. If `alone`, the
        critical path has the GPU to itself."""
        work = path = 0.0
        for load in loads:
            requests = self.in_flight(load, reach)
            step = self.step(requests, load.context, reach)
            read = self.prefill(load.prompt, reach)
            read_again = load.cut * self.prefill(load.cut_prompt, reach)
            work += load.tokens / requests * step + load.count * (read + read_again)
            chain = self.step(1, load.context, reach) if alone else step
            path += load.longest(load.count // problems) * chain
        return work, path

    def seconds(self, loads: Sequence[Load], problems: int) -> tuple[float, float]:
        """Return the shortest time in seconds, max(work, path), and the longest time, work +
        path."""
        work, path = self.work_and_path(loads, problems, BEST, alone=True)
        shortest = max(work, path)
        work, path = self.work_and_path(loads, problems, WORST)
        return shortest, work + path
