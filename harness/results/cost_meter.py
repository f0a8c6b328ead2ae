"""Count the cost of completions in each unit of a budget."""

import math
from dataclasses import dataclass

from core.base.errors import UserError
from core.base.prices import Counted, Prices
from core.engines.shape import Shape

UNITS = {
    "tokens": "completion tokens",
    "read": "completion tokens plus uncached prompt tokens",
    "read_cold": "completion tokens plus all prompt tokens",
    "flops": "floating-point operations",
    "dollars": "dollars",
}


@dataclass(frozen=True)
class Meter:
    """A counter of costs in `unit`. Raises UserError if the unit needs an unknown `shape` or
    unknown `prices`."""

    unit: str = "tokens"
    shape: Shape | None = None
    prices: Prices | None = None

    def __post_init__(self) -> None:
        if self.unit in self.units:
            return
        if self.unit == "dollars":
            needed = "prices in its model card"
        else:
            needed = "a model in a folder (MODEL=FOLDER)"
        raise UserError(
            f"BUDGET_IN={self.unit} needs {needed}. Or set BUDGET_IN=tokens or BUDGET_IN=read"
        )

    @property
    def units(self) -> list[str]:
        """The units in which the meter can count costs."""
        lacking = []
        if self.shape is None:
            lacking.append("flops")
        if self.prices is None:
            lacking.append("dollars")
        return [unit for unit in UNITS if unit not in lacking]

    def cost(self, counted: Counted, unit: str = "") -> float | None:
        """Return the cost of a call in the meter's unit, or in `unit`. Return None if it needs
        uncounted tokens."""
        unit = unit or self.unit
        prompt, cached, completion = counted
        if unit == "tokens" or completion is None:
            return completion
        if prompt is None:
            return None
        if unit == "dollars" and self.prices:
            return self.prices.dollars(counted)
        if unit == "read_cold":
            return completion + prompt
        cached = min(cached or 0, prompt)
        if unit == "flops" and self.shape:
            return self.shape.flops(prompt, cached, completion)
        return completion + prompt - cached

    def format(self, value: float, unit: str = "") -> str:
        """Format a `value` in the meter's unit, or in `unit`."""
        unit = unit or self.unit
        if math.isnan(value):
            return "-"
        if unit == "dollars":
            return f"${value:.3g}"
        if unit != "flops":
            return f"{value:,.0f}"
        if value >= 1e12:
            return f"{value / 1e12:,.4g}T"
        return f"{value / 1e9:,.3g}G"


TOKENS = Meter()
