"""Read BurnQED's environment variables as constants and settings, and give a named policy BurnQED's defaults.

docs/lean.md#from-burnqed tells which variables have no counterpart, and why.
"""

import os
from collections.abc import Mapping
from typing import Any

from core.constants import Part, rules
from core.engines import environment
from labs.lean.served import is_named

# The constants that a variable may set. It sets the first of them that the experiment has.
CONSTANTS = {
    "NUM_WORKERS": ("NUM_WORKERS",),
    "MAX_ITER": ("MAX_ITERATION",),
    "MAX_THEOREMS": ("MAX_THEOREMS",),
    "EVAL_MAX_THEOREMS": ("EVAL_THEOREMS",),
    "EVAL_THEOREMS": ("EVAL_THEOREMS",),
    "THEOREM_INDEX": ("TRAIN_THEOREMS", "THEOREMS"),
    "EBM_STEPS": ("STEPS",),
    "EBM_RESUME": ("ENERGY_START",),
    "SKIP_BASELINE": ("SKIP_BASELINE",),
}
SETTINGS = {"LLM_BASE": "MODEL", "SGLANG_URL": "BASE_URL"}  # a variable, and the setting that it replaces
# The constants of a policy that the user names. The experiments' files are for the tiny policy and its lemmas.
NAMED = {"CANDIDATES": 4, "MAX_NODES": 100, "TRAIN_NODES": 100, "BATCH": 32, "NUM_WORKERS": 6, "MAX_TOKENS": 128,
         "EXPLORE": "none", "GUISES": 0, "RATE": 2e-4}  # fmt: skip


def settings(kind: type[Part]) -> dict[str, str]:
    """Return MODEL and BASE_URL from the variables that replace them, for a command. An iteration changes the policy's
    weights, so it starts its own servers and does not use SGLANG_URL."""
    given = {ours: _value(theirs) for theirs, ours in SETTINGS.items() if _value(theirs) and not _value(ours)}
    return {ours: value for ours, value in given.items() if ours != "BASE_URL" or "ITERATION" not in rules(kind)}


def words(kind: type[Part]) -> list[str]:
    """Return a command's NAME=value words that come from a named policy and the environment."""
    defaults = [f"{name}={value}" for name, value in _named(kind).items()]
    return [*defaults, *(f"{name}={_value(theirs)}" for theirs, name in _given(kind).items())]


def rows(config: Part) -> list[tuple[str, str]]:
    """Return rows of a run's opening: the constants in `config` that come from the environment or a named policy."""
    kind = type(config)
    known = rules(kind)
    shown = [
        f"{theirs}={_value(theirs)} sets {name}"
        for theirs, name in _given(kind).items()
        if getattr(config, name) == known[name].read(name, _value(theirs))
    ]
    for theirs, name in SETTINGS.items():
        if (value := _value(theirs)) and value == _value(name):
            shown.append(f"{theirs}={value} sets {name}")
        elif value and name == "BASE_URL" and "ITERATION" in known:
            shown.append(f"{theirs} has no effect (an iteration changes the weights, so it starts its own servers)")
    defaults = [f"{name}={value}" for name, value in _named(kind).items() if getattr(config, name) == value]
    found = [("environment", ", ".join(shown))] if shown else []
    return [*found, ("constants", f"{' '.join(defaults)}, for a named policy")] if defaults else found


def _value(name: str) -> str:
    return os.environ.get(name, "").strip()


def _named(kind: type[Part]) -> Mapping[str, Any]:
    """Return the constants of a named policy, or {} for the tiny one. The constants of its model card replace them."""
    of_card = environment.card().constants_of(kind) if is_named() else NAMED
    return {name: value for name, value in NAMED.items() if name in rules(kind) and name not in of_card}


def _given(kind: type[Part]) -> dict[str, str]:
    """Return the variables that set constants, and for each the constant's name."""
    names = {theirs: next((name for name in ours if name in rules(kind)), "") for theirs, ours in CONSTANTS.items()}
    return {theirs: name for theirs, name in names.items() if name and _value(theirs)}
