"""Read the fields of a GGUF file's header that determine the size of a server."""

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gguf import GGUFReader, GGUFValueType, Keys

from core.base.errors import UserError
from core.engines.shape import Shape

# Dense models whose layers all keep every key and value. For them, llama.cpp allocates Shape.kv_bytes per token.
ARCHITECTURES = ("llama", "qwen2", "qwen3")


@dataclass(frozen=True)
class Gguf:
    """A GGUF file with its size in bytes, its model's shape, and the model's trained context in tokens (`longest`)."""

    path: Path
    bytes: int
    shape: Shape
    longest: int

    @classmethod
    def read(cls, path: Path) -> "Gguf":
        """Read a file's header. Raises UserError if the file is unreadable, damaged, unsupported or split."""
        try:
            header = _Header(path)
            fields = {name: found.contents() for name, found in header.fields.items() if found.data}
        except OSError as error:
            raise UserError(f"{path} can't be read ({error.strerror}). Check the path and its permissions") from None
        except (ValueError, LookupError, OverflowError, struct.error) as error:
            raise UserError(f"{path} is damaged or no GGUF file ({error}). Give a complete GGUF file") from None
        architecture = fields.get(Keys.General.ARCHITECTURE)
        if architecture not in ARCHITECTURES:
            raise UserError(f"{path} has the architecture {architecture}. Give a file of a Llama, Qwen2 or Qwen3 model")
        if (parts := fields.get(Keys.Split.LLM_KV_SPLIT_COUNT, 1)) > 1:
            raise UserError(f"{path} is one of {parts} parts. Merge them: llama-gguf-split --merge PART1 OUT.gguf")

        def number(key: str, default: int = 0) -> int:
            name = key.format(arch=architecture)
            value = fields.get(name, default)
            if not isinstance(value, int) or value < 1:
                raise UserError(f"{path} has no positive integer in the field {name}. Give another file of the model")
            return value

        heads, hidden = number(Keys.Attention.HEAD_COUNT), number(Keys.LLM.EMBEDDING_LENGTH)
        tensors = {tensor.name: tensor.shape for tensor in header.tensors}
        shape = Shape(
            number(Keys.LLM.BLOCK_COUNT),
            hidden,
            heads,
            number(Keys.Attention.HEAD_COUNT_KV, heads),
            number(Keys.Attention.KEY_LENGTH, hidden // heads),
            number(Keys.LLM.FEED_FORWARD_LENGTH),
            int(tensors.get("token_embd.weight", (hidden, 0))[1]),
            tied="output.weight" not in tensors,
        )
        return cls(path, path.stat().st_size, shape, number(Keys.LLM.CONTEXT_LENGTH))


class _Header(GGUFReader):
    """A reader that skips arrays, because a vocabulary of 152k tokens would take 20 s and half a gigabyte."""

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
