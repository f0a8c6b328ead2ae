"""Make a tiny random model of an architecture that no formula describes. Engines' own interpreters
run this file: `python tiny_models.py NAME TOKENIZER FOLDER`.

TOKENIZER is the folder of a model whose tokenizer and chat template the model gets."""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

CONTEXT = 2048
COMMON = {
    "hidden_size": 128,  # vLLM's attention on a CPU needs at least 32 for each head
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 4,
    "max_position_embeddings": CONTEXT,
}
# A mixture of experts, and a hybrid of convolutions and attention.
MODELS: dict[str, dict[str, Any]] = {
    "experts": {
        "model_type": "qwen3_moe",
        "head_dim": 32,
        "moe_intermediate_size": 64,
        "num_experts": 8,
        "num_experts_per_tok": 2,
    },
    "hybrid": {
        "model_type": "lfm2",
        "layer_types": ["conv", "full_attention", "conv", "full_attention"],
        "conv_L_cache": 3,
        # fields of the real config.json that vLLM reads and transformers does not write
        "conv_dim": 128,
        "block_dim": 128,
        "block_auto_adjust_ff_dim": False,
    },
}
COPIED = (
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
    "generation_config.json",
)


def main(name: str, tokenizer: Path, folder: Path) -> None:
    """Write a model of one of MODELS into `folder`."""
    import torch
    import transformers

    fields = COMMON | MODELS[name]
    config_of_tokenizer = json.loads((tokenizer / "config.json").read_text())
    for field in ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id"):
        fields[field] = config_of_tokenizer.get(field)
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    torch.manual_seed(0)
    model = transformers.AutoModelForCausalLM.from_config(config)
    model.save_pretrained(folder)
    for file in COPIED:
        if (tokenizer / file).exists():
            shutil.copy(tokenizer / file, folder / file)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
