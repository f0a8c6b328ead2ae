"""Merge the values of several runs of the same problems, and average them over problems.

A table of values has a row for each problem and a column for each run. It has nan if a grade is
missing.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.base import stats

# a problem's value over its graded runs
MERGES: dict[str, Callable[..., Any]] = {"mean": np.nanmean, "max": np.nanmax, "min": np.nanmin}

Values = NDArray[np.float64]


def merged(values: Values, by: str) -> Values:
    """Merge the `values` (problems, runs) of each problem over its graded runs. Omit problems
    without any."""
    is_graded = ~np.isnan(values).all(axis=1)
    return np.asarray(MERGES[by](values[is_graded], axis=1))


def rate(values: Values, by: str) -> dict[str, Any]:
    """Average the `values` (problems, runs) over problems, with a 95% interval. `by` selects how
    runs are merged."""
    return stats.mean_by_problem(merged(values, by)).to_json()


def over_runs(values: Values) -> dict[str, Any] | None:
    """Compute a metric over runs from `values` (problems, runs). Return None for a single run or if
    one is ungraded."""
    is_single = values.shape[1] == 1
    if is_single or np.isnan(values).all(axis=0).any():
        return None
    means = np.nanmean(values, axis=0)
    return {
        "mean": float(means.mean()),
        "std": float(means.std(ddof=1)),
        "values": means.tolist(),
    }
