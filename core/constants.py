"""The constants of an experiment: declared once, with default, range and meaning, beside the scaffold that they belong
to; read from the experiment's file, overridden for one run by NAME=value, checked when they are built.

A scaffold's constants are a frozen dataclass that derives from Constants, those that every experiment has:

    @dataclass(frozen=True, kw_only=True)
    class Constants(Carrying):
        N: int = constant(8, "population: solutions kept at every step", 1, 1024)
"""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Self, TypeVar, get_type_hints

from core.base.errors import UserError, one_line
from core.base.terminal import wrapped

A = TypeVar("A", bound="Asking")
C = TypeVar("C", bound="Constants")
# What stands before a command, not behind it (docs/engines.md): which server, and where things lie.
SETTINGS = ("API_KEY", "BASE_URL", "BIND", "DETERMINISTIC", "ENGINE", "GRADER_KEY", "GRADER_MODEL",
            "GRADER_URL", "KV", "MODEL", "PORT", "QED_NANO_REVISION", "RESULTS_DIR", "WEIGHTS_DIR")  # fmt: skip


@dataclass(frozen=True)
class Rule:
    """The values that a constant may have: its type with a range, or one of `choices`."""

    about: str
    type: type = int
    low: float = 0
    high: float = 1e9
    choices: tuple[str, ...] = ()
    free: bool = False

    def read(self, name: str, value: Any) -> Any:
        """Return `value` in the constant's type (text from the command line is converted). Raises UserError."""
        try:
            read = self.type(value)
            if isinstance(value, bool) or (read != value and not isinstance(value, str)):
                raise ValueError
        except (TypeError, ValueError, ArithmeticError):
            raise UserError(f"{name}={value!s:.40} is not {self.wanted()}") from None
        is_allowed = read in self.choices if self.choices else self.type is str or self.low <= read <= self.high
        if not is_allowed:
            raise UserError(f"{name}={value!s:.40} is out of range: {self.wanted()}")
        return read

    def span(self) -> str:
        """Return the choices or the range in words."""
        if self.type is str:
            return ", ".join(self.choices) or "text"
        low, high = (f"{end:,.0f}" if 1000 <= end < 1e12 else f"{end:g}" for end in (self.low, self.high))
        return f"{low} to {high}"

    def wanted(self) -> str:
        """Return the type and the range in words."""
        kind = {str: "one of", int: "a whole number from", float: "a number from"}[self.type]
        return f"{kind} {self.span()}"


def constant(
    default: Any, about: str, low: float = 0, high: float = 1e9, choices: tuple[str, ...] = (), free: bool = False
) -> Any:
    """Return a field of a class of constants: its default, its meaning and its range. A resumed run may change it if it
    is `free`: then no run is known by it (`identity`)."""
    rule = {"about": about, "low": low, "high": high, "choices": choices, "free": free}
    return field(default=default, metadata=rule)


@dataclass(frozen=True, kw_only=True)
class Part:
    """Constants that belong together. A class inherits the parts that it needs; --help lists those of the last base
    first."""

    # Constants that the class no longer has, with the only value that they could have. They stay in its identities, so
    # that earlier runs resume, until the end of issue 33.
    closed: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __post_init__(self) -> None:
        for name, rule in rules(type(self)).items():
            object.__setattr__(self, name, rule.read(name, getattr(self, name)))
        self.check()

    def check(self) -> None:
        """Raises UserError for constants that contradict each other."""


@dataclass(frozen=True, kw_only=True)
class Sampled(Part):
    """How a completion is drawn."""

    MAX_TOKENS: int = constant(16384, "cap of one completion, thinking included", 1, 1_000_000)
    TEMPERATURE: float = constant(0.7, "sampling temperature", 0, 5)
    TOP_P: float = constant(1.0, "nucleus sampling; 1 is off", 0.01, 1)
    TOP_K: int = constant(0, "most likely tokens kept; 0 is off", 0, 1_000_000)
    MIN_P: float = constant(0.0, "least share of the likeliest token's probability; 0 is off", 0, 1)
    SAMPLING: str = constant(
        "file", "where these four come from: the file, or the model's card", choices=("file", "card")
    )


