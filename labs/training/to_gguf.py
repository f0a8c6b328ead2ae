"""Convert a Qwen3, Qwen2 or Llama model from Hugging Face's layout to GGUF: bash scripts/to_gguf.sh FOLDER OUT.gguf

llama.cpp's own converter is in no installable package and needs torch and transformers; where LLAMA_CPP names a
checkout of llama.cpp, it is called. Else this one does what it does for a dense model, a tensor at a time.
"""

import logging
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.utility import LocalTensor, SafetensorsLocal
from tqdm import tqdm

from core.base.arguments import Parser
from core.base.errors import UserError, command
from core.base.files import whole
from core.engines.shape import Shape
from labs.training.architectures import (
    QWEN3,
    SPLITS,
    UNUSED,
    architecture_of,
    gguf_names,
    read_object,
    reordered,
    split_of,
    tensor_shapes,
)

TYPES = {"q8_0": "MOSTLY_Q8_0", "f16": "MOSTLY_F16", "bf16": "MOSTLY_BF16", "f32": "ALL_F32"}
READ: dict[str, type[np.generic]] = {"BF16": np.uint16, "F16": np.float16, "F32": np.float32}
CONTEXT = 32768  # tokens, where config.json does not say


def convert(folder: Path, out: Path, type: str = "q8_0") -> None:
    """Write the model in `folder` to `out`. Matrices get `type`, norms float32. Raises UserError; then there is no
    `out`."""
    config = read_object(folder / "config.json")
    architecture = architecture_of(
        config, folder, "Convert others with llama.cpp's own converter: LLAMA_CPP=path of a checkout"
    )
    if why := why_not(folder, config):
        raise UserError(f"{why}. Convert it with LLAMA_CPP=path of a checkout")
    shape = Shape.from_config(folder / "config.json")
    tensors = read_tensors(folder, tensor_shapes(shape, architecture))
    kinds = {name: _kind(tensor.shape, type) for name, tensor in tensors.items()}
    sizes = {name: _bytes(tensor.shape, kinds[name]) for name, tensor in tensors.items()}

    writer = gguf.GGUFWriter(None, architecture.name)
    _describe(writer, config, shape, folder)
    writer.add_file_type(gguf.LlamaFileType[TYPES[type]])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    _add_tokenizer(writer, folder, shape.vocab)
    names = gguf_names(tensors, shape.layers, architecture)
    for name, tensor in tensors.items():
        writer.add_tensor_info(names[name], tensor.shape, np.dtype(np.float32), sizes[name], raw_dtype=kinds[name])
    with _file(out, sum(sizes.values())) as beside:
        writer.write_header_to_file(beside)
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        with tqdm(total=sum(sizes.values()), unit="B", unit_scale=True, desc=out.name, disable=None) as progress:
            for name, tensor in tensors.items():
                values = reordered(name, _values(tensor), shape, architecture, to_gguf=True)
                writer.write_tensor_data(gguf.quants.quantize(values, kinds[name]))
                progress.update(sizes[name])
        writer.close()


def why_not(folder: Path, config: dict[str, Any]) -> str:
    """Say why a model of a known architecture can't be converted; "" if it can. Raises UserError for damaged files."""
    rope = _rope(config)
    if (kind := rope.get("rope_type", rope.get("type", "default"))) != "default":
        return f"config.json asks for {kind} scaling of positions"
    path = folder / "tokenizer.json"
    return "" if split_of(read_object(path)) else f"{path} splits text by no rule of {' or '.join(SPLITS)}"


def _rope(config: dict[str, Any]) -> dict[str, Any]:
    """The scaling of positions. transformers 5 keeps the base among its parameters, older releases beside them."""
    found = config.get("rope_parameters") or config.get("rope_scaling") or {}
    return found if isinstance(found, dict) else {}


