"""Make the problems of Reasoning Gym, and score answers, in a child process without rights.

The package evaluates answers, and answers are untrusted. So in the child, task_guard.py allows only
formulas and literals to be evaluated, and refuses what acts on the outside. The child starts
without the environment's keys, and ends if it reaches a deadline or uses up its memory."""

import importlib.util
import json
import logging
import math
import os
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from core.base.errors import UserError
from core.base.files import IS_CHECKOUT, set_up
from core.grading.child import Child, serve

PACKAGE = "reasoning-gym"
PART = "gym"  # of setup.sh
DEADLINE_S = 5.0  # of the child's processor time, for one answer
MAKE_S = 600.0  # for a request for problems
AT_ONCE = 100  # problems in one request
_VARIABLES = ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH", "LANG")  # that the child inherits


def package_version() -> str:
    """Return the version of Reasoning Gym. Install it first if it is missing. Raises UserError in
    an installed wheel without it."""
    if importlib.util.find_spec("reasoning_gym") is None:
        if not IS_CHECKOUT:
            raise UserError(f"Reasoning Gym is missing. Run: pip install {PACKAGE}")
        set_up(PART)
        importlib.invalidate_caches()
    try:
        return version(PACKAGE)
    except PackageNotFoundError:
        raise UserError(
            f"{sys.executable} lacks {PACKAGE}. Use bash scripts/run.sh, or pip install {PACKAGE}"
        ) from None


@lru_cache
def tasks() -> Mapping[str, Mapping[str, Any]]:
    """Return the parameters of each task with their defaults. Raises UserError if the package can't
    be installed or started."""
    package_version()
    by_name: Mapping[str, Mapping[str, Any]] | None = _PROCESS.ask("tasks", MAKE_S)
    if by_name is None:
        raise UserError("Reasoning Gym ended before it listed its tasks. Run the command again")
    return by_name


def entries(task: str, parameters: Mapping[str, Any], size: int) -> list[Any]:
    """Return `size` entries of a task: objects with "question", "answer" and "metadata". Raises
    UserError if the parameters are invalid or the child reaches its deadline."""
    package_version()
    drawn: list[Any] = []
    while len(drawn) < size:
        count = min(AT_ONCE, size - len(drawn))
        batch = _PROCESS.ask("entries", task, parameters, len(drawn), count, MAKE_S)
        if not isinstance(batch, list):
            fault = batch or f"{MAKE_S:.0f} s do not suffice for {count} problems"
            raise UserError(f"the task {task} can't make problems: {fault}. Change its parameters")
        drawn += batch
    return drawn


def task_score(details: Mapping[str, Any], answer: str) -> float | None:
    """Return the score of an answer, from 0 to 1. Return None and warn without a score: the
    package's function raises or gives nan, or the child reaches its deadline. `details` has the
    "scorer" (a task's name), its "parameters" if they are not the defaults, and the "entry"."""
    parameters = details.get("parameters", {})
    score = _score(details["scorer"], json.dumps(parameters), json.dumps(details["entry"]), answer)
    if score is None:
        task = details["scorer"]
        logging.getLogger(__name__).warning("no score of the task %s for %.200r", task, answer)
    return score


@lru_cache(maxsize=4096)  # a key has up to 20 kB
def _score(task: str, parameters: str, entry: str, answer: str) -> float | None:
    package_version()
    score = _PROCESS.ask(
        "score", task, json.loads(parameters), json.loads(entry), answer, DEADLINE_S
    )
    return None if score is None else float(score)


def _environment() -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    fixed = {
        "PYTHONHASHSEED": "0",  # some tasks draw from sets
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    return inherited | fixed


_PROCESS = Child("core.grading.task_process", "Reasoning Gym", _environment())
_PROCESS.cached += [_score, tasks]

# --- the child ---

# Scorers that compare the answer with tuples, which JSON turns into lists
_TUPLES = {"arc_agi": "output", "rearc": "output"}


class _Gym:
    """The tasks, in the child."""

    def __init__(self) -> None:
        self._datasets: dict[str, Any] = {}

    def answer(self, question: str, *words: Any) -> Any:
        answers: dict[str, Callable[..., Any]] = {
            "tasks": self.tasks,
            "entries": self.entries,
            "score": self.score,
        }
        return answers[question](*words)

    def tasks(self) -> dict[str, dict[str, Any]]:
        from dataclasses import fields

        from reasoning_gym.factory import DATASETS

        by_name: dict[str, dict[str, Any]] = {}
        for name, (_, config) in sorted(DATASETS.items()):
            if name == "composite":  # of other tasks
                continue
            defaults = config()
            values = {field.name: getattr(defaults, field.name) for field in fields(config)}
            by_name[name] = {
                parameter: value for parameter, value in values.items() if _is_plain(value)
            }
        return by_name

    def entries(self, task: str, parameters: dict[str, Any], start: int, count: int) -> Any:
        """Return entries, or the fault of the parameters as text."""
        try:
            dataset = self._dataset(task, parameters)
            return [dataset[index] for index in range(start, start + count)]
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def score(
        self, task: str, parameters: dict[str, Any], entry: dict[str, Any], answer: str
    ) -> float | None:
        name = _TUPLES.get(task)
        if name:
            entry = entry | {"metadata": _with_tuples(entry["metadata"], name)}
        try:
            score = float(self._dataset(task, parameters).score_answer(answer, entry))
        except Exception:
            return None
        return None if math.isnan(score) else min(1.0, max(0.0, score))

    def _dataset(self, task: str, parameters: dict[str, Any]) -> Any:
        """Return the task with parameters. Its scorer depends on them."""
        from reasoning_gym import create_dataset

        key = json.dumps([task, parameters])
        if key not in self._datasets:
            self._datasets[key] = create_dataset(task, **parameters)
        return self._datasets[key]


def _is_plain(value: Any) -> bool:
    """Return whether a parameter can be written in an address."""
    if isinstance(value, (list, tuple)):
        return all(map(_is_plain, value)) and not any(isinstance(item, tuple) for item in value)
    return value is None or isinstance(value, (bool, int, float, str))


def _with_tuples(metadata: dict[str, Any], name: str) -> dict[str, Any]:
    return metadata | {name: tuple(tuple(row) for row in metadata[name])}


def _prepare() -> Callable[..., Any]:
    from core.grading import task_guard

    gym = _Gym()
    gym.tasks()  # imports all tasks
    task_guard.protect()
    return gym.answer


if __name__ == "__main__":
    serve(_prepare)
