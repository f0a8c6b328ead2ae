"""Summarize the population of a step: accuracies, and figures after each number of waits."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

MemberRecord = Mapping[str, Any]


@dataclass(frozen=True)
class Sum:
    """A sum of tokens or dollars. `unknown` counts the completions that the sum lacks."""

    total: float = 0
    unknown: int = 0

    @classmethod
    def from_amounts(cls, amounts: Iterable[float | None]) -> "Sum":
        total: float = 0
        unknown = 0
        for amount in amounts:
            if amount is None:
                unknown += 1
            else:
                total += amount
        return cls(total, unknown)

    def __add__(self, other: "Sum") -> "Sum":
        return Sum(self.total + other.total, self.unknown + other.unknown)

    @property
    def value(self) -> float | None:
        """The sum of the known values, or None if it is 0 and some values are unknown."""
        return None if self.unknown and not self.total else self.total

    @property
    def dollars(self) -> float | None:
        if self.value is None:
            return None
        return round(self.value, 12)  # the order of the sum has no effect on these digits


@dataclass(frozen=True)
class AfterWaits:
    """A population after at most k waits: mean accuracy, members with k waits or more (k > 0), and
    tokens so far."""

    mean: float
    waited: int
    tokens: Sum


@dataclass(frozen=True)
class Population:
    """A population. `correct` counts the members with a grade of 1. `mean` and `majority` are nan
    without grades. `after` has an item for each number of waits."""

    size: int
    correct: int
    mean: float
    majority: float
    after: list[AfterWaits]

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Population":
        """Return the population of a record (harness/results/records.py)."""
        members = record["members"]
        mean = _number(record["mean_accuracy"])
        most_waits = max(len(_before_waits(member)) for member in members)
        after = []
        for waits in range(most_waits + 1):
            readings = [_reading(member, waits) for member in members]
            accuracy = _mean_grade(readings) if most_waits else mean
            waited = _count_waited(members, waits)
            after.append(AfterWaits(accuracy, waited, _tokens(members, readings)))
        correct = sum(member["correct"] is True for member in members)
        return cls(len(members), correct, mean, _number(record["majority_correct"]), after)

    def after_waits(self, waits: int) -> AfterWaits:
        """Return the figures after `waits` waits, or after all waits if there were fewer."""
        return self.after[min(waits, len(self.after) - 1)]


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _before_waits(member: MemberRecord) -> Sequence[MemberRecord]:
    readings: Sequence[MemberRecord] = member.get("before_waits", ())
    return readings


def _reading(member: MemberRecord, waits: int) -> MemberRecord:
    """Return a member's reading after `waits` waits. With fewer waits, it counts with its last
    reading."""
    before = _before_waits(member)
    return before[waits] if waits < len(before) else member


def _mean_grade(readings: Sequence[MemberRecord]) -> float:
    return float(np.mean([reading.get("grade", reading["correct"]) for reading in readings]))


def _count_waited(members: Sequence[MemberRecord], waits: int) -> int:
    if waits == 0:
        return 0
    return sum(len(_before_waits(member)) >= waits for member in members)


def _tokens(members: Sequence[MemberRecord], readings: Sequence[MemberRecord]) -> Sum:
    """Sum the tokens of new members. A carried-over member's were counted in its first
    population."""
    return Sum.from_amounts(
        reading["completion_tokens"]
        for member, reading in zip(members, readings, strict=True)
        if "carried_over" not in member
    )
