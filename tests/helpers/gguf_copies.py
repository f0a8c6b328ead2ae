"""Write changed copies of a GGUF file."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import gguf


@contextmanager
def copying(source: Path, out: Path, split_max_tensors: int = 0) -> Iterator[gguf.GGUFWriter]:
    """Yield a writer of `out` with the fields of the file `source`. At the end of the block it
    writes them with all tensors, at most `split_max_tensors` of them in a part (0: no parts)."""
    model = gguf.GGUFReader(source)
    architecture = model.fields["general.architecture"].contents()
    writer = gguf.GGUFWriter(out, architecture, split_max_tensors=split_max_tensors)
    for field in model.fields.values():
        if field.name != "general.architecture" and not field.name.startswith("GGUF."):
            kind = field.types[0]
            inner = field.types[-1] if kind == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(field.name, field.contents(), kind, sub_type=inner)
    yield writer
    for tensor in model.tensors:
        writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
