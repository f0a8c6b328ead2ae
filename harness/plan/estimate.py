"""Compute the hours of a run on a GPU from its tokens (harness/plan/roofline.py), and format the rows
of plans."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from core.base.prices import shown
from core.constants import Constants
from core.engines import dialect, gpus
from core.types import Bounded
from harness.plan.lengths import Lengths
from harness.plan.roofline import BEST, WORST, Load, Machine
from harness.plan.subject import OnGpu, Subject
from harness.plan.work import at_cap, loads

Rows = list[tuple[str, str]]


@dataclass(frozen=True)
class Plan:
    """The estimate for one set of constants and `count` problems on one GPU."""

    config: Constants
    count: int
    lengths: Lengths
    on: OnGpu
    planned: Bounded

    @cached_property
    def machine(self) -> Machine:
        """The server. Raises UserError if the model does not fit."""
        return Machine.of(self.on.shape, self.on.gpu, self.on.kv, self.config)

    @cached_property
    def loads(self) -> list[Load]:
        """The requests of one run."""
        return loads(self.config, self.count, self.lengths, self.planned)

    @cached_property
    def seconds(self) -> tuple[float, float]:
        """The shortest and the longest time of all runs."""
        low, high = self.machine.seconds(self.loads, self.count)
        return self.config.RUNS * low, self.config.RUNS * high


def model_rows(on: OnGpu, model: str, whole: bool = True) -> Rows:
    """Return rows with the GPU and the `model`, if `whole` with their figures."""
    gpu, shape = on.gpu, on.shape
    sheet = (
        f": {gpu.memory / gpus.GIB:.1f} GiB, {gpu.bandwidth / 1e9:,.0f} GB/s, "
        f"{gpu.flops / 1e12:.0f} TFLOP/s"
    )
    size = f", {shape.weight_bytes / 1e9:.1f} GB ({on.why})"
    return [
        ("GPU", f"{gpu.name} ({on.why_gpu}){sheet if whole else ''}"),
        ("model", f"{model}, {shape.parameters / 1e9:.2f} B parameters{size if whole else ''}"),
    ]


def time_rows(plan: Plan, price: float | None) -> Rows:
    """Return the rows about KV cache, time and cost on the GPU. `price` is the price of an hour."""
    on, machine, written = plan.on, plan.machine, sum(load.tokens for load in plan.loads)
    steps = [
        sum(load.tokens / machine.in_flight(load, reach) for load in plan.loads)
        for reach in (WORST, BEST)
    ]
    few, many = (written / each for each in steps)
    context = sum(load.tokens * load.context for load in plan.loads) / written
    asked = min(machine.limit, max(load.count for load in plan.loads))
    capped = replace(plan, lengths=at_cap(plan.config, plan.lengths))
    return [
        (
            "KV cache",
            (
                f"{machine.kv_tokens:,} tokens in {on.kv}, {on.shape.kv_bytes(on.kv) / 1000:.1f} "
                "kB each"
            ),
        ),
        (
            "in flight",
            (
                f"{between(few, many, 0)} requests of {context:,.0f} tokens on average ({asked} "
                "sent at a time)"
            ),
        ),
        ("time", hours(plan.seconds)),
        ("at the cap", f"{hours(capped.seconds)}, if every completion is truncated"),
        *money(plan.seconds, price),
        ("seeds", _seeds(on.engine, plan.seconds)),
    ]


def notes(plan: Plan) -> list[str]:
    """Return a note if requests are longer than the model's context or the KV cache."""
    longest = max(load.prompt + float(load.lengths.max()) for load in plan.loads)
    most = min(plan.on.longest or math.inf, plan.machine.kv_tokens)
    if longest <= most:
        return []
    return [
        f"a request may need {longest:,.0f} tokens, but the server takes at most {most:,}. Longer "
        "requests fail. Lower MAX_TOKENS, or K in RSA"
    ]


def _seeds(engine: dialect.OnGpu, seconds: tuple[float, float]) -> str:
    """Describe whether the `engine` honours seeds, and how much longer a run takes if it does."""
    if not engine.deterministic_cost:
        return f"{engine.label} honours seeds"
    low, high = engine.deterministic_cost
    slower = hours([seconds[0] * (1 + low), seconds[1] * (1 + high)])
    return (
        f"{engine.label} ignores seeds. With DETERMINISTIC=1 it honours them, but its authors "
        f"report {low:.0%} to {high:.0%} more time: {slower}"
    )


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


def without_gpu(of: Subject, loads: Sequence[Load], lengths: Lengths, price: float | None) -> Rows:
    """Return the time with llama.cpp on this machine, or the cost of another server."""
    read, written, most_read, most_written = sums(loads)
    if isinstance(of.place, Path):
        if not lengths.speed:
            return [
                (
                    "time",
                    (
                        "not planned: no earlier results show this model's speed. Run 02_rsa_basic "
                        "LIMIT=1"
                    ),
                )
            ]
        seconds, most = (
            [count * speed for speed in lengths.speed] for count in (written, most_written)
        )
        at_cap = ("at the cap", f"{hours(most)}, if every completion is truncated")
        return [
            ("time", f"{hours(seconds)} for generating, at the measured speed"),
            at_cap,
            *money(seconds, price),
        ]
    if prices := of.card.price:
        expected = prices.dollars((round(read), 0, round(written))) or 0
        most_dollars = prices.dollars((round(most_read), 0, round(most_written))) or 0
        at_most = f", {shown(most_dollars)} at most" if most_read else ""
        cost = f"{shown(expected)} expected{at_most}, at prices of {prices.on}, without cache hits"
    else:
        lacks = (
            f"the card {of.card.name} has no table [price]"
            if of.card.name
            else f"{of.model} has no card"
        )
        cost = f"unknown: {lacks}. See data/models/template.toml"
    return [("cost", cost), ("time", "not planned: the speed of the server is unknown")]


def money(seconds: Sequence[float], price: float | None) -> Rows:
    """Return a row with the cost of this time, if the `price` of an hour is known."""
    if price is None:
        return []
    low, high = (price * s / 3600 for s in seconds)
    return [("cost", f"{low:,.2f} to {high:,.2f} at {price:g} an hour")]


def problems_of(count: int, runs: int = 1) -> str:
    return f"{count} problem{'s' if count != 1 else ''}" + (
        f" in each of {runs} runs" if runs > 1 else ""
    )


def tokens(n: float) -> str:
    return f"{n / 1e6:,.1f}M tokens" if n >= 1e6 else f"{n:,.0f} tokens"


def hours(seconds: Sequence[float]) -> str:
    """Format the shortest and the longest time as a range of seconds, minutes or hours."""
    unit, size = (
        ("hours", 3600)
        if seconds[1] >= 3600
        else ("minutes", 60)
        if seconds[1] >= 60
        else ("seconds", 1)
    )
    return f"{between(seconds[0] / size, seconds[1] / size, 1)} {unit}"


def between(low: float, high: float, digits: int) -> str:
    """Format a range of numbers, or one number if both ends look equal."""
    shown = [f"{value:,.{digits}f}" for value in (low, high)]
    return shown[0] if shown[0] == shown[1] else " to ".join(shown)
