"""How long decoding takes on one GPU, from bytes moved and operations done (the roofline of Williams et al. 2009).

One decoding step gives each of R requests in flight one token. It reads the weights once and every request's KV
cache, C tokens on average, and it multiplies each token with every weight and attends to C tokens:

    bytes = 2 P + R C kv                FLOPs = R (2 P + 4 layers heads head_dim C)
    step  = max(bytes / bandwidth, FLOPs / peak)

P: parameters used in a step, in bf16; kv: bytes of the KV cache per token. Reading a prompt of p tokens takes
p (2 P_layers + 2 layers heads head_dim p) FLOPs (token i attends to i, p / 2 on average) and is bound by compute; while
a prompt is read, decoding stands still. So the times add up.

A request that writes L tokens after a prompt of p holds p + L / 2 tokens on average, and is there for L steps. Over
requests of different lengths, a random moment meets the long ones more often:  C = p + E[L^2] / (2 E[L]).
The KV cache holds (its tokens) / C such requests; R is that, or fewer where fewer are asked for at a time.

All problems are in flight and wait for each other nowhere, but each of a problem's steps waits for the slowest member
of the step before. `work` is the time of all tokens at R in flight; `path` that of one problem's chain of slowest
members. No schedule is faster than max(work, path), and a server that is never idle while something waits is not
slower than work + path (Graham 1966).

The best and the worst case assume what share of the data sheet's bandwidth and FLOP/s kernels reach, and how full
the scheduler keeps the KV cache. These shares are assumptions, not measurements.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.engines.gpus import Gpu
from core.engines.shape import Shape

Kind = tuple[str | int, ...]  # of completions that are alike: (t,), the solutions of a step; ("verify", t)


@dataclass(frozen=True)
class Reach:
    """Shares in (0, 1] of what is possible that are reached: of bandwidth, of FLOP/s, of the KV cache in use."""

    bandwidth: float
    compute: float
    fill: float


BEST = Reach(0.85, 0.7, 0.95)
WORST = Reach(0.6, 0.4, 0.7)
MIDDLE = Reach(0.725, 0.55, 0.825)


@dataclass(frozen=True)
class Load:
    """`count` completions of one kind: `prompt` tokens each, and new ones as in the sample `lengths`. The share `cut`
    hit the cap and are asked once more, with all they have written as prompt, for `forced` tokens."""

    kind: Kind
    count: int
    prompt: float
    lengths: NDArray[np.float64]
    cut: float = 0.0
    forced: float = 0.0

    @property
    def prompts(self) -> float:
        """Prompt tokens of all."""
        return self.count * (self.prompt + self.cut * self.cut_prompt)

    @property
    def tokens(self) -> float:
        """Completion tokens of all."""
        return self.count * (float(self.lengths.mean()) + self.cut * self.forced)

    @property
    def context(self) -> float:
        """C: tokens that a request in flight holds at a random moment."""
        return self.prompt + float((self.lengths**2).mean() / self.lengths.mean()) / 2

    @property
    def cut_prompt(self) -> float:
        """Tokens of the second prompt of one that hit the cap."""
        return self.prompt + float(self.lengths.max())

    def longest(self, n: int) -> float:
        """The expected length of the longest of `n`."""
        ordered = np.sort(self.lengths)
        below = np.arange(ordered.size + 1) / ordered.size
        return float((ordered * np.diff(below**n)).sum())


@dataclass(frozen=True)
class Parts:
    """Seconds of all loads by what they go to: reading weights, reading the KV cache, computing beyond that; and of
    the critical path, which goes on beside them."""

    weights: float
    kv: float
    compute: float
    path: float

    @property
    def work(self) -> float:
        return self.weights + self.kv + self.compute


@dataclass(frozen=True)
class Machine:
    """A model on a GPU with a KV cache of type `kv` and room for `kv_tokens`, asked for up to `limit` at a time."""

    shape: Shape
    gpu: Gpu
    kv: str
    kv_tokens: int
    limit: int

    def fits(self, context: float, reach: Reach) -> float:
        """Requests of `context` tokens that the KV cache holds."""
        return max(1.0, reach.fill * self.kv_tokens / context)

    def in_flight(self, load: Load, reach: Reach) -> float:
        """R: requests in flight, on average."""
        return min(self.fits(load.context, reach), self.limit, load.count)

    def step(self, requests: float, context: float, reach: Reach) -> tuple[float, float, float]:
        """Seconds of one decoding step for reading weights, for reading the KV cache, and for computing that takes
        longer than both."""
        shape, bandwidth = self.shape, self.gpu.bandwidth * reach.bandwidth
        weights = 2 * shape.step_parameters / bandwidth
        kv = requests * context * shape.kv_bytes(self.kv) / bandwidth
        flops = requests * (2 * shape.step_parameters + 4 * shape.layers * shape.heads * shape.head_dim * context)
        return weights, kv, max(0.0, flops / (self.gpu.flops * reach.compute) - weights - kv)

    def prefill(self, prompt: float, reach: Reach) -> float:
        """Seconds to read one prompt."""
        shape = self.shape
        per_token = 2 * shape.layer_parameters + 2 * shape.layers * shape.heads * shape.head_dim * prompt
        return prompt * per_token / (self.gpu.flops * reach.compute)

    def parts(self, loads: Sequence[Load], problems: int, reach: Reach, alone: bool = False) -> Parts:
        """Where the time of `loads`, for `problems` in all, goes. `alone`: the critical path as if its requests had
        the GPU to themselves."""
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
        """The least and the most time: max(work, path) at best, work + path at worst."""
        best = self.parts(loads, problems, BEST, alone=True)
        worst = self.parts(loads, problems, WORST)
        return max(best.work, best.path), worst.work + worst.path
