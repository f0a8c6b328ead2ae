"""Make problem sets with Reasoning Gym. An address such as
gym:chain_sum+simple_equations:size=100,seed=7,min_terms=3 names tasks and their parameters.

Each task gets `size` problems (100), drawn with `seed` (0) as the package does: problem i has the
seed `seed` + i, so that sets with neighbouring seeds share problems. Another parameter goes to the
tasks that have it. A list is written [+,-]. The tasks take turns, so that the first LIMIT problems
are from all of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from core.base.errors import UserError
from core.base.settings import similar
from core.grading.kinds.task import Task, meant, reference
from core.grading.task_process import entries, package_version, tasks
from core.types import Problem

PREFIX = "gym:"
SIZE = 100
MOST = 100_000  # problems of a task
LIMITS = {"size": (1, MOST), "seed": (0, 2**32 - MOST)}  # of every task
SOURCE = "Reasoning Gym"
LICENCE = "Apache-2.0"
_COMMAS = re.compile(r",(?![^\[]*\])")  # outside of lists
_WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    list: "a list like [1,2]",
}

Parameters = dict[str, Any]


@dataclass(frozen=True)
class Address:
    """The tasks and parameters of an address."""

    text: str
    names: tuple[str, ...]
    parameters: Parameters


def problems_of(text: str) -> tuple[Problem, ...]:
    """Make the problems at an address. Raises UserError for an invalid address, or if a task can't
    make problems with its parameters."""
    address = _address(text)
    size = address.parameters.pop("size", SIZE)
    seed = address.parameters.pop("seed", 0)
    by_task = {name: _problems(name, _of_task(address, name), size, seed) for name in address.names}
    return tuple(problem for turn in zip(*by_task.values(), strict=True) for problem in turn)


def version() -> str:
    """Return the version of the package that makes the problems."""
    return package_version()


def _problems(name: str, parameters: Parameters, size: int, seed: int) -> list[Problem]:
    drawn = entries(name, {**parameters, "size": size, "seed": seed}, size)
    return [
        Problem(
            f"{name}-{index}",
            entry["question"].strip(),
            reference(entry),
            Task.name,
            split=name,
            details=_details(name, parameters, entry),
        )
        for index, entry in enumerate(drawn)
    ]


def _details(name: str, parameters: Parameters, entry: Mapping[str, Any]) -> dict[str, Any]:
    details: dict[str, Any] = {"scorer": name, "entry": entry}
    if parameters:
        details["parameters"] = parameters
    return details


# --- the address ---


def _address(text: str) -> Address:
    """Read an address. Raises UserError."""
    named, _, words = text.removeprefix(PREFIX).partition(":")
    names = tuple(dict.fromkeys(name.strip() for name in named.split("+")))
    for name in names:
        if name not in tasks():
            raise UserError(
                f"Reasoning Gym has no task {name!r:.80}. {meant(name)}docs/files.md lists all "
                f"{len(tasks())} tasks"
            )
    parameters: Parameters = {}
    for word in filter(None, _COMMAS.split(words)):
        name, sign, value = word.partition("=")
        name = name.strip()
        if not sign:
            raise UserError(f"{text!r:.200} has {word!r:.80} instead of a parameter like size=50")
        if name in parameters:
            raise UserError(f"{text!r:.200} has the parameter {name!r:.80} twice. Remove one")
        parameters[name] = _checked(names, name, _value(value.strip()))
    return Address(text, names, parameters)


def _value(text: str) -> Any:
    """Return a parameter's value: a number, a truth value, a list in brackets, or else a text."""
    if text.startswith("[") and text.endswith("]"):
        items = filter(None, text[1:-1].split(","))
        return [_value(item.strip()) for item in items]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _checked(names: tuple[str, ...], parameter: str, value: Any) -> Any:
    """Return a parameter's value if a task has the parameter and the value has its type. Raises
    UserError."""
    defaults: Parameters = {}
    for name in names:
        defaults |= tasks()[name]
    defaults |= {"size": SIZE, "seed": 0}
    if parameter not in defaults:
        close = similar(parameter.lower(), defaults)
        hint = f"Did you mean {close}? " if close else ""
        raise UserError(
            f"{' and '.join(names)} has no parameter {parameter!r:.80}. {hint}Its parameters: "
            f"{', '.join(sorted(defaults))}"
        )
    wanted = type(defaults[parameter])
    is_right = wanted not in _WORDS or type(value) is wanted
    if wanted is float and type(value) is int:
        is_right = True
    if not is_right:
        raise UserError(f"the parameter {parameter}={value!r:.80} is not {_WORDS[wanted]}")
    if parameter in LIMITS:
        least, most = LIMITS[parameter]
        if not least <= value <= most:
            raise UserError(f"the parameter {parameter}={value} is not from {least} to {most}")
    return value


def _of_task(address: Address, name: str) -> Parameters:
    """Return the parameters that a task has."""
    has = tasks()[name]
    return {parameter: value for parameter, value in address.parameters.items() if parameter in has}
