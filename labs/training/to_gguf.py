"""Convert a Qwen3, Qwen2 or Llama model from Hugging Face's layout to GGUF: bash scripts/to_gguf.sh
FOLDER OUT.gguf. This converter loads one tensor at a time, without torch. llama.cpp's own converter
takes over for other models, if it is installed (llama_converter.py)."""

import logging
import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf.utility import LocalTensor, SafetensorsLocal
from tqdm import tqdm

from core.base import signals
from core.base.errors import Parser, UserError, command
from core.base.files import draft_of
from core.base.terminal import heartbeat, say
from labs.training import architectures as layout
from labs.training import llama_converter

TYPES = {"q8_0": "MOSTLY_Q8_0", "f16": "MOSTLY_F16", "bf16": "MOSTLY_BF16", "f32": "ALL_F32"}
READ = ("BF16", "F16", "F32")
INSTEAD = (
    f"llama.cpp's converter may know it: set {llama_converter.VARIABLE} to the path of its "
    f"{llama_converter.SCRIPT}, and run the command again"
)


def convert(folder: Path, out: Path, type: str = "q8_0") -> None:
    """Write the model in `folder` to the file `out`, or nothing on an error. Matrices get type
    `type`, if it fits (see _kind), and vectors float32. Raises UserError."""
    if out.suffix != ".gguf":
        raise UserError(f"the name {out} must end in .gguf")
    architecture = check(folder, INSTEAD)
    shape = layout.Sizes.from_config(folder / "config.json")
    tensors = read_tensors(folder, layout.tensor_shapes(shape, architecture))
    kinds = {name: _kind(tensor.shape, type) for name, tensor in tensors.items()}
    sizes = {
        name: math.prod(gguf.quants.quant_shape_to_byte_shape(tensor.shape, kinds[name]))
        for name, tensor in tensors.items()
    }

    writer = gguf.GGUFWriter(None, architecture.name)
    try:
        writer.add_name(folder.resolve().name)
        add_sizes(writer, shape)
        writer.add_file_type(gguf.LlamaFileType[TYPES[type]])
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        _add_tokenizer(writer, folder, shape.vocab)
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise UserError(
            f"the tokenizer in {folder} is damaged ({error!r}). Fetch it again"
        ) from None
    names = layout.gguf_names(tensors, shape.layers, architecture)
    for name, tensor in tensors.items():
        writer.add_tensor_info(
            names[name], tensor.shape, np.dtype(np.float32), sizes[name], raw_dtype=kinds[name]
        )
    with draft_of(out, "the file", sum(sizes.values())) as beside:
        writer.write_header_to_file(beside)
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        with tqdm(
            total=sum(sizes.values()), unit="B", unit_scale=True, desc=out.name, disable=None
        ) as progress:
            for name, tensor in tensors.items():
                stored = np.asarray(tensor.mmap_bytes()).reshape(*tensor.shape[:-1], -1)
                values = gguf.quants.dequantize(stored, gguf.GGMLQuantizationType[tensor.dtype])
                values = layout.reordered(name, values, shape, architecture, to_gguf=True)
                writer.write_tensor_data(gguf.quants.quantize(values, kinds[name]))
                progress.update(sizes[name])
        writer.close()


def check(folder: Path, remedy: str) -> layout.Architecture:
    """Return a model's architecture. Raises UserError, with `remedy`, if the model can't be
    converted."""
    config, path = layout.read_object(folder / "config.json"), folder / "tokenizer.json"
    architecture = layout.architecture_of(config, folder, remedy)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    if (kind := rope.get("rope_type", rope.get("type", "default"))) != "default":
        raise layout.Unsupported(
            f"{folder / 'config.json'} sets {kind} scaling of positions", remedy
        )
    if layout.split_of(layout.read_object(path)) is None:
        raise layout.Unsupported(
            f"the pre-tokenizer in {path} is not {' or '.join(layout.SPLITS)}", remedy
        )
    return architecture


