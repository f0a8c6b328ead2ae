"""What can be trained: a small model in a GGUF file, or a folder in Hugging Face's layout, with an adapter perhaps.
Whatever can't be is said in one line, and torch is not needed to say it."""

import json
import struct
from dataclasses import dataclass
from pathlib import Path

import gguf
from gguf import Keys

from core.base.errors import UserError
from core.engines import weights
from core.engines.gguf_header import Gguf
from core.engines.shape import Shape
from labs.training.architectures import Architecture, architecture_of, linear_shapes, read_object, tensor_shapes
from labs.training.chat import Chat
from labs.training.to_gguf import read_tensors

LARGEST_GGUF = 100_000_000  # parameters: a larger one is days for one thread
TRAINABLE = ("F32", "F16")  # types of tensors of a GGUF file: those of fewer bits hold no small changes
ADAPTER, ADAPTER_CONFIG = "adapter_model.safetensors", "adapter_config.json"
BASE = "base.json"  # beside them: of which weights
INSTEAD = "Train a folder in Hugging Face's layout instead: bash scripts/to_hf.sh MODEL.gguf FOLDER"


@dataclass(frozen=True)
class Start:
    """`longest`: tokens of context; `bytes`: of its weights on the disk."""

    path: Path
    shape: Shape
    longest: int
    bytes: int
    architecture: Architecture | None = None  # of a folder

    @property
    def is_gguf(self) -> bool:
        return self.architecture is None


def start(model: Path, lora_rank: int) -> Start:
    """What `model` is. Raises UserError where it can't be trained, or not with this rank."""
    if model.is_dir():
        return _folder(model)
    if lora_rank:
        raise UserError(
            f"{model} is a GGUF file, of which all weights are trained: LoRA rank 0, not {lora_rank}. {INSTEAD}"
        )
    return _gguf(model)


def _gguf(path: Path) -> Start:
    about = Gguf.read(path)
    try:
        reader = gguf.GGUFReader(path)
    except (OSError, ValueError, LookupError, OverflowError, struct.error) as error:
        raise UserError(f"{path} is cut off or damaged ({error}). Fetch or convert it again") from None
    named = reader.fields[Keys.General.ARCHITECTURE].contents()
    if named != "qwen3":
        raise UserError(f"{path} is of architecture {named}; of GGUF files only qwen3 is trained. {INSTEAD}")
    if kinds := {tensor.tensor_type.name for tensor in reader.tensors} - set(TRAINABLE):
        raise UserError(f"{path} is quantized ({min(kinds)}) and can't be trained as it is. {INSTEAD}")
    found = about.shape
    if not found.tied or found.parameters > LARGEST_GGUF:
        raise UserError(
            f"{path} has {found.parameters / 1e6:,.0f} million parameters{'' if found.tied else ', not tied'}; of GGUF "
            f"files those with tied embeddings and at most {LARGEST_GGUF / 1e6:.0f} million are trained. {INSTEAD}"
        )
    return Start(path, found, about.longest, 4 * found.parameters)


def _folder(folder: Path) -> Start:
    config = read_object(folder / "config.json")
    architecture = architecture_of(config, folder, "Others are not trained here")
    shape = Shape.from_config(folder / "config.json")
    if not list(folder.glob("*.safetensors")):
        raise UserError(f"{folder} holds no safetensors, and pickled weights are never read. Fetch or convert it again")
    stored = read_tensors(folder, tensor_shapes(shape, architecture))
    longest = config.get("max_position_embeddings")
    if not isinstance(longest, int) or longest < 1:
        raise UserError(f"{folder / 'config.json'} does not hold a sound max_position_embeddings. Fetch it again")
    _check_tokenizer(folder / "tokenizer.json")
    Chat.of(folder)  # its template can be used
    return Start(folder, shape, longest, sum(t.data_range.size for t in stored.values()), architecture)


def _check_tokenizer(path: Path) -> None:
    """Raises UserError where a text becomes other tokens behind a prompt than alone: there rows are put together from
    two. Byte-level tokenizers are alike; those of SentencePiece put a space before what is alone."""
    found = read_object(path).get("pre_tokenizer")
    parts = (found.get("pretokenizers") or [found]) if isinstance(found, dict) else []
    level = next((part for part in parts if isinstance(part, dict) and part.get("type") == "ByteLevel"), None)
    if level is None or level.get("add_prefix_space", True):
        raise UserError(f"the tokenizer {path} is not byte-level, or adds spaces. Others are not trained here")


def adapter_alpha(adapter: Path, base: Start, lora_rank: int) -> float:
    """The alpha of a LoRA adapter of `base` with this rank. Raises UserError for any other."""
    config = read_object(adapter / ADAPTER_CONFIG)
    if not (adapter / ADAPTER).is_file():
        raise UserError(f"{adapter} holds no {ADAPTER}, and pickled weights are never read. Name another adapter")
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if config.get("peft_type") != "LORA" or type(rank) is not int or not isinstance(alpha, int | float):
        raise UserError(f"{adapter / ADAPTER_CONFIG} is not of a LoRA adapter. Name another")
    if rank != lora_rank:
        raise UserError(f"the adapter {adapter} has rank {rank}, not {lora_rank}. Give the rank {rank}")
    if base.architecture is None:
        raise UserError(f"{base.path} is a GGUF file, which no adapter goes with")
    if others := [name for name in ("use_dora", "use_rslora", "modules_to_save", "rank_pattern") if config.get(name)]:
        raise UserError(f"the adapter {adapter} has {others[0]}, which is not trained here. Name another")
    wanted: dict[str, tuple[int, ...]] = {}
    for name, (outputs, inputs) in linear_shapes(base.shape, base.architecture).items():
        first, second = lora_names(name)
        wanted |= {first: (rank, inputs), second: (outputs, rank)}
    read_tensors(adapter, wanted)
    if (adapter / BASE).is_file() and (said := read_object(adapter / BASE).get("sha256")) != weights.digest(base.path):
        raise UserError(f"the adapter {adapter} is of another base than {base.path} ({BASE} says {said!r:.20})")
    return float(alpha)


def lora_names(name: str) -> tuple[str, str]:
    """peft's names of the two matrices that a matrix `name` of the base is adapted by."""
    stem = f"base_model.model.{name.removesuffix('.weight')}"
    return f"{stem}.lora_A.weight", f"{stem}.lora_B.weight"


def write_base(adapter: Path, base: Path) -> None:
    """Say in an adapter's folder of which weights it is."""
    (adapter / BASE).write_text(json.dumps({"sha256": weights.digest(base)}) + "\n", encoding="utf-8")
