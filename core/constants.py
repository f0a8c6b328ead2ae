"""Declare the constants of an experiment with their defaults, meanings and ranges, and check their
values.

Values come from the experiment's file. NAME=value overrides a value for one run. A scaffold's
constants are a class that derives from Constants:

    class Constants(Carrying):
        N: int = constant(8, "population: solutions kept at every step", 1, 1024)"""

import difflib
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform

from core.base.errors import UserError, one_line
from core.base.files import ROOT
from core.base.terminal import say, wrapped

# Sampling parameters of servers that no constant sets. Runs send neutral values to engines that
# know them.
PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")
# The ways to read answers (core/grading/text.py).
BOXED, TEXT, LAST_NUMBER, AUTO, WHOLE = WAYS = ("boxed", "text", "number", "auto", "whole")
A = TypeVar("A", bound="Asking")
C = TypeVar("C", bound="Constants")
SWEEP = "--sweep"  # an argument of run(): constants may be lists
# Settings of servers and folders (docs/engines.md). They are environment variables and precede a
# command.
SETTINGS = ("API_KEY", "BASE_URL", "BIND", "DETERMINISTIC", "EFFORT", "ENGINE", "EXACT", (
    "GRADER_KEY"
), (
    "GRADER_MODEL"
),
            "GRADER_URL", "KV", "MODEL", "PORT", "RESULTS_DIR", "REVISION", "TP", "WEIGHTS_DIR")  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """A rule for a constant's values: their type, and a range or a list of `choices`. `about` is
    the help text."""

    about: str
    type: type = int
    low: float = 0
    high: float = 1e9
    choices: tuple[str, ...] = ()
    free: bool = False

    def read(self, name: str, value: Any) -> Any:
        """Convert `value`, which may be text, to the constant's type. Raises UserError if the value
        is not allowed."""
        try:
            read = self.type(value)
            # SHOTS = 4
            is_text = isinstance(value, str) or (
                self.type is str and isinstance(value, (int, Path))
            )
            is_same = (is_text or read == value) and not isinstance(value, bool)
            is_allowed = (
                read in self.choices
                if self.choices
                else self.type is str or self.low <= read <= self.high
            )
        except (TypeError, ValueError, ArithmeticError):
            is_same = False
        if is_same and is_allowed:
            return read
        kind = {
            str: "one of " if self.choices else "",
            int: "a whole number from ",
            float: "a number from ",
        }[self.type]
        raise UserError(f"{name}={value!s:.40} is not {kind}{self.span()}")

    def span(self) -> str:
        """Return the choices or the range as text, such as "1 to 100", or "text" for any text."""
        if self.type is str:
            return ", ".join(self.choices) or "text"
        low, high = (
            f"{end:,.0f}" if 1000 <= end < 1e12 else f"{end:g}" for end in (self.low, self.high)
        )
        return f"{low} to {'2^63 - 1' if self.high == 2**63 - 1 else high}"


def constant(
    default: Any,
    about: str,
    low: float = 0,
    high: float = 1e9,
    choices: tuple[str, ...] = (),
    free: bool = False,
) -> Any:
    """Declare a constant with its help text `about`. A resumed run may change `free` constants (see
    `identity`)."""
    return field(
        default=default, metadata={"rule": Rule(about, type(default), low, high, choices, free)}
    )


@dataclass_transform(frozen_default=True, kw_only_default=True)
@dataclass(frozen=True, kw_only=True)
class Part:
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


class Sampled(Part):
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


class Forced(Part):
    """The constants for an answer that a reply lacks, because its thinking was cut off or because
    it states none."""

    ANSWER_TOKENS: int = constant(
        512,
        (
            "budget forcing: most tokens of the answer if MAX_TOKENS cuts off the thinking, or 0 "
            "for off"
        ),
        0,
        100_000,
    )
    ELICIT: int = constant(
        0, "1: if a reply ends without a readable answer, continue it once with a box", 0, 1
    )


