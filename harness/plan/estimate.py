"""Compute the hours of a run on a GPU from its tokens (harness/plan/roofline.py), and format the
rows of plans."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from core.base.prices import format_dollars
from core.constants import Asking, Constants
from core.engines import gpus, on_gpu
from core.engines.cards import Card
from core.engines.shape import Mixture
from core.types import Bounded
from harness.plan.lengths import Lengths
from harness.plan.roofline import BEST, WORST, Load, Machine, Reach
from harness.plan.subject import OnGpu, Subject, Unplanned
from harness.plan.work import at_cap, loads_of

Rows = list[tuple[str, str]]
Seconds = Sequence[float]  # the shortest and the longest time


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
        return machine_of(self.on, self.config)

    @cached_property
    def loads(self) -> list[Load]:
        """The requests of one run."""
        return loads_of(self.config, self.count, self.lengths, self.planned)

    @cached_property
    def seconds(self) -> tuple[float, float]:
        """The shortest and the longest time of all runs."""
        low, high = self.machine.seconds(self.loads, self.count)
        return self.config.RUNS * low, self.config.RUNS * high

    def in_flight(self, reach: Reach) -> float:
        """Return the mean number of requests in flight, over all tokens."""
        steps = sum(load.tokens / self.machine.in_flight(load, reach) for load in self.loads)
        return sum(load.tokens for load in self.loads) / steps


def machine_of(on: OnGpu, config: Asking) -> Machine:
    """Return the server `on` GPUs for a run with these constants. Raises UserError if the model
    does not fit."""
    return Machine.of(on.shape, on.gpu, on.kv, config, on.gpus, on.weight_bytes)


def model_rows(on: OnGpu, model: str, whole: bool = True) -> Rows:
    """Return rows with the GPU and the `model`, if `whole` with their figures."""
    shape = on.shape
    gpu = f"{on.name} ({on.gpu_reason})"
    parameters = f"{model}, {shape.parameters / 1e9:.2f} B parameters"
    if isinstance(shape, Mixture):
        parameters += f" ({shape.step_parameters / 1e9:.2f} B for each token)"
    if whole:
        memory = f"{on.gpu.memory / gpus.GIB:.1f} GiB"
        bandwidth = f"{on.gpu.bandwidth / 1e9:,.0f} GB/s"
        gpu += f": {memory}, {bandwidth}, {on.gpu.flops / 1e12:.0f} TFLOP/s"
        gpu += " each" if on.gpus > 1 else ""
        size = on.weight_bytes or shape.weight_bytes
        parameters += f", {size / 1e9:.1f} GB ({on.shape_source})"
    return [("GPU", gpu), ("model", parameters)]


def unplanned_rows(on: Unplanned, model: str) -> Rows:
    """Return rows with the GPU and the `model` whose time can't be computed."""
    size = f", {on.weight_bytes / 1e9:.1f} GB" if on.weight_bytes else ""
    return [("GPU", on.gpu), ("model", f"{model}{size}")]


def time_rows(plan: Plan, price: float | None) -> Rows:
    """Return the rows about KV cache, time and cost on the GPU. `price` is the price of an hour."""
    on = plan.on
    machine = plan.machine
    token_size = f"{on.shape.kv_bytes(on.kv) / 1000:.1f} kB each"
    requests = between(plan.in_flight(WORST), plan.in_flight(BEST), 0)
    written = sum(load.tokens for load in plan.loads)
    context = sum(load.tokens * load.context for load in plan.loads) / written
    sent = min(machine.limit, max(load.count for load in plan.loads))
    capped = replace(plan, lengths=at_cap(plan.config, plan.lengths))
    return [
        ("KV cache", f"{machine.kv_tokens:,} tokens in {on.kv}, {token_size}"),
        (
            "in flight",
            f"{requests} requests of {context:,.0f} tokens on average ({sent} sent at a time)",
        ),
        ("time", hours(plan.seconds)),
        at_cap_row(capped.seconds),
        *money(plan.seconds, price),
        ("seeds", _seeds(on.engine, plan.seconds)),
    ]


def at_cap_row(seconds: Seconds) -> tuple[str, str]:
    return "at the cap", f"{hours(seconds)}, if every completion is truncated"


def notes(plan: Plan) -> list[str]:
    """Return notes if the GPUs communicate, and if requests are longer than the model's context or
    the KV cache."""
    result = []
    if plan.on.gpus > 1:
        result.append("the time of the GPUs' communication is not counted")
    longest = max(load.prompt + float(load.lengths.max()) for load in plan.loads)
    room = min(plan.on.longest or math.inf, plan.machine.kv_tokens)
    if longest > room:
        result.append(
            f"a request may need {longest:,.0f} tokens, but the server takes at most {room:,}. "
            "Longer requests fail. Lower MAX_TOKENS, or K in RSA"
        )
    return result


