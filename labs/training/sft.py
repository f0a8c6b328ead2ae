"""Fine-tune a model in Hugging Face's layout with trl's SFTTrainer. Train all weights, or only
peft's LoRA matrices. A GPU computes in bf16. A CPU computes in float32, or if it has AMX, LoRA in
bf16. On a CPU, equal data, seed and start give equal weights. Imports torch."""

import gc
import json
import os
import shutil
import warnings
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from itertools import accumulate, chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import datasets
import numpy as np
import torch
import transformers
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict, set_peft_model_state_dict
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import SFTConfig, SFTTrainer

from core.base.errors import UserError
from core.engines.dialects.llamacpp import physical_cores
from labs.training.architectures import read_object
from labs.training.chat import Chat
from labs.training.encode import Passes, Tokens
from labs.training.outcome import Losses, Options, Progress, Schedule, peak_memory
from labs.training.starts import ADAPTER, STEP_ROWS, rows_at_once

ALPHA = 2  # lora_alpha is ALPHA times the rank, so LoRA's update is scaled by ALPHA
CLIP = 1.0  # maximum norm of the gradient
# Files to copy to the new model. Others may be wrong for its weights, such as FETCHED.json or
# adapter_config.json.
COPIED = (
    *(
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
    ),
    *(
        "vocab.json",
        "merges.txt",
        "chat_template.jinja",
        "chat_template.json",
        "model.safetensors.index.json",
    ),
)
SEEDS = 2**32  # numpy accepts seeds below this
IGNORED = -100  # the label of a token without loss


def finetune(
    options: Options, folder: Path, orders: Passes, out: Path
) -> tuple[dict[str, Any], Losses]:
    """Train the model in `folder` on the passes `orders`. Write `out`/model and, for LoRA,
    `out`/adapter. Return the device, the peak memory and the packages' versions, and the losses.
    Raises UserError."""
    warnings.filterwarnings("ignore", category=FutureWarning)  # trl's warnings about transformers
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    device = _device()
    transformers.set_seed(options.seed % SEEDS)
    drawn = list(chain.from_iterable(orders))
    steps = _steps(drawn)
    progress = Progress(len(steps))
    report = Steps(progress, [sum(map(len, step)) for step in steps])
    try:
        model = _model(folder, options, device)
        _train(model, folder, list(chain.from_iterable(steps)), options, device, report)
        gc.collect()  # the trainer has a reference cycle, which would keep the optimizer in memory
        peak = torch.cuda.max_memory_allocated() if device == "cuda" else peak_memory()
        if options.lora_rank:
            _save_adapter(model, out / "adapter")
            model = model.merge_and_unload()
        _write_model(folder, model.state_dict(), drawn[0].tokens[-1], out / "model")
    except torch.OutOfMemoryError:
        raise UserError(
            f"the GPU has too little memory for rows of up to {max(map(len, drawn)):,} tokens. Use "
            "shorter rows (lower MAX_TOKENS), LoRA of a low rank, or end other programs on the "
            "GPU (nvidia-smi lists them)"
        ) from None
    except SafetensorError as error:  # also raised for a full disk
        raise OSError(str(error)) from None
    kind = f"cpu, {torch.get_num_threads()} threads"
    if device == "cuda":
        kind = torch.cuda.get_device_name()
    if _is_in_bf16(options, device):
        kind += ", bf16"
    versions = {name: version(name) for name in ("torch", "transformers", "peft", "trl")}
    return {"device": kind, "peak_memory": peak, "versions": versions}, progress.losses


def _device() -> str:
    """Return the device to train on, and prepare the CPU."""
    if torch.cuda.is_available():
        return "cuda"
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(physical_cores())
    torch.use_deterministic_algorithms(True)
    return "cpu"


def _is_in_bf16(options: Options, device: str) -> bool:
    """Return whether the training computes in bf16: on a GPU, or LoRA on a CPU with AMX."""
    if device == "cuda":
        return True
    return options.lora_rank > 0 and torch.cpu._is_amx_tile_supported()


def _steps(rows: Sequence[Tokens]) -> list[list[Tokens]]:
    """Return the rows of each step, the longest first."""
    parts = [rows[i : i + STEP_ROWS] for i in range(0, len(rows), STEP_ROWS)]
    return [sorted(part, key=len, reverse=True) for part in parts]


def _save_adapter(model: Any, folder: Path) -> None:
    lora = model.peft_config["default"]
    lora.target_modules = sorted(lora.target_modules)  # a set has a random order
    lora.save_pretrained(str(folder))
    save_file(get_peft_model_state_dict(model), folder / ADAPTER, metadata={"format": "pt"})


