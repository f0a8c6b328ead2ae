"""Tiny random models in Hugging Face's layout, with the embedded model's tokenizer."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from core.engines.shape import Shape
from labs.training.architectures import ARCHITECTURES, tensor_shapes
from tests.engines.test_llamacpp import edit, hugging_face, one_file

BOS, EOS, USER, ASSISTANT = "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>"
# As DeepSeek's behaves: it begins with the tokenizer's own token, and a turn ends with another.
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}<｜User｜>{{ m.content }}"
    "{% else %}<｜Assistant｜>{{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<｜Assistant｜>{% endif %}"
)
YARN = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512, "beta_fast": 32, "beta_slow": 1}


def random_folder(folder: Path, named: str, shape: Shape, is_plain: bool = False, **config: Any) -> Path:
    """A model of the architecture `named`, of this shape; one that `is_plain` says plain characters only. `config` goes
    into its config.json."""
    hugging_face(folder, one_file, vocab=shape.vocab)
    rng = np.random.default_rng(3)
    values = {}
    for name, size in tensor_shapes(shape, ARCHITECTURES[named]).items():
        spread = 1.0 if name.endswith(".bias") else 0.25
        values[name] = np.ones(size) if "norm" in name else rng.normal(0, spread, size)
    vocab = json.loads((folder / "tokenizer.json").read_text())["model"]["vocab"]
    for token, i in vocab.items() if is_plain else ():
        if not token.isascii() or token.startswith("<"):  # its logit is 0, and others have a greater one
            values["model.embed_tokens.weight" if shape.tied else "lm_head.weight"][i] = 0
    one_file(folder, {name: value.astype(np.float32) for name, value in values.items()})
    edit(
        folder / "config.json",
        {
            "architectures": [named],
            "model_type": ARCHITECTURES[named].name,
            "num_hidden_layers": shape.layers,
            "hidden_size": shape.hidden,
            "num_attention_heads": shape.heads,
            "num_key_value_heads": shape.kv_heads,
            "head_dim": shape.head_dim,
            "intermediate_size": shape.intermediate,
            "tie_word_embeddings": shape.tied,
        }
        | config,
    )
    return folder


def llama(folder: Path, kv_heads: int = 4) -> Path:
    """A Llama with what DeepSeek-Prover-V2-7B has, as far as that is known here: yarn, untied embeddings, a token that
    begins every text and that its tokenizer.json puts there by itself, and the name of another kind of tokenizer."""
    shape = Shape(2, 128, 4, kv_heads, head_dim=32, intermediate=256, vocab=904, tied=False)
    random_folder(folder, "LlamaForCausalLM", shape, rope_scaling=YARN, attention_bias=False, hidden_act="silu")
    path = folder / "tokenizer.json"
    tokenizer = json.loads(path.read_text())
    as_it_stands = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    for i, token in enumerate((BOS, EOS, USER, ASSISTANT)):
        is_control = token in (BOS, EOS)  # DeepSeek's roles are added tokens, not special ones
        tokenizer["added_tokens"].append({"id": 900 + i, "content": token, "special": is_control} | as_it_stands)
    text = {"Sequence": {"id": "A", "type_id": 0}}
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": BOS, "type_id": 0}}, text],
        "pair": [text, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {BOS: {"id": BOS, "ids": [900], "tokens": [BOS]}},
    }
    path.write_text(json.dumps(tokenizer))
    begins = {"__type": "AddedToken", "content": BOS} | as_it_stands
    names = {"bos_token": begins, "eos_token": begins | {"content": EOS}, "pad_token": EOS, "add_bos_token": True}
    edit(folder / "tokenizer_config.json", names | {"tokenizer_class": "LlamaTokenizerFast"})
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder
