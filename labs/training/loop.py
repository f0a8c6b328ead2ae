"""Train all weights of a small model from a GGUF file, on one CPU thread. labs/demo also
trains on a GPU. On a CPU, equal data, seed and start give equal weights, bit by bit. Importing this
module imports torch."""

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from msgspec import structs
from safetensors.torch import load_file, save
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from labs.training import to_gguf
from labs.training.architectures import Sizes
from labs.training.encode import Passes, Tokens
from labs.training.network import EMBEDDED, AdamW, Muon, Qwen3
from labs.training.outcome import Losses, Options, Progress, Schedule, peak_memory
from labs.training.to_hf import WEIGHTS, convert

THREADS = 1  # with more threads, sums differ from run to run
POOL = 1024  # rows to sort by length and cut into batches at a time
BATCH = 3072  # maximum tokens in a batch of `finetune`, with padding
MUON_RATE = 0.02  # peak learning rates, which a schedule scales
ADAM_RATE = 3e-3
CLIP = 1.0  # maximum norm of the gradient


def started_from(path: Path) -> tuple[Qwen3, Tokenizer]:
    """Load a model and its tokenizer from a GGUF file, or from a checkpoint with tokenizer.json in
    the same folder."""
    if path.suffix == ".gguf":
        with TemporaryDirectory() as folder:
            convert(path, Path(folder) / "model")
            return started_from(Path(folder) / "model" / WEIGHTS)
    weights = load_file(path)
    sizes = structs.replace(EMBEDDED, vocab=len(weights["model.embed_tokens.weight"]))
    if (config := path.with_name("config.json")).is_file():
        sizes = Sizes.from_config(config)
    model = Qwen3(sizes)
    model.load_state_dict(weights)
    return model, Tokenizer.from_file(str(path.with_name("tokenizer.json")))


@dataclass(frozen=True)
class Batch:
    """A batch of rows of similar length, padded to the longest row."""

    tokens: Tensor  # (rows, length)
    places: Tensor  # (trained,) indices of the trained tokens in the flattened `tokens[:, 1:]`
    weights: Tensor  # (trained,) weights of the trained tokens in the loss, which sum to 1
    drawn: Tensor  # (drawn,) indices in `places` of the tokens that are drawn digits
    chances: Tensor  # (drawn, 10) the probabilities from which these digits were drawn
    size: int  # number of tokens, without padding

    @classmethod
    def of(cls, rows: Sequence[Tokens]) -> "Batch":
        tokens = pad_sequence([torch.tensor(row.tokens) for row in rows], batch_first=True)
        weights = pad_sequence(
            [torch.tensor(row.weights, dtype=torch.float) for row in rows], batch_first=True
        )
        chances = torch.zeros(*tokens.shape, 10)
        for i, row in enumerate(rows):
            for place, of in row.digits.items():
                chances[i, place] = torch.tensor(of)
        weights, chances = weights[:, 1:].flatten(), chances[:, 1:].flatten(0, 1)
        places = weights.nonzero().squeeze(1)
        weights, chances = weights[places], chances[places]
        drawn = chances.sum(1).nonzero().squeeze(1)
        return cls(
            tokens, places, weights / weights.sum(), drawn, chances[drawn], sum(map(len, rows))
        )

    def on(self, device: torch.device) -> "Batch":
        tensors = {name: value for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(
            self, **{name: value.to(device, non_blocking=True) for name, value in tensors.items()}
        )


def cut(rows: Iterable[Tokens], tokens: int) -> list[list[Tokens]]:
    """Cut `rows` into batches of similar length, longest first. A batch is one row, or up to
    `tokens` padded tokens."""
    left = sorted(rows, key=len, reverse=True)
    batches = []
    while left:
        size = max(1, tokens // len(left[0].tokens))
        batches.append(left[:size])
        left = left[size:]
    return batches


def loss(model: Qwen3, batch: Batch, digits: Tensor | None) -> Tensor:
    """Return the weighted mean cross-entropy of the trained tokens. The target of a drawn digit is
    the distribution from which it was drawn, because one draw is noisy. `digits`: the tokens of 0
    to 9, or None without drawn digits."""
    with torch.autocast(batch.tokens.device.type, torch.bfloat16, enabled=batch.tokens.is_cuda):
        logits = model.logits(model.hidden(batch.tokens[:, :-1]).flatten(0, 1)[batch.places])
    scores = logits.float().log_softmax(-1)
    losses = F.nll_loss(scores, batch.tokens[:, 1:].flatten()[batch.places], reduction="none")
    if digits is not None:
        known = -(batch.chances * scores[batch.drawn][:, digits]).sum(-1)
        losses = losses.index_copy(0, batch.drawn, known)
    return (losses * batch.weights).sum()


def train(
    model: Qwen3,
    batches: Iterable[Batch],
    schedule: Schedule,
    report: Callable[[int, int, Tensor], None],
    device: torch.device,
    digits: Tensor | None = None,
) -> int:
    """Train until the schedule's tokens or the batches end. Return the number of steps.
    After each step, `report` gets the step's number, the tokens so far and the loss."""
    matrices = [p for name, p in model.named_parameters() if p.ndim == 2 and "embed" not in name]
    others = [p for name, p in model.named_parameters() if p.ndim != 2 or "embed" in name]
    muon, adam = Muon(matrices), AdamW(others, betas=(0.9, 0.95))
    seen = step = 0
    for step, batch in enumerate(batches, 1):
        scale = schedule.scale(seen, batch.size)
        value = loss(model, batch.on(device), digits)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        muon.step(MUON_RATE * scale)
        adam.step(ADAM_RATE * scale)
        model.zero_grad()
        seen += batch.size
        report(step, seen, value.detach())
        if seen >= schedule.tokens:
            break
    return step


def finetune(
    options: Options, folder: Path, orders: Passes, out: Path
) -> tuple[dict[str, Any], Losses]:
    """Train the model in `folder` on the passes `orders`. Write `out`/model.gguf in float32, and
    the weights in `folder` anew. Return the device, the peak memory and the packages' versions, and
    the losses."""
    torch.set_num_threads(THREADS)
    torch.manual_seed(options.seed)
    model, _ = started_from(folder / WEIGHTS)
    rng, batches = random.Random(options.seed), list[list[Tokens]]()
    for order in orders:
        for begin in range(0, len(order), POOL):
            pool = cut(order[begin : begin + POOL], BATCH)
            batches += rng.sample(pool, len(pool))  # no batch contains a row twice
    progress = Progress(len(batches))
    schedule = Schedule.of_finetuning(
        sum(len(row) for batch in batches for row in batch), options.rate / ADAM_RATE
    )
    train(model, map(Batch.of, batches), schedule, progress.step, torch.device("cpu"))
    (folder / WEIGHTS).write_bytes(save(model.state_dict()))
    to_gguf.convert(folder, out / "model.gguf", "f32")
    about = {
        "device": f"cpu, {THREADS} thread",
        "peak_memory": peak_memory(),
        "versions": {"torch": version("torch")},
    }
    return about, progress.losses
