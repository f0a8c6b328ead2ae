"""Measure fine-tuning of QED-Nano's shape on this GPU: tokens per second, and peak memory next to
our estimate.

    python -m benchmarks.finetune_step TOKENIZER FOLDER [--lengths 1024 4096 16384] [--ranks 16 0]
    [--tokens 400000]

This needs the requirements of scripts/finetune.sh (.venv-train, with torch for CUDA), an NVIDIA GPU
and 25 GB of disk in FOLDER. It needs no weights, because it writes a model of QED-Nano's shape with
random bf16 weights to FOLDER (once). Then scripts/finetune.sh trains it as STaR and Lean do. Rows
are random digits. --lengths sets their approximate tokens. TOKENIZER is the folder of any Qwen3
model in Hugging Face's layout (bash scripts/to_hf.sh MODEL.gguf FOLDER). It may have fewer token
ids than QED-Nano, but the matrices have QED-Nano's size. Rank 0 trains all weights. The peak is
PyTorch's max_memory_allocated. The estimate (labs/training/starts.py) is cautious, so it should be
above the peak."""

import argparse
import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

from benchmarks.training_script import ran
from core.base.errors import UserError, command
from core.engines.shape import QED_NANO
from labs.training import starts
from labs.training.outcome import LINE, RECORD

with command():
    try:
        import torch
        from tokenizers import Tokenizer
        from transformers import AutoModelForCausalLM, Qwen3Config
    except ImportError as error:
        raise UserError(
            f"this needs {error.name}. Run it with the Python of .venv-train (bash setup.sh train)"
        ) from None

CONTEXT = 32_768
GIB = 2**30


def write_model(tokenizer: Path, folder: Path) -> None:
    """Write random bf16 weights of QED-Nano's shape, with the files of another model's
    tokenizer."""
    shape = QED_NANO
    config = Qwen3Config(
        num_hidden_layers=shape.layers,
        hidden_size=shape.hidden,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        intermediate_size=shape.intermediate,
        vocab_size=shape.vocab,
        tie_word_embeddings=shape.tied,
        max_position_embeddings=CONTEXT,
    )
    with torch.device("cuda"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(folder)
    del model
    torch.cuda.empty_cache()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(tokenizer / name, folder / name)


def write_rows(tokenizer: Path, length: int, count: int, path: Path) -> None:
    """Write `count` training rows of about `length` tokens each to `path`."""
    rng = random.Random(length)
    digits = "".join(rng.choices("0123456789", k=4096))
    a_token = len(digits) / len(
        Tokenizer.from_file(str(tokenizer / "tokenizer.json")).encode(digits).ids
    )
    rows = []
    for _ in range(count):
        reply = "".join(rng.choices("0123456789", k=int((length - 64) * a_token)))
        rows.append(json.dumps({"instruction": "Go on.", "input": "", "output": reply}))
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")


def measured(model: Path, rank: int, length: int, tokens: int, folder: Path) -> dict[str, Any]:
    """Measure a training on about `tokens` tokens (at least two steps). Rows have about `length`
    tokens."""
    data, out = folder / "rows.jsonl", folder / "trained"
    # At least two steps are needed, because AdamW's averages exist from the second step on.
    write_rows(model, length, max(2 * starts.STEP_ROWS, tokens // length), data)
    shutil.rmtree(out, ignore_errors=True)
    args = [
        "--model",
        str(model),
        "--data",
        str(data),
        "--out",
        str(out),
        "--lora-rank",
        str(rank),
        "--epochs",
        "1",
    ]
    result = ran("labs.training.finetune", *args)
    figures: dict[str, Any] = {"rank": rank, "length": length}
    passing = length * starts.rows_at_once(length, "cuda")
    figures["estimate_gib"] = round(starts.needed(QED_NANO, rank, passing, "cuda") / GIB, 1)
    if result.returncode:
        return figures | {"error": result.stdout.strip().splitlines()[-1][:300]}
    record = json.loads((out / RECORD).read_text(encoding="utf-8"))
    speeds = re.findall(rf"^{LINE}.*?([\d,]+) tokens/s", result.stdout, re.MULTILINE)
    shutil.rmtree(out)
    return figures | {
        "tokens": record["tokens"],
        "steps": record["steps"],
        "tokens_a_second": int(speeds[-1].replace(",", "")),
        "peak_gib": round(record["peak_memory"] / GIB, 1),
        "seconds": record["seconds"],
        "device": record["device"],
        "versions": record["versions"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1024, 4096, 16_384])
    parser.add_argument("--ranks", type=int, nargs="+", default=[16, 0])
    parser.add_argument(
        "--tokens",
        type=int,
        default=400_000,
        help="tokens of each training (two steps may need more)",
    )
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise UserError(
            "this needs a GPU, but PyTorch finds none. Run it on a machine with an NVIDIA GPU"
        )
    args.folder.mkdir(parents=True, exist_ok=True)
    model = args.folder / "model"
    if not model.is_dir():
        write_model(args.tokenizer, model)
    print(" rank  tokens a row   tokens/s   peak GiB   estimate GiB", flush=True)
    for rank in args.ranks:
        for length in args.lengths:
            figures = measured(model, rank, length, args.tokens, args.folder)
            if "error" in figures:
                print(
                    (
                        f"{rank:5} {length:13,}   {figures['error']} (estimate "
                        f"{figures['estimate_gib']} GiB)"
                    ),
                    flush=True,
                )
            else:
                speed, peak = figures["tokens_a_second"], figures["peak_gib"]
                print(
                    f"{rank:5} {length:13,} {speed:10,} {peak:10} {figures['estimate_gib']:14}",
                    flush=True,
                )
            print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    with command():
        main()
