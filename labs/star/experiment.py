"""Run a STaR experiment as a command: check its input, run its rounds, print the table of all runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core import constants
from core.base.errors import UserError
from core.base.files import make_folder, results_dir
from core.base.signals import Stop
from core.engines.cards import Card
from core.engines.embedded_model import embedded_card
from core.engines.environment import card
from core.generate.journal import content_key
from core.plan.lengths import PROMPT_TOKENS
from core.plan.work import Requests, Task, Work
from core.problems import sets
from core.results import provenance
from core.session import session
from core.session.session import Session
from labs.star import data, prompts
from labs.star import report as rounds
from labs.star.constants import StarConstants
from labs.star.data import Split
from labs.star.loop import Loop
from labs.star.record import Record
from labs.star.statements import GRAM
from labs.training import process, served
from labs.training.served import Weights

TAKEN = "Use DATA=… to train on and EVAL=… to evaluate on"  # instead of PROBLEMS
HINT = 50  # tokens, roughly, that the form and the shown answer add to a prompt


def star(experiment: Task[StarConstants], namespace: Mapping[str, Any]) -> None:
    """Run the experiment whose file's globals are `namespace`, with NAME=value overrides from the command line. Ends
    the process as core.session.run.run does."""
    with session.command(experiment.constants, namespace, TAKEN) as (name, config, stop):
        label = f"seed{config.SEED}"
        with beginning(name, {label: config}, stop) as begun:
            begun.run(label, config)
            begun.show()


@dataclass(frozen=True)
class Beginning:
    """The weights, the problems and the session that all rounds share. Results are written to `folder`."""

    folder: Path
    start: Weights
    split: Split
    opened: Session[StarConstants]

    def show(self) -> None:
        print(f"\n{rounds.show(self.folder)}")
        print(f"results {self.folder}")

    def run(self, label: str, config: StarConstants, tokens: Sequence[int] | None = None) -> Record:
        """Run STaR, or the rest of it, and record it under `label`. `tokens`: as in Loop."""
        # Each round has its own number of tokens: with more ROUNDS it is still the same run.
        run = content_key([constants.identity(config), self.split.sha256, self.start.digest, tokens and "tokens"])
        head = {
            "experiment": self.opened.name,
            "label": label,
            "run": run,
            "config": {name: getattr(config, name) for name in constants.rules(StarConstants)},
            "start": {"name": self.start.path.name, "digest": self.start.digest},
            "data": {
                "name": self.split.origin.name,
                "train": len(self.split.train),
                "held_out": len(self.split.held_out.problems),
                "held_out_name": self.split.held_out.name,
                "near": len(self.split.near),
                "left_out": self.split.left_out,
                "sha256": self.split.sha256,
            },
            "tokens": list(tokens) if tokens else None,
            "provenance": provenance.collect((prompts.FORMAT, prompts.HINT)),
        }
        record = Record.begun(self.folder, label, head)
        return Loop(self.opened.but(config=config), self.split, self.start, record, tokens).run()


@contextmanager
def beginning(name: str, runs: Mapping[str, StarConstants], stop: Stop) -> Iterator[Beginning]:
    """Open the session of `runs` (constants by label), which share DATA and EVAL. Raises UserError for bad input before
    anything is asked or trained: weights, a server in the way, problems, or a missing requirement of training."""
    config = next(iter(runs.values()))
    start = served.first()
    served.check(start)
    its = card() if card().name else embedded_card() if start.is_gguf else card()
    split = data.split(config, (its.star_set, its.star_eval_set))
    results = results_dir()
    folder = results / name
    left = sum(untrained(folder / label, of.ROUNDS) for label, of in runs.items())
    for label, of in runs.items():
        if start.path.resolve().is_relative_to((folder / label).resolve()):
            raise UserError(
                f"the model {start.path} is inside the folder of {label}, which this run replaces. Set another SEED or "
                "RESULTS_DIR, or copy the model elsewhere"
            )
        process.check(start.path, of.lora_rank(start.is_gguf), of.MAX_TOKENS, folder, left)
    process.python_of()
    rows = [
        ("model", f"{start.path.name} ({start.digest[:12]})"),
        ("training", f"{split.origin.name}, n={len(split.train):,}"),
        ("evaluation", f"{split.held_out.name}, n={len(split.held_out.problems)}"),
    ]
    if split.near:
        near = f"{len(split.near):,} training problems, such as {', '.join(split.near[:3])}"
        rows.append(("note", f"{near}, share {GRAM} words in a row with a held-out one. They are kept (docs/star.md)"))
    with session.open(name, config, stop, results, opening=rows) as opened:
        make_folder(folder)
        yield Beginning(folder, start, split, opened)


def untrained(own: Path, rounds: int) -> int:
    """Count the models that the run in `own` has yet to train."""
    return sum(not (own / f"round{number}" / "trained").exists() for number in range(1, rounds + 1))


# The plan


def work(config: StarConstants, card: Card) -> Work:
    """Return the work of one run if no round ends early. Raises UserError if it can't be run."""
    served.check_is_here()
    held_out, name = _held_out(config, card)
    each = config.in_a_round
    collects = 1 if config.REPEAT else config.ROUNDS
    seeds = len(config.seeds) if config.TEMPERATURE else 0
    evaluated = (config.ROUNDS + 1) * held_out
    prompt = float(PROMPT_TOKENS + HINT)
    requests = (
        Requests("samples to collect", collects * each * config.TRIES, prompt, config.MAX_TOKENS),
        Requests("with a hint", collects * each * config.RATIONALISE, prompt, config.MAX_TOKENS),
        Requests("evaluated at temperature 0", evaluated, prompt, config.MAX_TOKENS),
        Requests("evaluated with SEEDS", evaluated * seeds * config.VOTES, prompt, config.MAX_TOKENS),
    )
    rounds_text = "1 round" if config.ROUNDS == 1 else f"{config.ROUNDS} rounds"
    about = f"{rounds_text} of {each:,} problems, evaluated on {held_out:,} of {name}"
    # A round trains on one trace a problem of all rounds so far, EPOCHS times.
    rows = sum(each * (1 if config.REPEAT else number) for number in range(1, config.ROUNDS + 1))
    starts = ("servers", f"{config.ROUNDS + 1} starts of a server, whose time is not planned")
    return Work(about, requests, rows * config.EPOCHS * (prompt + config.MAX_TOKENS), (starts,))


def _held_out(config: StarConstants, card: Card) -> tuple[int, str]:
    """Return the number of problems that each round is evaluated on, and their set's name, without fetching it."""
    name = config.EVAL if config.EVAL != "auto" else card.star_eval_set if config.DATA == "auto" else ""
    if not name:
        return min(config.HELD_OUT, config.LIMIT or config.HELD_OUT), "DATA"
    known = sets.PUBLISHED.get(name)
    have = known.rows if known else len(sets.load(name).problems)
    return min(have, config.LIMIT or have), name


STAR = Task(StarConstants, work)
