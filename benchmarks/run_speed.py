"""Compare the speed of a run with llama.cpp's own batched speed on the same server.

    MODEL=FILE.gguf bash benchmarks/run.sh run_speed [--rounds 3] [--written 16] [NAME=value …]

Each round starts the server that a run with MODEL starts, and times a run and then a batch on it.
The run is 02_rsa_basic with the constants NAME=value. A batch works as llama-batched-bench, with
the run's number of slots and mean length of prompts. Every slot reads a prompt of random tokens at
once, and then every slot writes tokens of this prompt's continuation at once. Nothing is cached,
sampling is greedy, and no slot waits for another request.

The bound is the time of the run's tokens at the batch's speed: prompt tokens ÷ tokens read per
second, plus completion tokens ÷ tokens written per second. The ratio is bound ÷ run. It counts only
prompt tokens that the server did not take from its cache. The ratio in brackets counts all prompt
tokens, and so includes the savings of the cache. Other programs on the machine change the ratio by
the clock within a round. They hardly change the ratio of the engine's CPU seconds. The share of the
cores shows how much of the machine the engine got."""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.embedded import ROOT, environment
from core import server
from core.base.errors import UserError, command
from core.engines import queries
from core.engines.dialects import llamacpp
from core.engines.need import Need
from core.engines.protocol import WAITING, Server

EXPERIMENT = ROOT / "experiments" / "02_rsa_basic.py"
CONSTANTS = ("N=4", "K=2", "T=1", "MAX_TOKENS=64", "LIMIT=8")
TOKENS = range(32, 96)  # numbers of tokens that any vocabulary has
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock, and CPU seconds of the engine."""

    clock: float
    cpu: float

    def per(self, tokens: int) -> "Cost":
        """Return the cost of one of `tokens`."""
        return Cost(self.clock / tokens, self.cpu / tokens)


@dataclass(frozen=True)
class Batch:
    """The cost of reading and of writing one token in a full batch."""

    read: Cost
    written: Cost


@dataclass(frozen=True)
class Tokens:
    """The number of requests of a run, their tokens, and the run's seconds without its imports."""

    requests: int
    prompt: int
    cached: int
    completion: int
    waited: float  # seconds of all requests together
    seconds: float

    @property
    def computed(self) -> int:
        """The prompt tokens that were not in the server's cache."""
        return self.prompt - self.cached


@dataclass(frozen=True)
class Round:
    """One round: the number of slots, the run's tokens and cost, and the batch's cost."""

    slots: int
    tokens: Tokens
    run: Cost
    batch: Batch

    def ratio(self, kind: str, prompt_tokens: int) -> float:
        """Return bound ÷ run in seconds of this `kind` ("clock" or "cpu"), if the bound reads
        `prompt_tokens`."""
        read: float = getattr(self.batch.read, kind)
        written: float = getattr(self.batch.written, kind)
        bound = read * prompt_tokens + written * self.tokens.completion
        return bound / float(getattr(self.run, kind))

    def cells(self, kind: str) -> str:
        """Format the ratio without cached prompt tokens, and with them."""
        ratio = self.ratio(kind, self.tokens.computed)
        return f"{ratio:.2f} ({self.ratio(kind, self.tokens.prompt):.2f})"


class Engine:
    """The processes that serve: the descendants of this process once the server is ready."""

    def __init__(self, served: Server, slots: int) -> None:
        self.address = served.base_url.removesuffix("/v1")
        self.key = served.key
        self.slots = slots
        self._processes = _descendants(os.getpid())

    def cost(self, work: Callable[[], object]) -> Cost:
        """Return the cost of calling `work`."""
        began = time.monotonic()
        used = self._cpu_seconds()
        work()
        return Cost(time.monotonic() - began, self._cpu_seconds() - used)

    def batch(self, prompt: int, written: int) -> Batch:
        """Let all slots read `prompt` tokens, and then write `written` tokens each."""
        draw = random.Random(time.monotonic_ns())
        prompts = [draw.choices(TOKENS, k=prompt) for _ in range(self.slots)]
        read = self.cost(lambda: self._complete(prompts, 1))
        write = self.cost(lambda: self._complete(prompts, written))
        return Batch(read.per(prompt * self.slots), write.per(written * self.slots))

    def _complete(self, prompts: Sequence[Sequence[int]], written: int) -> None:
        """Continue each of `prompts` in its own slot. A slot has its last prompt in its cache."""

        def complete(slot: int) -> None:
            body = {
                "prompt": prompts[slot],
                "n_predict": written,
                "ignore_eos": True,
                "id_slot": slot,
                "samplers": ["top_k"],
                "top_k": 1,
            }
            queries.send(f"{self.address}/completion", self.key, body, seconds=3600)

        with ThreadPoolExecutor(self.slots) as pool:
            list(pool.map(complete, range(self.slots)))

    def _cpu_seconds(self) -> float:
        if not self._processes:  # a small file is served in this process
            return time.process_time()
        return sum(map(_cpu_seconds, self._processes))


