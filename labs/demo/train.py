"""Train the embedded model from random weights, and write its GGUF file.

    python -m labs.demo train --device cuda --workers 14

    python -m labs.demo train --share 0.1 --batch 3072

    python -m labs.demo train --share 0.0001

    python -m labs.demo train --start data/embedded/model.gguf --phases last

    python -m labs.demo train --start data/embedded/model.gguf --texts traces.jsonl --tokens 1000000

    python -m labs.demo train --start MODEL.gguf --phases last --share 0.004 --ignore-candidates

The first command takes eight minutes on one H100, and the second takes two to three hours on two
cores of a CPU. The third takes seconds, and writes a file that loads but is untrained. Training
needs requirements-train.txt. Phases and learning rates depend on the number of tokens, not on
time. So on a CPU, equal options (including --workers) give equal weights. Each phase ends with a
checkpoint in --out. The options --start and --phases continue from a checkpoint or a GGUF file. The
option --texts trains on your own file. Each line of the file is a JSON object. "instruction" and
the optional "input" are the user's turn, and "output" is the assistant's turn. The thinking in
"output" ends with </think>. Without the tag, thinking is closed. The last command takes minutes.
Its model solves as before, but an aggregation is a new attempt that ignores the candidates.
"""

import argparse
import hashlib
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import torch
from msgspec import structs
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from core.types import FORCED_ANSWER
from labs.demo.data import examples
from labs.demo.gguf_file import chat_prompt, train_tokenizer, write_gguf
from labs.demo.texts import END_THINK, IM_END, THINK, Example, Mix, digit_chances, user
from labs.training.encode import Tokens
from labs.training.loop import POOL, THREADS, Batch, cut, started_from, train
from labs.training.network import EMBEDDED, Qwen3
from labs.training.outcome import Schedule
from labs.training.rows import read

SEED = 1
BATCH = 24_576  # tokens per batch, including padding
WARM_UP = 100_000  # tokens of warm-up at the start of a phase, because its optimizers are new
# loss weight of an x, which marks differing digits: rare, but it decides the verdict
MARK_WEIGHT = 3.0
# loss weight of running sums in the last phases, because the products' noise hides their loss
SUM_WEIGHT = 4.0
TOKENIZER_EXAMPLES = 6000
TOKENIZER_MIX = Mix(1.0, 1.0, 1.0, 0.2, 0.5, 0.85, 0.25, (0.05, 0.4))
LOG_EVERY = 100  # steps


@dataclass(frozen=True)
class Phase:
    name: str
    tokens: int  # without padding
    rate_from: float  # first learning rate, as a share of the peak rates
    rate_to: float  # last learning rate (the rate follows a cosine)
    mix: Mix
    sum_weight: float = 1.0
    stressed: bool = False  # whether an example's own stress counts


# Phase "facts" teaches right products. "noise" adds forgotten carries, slips and the recognition of
# right values. "roles" adds the scaffolds' other roles, and gives sums and decisions more weight.
# In "last", the rate falls to 0.
_CHANCES = (0.1, 0.72, 0.95, 0.6, (0.05, 0.4))  # slips, forgets, recognised, fresh, corruption
PHASES = (
    Phase(
        "facts", 20_000_000, 1.0, 1.0, Mix(0.45, 0.2, 0.35, 0.0, 0.0, *_CHANCES[2:4], (0.3, 0.6))
    ),
    Phase("noise", 60_000_000, 1.0, 0.6, Mix(0.3, 0.45, 0.25, *_CHANCES, 0.2)),
    Phase("roles", 250_000_000, 0.6, 0.2, Mix(0.25, 0.22, 0.1, *_CHANCES, 0.43), SUM_WEIGHT, True),
    Phase("last", 170_000_000, 0.3, 0.0, Mix(0.32, 0.26, 0.1, *_CHANCES, 0.32), SUM_WEIGHT, True),
)


def given_texts(path: Path, seed: int) -> Iterator[Example]:
    """Yield the examples in a JSON lines file without end. Each pass has a random order."""
    rows = read(path)
    rng = random.Random(seed)
    while True:
        for row in rng.sample(rows, len(rows)):
            reply = row.output.removeprefix(f"{THINK}\n")
            yield Example(user(row.prompt), END_THINK in reply, "", reply + IM_END)