def _seeds(engine: on_gpu.OnGpu, seconds: Seconds) -> str:
    """Describe whether the `engine` honours seeds, and how much longer a run takes if it does."""
    if not engine.deterministic_cost:
        return f"{engine.label} honours seeds"
    low, high = engine.deterministic_cost
    slower = hours([seconds[0] * (1 + low), seconds[1] * (1 + high)])
    return (
        f"{engine.label} ignores seeds. With DETERMINISTIC=1 it honours them, but its authors "
        f"report {low:.0%} to {high:.0%} more time: {slower}"
    )


@dataclass(frozen=True)
class Sums:
    """The prompt and completion tokens of requests, as expected and at most. `most_prompt` is 0 if
    it is unknown."""

    prompt: float
    completion: float
    most_prompt: float
    most_completion: float

    @classmethod
    def from_loads(cls, loads: Sequence[Load]) -> "Sums":
        return cls(
            prompt=sum(load.prompts for load in loads),
            completion=sum(load.tokens for load in loads),
            most_prompt=sum(load.count * load.at_most[0] for load in loads),
            most_completion=sum(load.count * load.at_most[1] for load in loads),
        )


def token_rows(loads: Sequence[Load]) -> Rows:
    sums = Sums.from_loads(loads)
    at_most = f", {tokens(sums.most_prompt)} at most" if sums.most_prompt else ""
    return [
        (
            "output",
            f"{tokens(sums.completion)} expected, {tokens(sums.most_completion)} at most",
        ),
        ("input", f"{tokens(sums.prompt)} expected{at_most}, without cache hits"),
    ]


def without_gpu(
    subject: Subject, loads: Sequence[Load], lengths: Lengths, price: float | None
) -> Rows:
    """Return the time at a measured speed, with llama.cpp on this machine or on a GPU, or the cost
    of another server."""
    sums = Sums.from_loads(loads)
    if isinstance(subject.runs_on, Path):
        return _at_speed(sums, lengths.speed, "no earlier results show this model's speed", price)
    if isinstance(subject.runs_on, Unplanned):
        on = subject.runs_on
        speed = lengths.speed if lengths.engine == on.engine.kind else None
        unknown = (
            f"no formula holds for {on.difference}, and no results with {on.engine.label} show it"
        )
        return _at_speed(sums, speed, unknown, price)
    return [
        ("cost", _cost(subject, sums)),
        ("time", "not planned: the speed of the server is unknown"),
    ]


def _at_speed(sums: Sums, speed: Seconds | None, unknown: str, price: float | None) -> Rows:
    """Return the time of the requests at the measured `speed`, in seconds per token. Without it,
    the row says that the speed is `unknown`."""
    if not speed:
        return [("time", f"not planned: {unknown}. Run 02_rsa_basic LIMIT=1")]
    seconds = [sums.completion * per_token for per_token in speed]
    most_seconds = [sums.most_completion * per_token for per_token in speed]
    return [
        ("time", f"{hours(seconds)} for generating, at the measured speed"),
        at_cap_row(most_seconds),
        *money(seconds, price),
    ]


def _cost(subject: Subject, sums: Sums) -> str:
    """Describe the cost of the requests at the prices of the model's card."""
    prices = subject.card.price
    if not prices:
        return f"unknown: {_lacking(subject.card, subject.model)}. See data/models/template.toml"
    expected = prices.dollars((round(sums.prompt), 0, round(sums.completion))) or 0
    text = f"{format_dollars(expected)} expected"
    if sums.most_prompt:
        max_dollars = prices.dollars((round(sums.most_prompt), 0, round(sums.most_completion))) or 0
        text += f", {format_dollars(max_dollars)} at most"
    return f"{text}, at prices of {prices.on}, without cache hits"


def _lacking(card: Card, model: str) -> str:
    return f"the card {card.name} has no table [price]" if card.name else f"{model} has no card"


def money(seconds: Seconds, price: float | None) -> Rows:
    """Return a row with the cost of this time, if the `price` of an hour is known."""
    if price is None:
        return []
    low, high = (price * time / 3600 for time in seconds)
    return [("cost", f"{low:,.2f} to {high:,.2f} at {price:g} an hour")]


def problems_of(count: int, runs: int = 1) -> str:
    problems = f"{count} problem" if count == 1 else f"{count} problems"
    return problems if runs == 1 else f"{problems} in each of {runs} runs"


def tokens(n: float) -> str:
    return f"{n / 1e6:,.1f}M tokens" if n >= 1e6 else f"{n:,.0f} tokens"


def hours(seconds: Seconds) -> str:
    """Format the shortest and the longest time as a range of seconds, minutes or hours."""
    low, high = seconds
    if high >= 3600:
        return f"{between(low / 3600, high / 3600, 1)} hours"
    if high >= 60:
        return f"{between(low / 60, high / 60, 1)} minutes"
    return f"{between(low, high, 1)} seconds"


def between(low: float, high: float, digits: int) -> str:
    """Format a range of numbers, or one number if both ends look equal."""
    first = f"{low:,.{digits}f}"
    last = f"{high:,.{digits}f}"
    return first if first == last else f"{first} to {last}"
