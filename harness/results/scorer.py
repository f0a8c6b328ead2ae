"""Count the requests to the second model of a run, the scorer, with their tokens and dollars."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from core.base.prices import Prices
from core.types import SCORER
from harness.results.populations import MemberRecord, Sum
from harness.results.step_figures import TOKENS, add_costs


class ScorerCosts:
    """The requests to the scorer, whose records have `by` = SCORER. Dollars need `prices`."""

    def __init__(self, prices: Prices | None = None) -> None:
        self._prices = {SCORER: prices}
        self._completions = 0
        self._failed = 0
        self._sums: defaultdict[str, Sum] = defaultdict(Sum)

    def add(self, costs: Sequence[MemberRecord]) -> None:
        """Add the scorer's completions among `costs`, which are records of completions."""
        # a carried-over member repeats an earlier completion
        calls = [cost for cost in costs if cost.get("by") == SCORER and "carried_over" not in cost]
        self._completions += len(calls)
        self._failed += sum("error" in call for call in calls)
        add_costs(self._sums, calls, self._prices)

    def metrics(self) -> dict[str, Any]:
        """Return the field "scorer" of a run's metrics, or {} if the scorer was not asked."""
        if not self._completions:
            return {}
        figures: dict[str, Any] = {
            "completions": self._completions,
            "failed": self._failed,
            "tokens": {kind: self._sums[kind].value for kind in TOKENS},
        }
        if self._prices[SCORER]:
            figures["cost"] = self._sums["cost"].dollars
        return {"scorer": figures}


def prices_in(document: Mapping[str, Any]) -> Prices | None:
    """Return the prices of a results document or of its scorer, or None if they are missing."""
    prices = document.get("prices")
    return Prices(**prices) if prices else None
