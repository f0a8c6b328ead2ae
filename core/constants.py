"""The constants of an experiment: read from its file, overridden for one run by NAME=value, checked when built."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import UserError


@dataclass(frozen=True)
class Rule:
    """What a constant may be: its type with a range, or one of `choices`."""

    about: str
    type: type = int
    low: float = 0
    high: float = 1e9
    choices: tuple[str, ...] = ()

    def read(self, name: str, value: Any) -> Any:
        """`value` in the constant's type (text from the command line is converted). Raises UserError."""
        try:
            if self.type is str:
                if not isinstance(value, str):
                    raise ValueError
                read: Any = value
            elif isinstance(value, bool):
                raise ValueError
            elif self.type is int:
                read = int(value) if isinstance(value, (int, str)) else _whole(value)
            else:
                read = float(value)
        except (TypeError, ValueError, ArithmeticError):
            raise UserError(f"{name}={_shown(value)} is not {self.wanted()}") from None
        is_allowed = read in self.choices if self.choices else self.type is str or self.low <= read <= self.high
        if not is_allowed:
            raise UserError(f"{name}={_shown(value)} is out of range: {self.wanted()}")
        return read

    def wanted(self) -> str:
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.type is str:
            return "a text"
        return f"{'a whole number' if self.type is int else 'a number'} from {self.low:g} to {self.high:g}"


def _whole(value: float) -> int:
    if value != int(value):
        raise ValueError
    return int(value)


# Every constant an experiment may have. Tokens are the server's, seconds wall-clock; 0 means off where it is allowed.
RULES = {
    "N": Rule("population: solutions kept at every step", int, 1, 1024),
    "K": Rule("subset: solutions that one aggregation sees", int, 1, 1024),
    "T": Rule("aggregation steps after step 0", int, 0, 1000),
    "MAX_TOKENS": Rule("cap of one completion, thinking included", int, 1, 1_000_000),
    "TEMPERATURE": Rule("sampling temperature", float, 0, 5),
    "TOP_P": Rule("nucleus sampling; 1 is off", float, 0.01, 1),
    "TOP_K": Rule("most likely tokens kept; 0 is off", int, 0, 1_000_000),
    "MIN_P": Rule("least share of the likeliest token's probability; 0 is off", float, 0, 1),
    "ANSWER_TOKENS": Rule("budget forcing: tokens for the answer at the cap; 0 is off", int, 0, 100_000),
    "CARRY": Rule("what aggregation sees of a candidate", str, choices=("answer", "tail", "full")),
    "CARRY_TOKENS": Rule('tokens carried with CARRY="tail"', int, 1, 1_000_000),
    "ORDER": Rule("order in which aggregation shows candidates", str, choices=("random", "shared")),
    "VERIFY_MODE": Rule("how a candidate is verified", str, choices=("verdict", "p_true")),
    "VERIFY_TOKENS": Rule("cap of one verification, thinking included", int, 1, 1_000_000),
    "VERIFY_SAMPLES": Rule("verdicts per candidate, averaged", int, 1, 64),
    "TAU": Rule("temperature of Boltzmann selection: small is greedy, large uniform", float, 0.001, 1000),
    "STOP_WHEN_UNANIMOUS": Rule("1: a problem ends when all its members give the same answer; 0 is off", int, 0, 1),
    "STOP_CONFIDENCE": Rule(
        "a problem ends when the leading answer holds a majority this surely; 0 is off", float, 0, 1
    ),
    "SELECT_TOKENS": Rule("cap of one selection between two candidates, thinking included", int, 1, 1_000_000),
    "CALLS": Rule("calls of tools that a planner may make; its own requests are not counted", int, 1, 1000),
    "PLAN_TOKENS": Rule("cap of one request of a planner, thinking included", int, 1, 1_000_000),
    "ROUNDS": Rule("rounds of a scaffold, as its experiment says", int, 0, 1000),
    "MINUTES": Rule("time box of a scaffold; 0 is no clock", float, 0, 1_000_000),
    "KEEP": Rule("best candidates that a round refines", int, 1, 1024),
    "REVIEWS": Rule("reviews of a candidate that its refinement is shown", int, 1, 64),
    "REFINEMENTS": Rule("refinements of each of the best candidates, with other reviews each", int, 1, 64),
    "PERFECT": Rule("perfect scores that suffice", int, 1, 1024),
    "STAGE": Rule("samples by which a population of majority voting outgrows the one before, at most", int, 1, 1024),
    "CLASSIFY": Rule("1: one more request says whether a review accepts; 0: the review's own verdict does", int, 0, 1),
    "PASSES": Rule("verifications passed in a row that accept a solution", int, 1, 1000),
    "FAILURES": Rule("verifications failed in a row that end the attempt", int, 1, 1000),
    "SUMMARY_TOKENS": Rule("cap of one summary, thinking included", int, 1, 1_000_000),
    "PROBLEMS": Rule('problem set: "auto", a name, or the path of a .json or .jsonl file', str),
    "LIMIT": Rule("first problems of the set only; 0 is all", int, 0, 1_000_000),
    "SEED": Rule("run seed: all randomness follows from it", int, 0, 2**63 - 1),
    "CONCURRENCY": Rule("requests in flight; 0 asks the server", int, 0, 100_000),
    "TIMEOUT": Rule("seconds that one request may take", float, 1, 1_000_000),
    "STALL_SECONDS": Rule("seconds that one request may be silent while it is served", float, 0.1, 1_000_000),
}

