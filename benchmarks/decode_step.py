"""Time one decoding step of a model of QED-Nano's shape on this GPU, and compare it with the
planner's bound.

    python -m benchmarks.decode_step [--contexts 512 4096 16384] [--requests 1 8 32 64 128 256]
    [--steps 20]

This needs torch and an NVIDIA GPU that core/engines/gpus.py knows. It needs no weights, because it
draws random bf16 weights. The model has QED-Nano's shape: 36 layers, width 2,560, 32 heads, and 8
heads for keys and values. It decodes one token for each request from a full KV cache of random
numbers. The step is one CUDA graph, so nothing waits for Python. The code is plain PyTorch with
cuBLAS and PyTorch's attention. A server would also fuse kernels.

A row has requests, tokens of each request, GB of KV cache, milliseconds of a step, bound, step ÷
bound, and tokens/s. The bound (harness/plan/roofline.py) is the larger of bytes moved / bandwidth
and operations / peak, by the data sheet. If bandwidth is the limit, the planner assumes that a step
takes 1 / 0.85 to 1 / 0.6 times the bound."""

import argparse
import json
import statistics
from collections.abc import Callable
from typing import Any

from core.base.errors import UserError, command
from core.engines.gpus import Gpu, named
from core.engines.shape import QED_NANO, Shape
from harness.plan.roofline import Machine, Reach

with command():
    try:
        import torch
        import torch.nn.functional as F
        from torch import Tensor
    except ImportError:
        raise UserError(
            "this needs torch. Run python -m benchmarks.decode_step with a Python that has torch"
        ) from None

ROOM = 0.85  # share of the GPU's memory for weights and KV cache. Larger cases are skipped
WARM_UPS = 3
BOUND = Reach(1.0, 1.0, 1.0)


class Decoder:
    """A model of `shape` with random weights. `step` is one decoding step."""

    def __init__(self, shape: Shape, device: torch.device) -> None:
        self.shape = shape
        self.options: dict[str, Any] = {"device": device, "dtype": torch.bfloat16}
        width, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.layers = [
            {
                "qkv": self.weight(width + 2 * kv, shape.hidden),
                "out": self.weight(shape.hidden, width),
                "gate_up": self.weight(2 * shape.intermediate, shape.hidden),
                "down": self.weight(shape.hidden, shape.intermediate),
            }
            for _ in range(shape.layers)
        ]
        self.embedding = self.weight(shape.vocab, shape.hidden)
        self.norm = torch.ones(shape.hidden, **self.options)
        self.head_norm = torch.ones(shape.head_dim, **self.options)

    def weight(self, rows: int, columns: int) -> Tensor:
        return torch.randn(rows, columns, **self.options) * 0.02

    def normed(self, x: Tensor) -> Tensor:
        weight = self.norm if x.shape[-1] == self.shape.hidden else self.head_norm
        return F.rms_norm(x, weight.shape, weight)

    def turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        first, second = x.chunk(2, dim=-1)
        return x * cos + torch.cat((-second, first), dim=-1) * sin

    def step(
        self, tokens: Tensor, keys: list[Tensor], values: list[Tensor], cos: Tensor, sin: Tensor
    ) -> Tensor:
        """Return the next tokens, with shape (requests,). New keys and values replace the last
        entries of the cache."""
        shape, requests = self.shape, len(tokens)
        x = self.embedding[tokens]
        for layer, key, value in zip(self.layers, keys, values, strict=True):
            mixed = F.linear(self.normed(x), layer["qkv"]).view(requests, -1, shape.head_dim)
            q, k, v = mixed.split((shape.heads, shape.kv_heads, shape.kv_heads), dim=1)
            q, k = self.turned(self.normed(q), cos, sin), self.turned(self.normed(k), cos, sin)
            key[:, :, -1], value[:, :, -1] = k, v
            # Heads that share keys and values are passed as if they were positions, so the cache is
            # read once.
            grouped = q.view(requests, shape.kv_heads, -1, shape.head_dim)
            seen = F.scaled_dot_product_attention(grouped, key, value)
            x = x + F.linear(seen.reshape(requests, -1), layer["out"])
            gate, up = F.linear(self.normed(x), layer["gate_up"]).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, layer["down"])
        return F.linear(self.normed(x), self.embedding).argmax(-1)


def graphed(work: Callable[[], Any]) -> torch.cuda.CUDAGraph:
    """Capture `work` as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph


def milliseconds(decoder: Decoder, requests: int, context: int, steps: int) -> float:
    """Return the median milliseconds of `steps` decoding steps, each for `requests` requests of
    `context` tokens."""
    shape = decoder.shape
    size = (requests, shape.kv_heads, context, shape.head_dim)
    keys = [torch.randn(size, **decoder.options) for _ in range(shape.layers)]
    values = [torch.randn(size, **decoder.options) for _ in range(shape.layers)]
    tokens = torch.randint(shape.vocab, (requests,), device=decoder.options["device"])
    angles = torch.rand(shape.head_dim, **decoder.options)
    cos, sin = angles.cos(), angles.sin()
    with torch.no_grad():
        graph = graphed(lambda: decoder.step(tokens, keys, values, cos, sin))
        for _ in range(WARM_UPS):
            graph.replay()
        taken = []
        for _ in range(steps):
            began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            began.record()
            graph.replay()
            ended.record()
            torch.cuda.synchronize()
            taken.append(began.elapsed_time(ended))
    return float(statistics.median(taken))


def bound(shape: Shape, gpu: Gpu, requests: int, context: int) -> float:
    """Return the milliseconds of one step at the data sheet's full bandwidth and FLOP/s."""
    machine = Machine(shape, gpu, "bf16", requests * context, requests)
    return 1e3 * machine.step(requests, context, BOUND)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--contexts", type=int, nargs="+", default=[512, 4096, 16384])
    parser.add_argument("--requests", type=int, nargs="+", default=[1, 8, 32, 64, 128, 256])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--json", help="file for the rows as JSON")
    args = parser.parse_args()
    with command():
        if not torch.cuda.is_available():
            raise UserError(
                "this needs an NVIDIA GPU, but torch finds none. Run it on a machine that has one"
            )
        name = torch.cuda.get_device_name()
        gpu = named(name)
    device = torch.device("cuda")
    decoder = Decoder(QED_NANO, device)
    print(f"{name}, torch {torch.__version__}, weights {QED_NANO.weight_bytes / 1e9:.2f} GB")
    print("requests tokens each  KV GB  step, ms bound, ms  ratio  tokens/s")
    rows = []
    for context in args.contexts:
        for requests in args.requests:
            cache = requests * context * QED_NANO.kv_bytes()
            if cache + QED_NANO.weight_bytes > ROOM * gpu.memory:
                continue
            torch.cuda.empty_cache()
            took = milliseconds(decoder, requests, context, args.steps)
            least = bound(QED_NANO, gpu, requests, context)
            rows.append({"requests": requests, "context": context, "ms": took, "bound_ms": least})
            print(
                f"{requests:>8} {context:>11,} {cache / 1e9:>6.1f} {took:>9.2f} {least:>9.2f} "
                f"{took / least:>6.2f} {1e3 * requests / took:>9,.0f}",
                flush=True,
            )
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump({"gpu": name, "torch": torch.__version__, "rows": rows}, file)


if __name__ == "__main__":
    main()
