"""What tokens cost: prices, and amounts of money that add up exactly."""

from dataclasses import dataclass

Counted = tuple[int | None, int | None, int | None]  # prompt, cached and completion tokens; None: nobody counted them

PICO = 10**12  # picodollars in a dollar: sums of whole ones are exact in any order, which those of floats are not


@dataclass(frozen=True)
class Prices:
    """Dollars for a million tokens, as they were looked up `on` that day ("2026-11-23"; "" where nobody said).
    `cached`: of prompt tokens that a cache held; `written`: of completion tokens, thinking included."""

    read: float
    cached: float
    written: float
    on: str = ""

    def dollars(self, counted: Counted) -> float | None:
        """What a call costs; None where the server did not count its tokens."""
        prompt, cached, completion = counted
        if prompt is None or completion is None:
            return None
        cached = min(cached or 0, prompt)
        return ((prompt - cached) * self.read + cached * self.cached + completion * self.written) / 1e6

    def cost(self, counted: Counted) -> int | None:
        """The same in whole picodollars."""
        dollars = self.dollars(counted)
        return None if dollars is None else round(dollars * PICO)

    def most(self, prompt: int, completion: int) -> float:
        """Return the most dollars that so many tokens can cost: some providers ask more for what they cache."""
        return (prompt * max(self.read, self.cached) + completion * self.written) / 1e6


def shown(dollars: float) -> str:
    """An amount of money for people: "$12.30", "$0.0412", of less than a cent with three digits."""
    if dollars == 0 or dollars >= 1:
        return f"${dollars:,.2f}"
    return f"${dollars:.4f}" if dollars >= 0.01 else f"${dollars:.3g}"