def read_tensors(folder: Path, wanted: Mapping[str, tuple[int, ...]]) -> dict[str, LocalTensor]:
    """Return the tensors of all safetensors files in `folder`, in the order of `wanted`. Their
    values are not read yet. Raises UserError if there is no file, a file is damaged, or names,
    shapes or types differ from `wanted` and READ."""
    found: dict[str, LocalTensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        try:
            tensors = SafetensorsLocal(file).tensors
            end = max(
                (t.data_range.offset + t.data_range.size for t in tensors.values()), default=0
            )
            if file.stat().st_size < end:
                raise ValueError(f"it should have {end:,} bytes")
        except (
            OSError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OverflowError,
            MemoryError,
        ) as error:
            raise UserError(
                f"{file} can't be read as safetensors ({error}). Fetch it again"
            ) from None
        found |= tensors
    if not found:
        raise UserError(
            f"{folder} has no safetensors files. Fetch such files, because pickled weights are "
            "never read"
        )
    if "lm_head.weight" not in wanted:  # a tied model may repeat its embedding
        found.pop("lm_head.weight", None)
    found = {name: tensor for name, tensor in found.items() if not name.endswith(layout.UNUSED)}
    layout.check_tensors(folder, {name: tensor.shape for name, tensor in found.items()}, wanted)
    if odd := next((name for name, tensor in found.items() if tensor.dtype not in READ), None):
        raise UserError(
            f"{odd} in {folder} has type {found[odd].dtype}, not {' or '.join(READ)}. Fetch a "
            "16-bit model"
        )
    return {name: found[name] for name in wanted}


def _kind(shape: tuple[int, ...], type: str) -> gguf.GGMLQuantizationType:
    """Return the type of a written tensor: F32 for a vector, else `type`, or F16 if rows do not
    divide into blocks."""
    kind = (
        gguf.GGMLQuantizationType.F32
        if len(shape) == 1
        else gguf.GGMLQuantizationType[type.upper()]
    )
    return (
        kind if shape[-1] % gguf.GGML_QUANT_SIZES[kind][0] == 0 else gguf.GGMLQuantizationType.F16
    )


def add_sizes(writer: gguf.GGUFWriter, sizes: layout.Sizes) -> None:
    """Add a dense model's sizes to `writer`."""
    writer.add_context_length(sizes.context)
    writer.add_embedding_length(sizes.hidden)
    writer.add_block_count(sizes.layers)
    writer.add_feed_forward_length(sizes.intermediate)
    writer.add_head_count(sizes.heads)
    writer.add_head_count_kv(sizes.kv_heads)
    writer.add_key_length(sizes.head_dim)
    writer.add_value_length(sizes.head_dim)
    writer.add_layer_norm_rms_eps(sizes.eps)
    writer.add_rope_freq_base(sizes.rope_base)
    writer.add_vocab_size(sizes.vocab)


def _add_tokenizer(writer: gguf.GGUFWriter, folder: Path, vocab: int) -> None:
    """Add tokenizer.json's byte-level BPE, special tokens and the chat template. Raises UserError
    and ValueError."""
    tokenizer = layout.read_object(folder / "tokenizer.json")
    tokens = {i: token for token, i in tokenizer["model"]["vocab"].items()}
    added = {token["id"]: token for token in tokenizer.get("added_tokens", [])}
    tokens |= {i: token["content"] for i, token in added.items()}
    if max(tokens) >= vocab:
        raise ValueError(f"token {max(tokens)} is not below vocab_size {vocab}")
    special = gguf.SpecialVocab(folder, load_merges=True, n_vocab=vocab)
    if not (special.merges and special.chat_template and "eos" in special.special_token_ids):
        raise UserError(
            f"{folder} lacks merges, an eos_token or a chat template. Is tokenizer_config.json "
            "missing?"
        )
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(layout.split_of(tokenizer) or "")
    writer.add_token_list([tokens.get(i, f"[PAD{i}]") for i in range(vocab)])
    writer.add_token_types([_token_type(i in tokens, added.get(i)) for i in range(vocab)])
    special.add_to_gguf(writer, quiet=True)


def _token_type(known: bool, added: dict[str, Any] | None) -> gguf.TokenType:
    """Return the type of a token. Replies show user-defined tokens such as <think>, but no control
    tokens. An added token like <|…|> is always a control token, even if tokenizer.json does not
    mark it as special."""
    if not known:
        return gguf.TokenType.UNUSED
    if added is None:
        return gguf.TokenType.NORMAL
    is_tag = added["content"].startswith("<|") and added["content"].endswith("|>")
    return gguf.TokenType.CONTROL if added.get("special") or is_tag else gguf.TokenType.USER_DEFINED


def _convert(folder: Path, out: Path, type: str) -> None:
    """Convert as `convert` does, or with llama.cpp's converter if this one does not know the model.
    Raises UserError."""
    converter = llama_converter.script()
    try:
        convert(folder, out, type)
    except layout.Unsupported as unsupported:
        if converter is None:
            raise
        say(f"{unsupported.fault}.", sys.stderr)
        llama_converter.convert(converter, folder, out, type)


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(
        prog="to_gguf.sh",
        description=(
            "Convert a Qwen3, Qwen2 or Llama model to GGUF for llama.cpp, or any model with "
            f"llama.cpp's own converter ({llama_converter.VARIABLE})."
        ),
    )
    parser.add_argument(
        "folder", type=Path, help="the model's folder (config.json, *.safetensors, tokenizer.json)"
    )
    parser.add_argument("out", type=Path, help="the .gguf file to write")
    parser.add_argument(
        "--type", choices=TYPES, default="q8_0", help="type of the matrices (default: q8_0)"
    )
    signals.catch()
    logging.getLogger("gguf").setLevel(logging.ERROR)
    with command():
        args = parser.parse_args(argv)
        with heartbeat(f"converting {args.folder}"):
            _convert(args.folder, args.out, args.type)
        print(
            f"{args.out}: {args.out.stat().st_size / 1e9:.1f} GB. Run: ENGINE=llamacpp "
            f"MODEL={args.out} bash scripts/run.sh 02_rsa_basic"
        )


if __name__ == "__main__":
    main()
