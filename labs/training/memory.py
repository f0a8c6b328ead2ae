"""Estimate the memory of a training before it begins, so that nothing is spent on one that can't end. Pure arithmetic,
measured by train.json's peak_memory, and meant to err to the safe side."""

from core.engines.shape import RUNTIME_BYTES, Shape

PROGRAM = 2**30  # bytes of torch, transformers, trl and peft, imported
STEP_ROWS = 16  # rows between two updates
AT_ONCE = {"cpu": 2048, "cuda": 8192}  # tokens that go through at once, padding included: as many rows as that holds
LONGEST = 16_384  # tokens of a row, where the model's context is longer
LOGITS = 3 * 512  # tokens: trl computes so many chances at a time, with what that takes beside
ADAM = 12  # bytes a trained parameter, beside itself: gradient and two averages, in float32


def adapted(shape: Shape, rank: int) -> int:
    """Count the parameters of LoRA of this rank on all linear layers: `rank` times outputs and inputs of each."""
    wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = 2 * (shape.hidden + wide) + 2 * (shape.hidden + narrow)
    return shape.layers * rank * (attention + 3 * (shape.hidden + shape.intermediate))


def needed(shape: Shape, rank: int, tokens: int, device: str) -> int:
    """Estimate the bytes of memory, the GPU's on "cuda", to train LoRA of this rank (0: all weights) with `tokens` that
    go through at once.

    On a GPU the weights are in bf16, and those that are trained in float32 as well; on a CPU all is in float32. Layers
    keep their inputs, and one at a time is computed again. On QED-Nano's shape with 8,192 and 16,384 tokens PyTorch
    gave out 11.4 and 14.5 GiB by LoRA, and 70.4 and 73.7 for all weights (docs/benchmarks.md); with what CUDA takes,
    this says 14.2, 18.8, 73.6 and 78.2. A CPU gives back little of what is freed: 0.3 to 0.45 of the elements of all
    layers were measured."""
    # Of one token a layer keeps 6 elements of the stream's width, 4 of the heads' and 5 of the MLP's.
    layer = 6 * shape.hidden + 4 * shape.heads * shape.head_dim + 5 * shape.intermediate
    trained = adapted(shape, rank) if rank else shape.parameters
    logits = 4 * LOGITS * shape.vocab
    if device == "cuda":
        passing = 1.2 * (2 * tokens * (shape.layers * shape.hidden + 2 * layer) + logits)
        held, program = (2 if rank else 4 + 2) * shape.parameters, RUNTIME_BYTES
    else:
        passing = 4 * tokens * shape.layers * layer * (2 if rank else 1) / 2 + logits
        held, program = 4 * shape.parameters, PROGRAM
    return program + int(held + (4 * trained if rank else 0) + ADAM * trained + passing)


def rows_at_once(longest: int, device: str) -> int:
    """Count the rows of up to `longest` tokens that go through together: 1 to STEP_ROWS, a power of two."""
    rows = 1
    while rows < STEP_ROWS and 2 * rows * longest <= AT_ONCE[device]:
        rows *= 2
    return rows