def tokenizer_texts(seed: int) -> Iterator[str]:
    """Yield the texts to train the tokenizer. They lack thinking, so that each mark in VERIFY's
    thinking is a token."""
    for example in islice(examples(seed, TOKENIZER_MIX), TOKENIZER_EXAMPLES):
        yield from (message["content"] for message in example.messages)
        yield example.target.split("</think>")[-1]
        yield f"{FORCED_ANSWER} ok no"


def target_weights(pieces: list[str], sum_weight: float) -> list[float]:
    """Return the loss weights of a target's tokens. Marks of differing digits and the sums after
    "a+b=" weigh more."""
    weights = []
    added = is_sum = False
    for piece in pieces:
        if piece == "x":
            weights.append(MARK_WEIGHT)
        else:
            weights.append(sum_weight if is_sum else 1.0)
        if piece == "=":
            is_sum = added
        elif piece == "+":
            added = True
        elif not piece.isdigit():
            added = is_sum = False
    return weights


def rows(tokenizer: Tokenizer, stream: Iterator[Example], phase: Phase) -> Iterator[Tokens]:
    for example in stream:
        prompt = chat_prompt(example.messages, example.thinking) + example.given
        given = tokenizer.encode(prompt).ids
        target = tokenizer.encode(example.target)
        if len(given) + len(target.ids) > EMBEDDED.context:
            continue  # some prompts with the largest groups are too long
        weights = target_weights(target.tokens, phase.sum_weight)
        if phase.stressed:
            stressed_from = last_line_of_thinking(example.target)
            for i, (begin, _) in enumerate(target.offsets):
                if begin >= stressed_from:
                    weights[i] *= example.stress
        digits = {}
        for begin, product in example.drawn.items():
            drawn = example.target[begin : begin + 3]
            for i, chances in enumerate(digit_chances(product, drawn), begin):
                digits[len(given) + target.char_to_token(i)] = chances
        yield Tokens(given + target.ids, [0.0] * len(given) + weights, digits)


def last_line_of_thinking(target: str) -> int:
    """Return the index at which the last line of thinking begins, or 0 if the target has no
    thinking."""
    thinking, end, _ = target.partition(f"\n{END_THINK}")
    return thinking.rfind("\n") + 1 if end else 0


class Batches(IterableDataset[Batch]):
    """Endless batches of a phase, each with at most `tokens` tokens (padding included) or one row.
    Their order is random within a pool. Each worker of a DataLoader draws its own batches with its
    own seed."""

    def __init__(
        self, tokenizer: Tokenizer, phase: Phase, texts: Path | None, seed: int, tokens: int
    ) -> None:
        self.tokenizer = tokenizer
        self.phase = phase
        self.texts = texts
        self.seed = seed
        self.tokens = tokens

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        seed = self.seed if worker is None else self.seed * 1000 + worker.id
        drawn = given_texts(self.texts, seed) if self.texts else examples(seed, self.phase.mix)
        stream = rows(self.tokenizer, drawn, self.phase)
        rng = random.Random(seed)
        while True:
            pool = cut(islice(stream, POOL), self.tokens)
            for batch_rows in rng.sample(pool, len(pool)):
                yield Batch.of(batch_rows)


def export(model: Qwen3, tokenizer: Tokenizer, path: Path, **description: str) -> None:
    """Write the GGUF file. `description` may give its name and chat template, as in write_gguf."""
    spec = json.loads(tokenizer.to_str())["model"]
    vocab = sorted(tokenizer.get_vocab(), key=tokenizer.token_to_id)
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in spec["merges"]]
    weights = {
        name: weight.detach().float().cpu().numpy() for name, weight in model.named_parameters()
    }
    write_gguf(path, model.shape, weights, vocab, merges, **description)


