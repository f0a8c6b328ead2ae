"""Train by trl and peft, and answer by transformers, in one process: to import them takes five
seconds.

`python -m tests.labs.training.by_torch FOLDER COMMAND…` runs in .venv-train. Each COMMAND holds the
arguments of one training. conftest.py fills FOLDER; the answers are written to answers.json
there."""

import json
import sys
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from labs.training.encode import encoded
from labs.training.finetune import main
from labs.training.rows import Line, read

PROMPT = "<|im_start|>user\n7*43?<|im_end|>\n<|im_start|>assistant\n"


def load(folder: Path) -> tuple[Any, Any]:
    return AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)


def reply(model: Any, prompt: list[int], tokens: int) -> list[int]:
    reply: list[int] = model.generate(
        torch.tensor([prompt]), do_sample=False, max_new_tokens=tokens
    )[0].tolist()
    return reply[len(prompt) :]


def answer(rows: list[Line], base: Path, trained: Path) -> dict[str, Any]:
    """Answer the first row, and encode all rows as transformers does. `differ`: the logits, against
    the base, or the base with its adapter merged by peft."""
    tokenizer, ours = load(trained / "model")
    other = AutoModelForCausalLM.from_pretrained(base)
    if (trained / "adapter").exists():
        other = PeftModel.from_pretrained(other, trained / "adapter").merge_and_unload()
    texts, _ = encoded(base, rows, 999)
    prompts, whole = [], []
    for row in rows:
        turns = [{"role": "user", "content": row.prompt}]
        prompts.append(
            tokenizer.apply_chat_template(turns, add_generation_prompt=True)["input_ids"]
        )
        turns.append({"role": "assistant", "content": row.output})
        whole.append(tokenizer.apply_chat_template(turns)["input_ids"])
    with torch.no_grad():
        first, second = (model(torch.tensor([whole[0]])).logits for model in (other, ours))
    return {
        "class": type(ours).__name__,
        "rope": [model.config.rope_parameters["rope_type"] for model in (other, ours)],
        "differ": float((first - second).abs().max() / first.abs().max()),
        "prompt": tokenizer.decode(prompts[0]),
        "reply": tokenizer.decode(reply(ours, prompts[0], 200)),
        "prompts": [text.tokens[: text.weights.index(1)] for text in texts] == prompts,
        "whole": [text.tokens for text in texts] == whole,
        "begins": [each.count(tokenizer.bos_token_id) for each in whole],
    }


def random_answer(folder: Path) -> str:
    tokenizer, model = load(folder)
    text: str = tokenizer.decode(reply(model, tokenizer(PROMPT)["input_ids"], 40))
    return text


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for command in sys.argv[2:]:
        main(command.split())
    llama, rows = folder / "llama", read(folder / "rows.jsonl")
    answers: dict[str, Any] = {
        "sft": answer(read(folder / "16.jsonl"), folder / "hf", folder / "sft" / "lora")
    }
    answers |= {
        name: answer(rows, llama / base, llama / name)
        for name, base in (("lora", "mha"), ("all", "gqa"))
    }
    answers |= {each.name: random_answer(each) for each in (folder / "random").iterdir()}
    (folder / "answers.json").write_text(json.dumps(answers))
