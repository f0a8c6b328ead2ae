"""Format the rows that all plans share: tokens, times and costs."""

from collections.abc import Sequence
from pathlib import Path

from core.base.prices import shown
from core.plan.lengths import Lengths
from core.plan.roofline import Load
from core.plan.subject import Subject

Rows = list[tuple[str, str]]


def sums(loads: Sequence[Load]) -> tuple[float, float, float, float]:
    """Return the prompt and completion tokens of `loads`, as expected and at most."""
    return (
        sum(load.prompts for load in loads),
        sum(load.tokens for load in loads),
        sum(load.count * load.most[0] for load in loads),
        sum(load.count * load.most[1] for load in loads),
    )


def token_rows(loads: Sequence[Load]) -> Rows:
    read, written, most_read, most_written = sums(loads)
    at_most = f", {tokens(most_read)} at most" if most_read else ""
    return [
        ("output", f"{tokens(written)} expected, {tokens(most_written)} at most"),
        ("input", f"{tokens(read)} expected{at_most}, without cache hits"),
    ]


def without_gpu(of: Subject, loads: Sequence[Load], lengths: Lengths, price: float | None, limit: float = 0) -> Rows:
    """Return the time with llama.cpp on this machine, or the cost of another server. `limit` is MAX_DOLLARS."""
    read, written, most_read, most_written = sums(loads)
    if isinstance(of.place, Path):
        if not lengths.speed:
            return [("time", "not planned: no earlier results show this model's speed. Run 02_rsa_basic LIMIT=1")]
        seconds, most = ([count * speed for speed in lengths.speed] for count in (written, most_written))
        at_cap = ("at the cap", f"{hours(most)}, if every completion is truncated")
        return [("time", f"{hours(seconds)} for generating, at the measured speed"), at_cap, *money(seconds, price)]
    if prices := of.card.price:
        expected = prices.dollars((round(read), 0, round(written))) or 0
        most_dollars = prices.dollars((round(most_read), 0, round(most_written))) or 0
        at_most = f", {shown(most_dollars)} at most" if most_read else ""
        cost = f"{shown(expected)} expected{at_most}, at prices of {prices.on}, without cache hits"
        if 0 < limit < most_dollars:
            how = "may end" if expected <= limit else "is expected to end"
            cost += f". With MAX_DOLLARS={limit:g}, the run {how} before it is complete"
    else:
        lacks = f"the card {of.card.name} has no table [price]" if of.card.name else f"{of.model} has no card"
        cost = f"unknown: {lacks}. See data/models/template.toml"
    return [("cost", cost), ("time", "not planned: the speed of the server is unknown")]


def money(seconds: Sequence[float], price: float | None) -> Rows:
    """Return a row with the cost of this time, if the `price` of an hour is known."""
    if price is None:
        return []
    low, high = (price * s / 3600 for s in seconds)
    return [("cost", f"{low:,.2f} to {high:,.2f} at {price:g} an hour")]


def problems_of(count: int, runs: int = 1) -> str:
    return f"{count} problem{'s' if count != 1 else ''}" + (f" in each of {runs} runs" if runs > 1 else "")


def tokens(n: float) -> str:
    return f"{n / 1e6:,.1f}M tokens" if n >= 1e6 else f"{n:,.0f} tokens"


def hours(seconds: Sequence[float]) -> str:
    """Format the shortest and the longest time as a range of seconds, minutes or hours."""
    unit, size = ("hours", 3600) if seconds[1] >= 3600 else ("minutes", 60) if seconds[1] >= 60 else ("seconds", 1)
    return f"{between(seconds[0] / size, seconds[1] / size, 1)} {unit}"


def between(low: float, high: float, digits: int) -> str:
    """Format a range of numbers, or one number if both ends look equal."""
    shown = [f"{value:,.{digits}f}" for value in (low, high)]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)
