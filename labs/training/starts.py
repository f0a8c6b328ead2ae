"""Check the model to train before torch is imported, a small GGUF file or a folder, and estimate
the memory. The estimate tends to be too high. It was checked against the field peak_memory of
train.json."""

from dataclasses import dataclass
from pathlib import Path

from core.base.errors import UserError
from core.engines.gguf_header import Gguf, whole
from core.engines.shape import RUNTIME_BYTES, Shape
from labs.training.architectures import Sizes, architecture_of, read_object, tensor_shapes
from labs.training.chat import Chat
from labs.training.to_gguf import read_tensors

LARGEST_GGUF = 100_000_000  # parameters. A larger model would take one thread days
TRAINABLE = {"F32", "F16"}  # allowed types of tensors. Fewer bits can't store small changes
# the files of an adapter, as peft names them
ADAPTER, CONFIG = "adapter_model.safetensors", "adapter_config.json"
INSTEAD = "Train a folder in Hugging Face's layout instead: bash scripts/to_hf.sh MODEL.gguf FOLDER"
FETCH = (
    "Correct the path, or fetch a hub model first: .venv/bin/hf download OWNER/NAME --local-dir "
    "FOLDER"
)
PROGRAM = 2**30  # bytes that importing torch, transformers, trl and peft takes
STEP_ROWS = 16  # rows in each update of the weights
AT_ONCE = {"cpu": 2048, "cuda": 8192}  # maximum tokens in a forward pass, with padding
LONGEST = 16_384  # maximum tokens in a row, even if the model's context is longer
LOGITS = 3 * 512  # trl computes the logits of 512 tokens at a time, and needs 3 times their memory
ADAM = 12  # bytes for each trained parameter: the gradient and two averages, in float32


@dataclass(frozen=True)
class Start:
    """A model to train."""

    path: Path
    shape: Shape
    longest: int  # tokens of context
    bytes: int  # of the trained weights on the disk
    is_gguf: bool = False


def start(model: Path, lora_rank: int) -> Start:
    """Read the model to train. Raises UserError if the model can't be trained with this
    `lora_rank`."""
    if model.is_dir():
        return _folder(model)
    if not model.exists():
        raise UserError(f"the model {model} is neither a folder nor a file. {FETCH}")
    if lora_rank:
        raise UserError(
            f"{model} is a GGUF file, so LORA_RANK (--lora-rank) must be 0, not {lora_rank}. "
            f"{INSTEAD}"
        )
    about = Gguf.read(model)
    kinds = {tensor.tensor_type.name for tensor in whole(model).tensors}
    if not _is_trainable(about, kinds):
        raise UserError(
            f"{model} ({about.architecture}, {' and '.join(sorted(kinds))}) is no small, "
            f"unquantized qwen3 with tied embeddings: at most {LARGEST_GGUF / 1e6:.0f} million "
            f"parameters in {' or '.join(sorted(TRAINABLE))}. {INSTEAD}"
        )
    shape = about.shape
    return Start(model, shape, about.longest, 4 * shape.parameters, is_gguf=True)


def _is_trainable(model: Gguf, kinds: set[str]) -> bool:
    """Return whether a GGUF `model`, with tensors of these `kinds`, can be trained as a file."""
    if model.architecture != "qwen3" or kinds - TRAINABLE:
        return False
    return model.shape.tied and model.shape.parameters <= LARGEST_GGUF


def _folder(folder: Path) -> Start:
    config = read_object(folder / "config.json")
    architecture = architecture_of(config, folder, "Other models can't be trained here")
    shape = Sizes.from_config(folder / "config.json")
    stored = read_tensors(folder, tensor_shapes(shape, architecture))
    _check_tokenizer(folder / "tokenizer.json")
    Chat.of(folder)  # raises UserError if the chat template can't be used
    return Start(folder, shape, shape.context, sum(t.data_range.size for t in stored.values()))


def _check_tokenizer(path: Path) -> None:
    """Raise UserError if the tokens of a reply may depend on its prompt, because the two are
    encoded separately. With a byte-level tokenizer, the prompt does not change them. SentencePiece,
    however, puts a space before a text."""
    found = read_object(path).get("pre_tokenizer")
    parts = (found.get("pretokenizers") or [found]) if isinstance(found, dict) else []
    level = next(
        (part for part in parts if isinstance(part, dict) and part.get("type") == "ByteLevel"), None
    )
    if level is None or level.get("add_prefix_space", True):
        raise UserError(
            f"the pre-tokenizer in {path} is not byte-level, or adds spaces. Train another model"
        )


def check_adapter(adapter: Path, rank: int) -> None:
    """Raise UserError if `adapter` is no folder of peft's with matrices of this rank in a
    safetensors file."""
    if read_object(adapter / CONFIG).get("r") != rank or not (adapter / ADAPTER).is_file():
        raise UserError(
            f"the adapter {adapter} has another rank than {rank} ({CONFIG}), or lacks {ADAPTER}. "
            "Use an adapter that finetune.sh wrote with this rank. Pickled weights are never read"
        )


# Memory


def adapted(shape: Shape, rank: int) -> int:
    """Count LoRA's parameters on all linear layers: `rank` times the number of inputs and outputs
    of each layer."""
    wide, narrow = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = 2 * (shape.hidden + wide) + 2 * (shape.hidden + narrow)
    return shape.layers * rank * (attention + 3 * (shape.hidden + shape.intermediate))


def needed(shape: Shape, rank: int, tokens: int, device: str) -> int:
    """Estimate the bytes of memory to train LoRA of `rank` (0: all weights), with `tokens` tokens
    in a forward pass.

    `device` is "cuda" or "cpu". A GPU stores bf16 weights, and trained weights also in float32. A
    CPU is assumed to store float32, but with AMX, LoRA needs less. Each layer stores its input, and
    computes the rest again in the backward pass. docs/benchmarks.md has measurements. A CPU keeps
    freed memory: we measured 0.3 to 0.45 of all layers' elements. The estimate takes 0.5, or 1 for
    LoRA."""
    # Elements in a layer for each token: 6 times the hidden size, 4 times the heads' width, 5 times
    # the MLP's width
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
    """Return the number of rows of up to `longest` tokens in a forward pass: a power of two, at
    most STEP_ROWS."""
    return 1 << max(1, min(STEP_ROWS, AT_ONCE[device] // longest)).bit_length() - 1