class Waiting(Part):
    """The constants for making the model think longer."""

    WAITS: int = constant(
        0, "most times to continue thinking that ends before MAX_TOKENS, or 0 for off", 0, 100
    )
    WAIT_WORD: str = constant("Wait", "text that is appended to continue the thinking (see WAITS)")


class Framed(Part):
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


class Answered(Part):
    """The constant for how replies state their answers."""

    ANSWER: str = constant(
        "card",
        "form of answers that prompts ask for and grading reads: boxed, a sentence (text), the "
        "last number, a box or else a sentence (auto), the last box of the whole output with its "
        "thinking (whole), or the form in the model card (by default boxed)",
        choices=("card", *WAYS),
    )


class OnProblems(Part):
    """The constants of the problem set. A resumed run may change both: the problems' texts identify
    it."""

    PROBLEMS: str = constant(
        "auto",
        'problem set: a name, hub:owner/name, a file, or the model\'s default ("auto" or "proofs")',
        free=True,
    )
    LIMIT: int = constant(
        0, "use only the first LIMIT problems of the set (0: all)", 0, 1_000_000, free=True
    )


class Seeded(Part):
    """The seed of a run."""

    SEED: int = constant(0, "seed of the run's random choices and requests", 0, 2**63 - 1)


class Repeated(Part):
    """The number of runs, and the name of their results."""

    RUNS: int = constant(
        1, "number of runs of the whole experiment, with the seeds SEED, SEED + 1, …", 1, 100
    )
    OUT: str = constant(
        "", "name of the results and the journal (default: the experiment's name)", free=True
    )


class Served(Part):
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


class Paid(Part):
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
    Paid, Asking, Served, Repeated, Seeded, OnProblems, Answered, Framed, Waiting, Forced, Sampled
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
        k, n = getattr(self, "K", 1), getattr(self, "N", math.inf)
        if k > n:
            raise UserError(f"K={k} is larger than N={n}. Lower K or raise N")


def rules(kind: type[Part]) -> dict[str, Rule]:
    """Return the rules of `kind`'s constants by name. The scaffold's own constants precede the
    groups' constants."""
    by_name = {each.name: each.metadata["rule"] for each in fields(kind)}
    own = (each for each in kind.__mro__ if Part not in each.__bases__)
    ordered = dict.fromkeys(
        [*(name for each in own for name in vars(each).get("__annotations__", ())), *by_name]
    )
    return {name: by_name[name] for name in ordered if name in by_name}


# Constants of a run's problems, answers, seeds and cost. They are not constants of a request to
# serve_rsa.sh.
OF_RUNS = frozenset(
    name for part in (OnProblems, Answered, Framed, Seeded, Repeated, Paid) for name in rules(part)
)


def identity(config: Part, kind: type[Part] | None = None) -> dict[str, Any]:
    """Return the constants that identify a run: removed ones too, no free ones. `kind` defaults to
    `config`'s class."""
    kind = kind or type(config)
    return {
        **kind.closed,
        **{name: getattr(config, name) for name, rule in rules(kind).items() if not rule.free},
    }


def listed(name: str, value: str, known: Sequence[str]) -> list[str]:
    """Split the `value` of the constant `name` at commas, or return all `known` names for "all".
    Raises UserError."""
    names = list(known) if value == "all" else [each.strip() for each in value.split(",")]
    if unknown := [each for each in names if each not in known]:
        raise UserError(
            f"{name} names {unknown[0]!r:.40}. Give one or several of {', '.join(known)}, or all"
        )
    return names


