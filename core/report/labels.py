"""Name results so that readers can distinguish them, also within one experiment."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

from core.base.errors import one_line
from core.base.terminal import cut

ONE_RUN = {"RUNS": 1}  # single runs lack this constant


def labels(results: Sequence[Any], most: int = 80) -> list[str]:
    """Name results by experiment and differing constants, or by file, in at most `most` characters. `results` have the
    attributes `name` and `head`."""
    names = []
    for result in results:
        experiment, mine = result.head.experiment, ONE_RUN | result.head.config
        configs = [ONE_RUN | each.head.config for each in results if each.head.experiment == experiment]
        differing = [name for name in dict.fromkeys(chain(*configs)) if len({repr(of.get(name)) for of in configs}) > 1]
        constants = [f"{name}={mine.get(name, '-')!s:.40}" for name in differing]
        names.append(cut(one_line(" ".join([experiment, *constants]) if constants else result.name), most))
    again = Counter(names)
    return [name if again[name] == 1 else cut(one_line(r.name), most) for r, name in zip(results, names, strict=True)]
