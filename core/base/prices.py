"""Compute the cost of tokens in dollars."""

from dataclasses import dataclass

from core.base.fields import Amount

# prompt, cached and completion tokens (None: not counted)
Counted = tuple[int | None, int | None, int | None]


@dataclass(frozen=True)
class Prices:
    """Prices in dollars per million tokens: `read` for prompt tokens, `cached` for cached prompt
    tokens, and `written` for completion tokens with thinking. `on` is the day of the look-up
    ("2026-11-23", or "" if unknown)."""

    read: Amount
    cached: Amount
    written: Amount
    on: str = ""

    def dollars(self, counted: Counted) -> float | None:
        """Return the cost of a request in dollars, or None if the server did not count its
        tokens."""
        prompt, cached, completion = counted
        if prompt is None or completion is None:
            return None
        cached = min(cached or 0, prompt)
        uncached = prompt - cached
        per_million = uncached * self.read + cached * self.cached + completion * self.written
        return per_million / 1e6

    def max_dollars(self, prompt: int, completion: int) -> float:
        """Return the highest cost in dollars of a request with these tokens, whether its prompt is
        cached or not."""
        price = max(self.read, self.cached)
        per_million = prompt * price + completion * self.written
        return per_million / 1e6


def format_dollars(dollars: float) -> str:
    """Format dollars as "$12.30" or "$0.0412". Amounts below a cent have at most three significant
    digits."""
    if dollars == 0 or dollars >= 1:
        return f"${dollars:,.2f}"
    if dollars >= 0.01:
        return f"${dollars:.4f}"
    return f"${dollars:.3g}"