@dataclass(frozen=True, kw_only=True)
class Forced(Part):
    """Budget forcing of an answer."""

    ANSWER_TOKENS: int = constant(512, "budget forcing: tokens for the answer at the cap; 0 is off", 0, 100_000)


@dataclass(frozen=True, kw_only=True)
class Waiting(Part):
    """Budget forcing of more thinking."""

    WAITS: int = constant(0, "times that thinking which ended before the cap goes on, at most; 0 is off", 0, 100)
    WAIT_WORD: str = constant("Wait", "what ended thinking goes on behind, with WAITS")


@dataclass(frozen=True, kw_only=True)
class OnProblems(Part):
    """The problem set. Both are free: a run is known by the hash of its problems."""

    PROBLEMS: str = constant(
        "auto", 'problem set: "auto" or "proofs" (the model\'s own), a name, hub:owner/name, or a file', free=True
    )
    LIMIT: int = constant(0, "first problems of the set only; 0 is all", 0, 1_000_000, free=True)


@dataclass(frozen=True, kw_only=True)
class Seeded(Part):
    """The seed of a run."""

    SEED: int = constant(0, "run seed: all randomness follows from it", 0, 2**63 - 1)


@dataclass(frozen=True, kw_only=True)
class Repeated(Part):
    """The number of runs."""

    RUNS: int = constant(1, "runs of the whole experiment; seeds are counted on from SEED", 1, 100)


@dataclass(frozen=True, kw_only=True)
class Served(Part):
    """Requests to a server."""

    CONCURRENCY: int = constant(0, "requests in flight; 0 asks the server", 0, 100_000, free=True)
    TIMEOUT: float = constant(3600.0, "seconds that one request may take", 1, 1_000_000, free=True)
    STALL_SECONDS: float = constant(
        300.0, "seconds that one request may be silent while it is served", 0.1, 1_000_000, free=True
    )


@dataclass(frozen=True, kw_only=True)
class Paid(Part):
    """The limit of what a run spends."""

    MAX_DOLLARS: float = constant(0.0, "dollars that the run may spend in all; 0 is no limit", 0, 1_000_000, free=True)


@dataclass(frozen=True, kw_only=True)
class Asking(Served, Seeded, Sampled):
    """The parts that every request to a model needs."""


@dataclass(frozen=True, kw_only=True)
class Constants(Paid, Asking, Served, Repeated, Seeded, OnProblems, Waiting, Forced, Sampled):
    """Those that every experiment has. Tokens are the server's, seconds wall-clock; 0 means off where it is allowed."""

    def runs(self) -> list[Self]:
        """Those of each run. Raises UserError where seeds counted on leave SEED's range."""
        return [replace(self, SEED=self.SEED + number, RUNS=1) for number in range(self.RUNS)]


@dataclass(frozen=True, kw_only=True)
class Carrying(Constants):
    """Of a scaffold that shows candidates to other requests."""

    CARRY: str = constant("answer", "what others see of a candidate", choices=("answer", "tail", "full"))
    CARRY_TOKENS: int = constant(4096, 'tokens carried with CARRY="tail"', 1, 1_000_000)


def rules(kind: type[Part]) -> dict[str, Rule]:
    """Return what each constant of `kind` may be, by name: the scaffold's own first, then those of the parts."""
    types, by_name = get_type_hints(kind), {each.name: each for each in fields(kind)}
    own = (each for each in kind.__mro__ if Part not in each.__bases__)
    ordered = dict.fromkeys([*(name for each in own for name in vars(each).get("__annotations__", ())), *by_name])
    return {name: Rule(type=types[name], **by_name[name].metadata) for name in ordered if name in by_name}


def identity(config: Part, kind: type[Part] | None = None) -> dict[str, Any]:
    """Return what a run is known by: the constants of `kind` (by default the config's own class) that are not free."""
    kind = kind or type(config)
    return {**kind.closed, **{name: getattr(config, name) for name, rule in rules(kind).items() if not rule.free}}


def check_subset(k: int, n: int) -> None:
    """Raises UserError where K solutions can't be drawn from N."""
    if k > n:
        raise UserError(f"K={k} is larger than N={n}: K solutions are drawn from N; lower K or raise N")


