"""Run a STaR experiment as a command: check the input, run the rounds and print the tables of all
runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core import constants
from core.base.errors import UserError
from core.base.files import make_folder, results_dir
from core.client.journal import content_key
from core.constants import BOXED, Framed
from core.engines.cards import Card
from core.engines.dialects.llamacpp import embedded_card
from core.engines.environment import card
from harness import framing
from harness.plan.lengths import PROMPT_TOKENS
from harness.plan.work import Requests, Task, Work
from harness.problems import sets
from harness.results import provenance
from harness.session import session
from harness.session.session import Session
from labs.star import data
from labs.star import report as rounds
from labs.star.constants import StarConstants
from labs.star.data import Split
from labs.star.loop import Loop
from labs.star.record import Record
from labs.star.statements import GRAM
from labs.training import process, served
from labs.training.served import Weights

HINT = 50  # tokens (estimate) that the required form and the reference answer add to a prompt


def star(experiment: Task[StarConstants], namespace: Mapping[str, Any]) -> None:
    """Run a STaR experiment as a command. `namespace` contains the globals of the experiment's
    file. NAME=value on the command line overrides the file's constants."""
    with session.command(experiment.constants, namespace) as (name, config):
        label = f"seed{config.SEED}"
        with beginning(name, {label: config}) as begun:
            begun.run(label, config)


@dataclass(frozen=True)
class Beginning:
    """The weights, problems and session that all runs of an experiment share. Results are written
    to `folder`. A run is a `loop`."""

    folder: Path
    start: Weights
    card: Card
    split: Split
    opened: Session[StarConstants]
    loop: type[Loop]

    def run(self, label: str, config: StarConstants, tokens: Sequence[int] | None = None) -> Record:
        """Run or resume STaR, and record the run as `label`. `tokens`: tokens to train on in each
        round (see Loop). Raises UserError if a training is left, but a package for training is
        missing."""
        config = config.of(self.card)
        framed = framing.from_config(config, self.card).provenance
        # Unused constants are left out, so that earlier runs without them resume.
        unused = {
            *({"ANSWER"} if config.ANSWER == BOXED else ()),
            *(() if framed else constants.rules(Framed)),
        }
        identity = {
            name: value for name, value in constants.identity(config).items() if name not in unused
        }
        # The identity ignores the numbers in `tokens`, because more ROUNDS add numbers.
        parts = [identity, self.split.sha256, self.start.digest, tokens and "tokens"]
        if framed:
            parts.append(framed)
        run = content_key(parts)
        head = {
            "experiment": self.opened.name,
            "label": label,
            "run": run,
            "config": {
                name: getattr(config, name)
                for name in constants.rules(type(config))
                if name not in unused
            },
            "start": {"name": self.start.label, "digest": self.start.digest},
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
            "provenance": provenance.collect(self.loop.prompts) | framed,
        }
        record = Record.begun(self.folder, label, head)
        if not record.is_ended(config.ROUNDS):
            process.python_of()  # a missing package is reported before the first request
        opened = self.opened.with_changes(config=config)
        return self.loop(opened, self.split, self.start, record, tokens).run()


