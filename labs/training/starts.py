"""Check the model to train before torch is imported: a small GGUF file, or a folder with or without an adapter."""

from dataclasses import dataclass
from pathlib import Path

from gguf import GGUFReader, Keys

from core.base.errors import UserError
from core.engines.gguf_header import Gguf
from core.engines.shape import Shape
from labs.training.architectures import Sizes, architecture_of, read_object, tensor_shapes
from labs.training.chat import Chat
from labs.training.to_gguf import read_tensors

LARGEST_GGUF = 100_000_000  # parameters. A larger model would take one thread days
TRAINABLE = {"F32", "F16"}  # allowed types of tensors. Fewer bits can't store small changes
ADAPTER, CONFIG = "adapter_model.safetensors", "adapter_config.json"  # the files of an adapter, as peft names them
INSTEAD = "Train a folder in Hugging Face's layout instead: bash scripts/to_hf.sh MODEL.gguf FOLDER"


@dataclass(frozen=True)
class Start:
    """A model to train."""

    path: Path
    shape: Shape
    longest: int  # tokens of context
    bytes: int  # of the trained weights on the disk
    is_gguf: bool = False


def start(model: Path, lora_rank: int) -> Start:
    """Read the model to train. Raises UserError if the model can't be trained with this `lora_rank`."""
    if model.is_dir():
        return _folder(model)
    if lora_rank:
        raise UserError(f"{model} is a GGUF file, so LORA_RANK (--lora-rank) must be 0, not {lora_rank}. {INSTEAD}")
    about, reader = Gguf.read(model), GGUFReader(model)
    named = reader.fields[Keys.General.ARCHITECTURE].contents()
    kinds, shape = {tensor.tensor_type.name for tensor in reader.tensors}, about.shape
    if named != "qwen3" or not shape.tied or kinds - TRAINABLE or shape.parameters > LARGEST_GGUF:
        raise UserError(
            f"{model} ({named}, {' and '.join(sorted(kinds))}) is no small, unquantized qwen3 with tied embeddings: at "
            f"most {LARGEST_GGUF / 1e6:.0f} million parameters in {' or '.join(sorted(TRAINABLE))}. {INSTEAD}"
        )
    return Start(model, shape, about.longest, 4 * shape.parameters, is_gguf=True)


def _folder(folder: Path) -> Start:
    config = read_object(folder / "config.json")
    architecture = architecture_of(config, folder, "Other models can't be trained here")
    shape = Sizes.from_config(folder / "config.json")
    stored = read_tensors(folder, tensor_shapes(shape, architecture))
    _check_tokenizer(folder / "tokenizer.json")
    Chat.of(folder)  # raises UserError if the chat template can't be used
    return Start(folder, shape, shape.context, sum(t.data_range.size for t in stored.values()))


def _check_tokenizer(path: Path) -> None:
    """Raise UserError if the tokens of a reply may depend on its prompt, because the two are encoded separately.
    With a byte-level tokenizer, the prompt does not change them. SentencePiece, however, puts a space before a text."""
    found = read_object(path).get("pre_tokenizer")
    parts = (found.get("pretokenizers") or [found]) if isinstance(found, dict) else []
    level = next((part for part in parts if isinstance(part, dict) and part.get("type") == "ByteLevel"), None)
    if level is None or level.get("add_prefix_space", True):
        raise UserError(f"the pre-tokenizer in {path} is not byte-level, or adds spaces. Train another model")


def check_adapter(adapter: Path, rank: int) -> None:
    """Raise UserError if `adapter` is no folder of peft's with matrices of this rank in a safetensors file."""
    if read_object(adapter / CONFIG).get("r") != rank or not (adapter / ADAPTER).is_file():
        raise UserError(
            f"the adapter {adapter} has another rank than {rank} ({CONFIG}), or lacks {ADAPTER}. Use an adapter that "
            "finetune.sh wrote with this rank. Pickled weights are never read"
        )
