"""Expand the lists of a sweep: `N=4,8 K=2,3` means four runs, one for each combination of
values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

from core import constants
from core.base.errors import UserError
from core.constants import Constants, Repeated, Seeded, rules
from core.engines import environment
from core.types import Scaffold
from harness.experiment_file import scaffold_named

MOST = 10_000  # combinations of one sweep
OWN = {*rules(Repeated), *rules(Seeded)}  # all runs of a sweep have the same seeds


class TooMany(UserError):
    """An error for a sweep of more than MOST combinations. `last` has the constants of the last
    one."""

    def __init__(self, count: int, last: "Cell") -> None:
        super().__init__(
            f"the lists have {count:,} combinations, but a sweep takes at most {MOST:,}. Shorten a "
            "list"
        )
        self.count, self.last = count, last


@dataclass(frozen=True)
class Cell:
    """A run of a sweep: the `values` of its swept constants, its scaffold and all of its
    constants."""

    values: Mapping[str, Any]
    scaffold: Scaffold[Any]
    config: Constants

    @property
    def name(self) -> str:
        return named(self.values)


@dataclass(frozen=True)
class Grid:
    """The runs of a sweep. `left_out` has the reason for each combination that can't run, by its
    name."""

    cells: Sequence[Cell]
    left_out: Mapping[str, str]

    @property
    def constants(self) -> type[Constants]:
        return type(self.cells[0].config)

    @property
    def common(self) -> Constants:
        """The constants of the whole sweep: the first run's, but with the longest completions."""
        configs = [each.config for each in self.cells]
        most, answer = (
            max(each.MAX_TOKENS for each in configs),
            max(each.ANSWER_TOKENS for each in configs),
        )
        return replace(configs[0], MAX_TOKENS=most, ANSWER_TOKENS=answer)

    @property
    def asking(self) -> list[Cell]:
        """The runs that send requests. A run that differs from another only in a lower T repeats
        its first steps."""
        most: dict[str, Cell] = {}
        for cell in self.cells:
            key = named({name: value for name, value in cell.values.items() if name != "T"})
            if key not in most or cell.values["T"] > most[key].values["T"]:
                most[key] = cell
        return list(most.values())

    def max_completions(self, config: Constants) -> int:
        """Return the highest number of completions per problem and seed, summed over runs."""
        return sum(each.scaffold.max_completions(each.config) for each in self.asking)

    def texts_shown(self, config: Constants) -> int:
        return max(each.scaffold.texts_shown(each.config) for each in self.cells)


def named(values: Mapping[str, Any]) -> str:
    """Return the name of a run, such as "N=4,K=2". For a sweep without lists it is "all"."""
    shown = (
        f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in values.items()
    )
    return ",".join(shown) or "all"


def expand(scaffold: Scaffold[Any], namespace: Mapping[str, Any], words: Sequence[str]) -> Grid:
    """Return the runs of a sweep of an experiment. `words` are NAME=value or NAME=value,value.
    Combinations that contradict each other, such as K > N, are left out. Raises UserError for
    invalid constants, or TooMany."""
    # the last of each name
    given = {name: value for name, _, value in (word.partition("=") for word in words)}
    given = {name: value for name, value in given.items() if "," in value}
    scaffolds, known = {"": scaffold}, rules(scaffold.constants)
    if "SCAFFOLD" in known.keys() & given.keys():
        scaffolds = {name: scaffold_named(name) for name in given["SCAFFOLD"].split(",")}
        known = {
            name: rule
            for each in scaffolds.values()
            for name, rule in rules(each.constants).items()
        }
    values: dict[str, list[Any]] = {}  # texts without choices may contain commas
    for name, value in given.items():
        rule = known.get(name)
        if rule and name not in OWN and not rule.free and (rule.type is not str or rule.choices):
            values[name] = list(dict.fromkeys(rule.read(name, part) for part in value.split(",")))
    fixed = [word for word in words if not word.startswith(tuple(f"{name}=" for name in values))]
    card, cells, left_out, errors = (
        environment.card(),
        list[Cell](),
        dict[str, str](),
        list[UserError](),
    )

    def cell(chosen: Mapping[str, Any]) -> Cell:
        own = scaffolds[chosen.get("SCAFFOLD", "")]
        overrides = [*fixed, *(f"{name}={value}" for name, value in chosen.items())]
        config = constants.read(
            own.constants, {**namespace, **card.constants_of(own.constants)}, overrides
        )
        return Cell(chosen, own, cast(Constants, config))

    if (count := math.prod(map(len, values.values()))) > MOST:
        raise TooMany(count, cell({name: each[-1] for name, each in values.items()}))
    for chosen in product(*values.values()):
        picked = dict(zip(values, chosen, strict=True))
        try:
            cells.append(cell(picked))
        except UserError as error:
            left_out[named(picked)] = str(error).partition(". ")[0]
            errors.append(error)
    if not cells:
        raise errors[0]
    return Grid(cells, left_out)
