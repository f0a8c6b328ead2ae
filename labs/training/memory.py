"""Estimate the memory of a training before it begins, erring on the safe side. Checked against train.json's
peak_memory."""

from core.engines.shape import RUNTIME_BYTES, Shape

PROGRAM = 2**30  # bytes of torch, transformers, trl and peft, imported
STEP_ROWS = 16  # rows between two updates
AT_ONCE = {"cpu": 2048, "cuda": 8192}  # tokens of a forward pass, padding included
LONGEST = 16_384  # tokens of a row, if the model's context is longer
LOGITS = 3 * 512  # tokens whose probabilities trl computes at a time, with the memory for that
ADAM = 12  # more bytes a trained parameter: gradient and two averages, in float32


def adapted(shape: Shape, rank: int) -> int:
    """Count the parameters of LoRA of this rank on all linear layers: `rank` times the inputs and outputs of each."""
    wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = 2 * (shape.hidden + wide) + 2 * (shape.hidden + narrow)
    return shape.layers * rank * (attention + 3 * (shape.hidden + shape.intermediate))


def needed(shape: Shape, rank: int, tokens: int, device: str) -> int:
    """Estimate the bytes of memory (of the GPU on "cuda") to train LoRA of `rank` (0: all weights), `tokens` at once.

    On a GPU the weights are bf16, and trained ones float32 too; on a CPU all are float32. Layers keep their inputs,
    and one at a time is computed again. docs/benchmarks.md has the measurements. A CPU gives back little of the freed
    memory: 0.3 to 0.45 of the elements of all layers were measured."""
    # For each token a layer keeps 6 elements of the stream's width, 4 of the heads' and 5 of the MLP's.
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
    """Count the rows of up to `longest` tokens in one forward pass: 1 to STEP_ROWS, a power of two."""
    return 1 << max(1, min(STEP_ROWS, AT_ONCE[device] // longest)).bit_length() - 1
