"""Compute the cost of tokens in amounts of money that add up exactly."""

from dataclasses import dataclass

Counted = tuple[int | None, int | None, int | None]  # prompt, cached and completion tokens; None: not counted

PICO = 10**12  # picodollars in a dollar: sums of integers do not depend on their order, sums of floats do


@dataclass(frozen=True)
class Prices:
    """Prices in dollars per million tokens, looked up `on` a day ("2026-11-23", or "" if unknown).
    `cached` is the price of cached prompt tokens, `written` the price of completion tokens, thinking included."""

    read: float
    cached: float
    written: float
    on: str = ""

    def dollars(self, counted: Counted) -> float | None:
        """Return the cost of a call, or None if the server did not count its tokens."""
        prompt, cached, completion = counted
        if prompt is None or completion is None:
            return None
        cached = min(cached or 0, prompt)
        return ((prompt - cached) * self.read + cached * self.cached + completion * self.written) / 1e6

    def cost(self, counted: Counted) -> int | None:
        """Return the cost of a call in whole picodollars, or None if unknown."""
        dollars = self.dollars(counted)
        return None if dollars is None else round(dollars * PICO)

    def most(self, prompt: int, completion: int) -> float:
        """Return the most dollars that so many tokens can cost. Some providers charge more for cached tokens."""
        return (prompt * max(self.read, self.cached) + completion * self.written) / 1e6


def shown(dollars: float) -> str:
    """Format an amount of money: "$12.30", "$0.0412", and three digits for less than a cent."""
    if dollars == 0 or dollars >= 1:
        return f"${dollars:,.2f}"
    return f"${dollars:.4f}" if dollars >= 0.01 else f"${dollars:.3g}"
