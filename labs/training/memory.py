"""How much memory and disk a training takes: computed before, so that nothing is spent on one that can't end. Pure
arithmetic; measured by train.json's peak_memory, and meant to err to the safe side."""

from core.engines.shape import RUNTIME_BYTES, Shape

PROGRAM = 2**30  # bytes of torch, transformers, trl and peft, imported
SMALL_PROGRAM = 2**29  # torch alone, for a GGUF file
STEP_ROWS = 16  # rows between two updates
AT_ONCE = {"cpu": 2048, "cuda": 8192}  # tokens that go through at once, padding included: as many rows as that holds
LONGEST = 16_384  # tokens of a row, where the model's context is longer
KEPT = 2**31  # bytes of layers' elements that a CPU's memory is used for
LOGITS = 3 * 512  # tokens: trl computes so many chances at a time, with what that takes beside
ADAM = 12  # bytes a trained parameter, beside itself: gradient and two averages, in float32


def adapted(shape: Shape, rank: int) -> int:
    """Parameters of LoRA of this rank on all linear layers: `rank` times outputs and inputs of each."""
    wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = 2 * (shape.hidden + wide) + 2 * (shape.hidden + narrow)
    return shape.layers * rank * (attention + 3 * (shape.hidden + shape.intermediate))


def of_layer(shape: Shape, rank: int) -> int:
    """Elements that a layer keeps of one token for the way back: what its norms, projections and products were given
    (6 of the stream's width, 4 of the heads', 5 of the MLP's), and by LoRA as much again, for adapters see it too.
    Measured on layers of Qwen2.5-0.5B's shape: 62 thousand, and this says 66."""
    return (2 if rank else 1) * (6 * shape.hidden + 4 * shape.heads * shape.head_dim + 5 * shape.intermediate)


def keeps_all(shape: Shape, rank: int, tokens: int) -> bool:
    """Whether on a CPU every layer's elements are kept; else only what it was given, and one layer at a time is
    computed again, which takes a third more time."""
    return 4 * tokens * shape.layers * of_layer(shape, rank) <= KEPT


def on_cpu(shape: Shape, rank: int, tokens: int) -> int:
    """Bytes of memory: weights and all else in float32, with `tokens` that go through at once."""
    trained = adapted(shape, rank) if rank else 0
    weights = 4 * (shape.parameters + trained) + ADAM * (trained or shape.parameters)
    passing = 4 * tokens * shape.layers * of_layer(shape, rank)
    if not keeps_all(shape, rank, tokens):
        # A layer at a time would be far less, but what is freed is not all given back: with 24 layers of that shape,
        # 0.3 of it were measured at 545 tokens and 0.45 at 1,091.
        passing = max(KEPT, passing // 2)
    return PROGRAM + weights + passing + 4 * LOGITS * shape.vocab


def on_gpu(shape: Shape, rank: int, tokens: int, bits: int = 16) -> int:
    """Bytes of the GPU's memory: by LoRA the weights in so many `bits` (0.7 bytes where 4: what is not a matrix of a
    layer stays in 16, blocks have scales), else in float32 and, while a pass goes on, in bf16 as well. Of each layer
    only its input is kept, in bf16; one at a time is computed again, and a fifth of that is lost between blocks.
    Measured on QED-Nano's shape, 8,192 and 16,384 tokens: by LoRA 11.4 and 14.5 GiB that PyTorch has given out, of all
    weights 70.4 and 73.7 (docs/benchmarks.md), and this says 14.2 and 18.8, 73.6 and 78.2 with what CUDA takes."""
    trained = adapted(shape, rank) if rank else shape.parameters
    each = (0.7 if bits == 4 else 2) if rank else 4 + 2
    held = each * shape.parameters + (4 * trained if rank else 0) + ADAM * trained
    passing = 2 * tokens * (shape.layers * shape.hidden + 2 * of_layer(shape, 0)) + 4 * LOGITS * shape.vocab
    return RUNTIME_BYTES + int(held + 1.2 * passing)


def rows_at_once(longest: int, device: str) -> int:
    """How many rows of up to `longest` tokens go through together: 1 to STEP_ROWS, a power of two."""
    rows = 1
    while rows < STEP_ROWS and 2 * rows * longest <= AT_ONCE[device]:
        rows *= 2
    return rows


def of_small(shape: Shape) -> int:
    """Bytes of memory for a GGUF file's model: its weights with all that trains them, and some batches."""
    return SMALL_PROGRAM + (4 + ADAM) * shape.parameters + 2**29
