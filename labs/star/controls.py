"""Run STaR and its controls under several seeds, and compare them in one table. A control is STaR with other constants.

The controls show how much of the gain comes from the method. So, in each round, every arm trains on about as many
tokens as the first arm with the same seed. Requests that several arms share are sent once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core import constants
from core.base import terminal
from core.base.errors import UserError
from core.engines.cards import Card
from core.plan.work import Work
from core.session import session
from labs.star import report as rounds
from labs.star.constants import StarConstants
from labs.star.experiment import TAKEN, beginning, servers, work


@dataclass(frozen=True)
class Arm:
    """A variant of the experiment: a `name`, and `changes` to the constants."""

    name: str
    changes: Mapping[str, Any]


def arm(name: str, **changes: Any) -> Arm:
    return Arm(name, changes)


@dataclass(frozen=True)
class Controls:
    """The `arms` to run under each of `seeds` (added to SEED). No arm trains for more rounds than the first arm."""

    arms: Sequence[Arm]
    seeds: Sequence[int]
    constants: type[StarConstants] = StarConstants

    def work(self, config: StarConstants, card: Card) -> Work:
        """Estimate the work of all arms under all seeds. Raises UserError for an invalid arm, EVAL or model."""
        each = [work(of, card) for _, of in self.configs(config)]
        kinds = {of.kind: of for work in each for of in work.requests}
        counts = {kind: sum(of.count for work in each for of in work.requests if of.kind == kind) for kind in kinds}
        requests = tuple(replace(of, count=len(self.seeds) * counts[kind]) for kind, of in kinds.items())
        about = f"{len(self.arms)} arms under {len(self.seeds)} seeds, each with {each[0].of}"
        rows = (servers(len(self.seeds) * sum(of.ROUNDS + 1 for _, of in self.configs(config))),)
        return Work(about, requests, len(self.seeds) * sum(work.trained for work in each), rows)

    def configs(self, config: StarConstants) -> list[tuple[Arm, StarConstants]]:
        """Return each arm with its constants. Raises UserError if an arm's name repeats or a constant is invalid."""
        if len({each.name for each in self.arms}) < len(self.arms):
            raise UserError(f"the names of arms must differ, but they are {', '.join(each.name for each in self.arms)}")
        known = constants.rules(self.constants)
        for each in self.arms:
            if unknown := [name for name in each.changes if name not in known]:
                raise UserError(f"the arm {each.name} has an unknown constant {unknown[0]!r:.60}. Correct its name")
        return [(each, replace(config, **each.changes)) for each in self.arms]


def control(controls: Controls, namespace: Mapping[str, Any]) -> None:
    """Run all arms under all seeds, as a command. Ends the process as core.session.run.run does."""
    listed = ", ".join(f"{each.name} ({_changes(each) or 'unchanged'})" for each in controls.arms)
    text = f"Arms: {listed}. Seeds: SEED + {', '.join(map(str, controls.seeds))}. The experiment's file sets both."
    with session.command(controls.constants, namespace, TAKEN, terminal.wrapped(text)) as (name, config, stop):
        arms = controls.configs(config)
        total = len(arms) * len(controls.seeds)
        runs = {_label(each, config, seed): of for seed in controls.seeds for each, of in arms}
        with beginning(name, runs, stop) as begun:
            for number, seed in enumerate(controls.seeds):
                tokens: list[int] | None = None
                for place, (each, of) in enumerate(arms, number * len(arms) + 1):
                    label = _label(each, config, seed)
                    print(f"\n{place} of {total}: {label} {_changes(each)}".rstrip(), flush=True)
                    ended = len(tokens) if tokens else of.ROUNDS  # PATIENCE may have ended the first arm early
                    own = replace(of, SEED=config.SEED + seed, ROUNDS=min(of.ROUNDS, ended))
                    record = begun.run(label, own, tokens)
                    tokens = tokens or [of["trained"]["tokens"] for of in rounds.done(record)[1:]]
            begun.show()


def _label(each: Arm, config: StarConstants, seed: int) -> str:
    return f"{each.name}-seed{config.SEED + seed}"


def _changes(each: Arm) -> str:
    return " ".join(f"{name}={value}" for name, value in each.changes.items())
