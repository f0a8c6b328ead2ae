"""Estimate the memory of a training before the training begins. The estimate tends to be too high.
The estimate was checked against the field peak_memory of train.json."""

from core.engines.shape import RUNTIME_BYTES, Shape

PROGRAM = 2**30  # bytes that importing torch, transformers, trl and peft takes
STEP_ROWS = 16  # rows in each update of the weights
AT_ONCE = {"cpu": 2048, "cuda": 8192}  # maximum tokens in a forward pass, with padding
LONGEST = 16_384  # maximum tokens in a row, even if the model's context is longer
LOGITS = 3 * 512  # trl computes the logits of 512 tokens at a time, and needs 3 times their memory
ADAM = 12  # bytes for each trained parameter: the gradient and two averages, in float32


def adapted(shape: Shape, rank: int) -> int:
    """Count LoRA's parameters on all linear layers: `rank` times the number of inputs and outputs of each layer."""
    wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = 2 * (shape.hidden + wide) + 2 * (shape.hidden + narrow)
    return shape.layers * rank * (attention + 3 * (shape.hidden + shape.intermediate))


def needed(shape: Shape, rank: int, tokens: int, device: str) -> int:
    """Estimate the bytes of memory to train LoRA of `rank` (0: all weights), with `tokens` tokens in a forward pass.

    `device` is "cuda" or "cpu". A GPU stores bf16 weights, and trained weights also in float32. A CPU stores float32.
    Each layer stores its input, and computes the rest again in the backward pass. docs/benchmarks.md has measurements.
    A CPU keeps freed memory: we measured 0.3 to 0.45 of all layers' elements. The estimate takes 0.5, or 1 for LoRA."""
    # Elements in a layer for each token: 6 times the hidden size, 4 times the heads' width, 5 times the MLP's width
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
    """Return the number of rows of up to `longest` tokens in a forward pass: a power of two, at most STEP_ROWS."""
    return 1 << max(1, min(STEP_ROWS, AT_ONCE[device] // longest)).bit_length() - 1
