"""Make a tiny random reward model, and score texts with transformers. vLLM's own interpreter runs
this file: `python tiny_rewards.py KIND TOKENIZER FOLDER`, or `python tiny_rewards.py FOLDER
<conversations.json`.

KIND is "outcome" (LlamaForSequenceClassification with one label) or "process" (the classes and
layers of Qwen2.5-Math-PRM, with the mark <extra_0>). TOKENIZER is the folder of a model whose
tokenizer and chat template the model gets."""

import json
import sys
from pathlib import Path
from typing import Any

MARK = "<extra_0>"
SIZES = {
    "hidden_size": 128,  # vLLM's attention on a CPU needs at least 32 for each head
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 2,
    "max_position_embeddings": 2048,
}


def make(kind: str, tokenizer_folder: Path, folder: Path) -> None:
    """Write a model of this kind with random weights into `folder`."""
    import torch
    import transformers
    from safetensors.torch import save_file

    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_folder)
    tokenizer.add_special_tokens({"additional_special_tokens": [MARK]})
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    fields = SIZES | {"vocab_size": len(tokenizer), "pad_token_id": tokenizer.pad_token_id}
    if kind == "outcome":
        config = transformers.LlamaConfig(**fields, num_labels=1)
        transformers.LlamaForSequenceClassification(config).save_pretrained(folder)
        return
    config = transformers.Qwen2Config(**fields)
    config.architectures = ["Qwen2ForProcessRewardModel"]
    config.save_pretrained(folder)
    weights = {f"model.{name}": tensor for name, tensor in _model(config).state_dict().items()}
    for name, tensor in _head(config).state_dict().items():
        weights[f"score.{name}"] = tensor
    save_file(weights, folder / "model.safetensors", {"format": "pt"})


def _model(config: Any) -> Any:
    import transformers

    return transformers.AutoModel.from_config(config)


def _head(config: Any) -> Any:
    from torch import nn

    size = config.hidden_size
    return nn.Sequential(nn.Linear(size, size), nn.ReLU(), nn.Linear(size, config.num_labels))


def scores(folder: Path, conversations: list[Any]) -> list[list[float]]:
    """Return the scores of each conversation: sigmoid(last token's logit), or softmax at each
    mark."""
    import torch
    import transformers
    from safetensors.torch import load_file

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = transformers.AutoConfig.from_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    body = _model(config).eval()
    of_body = {n.removeprefix("model."): w for n, w in weights.items() if n.startswith("model.")}
    body.load_state_dict(of_body)
    head = None
    if config.num_labels == 2:
        head = _head(config)
        of_head = {n.removeprefix("score."): w for n, w in weights.items() if "score." in n}
        head.load_state_dict(of_head)
    found = []
    for messages in conversations:
        text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=False)
        tokens = tokenizer(text, add_special_tokens=False, return_tensors="pt").input_ids
        with torch.no_grad():
            states = body(tokens).last_hidden_state[0]
            if head is None:
                found.append(torch.sigmoid(states[-1] @ weights["score.weight"].T).tolist())
                continue
            marks = tokens[0] == tokenizer.convert_tokens_to_ids(MARK)
            found.append(torch.softmax(head(states[marks]), -1)[:, 1].tolist())
    return found


if __name__ == "__main__":
    if len(sys.argv) > 2:
        make(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    else:
        print(json.dumps(scores(Path(sys.argv[1]), json.load(sys.stdin))))
