"""Run STaR and its controls under several seeds, and compare them in one table. A control is STaR
with other constants.

The controls show how much of the gain comes from the method. So, in each round, every arm trains on
about as many tokens as the first arm with the same seed. Requests that several arms share are sent
once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from core import constants
from core.base import settings, terminal
from core.constants import constant
from core.engines.cards import Card
from harness.plan.work import Work
from harness.session import session
from labs.star.constants import StarConstants
from labs.star.experiment import beginning, servers, work
from labs.star.loop import Loop
from labs.star.record import done


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
    of_arm: type[StarConstants] = StarConstants  # the constants of an arm
    loop: type[Loop] = Loop
    plan: Callable[[Any, Card], Work] = work

    def work(self, config: ControlConstants, card: Card) -> Work:
        """Estimate the work of the chosen arms. Raises UserError for an invalid arm, EVAL or
        model."""
        arms = self.configs(config).values()
        works = [self.plan(arm, card) for arm in arms]
        requests = []
        for same_kind in zip(*(arm_work.requests for arm_work in works), strict=True):
            count = sum(request.count for request in same_kind)
            requests.append(replace(same_kind[0], count=config.RUNS * count))
        trained = sum(arm_work.trained for arm_work in works)
        starts = sum(arm.ROUNDS + 1 for arm in arms)
        seeds = "1 seed" if config.RUNS == 1 else f"{config.RUNS} seeds"
        names = "1 arm" if len(arms) == 1 else f"{len(arms)} arms"
        return Work(
            f"{names} under {seeds}, each with {works[0].title}",
            tuple(requests),
            config.RUNS * trained,
            (servers(config.RUNS * starts),),
        )

    def configs(self, config: ControlConstants) -> dict[str, StarConstants]:
        """Return the constants of the first arm and of the arms in ARMS, by name. Raises UserError
        if ARMS names an unknown arm, or one of an arm's constants is invalid."""
        shared = {name: getattr(config, name) for name in constants.rules(self.of_arm)}
        configs = {
            arm: constants.read(self.of_arm, shared | dict(changes))
            for arm, changes in self.arms.items()
        }
        names = list(configs)
        wanted = {names[0], *settings.chosen_names("ARMS", config.ARMS, names)}
        return {arm: arm_config for arm, arm_config in configs.items() if arm in wanted}


def control(controls: Controls, namespace: Mapping[str, Any]) -> None:
    """Run the chosen arms under all seeds, as a command. Ends the process as harness.run.run
    does."""
    changes = {arm: _words(values) for arm, values in controls.arms.items()}
    arms = ", ".join(f"{arm} ({words or 'unchanged'})" for arm, words in changes.items())
    text = terminal.wrapped(f"The experiment has the arms {arms}. Edit its file to change them.")
    with session.command(controls.constants, namespace, text) as (name, config):
        runs = _runs(controls, config)
        configs = {run.label: run.config for run in runs}
        with beginning(name, configs, controls.loop) as begun:
            # by seed: the tokens that the first arm trained on in each round
            tokens: dict[int, list[int]] = {}
            for number, run in enumerate(runs, 1):
                words = changes[run.arm]
                line = f"{number} of {len(runs)}: {run.label} {words}"
                print(f"\n{line}".rstrip(), flush=True)
                of_first_arm = tokens.get(run.seed)
                arm_config = run.config
                if of_first_arm is not None:
                    # PATIENCE may have ended the first arm early
                    shortest = min(arm_config.ROUNDS, len(of_first_arm))
                    arm_config = replace(arm_config, ROUNDS=shortest)
                record = begun.run(run.label, arm_config, of_first_arm)
                if of_first_arm is None:
                    trained = done(record)[1:]
                    tokens[run.seed] = [round_["trained"]["tokens"] for round_ in trained]


class Run(NamedTuple):
    """A run of an arm under a seed."""

    arm: str
    seed: int
    config: StarConstants

    @property
    def label(self) -> str:
        return f"{self.arm}-seed{self.seed}"


def _runs(controls: Controls, config: ControlConstants) -> list[Run]:
    arms = controls.configs(config)
    runs = []
    for seed in range(config.SEED, config.SEED + config.RUNS):
        for arm, arm_config in arms.items():
            seeded = replace(arm_config, SEED=seed)
            runs.append(Run(arm, seed, seeded))
    return runs


def _words(values: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in values.items())
