"""Count the requests to the second model of a run, the scorer, with their tokens and dollars."""

from collections.abc import Mapping, Sequence
from typing import Any

from core.base.prices import Counted, Prices
from core.types import SCORER


class ScorerCosts:
    """The requests to the scorer, which are marked in records (`by`). Dollars need `prices`."""

    def __init__(self, prices: Prices | None = None) -> None:
        self._prices = prices
        self._keys: set[str] = set()
        self._failed = 0
        self._counted: list[Counted] = []
        self._dollars: list[float | None] = []

    def add(self, costs: Sequence[Mapping[str, Any]]) -> None:
        """Add the scorer's completions among `costs`, which are records of completions."""
        for cost in costs:
            # a carried-over member repeats an earlier completion
            if cost.get("by") != SCORER or cost["key"] in self._keys:
                continue
            self._keys.add(cost["key"])
            if "error" in cost:
                self._failed += 1
            self._counted.append(counted_of(cost))
            if self._prices:
                self._dollars.append(self._prices.dollars(counted_of(cost)))

    def metrics(self) -> dict[str, Any]:
        """Return the field "scorer" of a run's metrics, or {} if the scorer was not asked."""
        if not self._keys:
            return {}
        figures: dict[str, Any] = {"completions": len(self._keys), "failed": self._failed}
        prompt, cached, completion = zip(*self._counted, strict=True)
        figures["tokens"] = {
            "prompt": _sum(prompt),
            "cached": _sum(cached),
            "completion": _sum(completion),
        }
        if self._prices:
            dollars = _sum(self._dollars)
            figures["cost"] = None if dollars is None else round(dollars, 12)
        return {"scorer": figures}


def counted_of(cost: Mapping[str, Any]) -> Counted:
    """Return the numbers of prompt, cached and completion tokens in the record of a completion."""
    return cost["prompt_tokens"], cost["cached_tokens"], cost["completion_tokens"]


def prices_in(document: Mapping[str, Any]) -> Prices | None:
    """Return the prices of a results document or of its scorer, or None if they are missing."""
    prices = document.get("prices")
    return Prices(**prices) if prices else None


def _sum(amounts: Sequence[float | None]) -> float | None:
    """Add the known amounts. Return None if all are unknown."""
    known_amounts = [amount for amount in amounts if amount is not None]
    return sum(known_amounts) if known_amounts else None
