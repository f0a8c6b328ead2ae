"""Names that tell results apart, also those of one experiment."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.base.errors import one_line
from core.base.terminal import cut

ONE_RUN = {"RUNS": 1}  # what a run does not say, since it is the same as one of several


@dataclass(frozen=True)
class Named:
    """Results called `name`, of an experiment with these constants."""

    name: str
    experiment: str
    config: Mapping[str, Any]


def labels(results: Sequence[Named], most: int = 200) -> list[str]:
    """For each of `results` a name of at most so many characters: the experiment's where it is the only one of it, else
    with the constants in which they differ; where they differ in none, that of its file."""
    by_experiment: dict[str, list[Named]] = {}
    for result in results:
        by_experiment.setdefault(result.experiment, []).append(result)
    made = [_label(result, by_experiment[result.experiment], most) for result in results]
    again = Counter(made)
    return [label if again[label] == 1 else cut(one_line(r.name), most) for r, label in zip(results, made, strict=True)]


def _label(result: Named, alike: Sequence[Named], most: int) -> str:
    if len(alike) == 1:
        return cut(one_line(result.name), most)
    configs = [ONE_RUN | dict(each.config) for each in alike]
    names = dict.fromkeys(name for config in configs for name in config)
    differing = [name for name in names if len({repr(config.get(name)) for config in configs}) > 1]
    mine = ONE_RUN | dict(result.config)
    told = one_line(" ".join(f"{name}={mine.get(name, '-')!s:.40}" for name in differing), 120)
    experiment = one_line(result.experiment, 80)
    if not told:
        return cut(one_line(result.name), most)
    room = most - len(told) - 1
    return cut(f"{cut(experiment, room) if room >= 3 else experiment[:2]} {told}", most)