def read_tensors(folder: Path, wanted: Mapping[str, tuple[int, ...]]) -> dict[str, LocalTensor]:
    """The tensors of all safetensors files in `folder`, not read yet, in the order of those `wanted`, whose names and
    shapes they have. Raises UserError."""
    found: dict[str, LocalTensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        try:
            tensors = SafetensorsLocal(file).tensors
            end = max((t.data_range.offset + t.data_range.size for t in tensors.values()), default=0)
        except OSError as error:
            raise UserError(f"{file} can't be read ({error.strerror}). Check its permissions") from None
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError, MemoryError) as error:
            raise UserError(f"{file} is no safetensors file ({error}). Fetch it again") from None
        if file.stat().st_size < end:
            raise UserError(f"{file} is cut off: {file.stat().st_size:,} of {end:,} bytes. Fetch it again")
        found |= tensors
    if not found:
        raise UserError(f"{folder} holds no safetensors files. Fetch the model again")
    if missing := [name for name in wanted if name not in found]:
        raise UserError(f"{folder} lacks {len(missing)} tensors, the first is {missing[0]}. Is a file missing?")
    # A tied model may repeat its embedding.
    unknown = {name for name in found.keys() - wanted.keys() - {"lm_head.weight"} if not name.endswith(UNUSED)}
    if unknown:
        raise UserError(f"{folder} holds {min(unknown)}, which such a model does not have. Is it another one?")
    for name, size in wanted.items():
        tensor = found[name]
        if tensor.shape != size or tensor.dtype not in READ:
            raise UserError(
                f"{name} in {folder} is {tensor.dtype} {list(tensor.shape)}; {', '.join(READ)} and {list(size)} were "
                "expected from config.json"
            )
    return {name: found[name] for name in wanted}


def _kind(shape: tuple[int, ...], type: str) -> gguf.GGMLQuantizationType:
    """The type that a tensor of `shape` is written in: norms stay exact, rows that are no whole blocks get 16 bits."""
    kind = gguf.GGMLQuantizationType.F32 if len(shape) == 1 else gguf.GGMLQuantizationType[type.upper()]
    return kind if shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0 else gguf.GGMLQuantizationType.F16


def _bytes(shape: tuple[int, ...], kind: gguf.GGMLQuantizationType) -> int:
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    return int(np.prod(shape)) // elements * size


def _values(tensor: LocalTensor) -> np.ndarray[Any, Any]:
    """A tensor in float32."""
    stored = np.asarray(tensor.mmap_bytes()).view(READ[tensor.dtype]).reshape(tensor.shape)
    if tensor.dtype == "BF16":  # the upper half of a float32
        return np.left_shift(stored, 16, dtype=np.uint32).view(np.float32)
    return stored.astype(np.float32)


def _describe(writer: gguf.GGUFWriter, config: dict[str, Any], shape: Shape, folder: Path) -> None:
    """What llama.cpp needs to know of the model beside its tensors and tokens."""
    rope = _rope(config)
    try:
        eps, base = float(config["rms_norm_eps"]), float(config.get("rope_theta") or rope["rope_theta"])
        context = int(config.get("max_position_embeddings", CONTEXT))
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"config.json does not hold a sound {error}. Fetch it again") from None
    writer.add_name(folder.resolve().name)
    add_shape(writer, shape, context, eps, base)


def add_shape(writer: gguf.GGUFWriter, shape: Shape, context: int, eps: float, base: float) -> None:
    """A dense model's sizes. `context`: tokens it was trained for; `eps`: of its norms; `base`: of its rotations."""
    writer.add_context_length(context)
    writer.add_embedding_length(shape.hidden)
    writer.add_block_count(shape.layers)
    writer.add_feed_forward_length(shape.intermediate)
    writer.add_head_count(shape.heads)
    writer.add_head_count_kv(shape.kv_heads)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(eps)
    writer.add_rope_freq_base(base)
    writer.add_vocab_size(shape.vocab)


