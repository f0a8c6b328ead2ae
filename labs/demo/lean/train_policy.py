"""Train the tiny policy from scratch, and write its GGUF file. The policy maps a state to a tactic.

    .venv/bin/python -m labs.demo lean-pairs taught.jsonl    # with real Lean
    .venv-train/bin/python -m labs.demo lean-policy taught.jsonl --out data/lean/policy.gguf

The policy has the embedded model's network and training loop, but fewer parameters. Its tokenizer
has one token for each of SIGNS, since llama.cpp returns no probability for a token that is a part
of a character. Training repeats each pair many times, with random names for its variables and often
with irrelevant hypotheses.
"""

import argparse
import hashlib
import json
import random
import time
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

import torch
from msgspec import structs
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from labs.demo.gguf_file import CONTROL, IM_START
from labs.demo.texts import IM_END
from labs.demo.train import export, logging
from labs.lean import pairs
from labs.lean.pairs import Pair, drawn
from labs.lean.policy import asked
from labs.training.architectures import QWEN2_SPLIT
from labs.training.encode import Tokens
from labs.training.loop import POOL, THREADS, Batch, cut, train
from labs.training.network import EMBEDDED, Qwen3
from labs.training.outcome import Schedule

NAME = "qed-rsa tiny Lean policy"
VOCAB = 512  # most tokens in the vocabulary
SIGNS = "⊢→∧∨¬↔∃∀≤⟨⟩≠·∣✝←×"  # one token each
TOKENIZER_PAIRS = 4000
TOKENS = 700_000
WARM_UP = 50_000
BATCH = 3072  # tokens in a batch, including padding
# The prompt does not begin thinking. The tactic follows immediately.
CHAT_TEMPLATE = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""


def prompt(pair: Pair) -> str:
    """Return the prompt that requests a tactic, as CHAT_TEMPLATE formats it."""
    return f"{IM_START}user\n{asked(pair.state)[0]['content']}{IM_END}\n{IM_START}assistant\n"


def train_tokenizer(texts: Iterable[str]) -> Tokenizer:
    """Train byte-level BPE with at most VOCAB tokens and Qwen2's splitting rule. The merges of
    SIGNS come first.

    BPE is trained on whole characters. Then its merges are rewritten in bytes."""
    letters = sorted(letter for _, letter in _bytes_to_characters())
    split = pre_tokenizers.Split(Regex(QWEN2_SPLIT), behavior="isolated")
    merges = list(dict.fromkeys([*_merges_of_signs(), *_learned_merges(texts, split)]))
    tokens = [*CONTROL, *letters, *dict.fromkeys(left + right for left, right in merges)]
    ids = {token: id for id, token in enumerate(dict.fromkeys(tokens))}
    tokenizer = Tokenizer(models.BPE(ids, merges))
    tokenizer.add_special_tokens(
        [AddedToken(token, normalized=False, special=True) for token in CONTROL]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _merges_of_signs() -> Iterator[tuple[str, str]]:
    """Yield the merges that make one token of each of SIGNS."""
    for sign in SIGNS:
        letters = _spelled(sign)
        for i in range(1, len(letters)):
            yield letters[:i], letters[i]


def _learned_merges(texts: Iterable[str], split: pre_tokenizers.Split) -> Iterator[tuple[str, str]]:
    """Yield the merges that BPE learns from whole characters, in bytes."""
    # the trainer splits at white space, so that white space needs other letters
    letters = {" ": _spelled(" "), "\n": _spelled("\n")}
    characters = {letter: character for character, letter in letters.items()}
    pieces = []
    for text in texts:
        for piece, _ in split.pre_tokenize_str(text):
            pieces.append(piece.replace(" ", letters[" "]).replace("\n", letters["\n"]))
    learner = Tokenizer(models.BPE())
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fewer = len(CONTROL) + 2 * len(SIGNS)
    alphabet = sorted(letter for _, letter in _bytes_to_characters())
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - fewer, initial_alphabet=alphabet, show_progress=False
    )
    learner.train_from_iterator(pieces, trainer)
    for pair in json.loads(learner.to_str())["model"]["merges"]:
        parts = pair if isinstance(pair, list) else pair.split(" ")
        left, right = ("".join(characters.get(letter, letter) for letter in part) for part in parts)
        yield _spelled(left), _spelled(right)


def _spelled(text: str) -> str:
    """Write a text's bytes as characters."""
    alphabet = dict(_bytes_to_characters())
    return "".join(alphabet[byte] for byte in text.encode())


@cache
def _bytes_to_characters() -> list[tuple[int, str]]:
    """Return GPT-2's map of bytes to characters. Bytes that are not printable map to characters
    from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    as_themselves = [(byte, chr(byte)) for byte in printable]
    return as_themselves + [(byte, chr(256 + i)) for i, byte in enumerate(others)]


def batches(tokenizer: Tokenizer, given: Sequence[Pair], seed: int) -> Iterator[Batch]:
    """Yield training batches of prompts and tactics without end. Only the tactics have weight in
    the loss."""
    rng = random.Random(seed)
    stream = drawn(given, seed)
    end = tokenizer.token_to_id(IM_END)
    while True:
        rows = []
        for pair in islice(stream, POOL):
            before = tokenizer.encode(prompt(pair)).ids
            reply = [*tokenizer.encode(pair.tactic).ids, end]
            rows.append(Tokens(before + reply, [0.0] * len(before) + [1.0] * len(reply)))
        pool = cut(rows, BATCH)
        for batch_rows in rng.sample(pool, len(pool)):
            yield Batch.of(batch_rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", type=Path, help="pairs.jsonl, the output of lean-pairs")
    parser.add_argument("--out", type=Path, required=True, help="the GGUF file to write")
    parser.add_argument(
        "--tokens", type=int, default=TOKENS, help=f"tokens to train on (default: {TOKENS:,})"
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    began = time.monotonic()
    torch.set_num_threads(THREADS)
    torch.manual_seed(args.seed)
    given = pairs.read(args.pairs)
    texts = []
    for pair in islice(drawn(given, 0), TOKENIZER_PAIRS):
        texts += [prompt(pair), pair.tactic]
    tokenizer = train_tokenizer(text.replace(IM_START, "").replace(IM_END, "") for text in texts)
    model = Qwen3(structs.replace(EMBEDDED, vocab=tokenizer.get_vocab_size(), intermediate=256))
    print(
        f"{len(given)} pairs, {model.shape.vocab} tokens, "
        f"{sum(p.numel() for p in model.parameters())} parameters"
    )
    schedule = Schedule(args.tokens, 1.0, 0.0, WARM_UP)
    stream = batches(tokenizer, given, args.seed)
    steps = train(model, stream, schedule, logging("policy"), torch.device("cpu"))
    export(model, tokenizer, args.out, name=NAME, template=CHAT_TEMPLATE)
    digest = hashlib.sha256(args.out.read_bytes()).hexdigest()
    print(
        f"{steps} steps, {time.monotonic() - began:.0f} s, {args.out.stat().st_size:,} bytes, "
        f"sha256 {digest}"
    )
