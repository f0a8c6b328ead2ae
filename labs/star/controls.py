"""Run STaR and its controls under several seeds, and compare them in one table. A control is STaR with other constants.

The controls show how much of the gain comes from the method. So, in each round, every arm trains on about as many
tokens as the first arm with the same seed. Requests that several arms share are sent once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core import constants
from core.base import terminal
from core.base.errors import UserError
from core.constants import constant
from core.engines.cards import Card
from core.plan.work import Work
from core.session import session
from labs.star import report as rounds
from labs.star.constants import StarConstants
from labs.star.experiment import TAKEN, beginning, servers, work


@dataclass(frozen=True, kw_only=True)
class ControlConstants(StarConstants):
    """The constants of STaR and its controls."""

    ARMS: str = constant("all", "names of the arms to compare with the first, such as no_filter,sound_only")
    RUNS: int = constant(3, "number of runs of each arm, with the seeds SEED, SEED + 1, …", 1, 100)


@dataclass(frozen=True)
class Arm:
    """A variant of the experiment: a `name`, and `changes` to the constants."""

    name: str
    changes: Mapping[str, Any]


def arm(name: str, **changes: Any) -> Arm:
    return Arm(name, changes)


@dataclass(frozen=True)
class Controls:
    """The `arms` of an experiment. The first is the reference. No arm trains for more rounds than the first arm."""

    arms: Sequence[Arm]
    constants: type[ControlConstants] = ControlConstants

    def work(self, config: ControlConstants, card: Card) -> Work:
        """Estimate the work of the chosen arms. Raises UserError for an invalid arm, EVAL or model."""
        configs = self.configs(config)
        each = [work(of, card) for _, of in configs]
        kinds = {of.kind: of for work in each for of in work.requests}
        counts = {kind: sum(of.count for work in each for of in work.requests if of.kind == kind) for kind in kinds}
        requests = tuple(replace(of, count=config.RUNS * counts[kind]) for kind, of in kinds.items())
        runs = "1 seed" if config.RUNS == 1 else f"{config.RUNS} seeds"
        about = f"{len(configs)} arms under {runs}, each with {each[0].of}"
        rows = (servers(config.RUNS * sum(of.ROUNDS + 1 for _, of in configs)),)
        return Work(about, requests, config.RUNS * sum(work.trained for work in each), rows)

    def configs(self, config: ControlConstants) -> list[tuple[Arm, StarConstants]]:
        """Return the first arm and the arms in ARMS, with their constants. Raises UserError if ARMS names an unknown
        arm, an arm's name repeats or one of its constants is invalid."""
        names = [each.name for each in self.arms]
        if len(set(names)) < len(names):
            raise UserError(f"the names of arms must differ, but they are {', '.join(names)}")
        known = constants.rules(StarConstants)
        for each in self.arms:
            if unknown := [name for name in each.changes if name not in known]:
                raise UserError(f"the arm {each.name} has an unknown constant {unknown[0]!r:.60}. Correct its name")
        wanted = {names[0], *constants.listed("ARMS", config.ARMS, names)}
        shared = {name: getattr(config, name) for name in known}
        return [(each, StarConstants(**shared | dict(each.changes))) for each in self.arms if each.name in wanted]


def control(controls: Controls, namespace: Mapping[str, Any]) -> None:
    """Run the chosen arms under all seeds, as a command. Ends the process as core.session.run.run does."""
    listed = ", ".join(f"{each.name} ({_changes(each) or 'unchanged'})" for each in controls.arms)
    text = terminal.wrapped(f"The experiment has the arms {listed}. Edit its file to change them.")
    with session.command(controls.constants, namespace, TAKEN, text) as (name, config, stop):
        arms = controls.configs(config)
        seeds = [config.SEED + number for number in range(config.RUNS)]
        total = len(arms) * len(seeds)
        runs = {_label(each, seed): replace(of, SEED=seed) for seed in seeds for each, of in arms}
        with beginning(name, runs, stop) as begun:
            for number, seed in enumerate(seeds):
                tokens: list[int] | None = None
                for place, (each, of) in enumerate(arms, number * len(arms) + 1):
                    label = _label(each, seed)
                    print(f"\n{place} of {total}: {label} {_changes(each)}".rstrip(), flush=True)
                    ended = len(tokens) if tokens else of.ROUNDS  # PATIENCE may have ended the first arm early
                    record = begun.run(label, replace(runs[label], ROUNDS=min(of.ROUNDS, ended)), tokens)
                    tokens = tokens or [of["trained"]["tokens"] for of in rounds.done(record)[1:]]
            begun.show()


def _label(each: Arm, seed: int) -> str:
    return f"{each.name}-seed{seed}"


def _changes(each: Arm) -> str:
    return " ".join(f"{name}={value}" for name, value in each.changes.items())
