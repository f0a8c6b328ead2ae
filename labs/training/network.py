"""Define the embedded model's network: a small Qwen3 in plain PyTorch, with Hugging Face's
parameter names."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.adamw import adamw

from labs.training.architectures import Sizes

# The embedded model's sizes (labs/demo/train.py)
EMBEDDED = Sizes(
    layers=3,
    hidden=128,
    heads=4,
    kv_heads=2,
    head_dim=32,
    intermediate=512,
    vocab=900,
    tied=True,
    context=2048,
    eps=1e-6,
    rope_base=10_000.0,
)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-second, first), dim=-1) * sin


class RMSNorm(nn.RMSNorm):
    """RMSNorm that computes in the dtype of its input. Under autocast, its weight has another
    dtype."""

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight.to(x.dtype), self.eps)


class Attention(nn.Module):
    def __init__(self, shape: Sizes) -> None:
        super().__init__()
        self.shape = shape
        width, kv_width = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(shape.hidden, width, bias=False)
        self.k_proj = nn.Linear(shape.hidden, kv_width, bias=False)
        self.v_proj = nn.Linear(shape.hidden, kv_width, bias=False)
        self.o_proj = nn.Linear(width, shape.hidden, bias=False)
        self.q_norm = RMSNorm(shape.head_dim, eps=shape.eps)
        self.k_norm = RMSNorm(shape.head_dim, eps=shape.eps)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        per_head = (batch, length, -1, self.shape.head_dim)
        q = self.q_norm(self.q_proj(x).view(per_head)).transpose(1, 2)
        k = self.k_norm(self.k_proj(x).view(per_head)).transpose(1, 2)
        v = self.v_proj(x).view(per_head).transpose(1, 2)
        q = rotate(q, cos, sin).to(v.dtype)
        k = rotate(k, cos, sin).to(v.dtype)
        grouped = self.shape.kv_heads != self.shape.heads
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)
        return self.o_proj(mixed.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    def __init__(self, shape: Sizes) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.up_proj = nn.Linear(shape.hidden, shape.intermediate, bias=False)
        self.down_proj = nn.Linear(shape.intermediate, shape.hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, shape: Sizes) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(shape.hidden, eps=shape.eps)
        self.self_attn = Attention(shape)
        self.post_attention_layernorm = RMSNorm(shape.hidden, eps=shape.eps)
        self.mlp = FeedForward(shape)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    def __init__(self, shape: Sizes) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(shape.vocab, shape.hidden)
        self.layers = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = RMSNorm(shape.hidden, eps=shape.eps)


class Qwen3(nn.Module):
    """A decoder-only language model with tied embeddings."""

    def __init__(self, shape: Sizes) -> None:
        super().__init__()
        self.shape = shape
        self.model = Decoder(shape)
        steps = torch.arange(0, shape.head_dim, 2, dtype=torch.float32) / shape.head_dim
        positions = torch.arange(shape.context, dtype=torch.float32)
        angles = torch.outer(positions, shape.rope_base**-steps)
        angles = torch.cat((angles, angles), dim=-1)  # (context, head_dim), with two equal halves
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                std = 0.02
                if name.endswith(("o_proj.weight", "down_proj.weight")):
                    # Small outputs of the residual branches, so that the residual stream does not
                    # grow with depth
                    std = 0.02 / (2 * shape.layers) ** 0.5
                nn.init.normal_(weight, std=std)

    def hidden(self, tokens: Tensor) -> Tensor:
        """Return the final hidden states, of shape (batch, length, dim), for `tokens` of shape
        (batch, length)."""
        length = tokens.shape[1]
        x = self.model.embed_tokens(tokens)
        for block in self.model.layers:
            x = block(x, self.cos[:length], self.sin[:length])
        return self.model.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.model.embed_tokens.weight)


def orthogonalised(matrices: Tensor) -> Tensor:
    """Approximate the nearest semi-orthogonal matrices, of shape (count, rows, columns), by
    Newton-Schulz iteration."""
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrices.shape[1] > matrices.shape[2]
    x = matrices.mT if tall else matrices
    if x.is_cuda:  # few CPUs have instructions for bf16
        x = x.bfloat16()
    x = x / (x.norm(dim=(1, 2), keepdim=True) + 1e-7)
    for _ in range(5):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if tall else x).to(matrices.dtype)


class Muon:
    """The optimizer Muon, orthogonalised momentum for matrices:
    https://kellerjordan.github.io/posts/muon/ ."""

    def __init__(self, weights: list[Tensor], momentum: float = 0.95) -> None:
        alike: dict[torch.Size, list[Tensor]] = {}  # matrices of equal shape are updated together
        for weight in weights:
            alike.setdefault(weight.shape, []).append(weight)
        self.momentum = momentum
        self.groups = []  # weights, and the averages of their gradients
        for group in alike.values():
            average = torch.stack([weight.detach() for weight in group]).zero_()
            self.groups.append((group, average))

    @torch.no_grad()
    def step(self, rate: float) -> None:
        for weights, average in self.groups:
            grads = torch.stack([weight.grad for weight in weights])
            average.lerp_(grads, 1 - self.momentum)
            rows, columns = weights[0].shape
            scale = max(1.0, rows / columns) ** 0.5
            steps = orthogonalised(grads.lerp(average, self.momentum))
            torch._foreach_add_(weights, list(steps.unbind()), alpha=-rate * scale)


class AdamW:
    """The optimizer AdamW. torch.optim.AdamW would first import torch's compiler, which takes a
    second."""

    def __init__(
        self, weights: list[Tensor], betas: tuple[float, float] = (0.9, 0.999), decay: float = 0.0
    ) -> None:
        self.weights = weights
        self.steps = [torch.zeros(()) for _ in weights]
        self.averages = [torch.zeros_like(weight) for weight in weights]
        self.squares = [torch.zeros_like(weight) for weight in weights]
        self.settings = {"beta1": betas[0], "beta2": betas[1], "weight_decay": decay, "eps": 1e-8}

    @torch.no_grad()
    def step(self, rate: float) -> None:
        adamw(
            self.weights,
            [weight.grad for weight in self.weights],
            self.averages,
            self.squares,
            [],
            self.steps,
            lr=rate,
            amsgrad=False,
            maximize=False,
            **self.settings,
        )