def read(kind: type[A], namespace: Mapping[str, Any], overrides: Sequence[str] = ()) -> A:
    """Build constants from the upper-case names in an experiment's file. `overrides` such as "N=16"
    replace values. The environment may also set PROBLEMS. Raises UserError for an unknown name or
    an invalid value."""
    known, values, file = rules(kind), _upper_case(namespace), Path(namespace.get("__file__", ""))
    command = f"bash scripts/run.sh {file.stem} " if file.parent == ROOT / "experiments" else ""
    pointer = f"All constants: {command}--help"
    overrides = [*kind.words(), *overrides]
    if "PROBLEMS" in known and os.environ.get("PROBLEMS"):
        values["PROBLEMS"] = os.environ["PROBLEMS"]
    if unknown := values.keys() - known.keys():
        raise UserError(
            f"the experiment's file has an unknown constant {min(unknown)!r:.60}. {pointer}"
        )
    for place, override in enumerate(overrides):
        name, equals, value = override.partition("=")
        if override == SWEEP:
            raise UserError(
                "sweep.sh takes an experiment with a single scaffold, such as 02_rsa_basic"
            )
        if not equals:
            meant = _meant(name, known, "".join(overrides[place + 1 : place + 2]))
            raise UserError(f"{override!r:.60} is not NAME=value. {meant}{pointer}")
        if name not in known:
            raise UserError(f"unknown constant {name!r:.60}. {_meant(name, known, value)}{pointer}")
        values[name] = value
    try:
        return kind(**values)
    except UserError as error:
        raise UserError(f"{error}. {pointer}") from None


def of_command(kind: type[A], namespace: Mapping[str, Any], more_help: str = "") -> A:
    """Read an experiment's constants from its file and the command line. A note names ignored
    environment variables. With --help, print the help and `more_help`, and end the process."""
    overrides = sys.argv[1:]
    if asks_for_help(overrides):
        print("\n\n".join(filter(None, (explained(kind, namespace), more_help))))
        raise SystemExit(0)
    given = {"PROBLEMS", *(override.partition("=")[0] for override in (*kind.words(), *overrides))}
    if unread := [name for name in rules(kind) if name in os.environ and name not in given]:
        which = " ".join(f"{name}={one_line(os.environ[name], 40)}" for name in unread)
        say(
            (
                f"note: {which} in the environment has no effect. Put constants after the "
                "experiment's name"
            ),
            sys.stderr,
        )
    return read(kind, namespace, overrides)


def asks_for_help(overrides: Sequence[str]) -> bool:
    return any(override in ("-h", "--help") for override in overrides)


def explained(kind: type[Part], namespace: Mapping[str, Any]) -> str:
    """Return an experiment's help, wrapped to the terminal's width. `namespace` has the globals of
    its file."""
    known = rules(kind)
    values = {name: value for name, value in _upper_case(namespace).items() if name in known}
    defaults = {each.name: each.default for each in fields(kind) if each.name not in values}
    paragraphs = re.split(r"\n\s*\n|\n(?=[A-Z]\w+: )", str(namespace.get("__doc__") or "").strip())
    lines = [wrapped(" ".join(paragraph.split())) for paragraph in paragraphs]
    for heading, shown in (
        ("Constants that the file sets (NAME=value changes one for a run):", values),
        (
            "Other constants, with their defaults:"
            if values
            else "Constants (NAME=value changes one):",
            defaults,
        ),
    ):
        lines += ["", heading] if shown else []
        widest = max((len(f"{name}={value}") for name, value in shown.items()), default=0)
        for name, value in shown.items():
            row = f"  {f'{name}={value}':{widest}}  {known[name].about} ({known[name].span()})"
            lines.append(wrapped(row, " " * (widest + 4)))
    return "\n".join(lines)


def _meant(name: str, known: Mapping[str, Rule], value: str) -> str:
    """Return "Did you mean N=4? " if `name` resembles a constant, advice if it is a setting such as
    --model, or ""."""
    plain = name.lstrip("-").replace("-", "_").upper()
    value = one_line(value.lstrip("= "), 40) or "…"
    if plain in SETTINGS and plain not in known:
        return f"Put the setting {plain}={'…' if 'KEY' in plain else value} before the command. "
    starts = [each for each in known if plain and each.startswith(plain)]
    close = (
        starts
        if len(starts) == 1 or plain in known
        else difflib.get_close_matches(plain, known, 1, 0.86)
    )
    return f"Did you mean {plain if plain in known else close[0]}={value}? " if close else ""


def _upper_case(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Return the constants of a file by name. The scaffold has an upper-case name too, but is not a
    constant."""
    names = (name for name in namespace if name.isupper() and not name.startswith("_"))
    return {name: namespace[name] for name in names if not is_dataclass(namespace[name])}
