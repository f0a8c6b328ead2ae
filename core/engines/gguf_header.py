"""Read the fields of a GGUF file's header that determine the size of a server, and whether it has a
chat template."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf import GGUFReader, GGUFValueType, Keys

from core.base.errors import UserError
from core.engines.shape import Shape

# Dense models whose layers all keep every key and value. For them, llama.cpp allocates
# Shape.kv_bytes per token.
ARCHITECTURES = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True)
class Gguf:
    """A GGUF file with its size in bytes, its model's shape, and the model's trained context in
    tokens (`longest`)."""

    path: Path
    bytes: int
    shape: Shape
    longest: int

    @classmethod
    def read(cls, path: Path) -> "Gguf":
        """Read a file's header. Raises UserError if the file is unreadable, damaged, unsupported or
        split."""
        try:
            return cls._read(path)
        except OSError as error:
            raise UserError(
                f"{path} can't be read ({error.strerror}). Check the path and its permissions"
            ) from None
        except (ValueError, LookupError, TypeError, ArithmeticError, struct.error) as error:
            raise UserError(
                f"{path} is damaged or no GGUF file ({error}). Give a complete GGUF file"
            ) from None

    @classmethod
    def _read(cls, path: Path) -> "Gguf":
        header = _Header(path)
        fields = {name: field.contents() for name, field in header.fields.items() if field.data}
        architecture = fields[Keys.General.ARCHITECTURE]
        parts = fields.get(Keys.Split.LLM_KV_SPLIT_COUNT, 1)
        if architecture not in ARCHITECTURES:
            raise UserError(
                f"{path} has the architecture {architecture}. Give a Llama, Qwen2 or Qwen3 model"
            )
        if parts > 1:
            raise UserError(
                f"{path} is one of {parts} parts. Merge them: llama-gguf-split --merge PART1 "
                "OUT.gguf"
            )
        model = {name.removeprefix(f"{architecture}."): value for name, value in fields.items()}
        tensors = {tensor.name: tensor.shape for tensor in header.tensors}
        hidden = model["embedding_length"]
        heads = model["attention.head_count"]
        shape = Shape(
            layers=model["block_count"],
            hidden=hidden,
            heads=heads,
            kv_heads=model.get("attention.head_count_kv", heads),
            head_dim=model.get("attention.key_length", hidden // heads),
            intermediate=model["feed_forward_length"],
            vocab=int(tensors.get("token_embd.weight", (hidden, 0))[1]),
            tied="output.weight" not in tensors,
        )
        return cls(path, path.stat().st_size, shape, model["context_length"])


def has_template(path: Path) -> bool | None:
    """Return whether a file has a chat template, or None if it can't be read."""
    try:
        return Keys.Tokenizer.CHAT_TEMPLATE in _Header(path).fields
    except (OSError, ValueError, LookupError, TypeError, ArithmeticError, struct.error):
        return None


class _Header(GGUFReader):
    """A reader that skips arrays, because a vocabulary of 152k tokens would take 20 s and half a
    gigabyte."""

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        kind, count = struct.unpack_from("<IQ", self.data.data, orig_offs)
        end = orig_offs + 12
        if item := self.gguf_scalar_to_np.get(GGUFValueType(kind)):
            end += count * item().itemsize
        else:  # an array of strings (no model has arrays of arrays)
            for _ in range(count):
                end += 8 + struct.unpack_from("<Q", self.data.data, end)[0]
        return end - orig_offs, [], [], [GGUFValueType.ARRAY]