def _descendants(parent: int) -> list[int]:
    """Return the process ids of the descendants of `parent`."""
    children = Path(f"/proc/{parent}/task").glob("*/children")
    pids = []
    for path in children:
        for child in map(int, path.read_text().split()):
            pids += [child, *_descendants(child)]
    return pids


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = fields[11:13]
    return (int(user) + int(system)) / TICKS


def take_round(constants: Sequence[str], written: int) -> Round:
    """Start a server, and time a run and then a batch."""
    values = dict(constant.split("=", 1) for constant in constants)
    need = Need(k=int(values["K"]), max_tokens=int(values["MAX_TOKENS"]))
    with server.serving(need) as served, tempfile.TemporaryDirectory() as folder:
        assert served.limit
        slots = served.limit - WAITING
        engine = Engine(served, slots)
        used = engine.cost(lambda: _run(served, Path(folder), constants))
        tokens = _tokens(Path(folder))
        prompt = round(tokens.prompt / tokens.requests)
        batch = engine.batch(prompt, written)
    return Round(slots, tokens, Cost(tokens.seconds, used.cpu), batch)


def _run(served: Server, folder: Path, constants: Sequence[str]) -> None:
    """Run the experiment on the server, with its results in `folder`."""
    env = environment(BASE_URL=served.base_url, RESULTS_DIR=str(folder))
    args = [sys.executable, str(EXPERIMENT), *constants]
    ended = subprocess.run(args, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise UserError(f"the run failed: {ended.stderr.strip()}")


def _tokens(folder: Path) -> Tokens:
    """Return the tokens of the run with results in `folder`."""
    results = json.loads((folder / f"{EXPERIMENT.stem}.json").read_text(encoding="utf-8"))
    journal = folder / "journal" / f"{EXPERIMENT.stem}.jsonl"
    lines = journal.read_text(encoding="utf-8").splitlines()
    completions = [json.loads(line)["completion"] for line in lines]

    def total(name: str) -> Any:
        return sum(completion[name] for completion in completions)

    return Tokens(
        requests=len(completions),
        prompt=total("prompt_tokens"),
        cached=total("cached_tokens"),
        completion=total("completion_tokens"),
        waited=total("seconds"),
        seconds=results["metrics"]["seconds"],
    )


def table(rounds: Sequence[Round], cores: int) -> str:
    """Return a Markdown table with a row for each of `rounds`, and a line with their medians."""
    rows = [
        "| slots | requests | tokens read, cached | written | run, s | in flight | of the cores "
        "| batch: read/s (CPU s) | written/s (CPU s) | bound ÷ run, clock | bound ÷ run, CPU |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for timed in rounds:
        tokens = timed.tokens
        cells = [
            f"{timed.slots}",
            f"{tokens.requests}",
            f"{tokens.prompt:,}, {tokens.cached / tokens.prompt:.0%}",
            f"{tokens.completion:,}",
            f"{timed.run.clock:.0f}",
            f"{tokens.waited / timed.run.clock:.1f}",
            f"{timed.run.cpu / timed.run.clock / cores:.0%}",
            _speed(timed.batch.read),
            _speed(timed.batch.written),
            timed.cells("clock"),
            timed.cells("cpu"),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    ratios = f"{_ratios(rounds, 'clock')} by the clock and {_ratios(rounds, 'cpu')} by CPU seconds"
    return "\n".join([*rows, "", f"bound ÷ run: {ratios}, n={len(rounds)}"])


def _ratios(rounds: Sequence[Round], kind: str) -> str:
    """Format the median and the range of the ratios of a `kind`."""
    ratios = [timed.ratio(kind, timed.tokens.computed) for timed in rounds]
    return f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def _speed(token: Cost) -> str:
    """Format the tokens per second, by the clock and by CPU seconds."""
    return f"{1 / token.clock:.0f} ({1 / token.cpu:.0f})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("constants", nargs="*", metavar="NAME=value")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--written", type=int, default=16, help="number of tokens that each slot of a batch writes"
    )
    args = parser.parse_args()
    constants = [*CONSTANTS, *args.constants]
    rounds = []
    for number in range(args.rounds):
        rounds.append(take_round([*constants, f"SEED={number}"], args.written))
        print(f"round {number + 1}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    cores = llamacpp.physical_cores()
    print(f"{' '.join(constants)}, {llamacpp.release()}, {cores} cores\n")
    print(table(rounds, cores))


if __name__ == "__main__":
    with command():
        main()