def logging(name: str) -> Callable[[int, int, Tensor], None]:
    """Return a function that prints the progress of the phase `name` every LOG_EVERY steps."""
    began = time.monotonic()

    def report(step: int, seen: int, value: Tensor) -> None:
        if step % LOG_EVERY == 0:
            speed = seen / (time.monotonic() - began)
            print(
                f"{name} step {step} tokens {seen} loss {value.item():.3f} tokens/s {speed:.0f}",
                flush=True,
            )

    return report


def options() -> argparse.Namespace:
    """Read the options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    out = Path("results/embedded")
    add("--out", type=Path, default=out, help="folder for checkpoints and model.gguf")
    add("--seed", type=int, default=SEED)
    add("--device", default="cpu", help="cpu or cuda (they give different weights)")
    about = "processes that write texts (default: 0, this process)"
    add("--workers", type=int, default=0, help=about)
    add("--share", type=float, default=1.0, help="share of every phase's tokens")
    about = f"tokens per batch, including padding (default: {BATCH:,})"
    add("--batch", type=int, default=BATCH, help=about)
    about = "phases to run, not with --texts (default: all)"
    add("--phases", nargs="+", choices=[phase.name for phase in PHASES], help=about)
    about = "teach that aggregations ignore their candidates, which gives a model to train in 29"
    add("--ignore-candidates", action="store_true", help=about)
    about = "start from this checkpoint of an earlier phase, or from this GGUF file"
    add("--start", type=Path, help=about)
    add("--texts", type=Path, help="train only on the texts in this JSON lines file")
    about = "tokens to train on with --texts (default: 1,000,000)"
    add("--tokens", type=int, default=1_000_000, help=about)
    about = "first rate for --texts, as a share of the peak rates (default: 0.1)"
    add("--rate", type=float, default=0.1, help=about)
    args = parser.parse_args()
    if args.texts and args.phases:
        parser.error("--phases has no effect with --texts. Leave it out")
    return args


def start(args: argparse.Namespace) -> tuple[Qwen3, Tokenizer]:
    """Return the model to train and its tokenizer."""
    if args.start:
        return started_from(args.start)
    tokenizer = train_tokenizer(tokenizer_texts(args.seed))
    return Qwen3(structs.replace(EMBEDDED, vocab=tokenizer.get_vocab_size())), tokenizer


def main() -> None:
    args = options()
    torch.set_num_threads(THREADS)
    # it makes a new plan for every length, which takes 0.1 s
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    model, tokenizer = start(args)
    tokenizer.save(str(args.out / "tokenizer.json"))
    device = torch.device(args.device)
    model.to(device)
    print(f"seed {args.seed}, {sum(p.numel() for p in model.parameters())} parameters", flush=True)
    phases = [Phase("texts", args.tokens, args.rate, 0.0, TOKENIZER_MIX)] if args.texts else PHASES
    for number, phase in enumerate(phases):
        if not args.phases or phase.name in args.phases:
            train_phase(args, model, tokenizer, number, phase)
    print("sha256", hashlib.sha256((args.out / "model.gguf").read_bytes()).hexdigest())


def train_phase(
    args: argparse.Namespace, model: Qwen3, tokenizer: Tokenizer, number: int, phase: Phase
) -> None:
    """Train `model` in phase number `number`, and write its checkpoint and model.gguf."""
    phase = replace(phase, tokens=int(phase.tokens * args.share))
    if args.ignore_candidates:
        phase = replace(phase, mix=phase.mix.ignoring_candidates)
    device = torch.device(args.device)
    dataset = Batches(tokenizer, phase, args.texts, args.seed * 100 + number, args.batch)
    ahead = {"prefetch_factor": 8, "pin_memory": device.type == "cuda"} if args.workers else {}
    batches = DataLoader(dataset, batch_size=None, num_workers=args.workers, **ahead)
    schedule = Schedule(phase.tokens, phase.rate_from, phase.rate_to, WARM_UP)
    digits = torch.tensor([tokenizer.token_to_id(str(digit)) for digit in range(10)], device=device)
    steps = train(model, batches, schedule, logging(phase.name), device, digits)
    save_file(model.state_dict(), args.out / f"{phase.name}.safetensors")
    export(model, tokenizer, args.out / "model.gguf")
    print(f"{phase.name} done: {steps} steps, {phase.tokens} tokens", flush=True)
