"""What completions cost, in each of the units that a budget can be counted in."""

import math
from dataclasses import dataclass

from core.base.errors import UserError
from core.base.prices import Counted, Prices
from core.engines.shape import Shape

UNITS = {
    "tokens": "completion tokens",
    "read": "completion tokens and prompt tokens that no cache held",
    "read_cold": "completion tokens and prompt tokens, as if no cache held any",
    "flops": "floating-point operations",
    "dollars": "dollars",
}


@dataclass(frozen=True)
class Meter:
    """Counts what calls cost in `unit`, with a model of this `shape` at these `prices` (None: not known). Raises
    UserError for a unit in which that can't be known."""

    unit: str = "tokens"
    shape: Shape | None = None
    prices: Prices | None = None

    def __post_init__(self) -> None:
        if self.unit not in self.units:
            remedy = {
                "flops": "the shape of this model is not known here; serve it from its folder (MODEL=FOLDER)",
                "dollars": "no prices are known; write the model's card a table [price]",
            }[self.unit]
            raise UserError(f"BUDGET_IN={self.unit}: {remedy}, or count in tokens or read")

    @property
    def units(self) -> list[str]:
        """Those in which costs can be known."""
        lacking = {"flops" if self.shape is None else "", "dollars" if self.prices is None else ""}
        return [unit for unit in UNITS if unit not in lacking]

    def cost(self, counted: Counted, unit: str = "") -> float | None:
        """What one call costs in the meter's unit, or another of `units`; None where the server did not count what that
        takes."""
        unit = unit or self.unit
        prompt, cached, completion = counted
        if unit == "tokens" or completion is None:
            return completion
        if prompt is None:
            return None
        if unit == "dollars":
            assert self.prices is not None
            return self.prices.dollars(counted)
        cached = min(cached or 0, prompt) if unit != "read_cold" else 0
        if unit in ("read", "read_cold"):
            return completion + prompt - cached
        assert self.shape is not None
        return self.shape.flops(prompt, cached, completion)

    def shown(self, value: float, unit: str = "") -> str:
        """Format a `value` in the meter's unit, or another, for a table."""
        unit = unit or self.unit
        if math.isnan(value):
            return "-"
        if unit == "flops":
            return f"{value / 1e12:,.4g}T" if value >= 1e12 else f"{value / 1e9:,.3g}G"
        return f"${value:.3g}" if unit == "dollars" else f"{value:,.0f}"


TOKENS = Meter()
