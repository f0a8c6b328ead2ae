"""Declare the constants of an experiment with their defaults, meanings and ranges, and check their
values.

Values come from the experiment's file. NAME=value overrides a value for one run. A scaffold's
constants are a class that derives from Constants:

    class Constants(Carrying):
        N: int = constant(8, "population: solutions kept at every step", 1, 1024)"""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from core.base.errors import UserError
from core.base.settings import advice_on, help_of

# Sampling parameters that no constant sets. Runs send neutral values to engines that know them.
PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")
# The ways to read answers (core/grading/text.py).
BOXED, TEXT, LAST_NUMBER, AUTO, WHOLE = WAYS = ("boxed", "text", "number", "auto", "whole")
A = TypeVar("A", bound="Asking")
C = TypeVar("C", bound="Constants")
SWEEP = "--sweep"  # an argument of run(): constants may be lists


@dataclass(frozen=True)
class Rule:
    """A rule for a constant's values: their type, and a range or a list of `choices`. `help` is
    the help text."""

    help: str
    type: type = int
    low: float = 0
    high: float = 1e9
    choices: tuple[str, ...] = ()
    free: bool = False

    def read(self, name: str, value: Any) -> Any:
        """Convert `value`, which may be text, to the constant's type. Raises UserError if the value
        is not allowed."""
        try:
            converted = self.type(value)
            is_valid = self._is_equal(converted, value) and self._allows(converted)
        except (TypeError, ValueError, ArithmeticError):
            is_valid = False
        if is_valid:
            return converted
        kinds = {int: "a whole number from ", float: "a number from ", str: ""}
        if self.choices:
            kinds[str] = "one of "
        raise UserError(f"{name}={value!s:.40} is not {kinds[self.type]}{self.span()}")

    def _is_equal(self, converted: Any, value: Any) -> bool:
        """Return whether the conversion has kept the value: it was text, or it equals the
        result."""
        if isinstance(value, bool):
            return False
        if isinstance(value, str):
            return True
        if self.type is str:
            return isinstance(value, (int, Path))  # SHOTS = 4
        return bool(converted == value)

    def _allows(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        return self.type is str or self.low <= value <= self.high

    def span(self) -> str:
        """Return the choices or the range as text, such as "1 to 100", or "text" for any text."""
        if self.type is str:
            return ", ".join(self.choices) or "text"
        return f"{_number(self.low)} to {_number(self.high)}"


def _number(value: float) -> str:
    if value == 2**63 - 1:
        return "2^63 - 1"
    if 1000 <= value < 1e12:
        return f"{value:,.0f}"
    return f"{value:g}"


def constant(
    default: Any,
    help: str,
    low: float = 0,
    high: float = 1e9,
    choices: tuple[str, ...] = (),
    free: bool = False,
) -> Any:
    """Declare a constant with its text `help`. A resumed run may change `free` constants (see
    `identity`)."""
    rule = Rule(help, type(default), low, high, choices, free)
    return field(default=default, metadata={"rule": rule})


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class ConstantGroup:
    """A group of constants. Subclasses become frozen dataclasses without a decorator, and inherit
    their groups. --help lists a class's own constants first, then its groups'."""

    # Removed constants with the value that they had. The identity has them, so that earlier runs
    # resume.
    closed: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __init_subclass__(cls) -> None:
        dataclass(frozen=True, kw_only=True)(cls)

    def __post_init__(self) -> None:
        for name, rule in rules(type(self)).items():
            object.__setattr__(self, name, rule.read(name, getattr(self, name)))
        self.check()

    def check(self) -> None:
        """Raise UserError if constants contradict each other."""

    @classmethod
    def words(cls) -> list[str]:
        """Return the NAME=value words that a lab puts before the words of the command line."""
        return []

    @classmethod
    def settings(cls) -> dict[str, str]:
        """Return the settings (SETTINGS) that a lab reads from other environment variables."""
        return {}


class Sampled(ConstantGroup):
    """The sampling parameters of a completion."""

    MAX_TOKENS: int = constant(
        16384, "most tokens of thinking and answer (a forced answer is extra)", 1, 1_000_000
    )
    TEMPERATURE: float = constant(0.7, "sampling temperature", 0, 5)
    TOP_P: float = constant(
        1.0, "nucleus sampling: share of the probability to sample from, or 1 for off", 0.01, 1
    )
    TOP_K: int = constant(
        0, "number of most likely tokens to sample from, or 0 for off", 0, 1_000_000
    )
    MIN_P: float = constant(
        0.0, "least probability of a token, relative to the likeliest token, or 0 for off", 0, 1
    )
    SAMPLING: str = constant(
        "file", "source of sampling parameters: the file or model card", choices=("file", "card")
    )


class Forced(ConstantGroup):
    """The constants for an answer that a reply lacks, because its thinking was cut off or because
    it states none."""

    ANSWER_TOKENS: int = constant(
        512,
        "budget forcing: most tokens of the answer if MAX_TOKENS cuts off the thinking, or 0 for "
        "off",
        0,
        100_000,
    )
    ELICIT: int = constant(
        0, "1: if a reply ends without a readable answer, continue it once with a box", 0, 1
    )


class Waiting(ConstantGroup):
    """The constants for making the model think longer."""

    WAITS: int = constant(
        0, "most times to continue thinking that ends before MAX_TOKENS, or 0 for off", 0, 100
    )
    WAIT_WORD: str = constant("Wait", "text that is appended to continue the thinking (see WAITS)")


class Framed(ConstantGroup):
    """The constants for the text around a problem, in requests to solve it or to aggregate
    candidates."""

    SHOTS: str = constant(
        "card",
        'worked examples: a number of ours up to 8, a file of problems, or "card" (its field)',
    )
    SYSTEM: str = constant("card", 'system message: a text, a file, or "card" (its field)')
    PROMPT: str = constant(
        "card", 'file with the prompt around {problem}, or "card" (its field, else ours)'
    )


class Reasoning(ConstantGroup):
    """The constants for how a model reasons."""

    EFFORT: str = constant(
        "card", 'how long the model reasons, such as low ("": not sent), or "card" (its field)'
    )
    TEMPLATE: str = constant(
        "card", 'arguments of the chat template: NAME=value, with spaces between, or "card"'
    )


class Answered(ConstantGroup):
    """The constant for how replies state their answers."""

    ANSWER: str = constant(
        "card",
        "form of answers that prompts ask for and grading reads: boxed, a sentence (text), the "
        "last number, a box or else a sentence (auto), the last box of the whole output with its "
        "thinking (whole), or the form in the model card (by default boxed)",
        choices=("card", *WAYS),
    )


class Shuffled(ConstantGroup):
    """The constant for the order of the options of multiple-choice problems."""

    SHUFFLE: int = constant(0, "1: show a problem's options in an order drawn from SEED", 0, 1)


class OnProblems(ConstantGroup):
    """The constants of the problem set. A resumed run may change both: the problems' texts identify
    it."""

    PROBLEMS: str = constant(
        "auto",
        'problem set: a name, hub:owner/name, gym:task, a file, or the model\'s default ("auto" or '
        '"proofs")',
        free=True,
    )
    LIMIT: int = constant(
        0, "use only the first LIMIT problems of the set (0: all)", 0, 1_000_000, free=True
    )


class Seeded(ConstantGroup):
    """The seed of a run."""

    SEED: int = constant(0, "seed of the run's random choices and requests", 0, 2**63 - 1)


class Repeated(ConstantGroup):
    """The number of runs, and the name of their results."""

    RUNS: int = constant(
        1, "number of runs of the whole experiment, with the seeds SEED, SEED + 1, …", 1, 100
    )
    OUT: str = constant(
        "", "name of the results and the journal (default: the experiment's name)", free=True
    )


class Served(ConstantGroup):
    """The constants of requests to a server."""

    CONCURRENCY: int = constant(
        0, "most requests in flight, or 0 for the server's limit", 0, 100_000, free=True
    )
    TIMEOUT: float = constant(
        3600.0, "most seconds for one try of a request", 1, 1_000_000, free=True
    )
    STALL_SECONDS: float = constant(
        300.0, "seconds without data before a retry", 0.1, 1_000_000, free=True
    )


class Paid(ConstantGroup):
    """The limit on the cost of all runs in the journal of an experiment."""

    MAX_DOLLARS: float = constant(
        0.0,
        "most dollars for all runs in this experiment's journal, or 0 for no limit",
        0,
        1_000_000,
        free=True,
    )


class Asking(Served, Seeded, Sampled):
    """The groups of constants that every request to a model needs."""


class Constants(
    Paid,
    Asking,
    Repeated,
    Seeded,
    OnProblems,
    Shuffled,
    Answered,
    Framed,
    Waiting,
    Forced,
    Reasoning,
    Sampled,
):
    """The constants of every scaffold. The server counts tokens. Seconds are wall-clock time."""

    def runs(self) -> list[Self]:
        """Return the constants of each run. Raises UserError if a run's seed is out of range."""
        return [replace(self, SEED=self.SEED + number, RUNS=1) for number in range(self.RUNS)]


class Carrying(Constants):
    """The constants of a scaffold whose prompts contain candidates."""

    CARRY: str = constant(
        "answer", "part of a candidate that later prompts show", choices=("answer", "tail", "full")
    )
    CARRY_TOKENS: int = constant(
        4096, 'number of last tokens that later prompts show if CARRY="tail"', 1, 1_000_000
    )

    def check(self) -> None:
        """Raise UserError if K is larger than N, because a prompt shows K of N solutions."""
        super().check()
        k = getattr(self, "K", 1)
        n = getattr(self, "N", math.inf)
        if k > n:
            raise UserError(f"K={k} is larger than N={n}. Lower K or raise N")


def rules(kind: type[ConstantGroup]) -> dict[str, Rule]:
    """Return the rules of `kind`'s constants by name. The scaffold's own constants precede the
    groups' constants."""
    by_name = {field.name: field.metadata["rule"] for field in fields(kind)}
    names: list[str] = []
    for base in kind.__mro__:
        if ConstantGroup not in base.__bases__:  # the groups' constants come last
            names += vars(base).get("__annotations__", ())
    names += by_name
    return {name: by_name[name] for name in dict.fromkeys(names) if name in by_name}


# Constants of a run's problems, answers, seeds and cost. serve_rsa.sh does not take them.
_OF_RUNS = (OnProblems, Shuffled, Answered, Framed, Seeded, Repeated, Paid)
OF_RUNS = frozenset(name for group in _OF_RUNS for name in rules(group))


def identity(config: ConstantGroup, kind: type[ConstantGroup] | None = None) -> dict[str, Any]:
    """Return the constants that identify a run: removed ones too, no free ones. `kind` defaults to
    `config`'s class."""
    kind = kind or type(config)
    identity = dict(kind.closed)
    for name, rule in rules(kind).items():
        if not rule.free:
            identity[name] = getattr(config, name)
    return identity


def read(
    kind: type[A],
    namespace: Mapping[str, Any],
    overrides: Sequence[str] = (),
    help_command: str = "",
) -> A:
    """Build constants from the upper-case names in an experiment's file. `overrides` such as "N=16"
    replace values. The environment may also set PROBLEMS. Raises UserError for an unknown name or
    an invalid value. The message names the `help_command` (default: the experiment's --help)."""
    declared = rules(kind)
    values = constants_in(namespace)
    pointer = f"All constants: {help_command or help_of(namespace)}"
    words = [*kind.words(), *overrides]
    if "PROBLEMS" in declared and os.environ.get("PROBLEMS"):
        values["PROBLEMS"] = os.environ["PROBLEMS"]
    unknown = [name for name in values if name not in declared]
    if unknown:
        listed = ", ".join(f"{name!r:.60}" for name in unknown)
        advice = "".join(advice_on(name, declared, str(values[name])) for name in unknown)
        raise UserError(f"the experiment's file has unknown constants: {listed}. {advice}{pointer}")
    for i, word in enumerate(words):
        name, equals, value = word.partition("=")
        if word == SWEEP:
            raise UserError(
                "sweep.sh takes an experiment with a single scaffold, such as 02_rsa_basic"
            )
        if not equals:
            following = words[i + 1] if i + 1 < len(words) else ""
            advice = advice_on(name, declared, following)
            raise UserError(f"{word!r:.60} is not NAME=value. {advice}{pointer}")
        if name not in declared:
            raise UserError(
                f"unknown constant {name!r:.60}. {advice_on(name, declared, value)}{pointer}"
            )
        values[name] = value
    try:
        return kind(**values)
    except UserError as error:
        raise UserError(f"{error}. {pointer}") from None


def constants_in(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constants of a file by name. The scaffold has an upper-case name too, but is not a
    constant."""
    names = [name for name in namespace if name.isupper() and not name.startswith("_")]
    return {name: namespace[name] for name in names if not is_dataclass(namespace[name])}