# Constants that every experiment has.
SAMPLING = ("MAX_TOKENS", "TEMPERATURE", "TOP_P", "TOP_K", "MIN_P", "ANSWER_TOKENS")
COMMON = (*SAMPLING, "PROBLEMS", "LIMIT", "SEED", "CONCURRENCY", "TIMEOUT", "STALL_SECONDS")


class Config(Mapping[str, Any]):
    """The checked constants of one run: config.N, config["N"]; dict(config) goes into the results."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            if name not in RULES:
                raise UserError(f"unknown constant {name}: each has its rule in core/constants.py")
            self.__dict__[name] = RULES[name].read(name, value)
        if "K" in self and "N" in self and self["K"] > self["N"]:
            raise UserError(
                f"K={self['K']} is larger than N={self['N']}: K solutions are drawn from N; lower K or raise N"
            )
        if "CALLS" in self and self.get("K", 2) < 2:
            raise UserError("K=1 leaves the planner nothing to select or merge; raise K")
        if self.get("REVIEWS", 0) > self.get("VERIFY_SAMPLES", math.inf):
            raise UserError(
                f"REVIEWS={self['REVIEWS']} is larger than VERIFY_SAMPLES={self['VERIFY_SAMPLES']}, the reviews that a "
                "candidate has; lower REVIEWS or raise VERIFY_SAMPLES"
            )
        if self.get("MINUTES") and self.get("ROUNDS") == 0:
            raise UserError(
                f"MINUTES={self['MINUTES']:g} bounds no waves where ROUNDS=0; raise ROUNDS or set MINUTES=0"
            )

    def __getattr__(self, name: str) -> Any:
        raise UserError(f"this experiment needs the constant {name}: {RULES[name].about if name in RULES else '?'}")

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __len__(self) -> int:
        return len(self.__dict__)


def read(namespace: Mapping[str, Any], overrides: Sequence[str], needed: Sequence[str] = ()) -> Config:
    """The upper-case names of an experiment file, with `overrides` like "N=16" on top; PROBLEMS may also come from the
    environment. Raises UserError, also where one of the `needed` names is missing."""
    values = {name: value for name, value in namespace.items() if name.isupper() and not name.startswith("_")}
    for name in needed:
        if name not in values:
            raise UserError(f"the experiment file lacks the constant {name} ({RULES[name].about}). {_listing(values)}")
    if "PROBLEMS" in values and os.environ.get("PROBLEMS"):
        values["PROBLEMS"] = os.environ["PROBLEMS"]
    given = dict(values)
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals:
            raise UserError(f"{override!r:.60} is no NAME=value. {_listing(values)}")
        if name not in values:
            raise UserError(f"unknown constant {name!r:.60}. {_listing(values)}")
        given[name] = value
    try:
        return Config(given)
    except UserError as error:
        raise UserError(f"{error}. {_listing(values)}") from None


def _listing(values: Mapping[str, Any]) -> str:
    return "Constants of this experiment: " + ", ".join(f"{n}={_shown(values[n])}" for n in values if n in RULES)


def _shown(value: Any) -> str:
    try:
        return f"{value!s:.40}"
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "a huge number"
