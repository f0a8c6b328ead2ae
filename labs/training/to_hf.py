"""Convert a Qwen3, Qwen2 or Llama model from GGUF to Hugging Face's layout: bash scripts/to_hf.sh
MODEL.gguf FOLDER. It loads one tensor at a time, without torch. All weights become float32, but
quantized weights gain no precision."""

import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import Keys, TokenType
from msgspec import to_builtins
from msgspec.structs import asdict

from core.base import signals
from core.base.errors import Parser, UserError, command
from core.base.files import draft_of
from core.base.terminal import heartbeat
from core.engines.gguf_header import Gguf, whole
from core.engines.shape import Shape
from labs.training import architectures as layout

INSTEAD = (
    "Fetch the original model in Hugging Face's layout (config.json, *.safetensors, tokenizer.json)"
)
WEIGHTS = "model.safetensors"
# Sampling defaults. Without them, transformers decodes greedily or samples only the 50 likeliest
# tokens.
SAMPLING = {"do_sample": True, "top_k": 0}


def convert(path: Path, out: Path) -> None:
    """Write the model of the GGUF file `path` to the folder `out`, or nothing on an error. Raises
    UserError."""
    named, architecture = _architecture(path)
    shape = Gguf.read(path).shape
    reader = whole(path)
    about = {name: field.contents() for name, field in reader.fields.items()}
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    wanted = layout.tensor_shapes(shape, architecture)
    names = layout.gguf_names(wanted, shape.layers, architecture)
    has = {
        name: tuple(int(size) for size in reversed(tensor.shape))
        for name, tensor in tensors.items()
    }
    layout.check_tensors(path, has, {names[name]: size for name, size in wanted.items()})
    try:
        config = _config(path, about, shape, named, architecture.name)
        files = {
            "config.json": config,
            "generation_config.json": SAMPLING
            | {name: config[name] for name in ("eos_token_id", "pad_token_id")},
            "tokenizer.json": _tokenizer(about),
            "tokenizer_config.json": _tokenizer_config(about, config),
        }
        template = about[Keys.Tokenizer.CHAT_TEMPLATE]
    except LookupError as error:
        raise UserError(
            f"{path} lacks the field {error}. Fetch or convert the model again"
        ) from None
    with draft_of(out, "the model", 4 * sum(math.prod(size) for size in wanted.values())) as beside:
        beside.mkdir()
        for name, content in files.items():
            (beside / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
        (beside / "chat_template.jinja").write_text(template, encoding="utf-8")
        _write(
            beside / WEIGHTS, {name: tensors[names[name]] for name in wanted}, shape, architecture
        )


def _architecture(path: Path) -> tuple[str, layout.Architecture]:
    """Return the architecture of a GGUF file, and its name in config.json. Raises UserError if it
    can't be converted."""
    name = Gguf.read(path).architecture
    for named, architecture in layout.ARCHITECTURES.items():
        if architecture.name == name:
            return named, architecture
    convertible = ", ".join(architecture.name for architecture in layout.ARCHITECTURES.values())
    raise UserError(
        f"{path} has the architecture {name}. Only {convertible} can be converted. {INSTEAD}"
    )


def _config(
    path: Path, about: Mapping[str, Any], shape: Shape, named: str, architecture: str
) -> dict[str, Any]:
    """Build config.json. Raises UserError for an unsupported feature, and LookupError for a missing
    field."""
    for key, known in (
        (Keys.Tokenizer.MODEL, ("gpt2",)),
        (Keys.Tokenizer.PRE, tuple(layout.SPLITS)),
    ):
        if about.get(key) not in known:
            raise UserError(
                f"{path} has {key}={about.get(key)}, but must have {' or '.join(known)}. {INSTEAD}"
            )
    if (scaling := about.get(Keys.Rope.SCALING_TYPE.format(arch=architecture), "none")) != "none":
        raise UserError(
            f"{path} sets {scaling} scaling of positions, which can't be converted. {INSTEAD}"
        )
    eos = about[Keys.Tokenizer.EOS_ID]
    sizes = layout.Sizes(
        **asdict(shape),
        context=about[Keys.LLM.CONTEXT_LENGTH.format(arch=architecture)],
        eps=about[Keys.Attention.LAYERNORM_RMS_EPS.format(arch=architecture)],
        rope_base=about[Keys.Rope.FREQ_BASE.format(arch=architecture)],
    )
    config = {
        "architectures": [named],
        "model_type": architecture,
        **to_builtins(sizes),
        "dtype": "float32",
    }
    return config | {"eos_token_id": eos, "pad_token_id": about.get(Keys.Tokenizer.PAD_ID, eos)}


def _tokenizer(about: Mapping[str, Any]) -> dict[str, Any]:
    """Build tokenizer.json: byte-level BPE in which each digit is a token."""
    tokens, types = about[Keys.Tokenizer.LIST], about[Keys.Tokenizer.TOKEN_TYPE]
    merges = [str(merge).split(" ") for merge in about[Keys.Tokenizer.MERGES]]
    literal = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [
        {"id": i, "content": tokens[i], "special": kind == TokenType.CONTROL} | literal
        for i, kind in enumerate(types)
        if kind in (TokenType.CONTROL, TokenType.USER_DEFINED)
    ]
    split = layout.SPLITS[about[Keys.Tokenizer.PRE]]
    vocab = {token: i for i, token in enumerate(tokens) if types[i] != TokenType.UNUSED}
    return {
        "version": "1.0",
        "added_tokens": added,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": split},
        "decoder": split[-1],
        "model": {"type": "BPE", "vocab": vocab, "merges": merges},
    }


def _tokenizer_config(about: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    tokens = about[Keys.Tokenizer.LIST]
    bos = about.get(Keys.Tokenizer.BOS_ID)
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": tokens[config["eos_token_id"]],
        "pad_token": tokens[config["pad_token_id"]],
        "bos_token": None if bos is None else tokens[bos],
        "add_bos_token": bool(about.get(Keys.Tokenizer.ADD_BOS, False)),
        "clean_up_tokenization_spaces": False,
        "model_max_length": config["max_position_embeddings"],
    }


def _write(
    path: Path, tensors: Mapping[str, Any], shape: Shape, architecture: layout.Architecture
) -> None:
    """Write `tensors` as float32 to a safetensors file: the header's length, the header in JSON,
    and the values."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        size = [int(n) for n in reversed(tensor.shape)]
        start, end = end, end + 4 * math.prod(size)
        header[name] = {"dtype": "F32", "shape": size, "data_offsets": [start, end]}
    encoded_header = json.dumps(header).encode()
    encoded_header += b" " * (-len(encoded_header) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(encoded_header)) + encoded_header)
        for name, tensor in tensors.items():
            values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
            values = layout.reordered(name, values, shape, architecture, to_gguf=False)
            file.write(np.ascontiguousarray(values, dtype="<f4").tobytes())


def main(argv: Sequence[str] | None = None) -> None:
    parser = Parser(
        prog="to_hf.sh",
        description="Convert a Qwen3, Qwen2 or Llama model to Hugging Face's layout.",
    )
    parser.add_argument("model", type=Path, help="a .gguf file")
    parser.add_argument("out", type=Path, help="the folder to write")
    signals.catch()
    with command():
        args = parser.parse_args(argv)
        with heartbeat(f"converting {args.model}"):
            convert(args.model, args.out)
        size = (args.out / WEIGHTS).stat().st_size
        print(
            f"{args.out}: {size / 1e6:,.1f} MB. Serve it: ENGINE=vllm MODEL={args.out} bash "
            "scripts/start_server.sh"
        )


if __name__ == "__main__":
    main()
