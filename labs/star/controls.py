"""Run STaR and its controls under several seeds, and compare them in one table. A control is STaR
with other constants.

The controls show how much of the gain comes from the method. So, in each round, every arm trains on
about as many tokens as the first arm with the same seed. Requests that several arms share are sent
once."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from core import constants
from core.base import terminal
from core.constants import constant
from core.engines.cards import Card
from harness.plan.work import Work
from harness.session import session
from labs.star import report as rounds
from labs.star.constants import StarConstants
from labs.star.experiment import beginning, servers, work


class ControlConstants(StarConstants):
    """The constants of STaR and its controls."""

    ARMS: str = constant(
        "all", "names of the arms to compare with the first, such as no_filter,sound_only"
    )
    RUNS: int = constant(3, "number of runs of each arm, with the seeds SEED, SEED + 1, …", 1, 100)


@dataclass(frozen=True)
class Controls:
    """The `arms` of an experiment: changes to the constants, by the arm's name. The first arm is
    the reference. No arm trains for more rounds than the first arm."""

    arms: Mapping[str, Mapping[str, Any]]
    constants: type[ControlConstants] = ControlConstants

    def work(self, config: ControlConstants, card: Card) -> Work:
        """Estimate the work of the chosen arms. Raises UserError for an invalid arm, EVAL or
        model."""
        configs = self.configs(config)
        each = [work(of, card) for of in configs.values()]
        kinds = zip(*(work.requests for work in each), strict=True)
        requests = tuple(
            replace(of[0], count=config.RUNS * sum(arm.count for arm in of)) for of in kinds
        )
        runs = "1 seed" if config.RUNS == 1 else f"{config.RUNS} seeds"
        about = f"{len(configs)} arms under {runs}, each with {each[0].title}"
        rows = (servers(config.RUNS * sum(of.ROUNDS + 1 for of in configs.values())),)
        return Work(about, requests, config.RUNS * sum(work.trained for work in each), rows)

    def configs(self, config: ControlConstants) -> dict[str, StarConstants]:
        """Return the constants of the first arm and of the arms in ARMS, by name. Raises UserError
        if ARMS names an unknown arm, or one of an arm's constants is invalid."""
        shared = {name: getattr(config, name) for name in constants.rules(StarConstants)}
        configs = {
            name: constants.read(StarConstants, shared | dict(of)) for name, of in self.arms.items()
        }
        wanted = {*list(configs)[:1], *constants.listed("ARMS", config.ARMS, list(configs))}
        return {name: of for name, of in configs.items() if name in wanted}


def control(controls: Controls, namespace: Mapping[str, Any]) -> None:
    """Run the chosen arms under all seeds, as a command. Ends the process as harness.run.run
    does."""
    changes = {
        name: " ".join(f"{each}={value}" for each, value in of.items())
        for name, of in controls.arms.items()
    }
    listed = ", ".join(f"{name} ({of or 'unchanged'})" for name, of in changes.items())
    text = terminal.wrapped(f"The experiment has the arms {listed}. Edit its file to change them.")
    with session.command(controls.constants, namespace, text) as (name, config):
        arms = controls.configs(config)
        seeds = range(config.SEED, config.SEED + config.RUNS)
        runs = [(seed, arm, replace(of, SEED=seed)) for seed in seeds for arm, of in arms.items()]
        with beginning(name, {f"{arm}-seed{seed}": of for seed, arm, of in runs}) as begun:
            # by seed: the tokens that the first arm trained on in each round
            tokens: dict[int, list[int]] = {}
            for place, (seed, arm, of) in enumerate(runs, 1):
                label = f"{arm}-seed{seed}"
                print(f"\n{place} of {len(runs)}: {label} {changes[arm]}".rstrip(), flush=True)
                # PATIENCE may have ended the first arm early
                ended = len(tokens.get(seed, range(of.ROUNDS)))
                record = begun.run(
                    label, replace(of, ROUNDS=min(of.ROUNDS, ended)), tokens.get(seed)
                )
                tokens.setdefault(
                    seed, [each["trained"]["tokens"] for each in rounds.done(record)[1:]]
                )