def _add_tokenizer(writer: gguf.GGUFWriter, folder: Path, vocab: int) -> None:
    """Byte-level BPE from tokenizer.json; special tokens and the chat template from the files beside it."""
    path = folder / "tokenizer.json"
    tokenizer = read_object(path)
    try:
        tokens = {i: token for token, i in tokenizer["model"]["vocab"].items()}
        added = {token["id"]: token for token in tokenizer.get("added_tokens", [])}
        tokens |= {i: token["content"] for i, token in added.items()}
        listed = [tokens.get(i, f"[PAD{i}]") for i in range(vocab)]
        special = gguf.SpecialVocab(folder, load_merges=True, n_vocab=vocab)
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{path} or the files beside it are damaged ({error}). Fetch them again") from None
    if max(tokens) >= vocab:
        raise UserError(
            f"{path} has tokens up to {max(tokens)} and config.json a vocab_size of {vocab}. Fetch both again"
        )
    for what, there, where in (
        ("merges", special.merges, "tokenizer.json"),
        ("end of a turn (eos_token)", "eos" in special.special_token_ids, "tokenizer_config.json"),
        ("chat template", special.chat_template, "tokenizer_config.json or chat_template.jinja"),
    ):
        if not there:
            raise UserError(f"{folder} holds no {what}. Is {where} missing?")
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split_of(tokenizer) or "")
    writer.add_token_list(listed)
    writer.add_token_types([_token_type(i in tokens, added.get(i)) for i in range(vocab)])
    special.add_to_gguf(writer, quiet=True)


def _token_type(known: bool, added: dict[str, Any] | None) -> gguf.TokenType:
    """Control tokens are never shown; <think> and </think>, user-defined, are. <|…|> is one whatever its file says."""
    if not known:
        return gguf.TokenType.UNUSED
    if added is None:
        return gguf.TokenType.NORMAL
    is_tag = added["content"].startswith("<|") and added["content"].endswith("|>")
    return gguf.TokenType.CONTROL if added.get("special") or is_tag else gguf.TokenType.USER_DEFINED


def _file(out: Path, size: int = 0) -> AbstractContextManager[Path]:
    if out.suffix != ".gguf":
        raise UserError(f"{out} must be named .gguf")
    return whole(out, "the file", size)


def rewrite(path: Path, out: Path, weights: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write the GGUF file of a Qwen3 at `path` to `out` with other `weights` (by Hugging Face's names), in float32."""
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(out, QWEN3.name)
    layers = reader.fields[gguf.Keys.LLM.BLOCK_COUNT.format(arch=QWEN3.name)].contents()
    given = {gguf.Keys.General.ARCHITECTURE, gguf.Keys.General.FILE_TYPE}
    for name, field in reader.fields.items():
        if name not in given and not name.startswith("GGUF."):
            kind, *inner = field.types
            writer.add_key_value(name, field.contents(), kind, inner[-1] if inner else None)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    names = {found: name for name, found in gguf_names(weights, layers).items()}
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, np.ascontiguousarray(weights[names[tensor.name]], dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def convert_with(checkout: Path, folder: Path, out: Path, type: str) -> None:
    """The same with the converter in a checkout of llama.cpp, run by the python3 of the environment."""
    script = checkout / "convert_hf_to_gguf.py"
    if not script.is_file():
        raise UserError(
            f"LLAMA_CPP={checkout} holds no convert_hf_to_gguf.py. Name a checkout of llama.cpp, or unset it"
        )
    with _file(out) as beside:
        args = ["python3", str(script), str(folder), "--outfile", str(beside), "--outtype", type]
        if (status := subprocess.run(args, check=False).returncode) != 0:
            raise UserError(
                f"llama.cpp's converter ended with status {status} (see above). It needs {checkout}'s "
                "requirements/requirements-convert_hf_to_gguf.txt"
            )


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(prog="to_gguf.sh", description="Convert a Qwen3, Qwen2 or Llama model to GGUF, for llama.cpp.")
    parser.add_argument("folder", type=Path, help="with config.json, *.safetensors, tokenizer.json")
    parser.add_argument("out", type=Path, help="the .gguf file to write")
    parser.add_argument("--type", choices=TYPES, default="q8_0", help="of the matrices (default: q8_0)")
    for sign in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(sign, signal.default_int_handler)
    logging.getLogger("gguf").setLevel(logging.ERROR)
    with command():
        args = parser.parse_args(argv)
        if checkout := os.environ.get("LLAMA_CPP", "").strip():
            convert_with(Path(checkout), args.folder, args.out, args.type)
        else:
            convert(args.folder, args.out, args.type)
        print(
            f"{args.out}: {args.out.stat().st_size / 1e9:.1f} GB. Run: ENGINE=llamacpp MODEL={args.out} bash "
            "scripts/run.sh 02_rsa_basic"
        )


if __name__ == "__main__":
    main()
