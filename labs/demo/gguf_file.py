"""Define the embedded model's tokenizer and chat template, and write its GGUF file."""

from collections.abc import Iterable
from pathlib import Path

import gguf
import numpy as np
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from labs.demo.texts import END_THINK, IM_END, THINK
from labs.training.architectures import QWEN2_SPLIT, Sizes, gguf_names
from labs.training.to_gguf import add_sizes

VOCAB = 900  # number of tokens, including the tags
END_OF_TEXT, IM_START = "<|endoftext|>", "<|im_start|>"
CONTROL = (END_OF_TEXT, IM_START, IM_END)  # never shown in an answer
# shown in replies, because the server uses them to split thinking from the answer
TAGS = (THINK, END_THINK)

# As in Qwen3-4B-Thinking-2507, the template opens thinking for the model, and drops the thinking of
# earlier turns. Only an assistant turn after the last user message (a prefill) keeps its thinking.
CHAT_TEMPLATE = """\
{%- set ns = namespace(last_user=-1) %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {%- set ns.last_user = loop.index0 %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role == 'assistant' %}
        {%- set reasoning = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set reasoning = content.split('</think>')[0].split('<think>')[-1] %}
            {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
        {%- endif %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.last_user %}
            {{- '<think>\\n' + reasoning.strip('\\n') + '\\n</think>\\n\\n' }}
        {%- endif %}
        {{- content + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n\\n' }}
    {%- else %}
        {{- '<|im_start|>assistant\\n<think>\\n' }}
    {%- endif %}
{%- endif %}
"""


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Train a byte-level BPE tokenizer with at most VOCAB tokens. Control tokens and tags get the
    first ids."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN2_SPLIT), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=[*CONTROL, *TAGS],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in TAGS])
    return tokenizer


def chat_prompt(messages: Iterable[dict[str, str]], thinking: bool = True) -> str:
    """Render user and system messages as CHAT_TEMPLATE does, with the generation prompt."""
    turns = "".join(f"{IM_START}{m['role']}\n{m['content']}{IM_END}\n" for m in messages)
    opened = f"{THINK}\n" if thinking else f"{THINK}\n\n{END_THINK}\n\n"
    return f"{turns}{IM_START}assistant\n{opened}"


def write_gguf(
    path: Path,
    sizes: Sizes,
    weights: dict[str, np.ndarray],
    vocab: list[str],
    merges: list[str],
    name: str = "qed-rsa embedded model",
    template: str = CHAT_TEMPLATE,
) -> None:
    """Write a Qwen3 GGUF file in float32. `vocab` lists byte-level tokens by id. Each merge is a
    text "left right"."""
    writer = gguf.GGUFWriter(path, "qwen3")
    writer.add_name(name)
    writer.add_license("mit")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    add_sizes(writer, sizes)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(vocab)
    kinds = {
        **dict.fromkeys(CONTROL, gguf.TokenType.CONTROL),
        **dict.fromkeys(TAGS, gguf.TokenType.USER_DEFINED),
    }
    writer.add_token_types([kinds.get(token, gguf.TokenType.NORMAL) for token in vocab])
    writer.add_token_merges(merges)
    writer.add_eos_token_id(vocab.index(IM_END))
    writer.add_pad_token_id(vocab.index(END_OF_TEXT))
    writer.add_add_bos_token(False)
    writer.add_chat_template(template)
    names = gguf_names(weights, sizes.layers)
    for key, weight in weights.items():
        writer.add_tensor(names[key], np.ascontiguousarray(weight, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
