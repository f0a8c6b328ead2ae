"""Estimate the time of decoding on one GPU from bytes and operations (the roofline model of Williams et al. 2009).

One decoding step gives each of R requests in flight one token. It reads the weights once, and the KV cache of every
request, C tokens on average. It multiplies each token with every weight and attends to C tokens:

    bytes = 2 P + R C kv                FLOPs = R (2 P + 4 layers heads head_dim C)
    step  = max(bytes / bandwidth, FLOPs / peak)

P is the number of parameters used in a step, in bf16. kv is the bytes of the KV cache per token. Reading a prompt of p
tokens takes p (2 P_layers + 2 layers heads head_dim p) FLOPs, because token i attends to i tokens, p / 2 on average. It
is bound by compute and interrupts decoding, so the times add up.

A request that writes L tokens after a prompt of p tokens holds p + L / 2 tokens on average, for L steps. At a random
moment, long requests are more likely to be in flight:  C = p + E[L^2] / (2 E[L]).
R is (tokens of the KV cache) / C, or the number of requests sent at a time if that is lower.

All problems are in flight and independent, but each step of a problem waits for the slowest member of the step before.
`work` is the time of all tokens with R in flight. `path` is the time of one problem's chain of slowest members. No
schedule is faster than max(work, path). A server that is never idle while a request waits is not slower than
work + path (Graham 1966). The best and the worst case assume shares of the data sheet's bandwidth and FLOP/s, and of
the KV cache in use. These shares are not measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.engines.gpus import Gpu
from core.engines.shape import Shape

Kind = tuple[str | int, ...]  # (t,) for the solutions of a step, ("verify", t) for their verifications


@dataclass(frozen=True)
class Reach:
    """Shares in (0, 1] of bandwidth, FLOP/s and KV cache that are used."""

    bandwidth: float
    compute: float
    fill: float


BEST = Reach(0.85, 0.7, 0.95)
WORST = Reach(0.6, 0.4, 0.7)
MIDDLE = Reach(0.725, 0.55, 0.825)


@dataclass(frozen=True)
class Load:
    """A number of completions of one kind, with `prompt` tokens each and new tokens as in the sample `lengths`. If
    truncated (the share `cut`), a second request with the output in its prompt is sent, for `forced` tokens."""

    kind: Kind
    count: int
    prompt: float
    lengths: NDArray[np.float64]
    cut: float = 0.0
    forced: float = 0.0

    @property
    def prompts(self) -> float:
        """The prompt tokens of all completions."""
        return self.count * (self.prompt + self.cut * self.cut_prompt)

    @property
    def tokens(self) -> float:
        """The completion tokens of all completions."""
        return self.count * (float(self.lengths.mean()) + self.cut * self.forced)

    @property
    def context(self) -> float:
        """The tokens that a request in flight holds at a random moment (C)."""
        return self.prompt + float((self.lengths**2).mean() / self.lengths.mean()) / 2

    @property
    def cut_prompt(self) -> float:
        """The tokens of the second prompt of a truncated completion."""
        return self.prompt + float(self.lengths.max())

    def longest(self, n: int) -> float:
        """Return the expected length of the longest of `n`."""
        ordered = np.sort(self.lengths)
        below = np.arange(ordered.size + 1) / ordered.size
        return float((ordered * np.diff(below**n)).sum())


@dataclass(frozen=True)
class Parts:
    """Seconds of all loads for reading weights, for reading the KV cache and for further computing, and seconds of the
    critical path, which overlaps with them."""

    weights: float
    kv: float
    compute: float
    path: float

    @property
    def work(self) -> float:
        return self.weights + self.kv + self.compute


@dataclass(frozen=True)
class Machine:
    """A model on a GPU with a KV cache of type `kv` for `kv_tokens` and at most `limit` requests at a time."""

    shape: Shape
    gpu: Gpu
    kv: str
    kv_tokens: int
    limit: int

    def fits(self, context: float, reach: Reach) -> float:
        """Return the number of requests of `context` tokens that fit the KV cache."""
        return max(1.0, reach.fill * self.kv_tokens / context)

    def in_flight(self, load: Load, reach: Reach) -> float:
        """Return the mean number of requests in flight (R)."""
        return min(self.fits(load.context, reach), self.limit, load.count)

    def step(self, requests: float, context: float, reach: Reach) -> tuple[float, float, float]:
        """Return the seconds of one decoding step for reading weights, for reading the KV cache, and for computing
        beyond both."""
        shape, bandwidth = self.shape, self.gpu.bandwidth * reach.bandwidth
        weights = 2 * shape.step_parameters / bandwidth
        kv = requests * context * shape.kv_bytes(self.kv) / bandwidth
        flops = requests * (2 * shape.step_parameters + 4 * shape.layers * shape.heads * shape.head_dim * context)
        return weights, kv, max(0.0, flops / (self.gpu.flops * reach.compute) - weights - kv)

    def prefill(self, prompt: float, reach: Reach) -> float:
        """Return the seconds to read one prompt."""
        shape = self.shape
        per_token = 2 * shape.layer_parameters + 2 * shape.layers * shape.heads * shape.head_dim * prompt
        return prompt * per_token / (self.gpu.flops * reach.compute)

    def parts(self, loads: Sequence[Load], problems: int, reach: Reach, alone: bool = False) -> Parts:
        """Return the parts of the time of `loads` for `problems`. If `alone`, the critical path has the GPU alone."""
        weights = kv = compute = path = 0.0
        for load in loads:
            requests = self.in_flight(load, reach)
            step = self.step(requests, load.context, reach)
            steps = load.tokens / requests
            weights, kv, compute = (
                total + steps * part for total, part in zip((weights, kv, compute), step, strict=True)
            )
            compute += load.count * self.prefill(load.prompt, reach)
            compute += load.count * load.cut * self.prefill(load.cut_prompt, reach)
            chain = self.step(1, load.context, reach) if alone else step
            path += load.longest(load.count // problems) * sum(chain)
        return Parts(weights, kv, compute, path)

    def seconds(self, loads: Sequence[Load], problems: int) -> tuple[float, float]:
        """Return the least and the most seconds: max(work, path) at best, work + path at worst."""
        best = self.parts(loads, problems, BEST, alone=True)
        worst = self.parts(loads, problems, WORST)
        return max(best.work, best.path), worst.work + worst.path
