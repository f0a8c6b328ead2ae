"""Read the fields of a GGUF file's header that determine the size of a server, and whether it has a
chat template."""

import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gguf import GGUFReader, GGUFValueType, Keys

from core.base.errors import UserError
from core.engines import gguf_parts
from core.engines.gguf_cache import Cache
from core.engines.shape import Shape

LONGEST_ARRAY = 1024  # numbers in an array that is read (fields have one number per layer)
CONTEXT = 32768  # tokens of a model whose header does not tell its context
# errors of the package gguf with damaged files
DAMAGE = (ValueError, LookupError, TypeError, ArithmeticError, struct.error)


@dataclass(frozen=True)
class Gguf:
    """A GGUF file, or the first of several parts, with the bytes of all parts and the fields of its
    header. The architecture is removed from the names of `fields`."""

    path: Path
    bytes: int
    architecture: str
    fields: Mapping[str, Any] = field(repr=False)
    tensors: Mapping[str, tuple[int, ...]] = field(repr=False)  # shapes in the first part

    @classmethod
    def read(cls, path: Path) -> "Gguf":
        """Read a file's header. Raises UserError if the file is unreadable or damaged."""
        with _readable(path):
            header = _Header(path)
            fields = {name: value.contents() for name, value in header.fields.items() if value.data}
            architecture = fields[Keys.General.ARCHITECTURE]
            prefix = f"{architecture}."
            of_model = {name.removeprefix(prefix): value for name, value in fields.items()}
            return cls(path, gguf_parts.size(path), architecture, of_model, header.shapes)

    @property
    def layers(self) -> int:
        return int(self.fields.get("block_count", 0))

    @property
    def longest(self) -> int:
        """The tokens of context that the model was trained for."""
        return int(self.fields.get("context_length", CONTEXT))

    @property
    def cache(self) -> Cache | None:
        """The memory of a slot's context, or None if the header does not tell it."""
        try:
            return Cache.of(self.architecture, self.fields)
        except DAMAGE:  # a field of another form than in known models
            return None

    @property
    def shape(self) -> Shape:
        """The shape of a dense model. Raises UserError if the file lacks a field for it."""
        with _readable(self.path):
            hidden = self.fields["embedding_length"]
            heads = self.fields["attention.head_count"]
            return Shape(
                layers=self.fields["block_count"],
                hidden=hidden,
                heads=heads,
                kv_heads=self.fields.get("attention.head_count_kv", heads),
                head_dim=self.fields.get("attention.key_length", hidden // heads),
                intermediate=self.fields["feed_forward_length"],
                vocab=self.tensors.get("token_embd.weight", (hidden, 0))[1],
                tied="output.weight" not in self.tensors,
            )


def whole(path: Path) -> GGUFReader:
    """Read a whole file, for a conversion. Raises UserError if the file is unreadable or damaged,
    or one of several parts."""
    parts = gguf_parts.names(path.name)
    if len(parts) > 1:
        raise UserError(
            f"{path} is one of {len(parts)} parts. Merge them: llama-gguf-split --merge "
            f"{parts[0]} OUT.gguf"
        )
    with _readable(path):
        return GGUFReader(path)


def has_template(path: Path) -> bool | None:
    """Return whether a file has a chat template, or None if it can't be read."""
    try:
        return Keys.Tokenizer.CHAT_TEMPLATE in _Header(path).fields
    except (OSError, *DAMAGE):
        return None


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn errors about a file into a UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{path} can't be read ({error.strerror}). Check the path and its permissions"
        ) from None
    except DAMAGE as error:
        raise UserError(
            f"{path} is damaged or no GGUF file ({error}). Give a complete GGUF file"
        ) from None


class _Header(GGUFReader):
    """A reader of fields and of tensors' shapes. It skips long arrays, because a vocabulary of 152k
    tokens would take 20 s and half a gigabyte."""

    shapes: dict[str, tuple[int, ...]]

    def _get_field_parts(self, orig_offs: int, raw_type: int) -> Any:
        if raw_type != GGUFValueType.ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        kind, count = struct.unpack_from("<IQ", self.data.data, orig_offs)
        item = self.gguf_scalar_to_np.get(GGUFValueType(kind))
        if item and count <= LONGEST_ARRAY:
            return super()._get_field_parts(orig_offs, raw_type)
        end = orig_offs + 12
        if item:
            end += count * item().itemsize
        else:  # an array of strings (no model has arrays of arrays)
            for _ in range(count):
                end += 8 + struct.unpack_from("<Q", self.data.data, end)[0]
        return end - orig_offs, [], [], [GGUFValueType.ARRAY]

    def _build_tensors(self, start_offs: int, fields: Any) -> None:
        """Read names and shapes. llama.cpp may know types of tensors that the package does not
        know."""
        self.shapes = {}
        for info in fields:
            name = str(bytes(info.parts[1]), encoding="utf-8")
            self.shapes[name] = tuple(int(size) for size in info.parts[3])
        self.tensors = []