@contextmanager
def beginning(
    name: str, runs: Mapping[str, StarConstants], loop: type[Loop] = Loop
) -> Iterator[Beginning]:
    """Open the session of `runs` (constants by label), and print their tables at its end. The first
    run's constants choose all runs' problems. Raises UserError for bad weights or problems, a used
    port, or too little memory or disk.
    """
    config = next(iter(runs.values()))
    start = served.first()
    served.check(start)
    its = card() if card().name else embedded_card() if start.is_gguf else card()
    split = data.split(config, (its.star_set, its.star_eval_set))
    results = results_dir()
    folder = results / name
    left = _left(folder, runs)
    for label, of in runs.items():
        # or raises UserError
        shown = framing.from_config(
            of.of(its), its, (*split.train, *split.held_out.problems)
        ).description
        if start.path.resolve().is_relative_to((folder / label).resolve()):
            raise UserError(
                f"the model {start.path} is inside the folder of {label}, which this run would "
                "replace. Set another SEED or RESULTS_DIR, or copy the model to another folder "
                "and set MODEL to the copy"
            )
        row_tokens = (of.candidates + 1) * of.MAX_TOKENS
        process.check(start.path, of.lora_rank(start.is_gguf), row_tokens, left)
    rows = [
        ("model", start.label),
        ("training", f"{split.origin.name}, n={len(split.train):,}"),
        ("evaluation", f"{split.held_out.name}, n={len(split.held_out.problems)}"),
    ]
    rows += [("samples", f"with {shown}")] if shown else []
    rows += [("answers", f"{way} (ANSWER)")] if (way := config.of(its).ANSWER) != BOXED else []
    if split.near:
        near = (
            f"training problems that share {GRAM} words in a row with a held-out problem: "
            f"{len(split.near):,}"
        )
        rows.append(
            ("note", f"{near}, such as {', '.join(split.near[:3])}. They are kept (docs/star.md)")
        )
    with session.open_session(name, config, results, rows=rows) as opened:
        make_folder(folder)
        yield Beginning(folder, start, its, split, opened, loop)
        print(f"\n{rounds.show(folder)}")
        print(f"results {folder}")


def _left(folder: Path, runs: Mapping[str, StarConstants]) -> int:
    """Count the trainings of `runs` that have not ended."""
    left = 0
    for label, config in runs.items():
        for number in range(1, config.ROUNDS + 1):
            trained = folder / label / f"round{number}" / "trained"
            left += not trained.exists()
    return left


# The plan


def work(config: StarConstants, card: Card) -> Work:
    """Estimate a run that uses all its ROUNDS and TRIES. Raises UserError for a remote model or an
    unreadable EVAL."""
    served.check_is_here()
    name = (
        config.EVAL
        if config.EVAL != "auto"
        else card.star_eval_set
        if config.DATA == "auto"
        else ""
    )
    held_out = len(sets.load(name).problems) if name else config.HELD_OUT
    held_out = min(held_out, config.LIMIT or held_out)
    each = config.in_a_round
    collects = 1 if config.REPEAT else config.ROUNDS
    seeds = len(config.seeds) if config.TEMPERATURE else 0
    evaluated = (config.ROUNDS + 1) * held_out
    prompt = float(PROMPT_TOKENS + HINT)
    framed = prompt + framing.from_config(config.of(card), card).tokens
    requests = (
        Requests("samples to collect", collects * each * config.TRIES, framed, config.MAX_TOKENS),
        Requests(
            "samples with a hint", collects * each * config.RATIONALISE, framed, config.MAX_TOKENS
        ),
        Requests("evaluation at temperature 0", evaluated, prompt, config.MAX_TOKENS),
        Requests(
            "evaluation with SEEDS", evaluated * seeds * config.VOTES, prompt, config.MAX_TOKENS
        ),
    )
    rounds_text = "1 round" if config.ROUNDS == 1 else f"{config.ROUNDS} rounds"
    about = (
        f"{rounds_text} of {each:,} problems, evaluated on {held_out:,} problems of "
        f"{name or 'DATA'}"
    )
    # At most: a round trains EPOCHS times on one trace for each problem of all rounds so far.
    rows = sum(each * (1 if config.REPEAT else number) for number in range(1, config.ROUNDS + 1))
    return Work(
        about,
        requests,
        rows * config.EPOCHS * (prompt + config.MAX_TOKENS),
        (servers(config.ROUNDS + 1),),
    )


def servers(count: int) -> tuple[str, str]:
    """Return the plan's row about `count` server starts."""
    return "servers", f"{count} server starts, whose time is not estimated"


STAR = Task(StarConstants, work)
