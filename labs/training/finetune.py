"""Train a model on JSON lines: bash scripts/finetune.sh --model PATH --data FILE.jsonl --out
FOLDER. PATH is a small model's .gguf file (with --lora-rank 0) or a folder in Hugging Face's
layout. A folder must contain a dense Llama, Qwen2 or Qwen3 with a byte-level tokenizer. On an
error, FOLDER is not written (docs/star.md#training)."""

import json
import math
import os
import signal
import time
from collections.abc import Sequence
from importlib import import_module
from itertools import chain
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from core.base import signals
from core.base.errors import Parser, UserError, command
from core.base.files import draft_of
from core.engines.environment import let_openmp_sleep
from labs.training import starts, to_hf
from labs.training.outcome import RECORD, Options
from labs.training.rows import passes, read


def options_of(argv: Sequence[str] | None) -> Options:
    """Parse the command line. Raises UserError."""
    parser = Parser(
        prog="finetune.sh",
        description="Train a model on JSON lines with instruction, input and output.",
    )
    default = Options(Path(), Path(), Path())
    add = parser.add_argument
    about = "a .gguf file, or a folder in Hugging Face's layout"
    add("--model", type=Path, required=True, help=about)
    about = "a file of JSON lines: instruction, input, output"
    add("--data", type=Path, required=True, help=about)
    add("--out", type=Path, required=True, help="the new folder to write")
    add("--epochs", type=float, default=default.epochs, help="number of passes over the rows")
    about = "number of tokens (with prompts) to train on, instead of --epochs"
    add("--tokens", type=int, help=about)
    add("--rate", type=float, default=default.rate, help="peak learning rate of AdamW")
    about = "LoRA rank, or 0 to train all weights"
    add("--lora-rank", type=int, default=default.lora_rank, help=about)
    add("--adapter", type=Path, help="the folder of the LoRA adapter to continue from")
    add("--seed", type=int, default=default.seed, help="seed of the training")
    options = Options(**vars(parser.parse_args(argv)))
    positive = {"epochs": options.epochs, "rate": options.rate, "tokens": options.tokens}
    for name, value in positive.items():
        if value is not None and not 0 < value < math.inf:
            raise UserError(f"--{name} is {value}, but must be a finite number above 0")
    if options.lora_rank < 0:
        raise UserError(
            f"--lora-rank is {options.lora_rank}, but must be 0 (train all weights) or higher"
        )
    return options


def finetune(options: Options) -> None:
    """Train a model, and write the folder `options.out`, or nothing on an error. Raises
    UserError."""
    began = time.monotonic()
    rows = read(options.data)
    start = starts.start(options.model, options.lora_rank)
    if options.adapter:
        starts.check_adapter(options.adapter, options.lora_rank)
    folder = options.model
    with draft_of(options.out, "the new model", start.bytes) as out:
        out.mkdir()
        # Both import torch, so they follow the cheap checks.
        trainer = import_module(f"labs.training.{'loop' if start.is_gguf else 'sft'}")
        encode = import_module("labs.training.encode")
        with TemporaryDirectory(dir=out) as temporary:
            if start.is_gguf:
                folder = Path(temporary) / "model"
                to_hf.convert(options.model, folder)
            texts, left_out = encode.encoded(folder, rows, min(start.longest, starts.LONGEST))
            chosen = passes([*map(len, texts)], options.epochs, options.tokens, options.seed)
            orders = [[texts[i] for i in order] for order in chosen]
            about, losses_at = trainer.finetune(options, folder, orders, out)
        drawn = list(chain.from_iterable(orders))
        losses = [loss for _, loss in losses_at]
        tenth = max(1, len(losses) // 10)
        record = about | {
            "rows": len(texts),
            "left_out": left_out,
            "tokens": sum(map(len, drawn)),
            "trained_tokens": int(sum(chain.from_iterable(text.weights for text in drawn))),
            "steps": len(losses),
            "seconds": round(time.monotonic() - began, 1),
            "loss": [[tokens, round(loss, 4)] for tokens, loss in losses_at],
            "first_loss": round(fmean(losses[:tenth]), 4),
            "last_loss": round(fmean(losses[-tenth:]), 4),
        }
        (out / RECORD).write_text(json.dumps(record) + "\n", encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> None:
    # Use one GPU, and download nothing.
    os.environ["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    os.environ |= {
        "HF_HUB_OFFLINE": "1",
        "HF_DATASETS_OFFLINE": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    let_openmp_sleep()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signals.catch()
    with command():
        finetune(options_of(argv))


if __name__ == "__main__":
    main()
