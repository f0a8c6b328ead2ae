"""Name results so that readers can distinguish them, also within one experiment."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from core.base.errors import one_line
from core.base.terminal import cut

if TYPE_CHECKING:
    from core.report.compare import Result
    from core.report.data import Results

ONE_RUN = {"RUNS": 1}  # single runs lack this constant


def labels(results: "Sequence[Results | Result]", most: int = 80) -> list[str]:
    """Name results by experiment and differing constants, or by file, in at most `most` characters."""
    names = [
        cut(one_line(_label(each, [o for o in results if o.head.experiment == each.head.experiment])), most)
        for each in results
    ]
    again = Counter(names)
    return [name if again[name] == 1 else cut(one_line(r.name), most) for r, name in zip(results, names, strict=True)]


def _label(result: "Results | Result", alike: "Sequence[Results | Result]") -> str:
    configs = [ONE_RUN | each.head.config for each in alike]
    names = dict.fromkeys(name for config in configs for name in config)
    differing = [name for name in names if len({repr(config.get(name)) for config in configs}) > 1]
    mine = ONE_RUN | result.head.config
    constants = [f"{name}={mine.get(name, '-')!s:.40}" for name in differing]
    return " ".join([result.head.experiment, *constants]) if constants else result.name