def _model(folder: Path, options: Options, device: str) -> Any:
    """Load the model to train. For LoRA, add new matrices, or load the matrices of
    `options.adapter`."""
    # If all weights are trained, they are float32, because bf16 would round small steps away.
    is_small = options.lora_rank and _is_in_bf16(options, device)
    dtype = torch.bfloat16 if is_small else torch.float32
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        local_files_only=True,
        use_safetensors=True,
        trust_remote_code=False,
        dtype=dtype,
        device_map={"": 0} if device == "cuda" else None,
    )
    rank = options.lora_rank
    if not rank:
        return model
    config = LoraConfig(
        r=rank, lora_alpha=ALPHA * rank, target_modules="all-linear", task_type="CAUSAL_LM"
    )
    model = get_peft_model(model, config)
    if options.adapter:
        set_peft_model_state_dict(model, load_file(options.adapter / ADAPTER))
    return model


class Steps(TrainerCallback):
    """A callback that reports each step's loss. `tokens` has the number of tokens of each step."""

    def __init__(self, progress: Progress, tokens: Sequence[int]) -> None:
        self.progress = progress
        self.tokens = tokens
        self.seen = 0

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Mapping[str, Any], **_: Any
    ) -> None:
        if "loss" in logs:
            self.seen += self.tokens[state.global_step - 1]
            self.progress.step(state.global_step, self.seen, logs["loss"])


def _train(
    model: Any, folder: Path, rows: Sequence[Tokens], options: Options, device: str, steps: Steps
) -> None:
    """Train on `rows`, in the given order. `folder` contains the model's tokenizer."""
    at_once = rows_at_once(max(map(len, rows)), device)
    data = datasets.Dataset.from_dict(
        {
            "input_ids": [row.tokens for row in rows],
            "labels": [np.where(row.weights, row.tokens, IGNORED).tolist() for row in rows],
        }
    )
    with TemporaryDirectory() as unused:  # the trainer needs a folder, but saves nothing
        config = SFTConfig(
            output_dir=unused,
            # the rows are already tokens, in training order
            dataset_kwargs={"skip_prepare_dataset": True},
            train_sampling_strategy="sequential",
            max_length=None,
            num_train_epochs=1,
            per_device_train_batch_size=at_once,
            gradient_accumulation_steps=STEP_ROWS // at_once,
            max_grad_norm=CLIP,
            seed=options.seed % SEEDS,
            use_cpu=device == "cpu",
            bf16=_is_in_bf16(options, device),
            gradient_checkpointing=True,
            dataloader_pin_memory=device == "cuda",
            logging_steps=1,
            logging_nan_inf_filter=False,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        end = Chat.of(folder).end
        reader = PreTrainedTokenizerFast(
            tokenizer_file=str(folder / "tokenizer.json"), eos_token=end, pad_token=end
        )
        optimizers = _optimizer(model, options.rate, steps.tokens)
        trainer = SFTTrainer(
            model,
            config,
            train_dataset=data,
            processing_class=reader,
            callbacks=[steps],
            optimizers=optimizers,
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()


def _optimizer(model: Any, rate: float, tokens: Sequence[int]) -> tuple[Any, Any]:
    """Return AdamW and its learning-rate schedule. `tokens` has the number of tokens of each
    step."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    # Fused on a GPU. Otherwise a step needs a copy of all weights, and training QED-Nano would not
    # fit into 80 GB.
    optimizer = torch.optim.AdamW(trained, rate, weight_decay=0.0, fused=trained[0].is_cuda)
    schedule, before = Schedule.of_finetuning(sum(tokens), 1.0), list(accumulate(tokens, initial=0))
    scales = [schedule.scale(seen, size) for seen, size in zip(before, tokens, strict=False)]
    return optimizer, torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: scales[min(step, len(scales) - 1)]
    )


def _write_model(start: Path, weights: Mapping[str, Tensor], end: int, folder: Path) -> None:
    """Write the trained `weights` to `folder`, with the file names and tensor types of `start`. Add
    `end`, the id of the end token, to generation_config.json."""
    folder.mkdir()
    for name in COPIED:
        if (start / name).is_file():
            shutil.copy(start / name, folder)
    path = start / "generation_config.json"
    config = read_object(path) if path.is_file() else {}
    known = config.get("eos_token_id", [])
    config["eos_token_id"] = list(
        dict.fromkeys([end, *(known if isinstance(known, list) else [known])])
    )
    (folder / path.name).write_text(json.dumps(config, indent=1) + "\n", encoding="utf-8")
    for file in sorted(start.glob("*.safetensors")):
        new = {}
        with safe_open(file, "pt") as stored:
            for name in stored.keys():  # noqa: SIM118 - no mapping
                old = stored.get_tensor(name)  # kept if the model computes this tensor itself
                new[name] = weights.get(name, old).detach().to("cpu", old.dtype).contiguous()
        save_file(new, folder / file.name, metadata={"format": "pt"})