def read(kind: type[A], namespace: Mapping[str, Any], overrides: Sequence[str] = ()) -> A:
    """The constants of `kind`: the upper-case names of an experiment's file, the defaults of the others, and
    `overrides` like "N=16" on top; PROBLEMS may also come from the environment. Raises UserError."""
    known = rules(kind)
    values = _upper_case(namespace)
    if "PROBLEMS" in known and os.environ.get("PROBLEMS"):
        values["PROBLEMS"] = os.environ["PROBLEMS"]
    listing = _listing(known, values)
    if unknown := values.keys() - known.keys():
        raise UserError(f"the experiment's file has an unknown constant {min(unknown)!r:.60}. {listing}")
    given = dict(values)
    for override in overrides:
        name, equals, value = override.partition("=")
        if not equals:
            raise UserError(f"{override!r:.60} is not NAME=value. {listing}")
        if name not in known:
            if name in SETTINGS:
                shown = "…" if "KEY" in name else one_line(value, 60)
                raise UserError(f"{name} stands before the command: {name}={shown} bash scripts/run.sh …")
            raise UserError(f"unknown constant {name!r:.60}. {listing}")
        given[name] = value
    try:
        return kind(**given)
    except UserError as error:
        raise UserError(f"{error}. {listing}") from None


def of_command(kind: type[A], namespace: Mapping[str, Any], instead_of_problems: str = "", more_help: str = "") -> A:
    """Return the constants of an experiment that is run as a command, as `read` does, with NAME=value overrides from
    the command line; prints a note on constants in the environment, which are not read. `instead_of_problems`: why
    PROBLEMS=… is refused, if it is. With -h or --help it prints help, then `more_help`, and ends the process."""
    overrides = sys.argv[1:]
    if asks_for_help(overrides):
        print("\n\n".join(filter(None, (explained(kind, namespace), more_help))))
        raise SystemExit(0)
    if instead_of_problems and any(word.startswith("PROBLEMS=") for word in overrides):
        raise UserError(f"PROBLEMS says nothing here: {instead_of_problems}")
    given = {"PROBLEMS", *(override.partition("=")[0] for override in overrides)}
    if unread := [name for name in rules(kind) if name in os.environ and name not in given]:
        which = " ".join(f"{name}={one_line(os.environ[name], 40)}" for name in unread)
        print(
            f"note: {which} in the environment says nothing to a run; constants stand behind the experiment's name",
            file=sys.stderr,
        )
    return read(kind, namespace, overrides)


def asks_for_help(overrides: Sequence[str]) -> bool:
    return any(override in ("-h", "--help") for override in overrides)


def explained(kind: type[Part], namespace: Mapping[str, Any]) -> str:
    """The help of an experiment whose file's globals are `namespace`: what it is, and each of its constants with its
    value, meaning and range; those that the file sets first. As wide as the terminal."""
    known = rules(kind)
    values = {name: value for name, value in _upper_case(namespace).items() if name in known}
    defaults = {each.name: each.default for each in fields(kind) if each.name not in values}
    paragraphs = re.split(r"\n\s*\n|\n(?=[A-Z]\w+: )", str(namespace.get("__doc__") or "").strip())
    lines = [wrapped(" ".join(paragraph.split())) for paragraph in paragraphs]
    for heading, shown in (
        ("Constants that the file sets (NAME=value changes one for a run):", values),
        ("Others, with their defaults:", defaults),
    ):
        lines += ["", heading]
        widest = max((len(f"{name}={value}") for name, value in shown.items()), default=0)
        for name, value in shown.items():
            row = f"  {f'{name}={value}':{widest}}  {known[name].about} ({known[name].span()})"
            lines.append(wrapped(row, " " * (widest + 4)))
    return "\n".join(lines)


def _upper_case(namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The constants of a file. A scaffold has an upper-case name too, and is none."""
    names = (name for name in namespace if name.isupper() and not name.startswith("_"))
    return {name: namespace[name] for name in names if not is_dataclass(namespace[name])}


def _listing(known: Mapping[str, Rule], values: Mapping[str, Any]) -> str:
    """All constants: those of the file as they stand there, then the others."""
    shown = [f"{name}={value!s:.40}" for name, value in values.items() if name in known]
    return "Constants of this experiment: " + ", ".join([*shown, *(name for name in known if name not in values)])
