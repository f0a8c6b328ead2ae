"""Expand the lists of a sweep: `N=4,8 K=2,3` means four runs, one for each combination of
values."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, cast

from core import constants
from core.base.errors import UserError
from core.constants import Constants, Repeated, Rule, Seeded, rules
from core.engines import environment
from core.types import Scaffold
from harness.experiment_file import scaffold_named

MAX_CELLS = 10_000  # combinations of one sweep
SHARED = {*rules(Repeated), *rules(Seeded)}  # all runs of a sweep have the same seeds


class TooMany(UserError):
    """An error for a sweep of more than MAX_CELLS combinations. `last` has the constants of the
    last one."""

    def __init__(self, count: int, last: "Cell") -> None:
        super().__init__(
            f"the lists have {count:,} combinations, but a sweep takes at most {MAX_CELLS:,}. "
            "Shorten a list"
        )
        self.count = count
        self.last = last


@dataclass(frozen=True)
class Cell:
    """A run of a sweep: the `values` of its swept constants, its scaffold and all of its
    constants."""

    values: Mapping[str, Any]
    scaffold: Scaffold[Any]
    config: Constants

    @property
    def name(self) -> str:
        return name_of_run(self.values)


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
        configs = [cell.config for cell in self.cells]
        max_tokens = max(config.MAX_TOKENS for config in configs)
        answer_tokens = max(config.ANSWER_TOKENS for config in configs)
        return replace(configs[0], MAX_TOKENS=max_tokens, ANSWER_TOKENS=answer_tokens)

    @property
    def asking(self) -> list[Cell]:
        """The runs that send requests. A run that differs from another only in a lower T repeats
        its first steps."""
        longest: dict[str, Cell] = {}
        for cell in self.cells:
            others = dict(cell.values)
            steps = others.pop("T", None)
            key = name_of_run(others)
            if key not in longest or steps > longest[key].values["T"]:
                longest[key] = cell
        return list(longest.values())

    def max_completions(self, config: Constants) -> int:
        """Return the highest number of completions per problem and seed, summed over runs."""
        return sum(cell.scaffold.max_completions(cell.config) for cell in self.asking)

    @property
    def shared_completions(self) -> int:
        """The completions per problem and seed that runs read from other runs of the sweep."""
        of_all = sum(cell.scaffold.max_completions(cell.config) for cell in self.cells)
        return of_all - self.max_completions(self.common)

    def texts_shown(self, config: Constants) -> int:
        return max(cell.scaffold.texts_shown(cell.config) for cell in self.cells)


def name_of_run(values: Mapping[str, Any]) -> str:
    """Return the name of a run, such as "N=4,K=2". For a sweep without lists it is "all"."""
    settings: list[str] = []
    for name, value in values.items():
        text = f"{value:g}" if isinstance(value, float) else str(value)
        settings.append(f"{name}={text}")
    return ",".join(settings) or "all"


def expand(scaffold: Scaffold[Any], namespace: Mapping[str, Any], words: Sequence[str]) -> Grid:
    """Return the runs of a sweep of an experiment. `words` are NAME=value or NAME=value,value.
    Combinations that contradict each other, such as K > N, are left out. Raises UserError for
    invalid constants, or TooMany."""
    lists = _lists(words)
    scaffolds = {"": scaffold}
    if "SCAFFOLD" in lists and "SCAFFOLD" in rules(scaffold.constants):
        scaffolds = {name: scaffold_named(name) for name in lists["SCAFFOLD"].split(",")}
    all_rules: dict[str, Rule] = {}
    for listed_scaffold in scaffolds.values():
        all_rules |= rules(listed_scaffold.constants)
    values: dict[str, list[Any]] = {}
    for name in _swept(lists, all_rules):
        values[name] = _values(all_rules[name], name, lists[name])
    swept = tuple(f"{name}=" for name in values)
    fixed = [word for word in words if not word.startswith(swept)]
    card = environment.card()

    def cell(chosen: Mapping[str, Any]) -> Cell:
        cell_scaffold = scaffolds[chosen.get("SCAFFOLD", "")]
        kind = cell_scaffold.constants
        settings = [f"{name}={value}" for name, value in chosen.items()]
        values_in_file = {**namespace, **card.constants_of(kind)}
        config = constants.read(kind, values_in_file, [*fixed, *settings])
        return Cell(chosen, cell_scaffold, cast(Constants, config))

    count = math.prod(map(len, values.values()))
    if count > MAX_CELLS:
        last = {name: options[-1] for name, options in values.items()}
        raise TooMany(count, cell(last))
    cells: list[Cell] = []
    left_out: dict[str, str] = {}
    errors: list[UserError] = []
    for combination in product(*values.values()):
        chosen = dict(zip(values, combination, strict=True))
        try:
            cells.append(cell(chosen))
        except UserError as error:
            left_out[name_of_run(chosen)] = str(error).partition(". ")[0]
            errors.append(error)
    if not cells:
        raise errors[0]
    return Grid(cells, left_out)


def _lists(words: Sequence[str]) -> dict[str, str]:
    """Return the values with a comma by name. The last value of a name counts."""
    settings: dict[str, str] = {}
    for word in words:
        name, _, value = word.partition("=")
        settings[name] = value
    return {name: value for name, value in settings.items() if "," in value}


def _swept(lists: Mapping[str, str], all_rules: Mapping[str, Rule]) -> list[str]:
    """Return the names whose values are lists. A text without choices may contain commas."""
    names: list[str] = []
    for name in lists:
        rule = all_rules.get(name)
        if rule is None or rule.free or name in SHARED:
            continue
        if rule.type is not str or rule.choices:
            names.append(name)
    return names


def _values(rule: Rule, name: str, text: str) -> list[Any]:
    """Return the different values of a list, in order."""
    values = [rule.read(name, part) for part in text.split(",")]
    return list(dict.fromkeys(values))
