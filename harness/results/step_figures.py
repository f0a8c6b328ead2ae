"""Count the replies and costs of a step, and compute its accuracies over problems."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from core.base import stats
from core.base.prices import Prices
from core.eval import pass_at_k
from harness.results.model import COUNTS, SELDOM
from harness.results.over_runs import Values, merged, over_runs, rate
from harness.results.populations import MemberRecord, Population, Sum

PASS_AT = range(1, 9)
TOKENS = ("prompt", "cached", "completion")

# The prices of the model ("") and of the second model (types.SCORER)
PricesBy = Mapping[str, Prices | None]

_pass_at_k = cache(pass_at_k)


class StepCounts:
    """The counts and sums of one step, over all problems."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.sums: defaultdict[str, Sum] = defaultdict(Sum)  # tokens and cost
        self.seconds = 0.0
        self.stages: Counter[str] = Counter()  # the scaffold's names of the step

    def add(
        self, record: Mapping[str, Any], side_calls: Sequence[MemberRecord], prices: PricesBy
    ) -> None:
        """Add a problem's record of this step, whose members have these `side_calls`."""
        members = record["members"]
        if "stage" in record:
            self.stages[record["stage"]] += 1
        self.counts.update(completions=len(members), problems=1)
        for name in ("identical", "undecided_pairs"):
            self.counts[name] += record.get(name, 0)
        for name, is_counted in (COUNTS | SELDOM).items():
            self.counts[name] += sum(map(is_counted, members))
        self._add_costs(members, side_calls, prices)

    def _add_costs(
        self,
        members: Sequence[MemberRecord],
        side_calls: Sequence[MemberRecord],
        prices: PricesBy,
    ) -> None:
        calls = [*members, *side_calls]
        self.seconds += sum(call["seconds"] for call in calls)
        self._add_sum("completion_tokens", (call["completion_tokens"] for call in members))
        self._add_sum("verification_tokens", (call["completion_tokens"] for call in side_calls))
        add_costs(self.sums, calls, prices)

    def _add_sum(self, name: str, amounts: Iterable[float | None]) -> None:
        self.sums[name] += Sum.from_amounts(amounts)

    @property
    def stage(self) -> str:
        """The commonest name of the step, with "…" if it has other names, or "" without a name."""
        name = commonest(self.stages) or ""
        return f"{name} …" if len(self.stages) > 1 else name

    def fields(self, has_prices: bool) -> dict[str, Any]:
        """Return the fields of the step's metrics that are sums and counts."""
        fields: dict[str, Any] = {}
        for name in ("completion_tokens", "verification_tokens"):
            fields[name] = self.sums[name].value
        if has_prices:
            fields["cost"] = self.sums["cost"].dollars
        fields["generation_seconds"] = round(self.seconds, 1)
        for name in ("completions", "problems", *COUNTS, "identical"):
            fields[name] = self.counts[name]
        for name in (*SELDOM, "undecided_pairs"):
            if self.counts[name]:
                fields[name] = self.counts[name]
        if uncounted := self.sums["completion"].unknown:
            fields["uncounted"] = uncounted
        return fields


def commonest(counts: Counter[str]) -> str | None:
    """Return the commonest text, or None without any. Ties are broken alphabetically, so that the
    order of arrival has no effect."""
    return min(counts, key=lambda text: (-counts[text], text), default=None)


def add_costs(
    sums: MutableMapping[str, Sum], calls: Sequence[MemberRecord], prices: PricesBy
) -> None:
    """Add the tokens of the completions `calls` to `sums`. Add dollars too, if the model of a
    completion has prices."""
    for kind in TOKENS:
        sums[kind] += Sum.from_amounts(call[f"{kind}_tokens"] for call in calls)
    sums["cost"] += Sum.from_amounts(_dollars(calls, prices))


def _dollars(calls: Sequence[MemberRecord], prices: PricesBy) -> list[float | None]:
    """Return the dollars of the completions whose model has prices."""
    amounts: list[float | None] = []
    for call in calls:
        prices_of_model = prices[call.get("by", "")]
        if prices_of_model:
            counted = (call["prompt_tokens"], call["cached_tokens"], call["completion_tokens"])
            amounts.append(prices_of_model.dollars(counted))
    return amounts


class Accuracies:
    """The accuracies of a step, from the `populations` of its problems. The runs of a problem
    follow each other, and `by` selects how these `runs` are merged."""

    def __init__(self, populations: Sequence[Population], runs: int, by: str) -> None:
        self._populations = populations
        self._runs = runs
        self._by = by

    def fields(self) -> dict[str, Any]:
        """Return the fields of the step's metrics that are accuracies."""
        tables = {
            "mean_accuracy": self._table(lambda population: population.mean),
            "majority_accuracy": self._table(lambda population: population.majority),
        }
        fields: dict[str, Any] = {}
        runs = {}
        for name, table in tables.items():
            fields[name] = rate(table, self._by)
            runs[name] = over_runs(table)
        if all(runs.values()):
            fields["runs"] = runs
        is_graded = not np.isnan(tables["mean_accuracy"]).any()
        fields["pass_at_k"] = self._pass_at_k() if is_graded else {}
        return fields

    def _pass_at_k(self) -> dict[str, Any]:
        smallest = min(population.size for population in self._populations)
        rates = {}
        for k in PASS_AT:
            if k <= smallest:
                rates[str(k)] = rate(self._table(_passing(k)), self._by)
        return rates

    def after_waits(self, waits: int, reached: Sequence[Population]) -> dict[str, Any]:
        """Return the figures after `waits` waits. Waits and tokens are counted in the populations
        of the problems that `reached` this step."""
        after = self._mean_after(waits)
        waited = 0
        tokens = Sum()
        for population in reached:
            tokens += population.after_waits(waits).tokens
            if len(population.after) > waits:
                waited += population.after[waits].waited
        fields: dict[str, Any] = {
            "waits": waits,
            "waited": waited,
            "mean_accuracy": rate(after, self._by),
        }
        if waits:
            fields["gain"] = self._gain(self._mean_after(0), after)
        fields["completion_tokens"] = tokens.value
        return fields

    def _gain(self, before: Values, after: Values) -> dict[str, Any]:
        gain = stats.paired(merged(before, self._by), merged(after, self._by))
        return {"value": gain.difference, "low": gain.low, "high": gain.high, "n": gain.n}

    def _mean_after(self, waits: int) -> Values:
        return self._table(lambda population: population.after_waits(waits).mean)

    def _table(self, value: Callable[[Population], float]) -> Values:
        """Return a row for each problem and a column for each run."""
        return np.array([value(p) for p in self._populations]).reshape(-1, self._runs)


def _passing(k: int) -> Callable[[Population], float]:
    return lambda population: _pass_at_k(population.size, population.correct, k)
