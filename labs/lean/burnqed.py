"""Read the policy that the environment names, and the variables of BurnQED.

A policy that the user names has BurnQED's defaults instead of the experiment's constants.
docs/lean.md#from-burnqed tells which of BurnQED's variables have no counterpart, and why.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.base.files import DATA
from core.constants import ConstantGroup, rules
from core.engines import environment

POLICY = DATA / "lean" / "policy.gguf"  # the tiny policy
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
# a variable, and the setting that it replaces
SETTINGS = {"LLM_BASE": "MODEL", "SGLANG_URL": "BASE_URL"}
# The constants of a policy that the user names. The experiments' files are for the tiny policy and
# its lemmas.
NAMED = {
    "CANDIDATES": 4,
    "MAX_NODES": 100,
    "TRAIN_NODES": 100,
    "BATCH": 32,
    "NUM_WORKERS": 6,
    "MAX_TOKENS": 128,
    "EXPLORE": "none",
    "GUISES": 0,
    "RATE": 2e-4,
    "MAX_ITERATION": 4,
}


def is_named() -> bool:
    """Return whether BASE_URL, MODEL or ENGINE selects another policy than the tiny one."""
    if environment.base_url():
        return True
    model = environment.model()
    if model and Path(model).resolve() == POLICY:
        return False
    return bool(model or environment.engine())


def settings_of(kind: type[ConstantGroup]) -> dict[str, str]:
    """Return MODEL and BASE_URL from the variables that replace them, for a command. An iteration
    changes the policy's weights, so it starts its own servers and does not use SGLANG_URL."""
    settings = {}
    for variable, setting in SETTINGS.items():
        has_effect = setting != "BASE_URL" or not _trains(kind)
        if has_effect and _value(variable) and not _value(setting):
            settings[setting] = _value(variable)
    return settings


def words_of(kind: type[ConstantGroup]) -> list[str]:
    """Return a command's NAME=value words that come from a named policy and the environment."""
    defaults = [f"{name}={value}" for name, value in _named(kind).items()]
    variables = [f"{name}={_value(variable)}" for variable, name in _given(kind).items()]
    return defaults + variables


def rows(config: ConstantGroup) -> list[tuple[str, str]]:
    """Return rows of a run's opening: the constants in `config` that come from the environment or a
    named policy, and the variables that have no effect."""
    rows = []
    notes = [*_constants_set(config), *_settings_set(type(config)), *_without_effect(type(config))]
    if notes:
        rows.append(("environment", ", ".join(notes)))
    defaults = [
        f"{name}={value}"
        for name, value in _named(type(config)).items()
        if getattr(config, name) == value
    ]
    if defaults:
        rows.append(("constants", f"{' '.join(defaults)}, for a named policy"))
    return rows


def _constants_set(config: ConstantGroup) -> list[str]:
    kind = type(config)
    notes = []
    for variable, name in _given(kind).items():
        # the command line may have set another value
        if getattr(config, name) == rules(kind)[name].read(name, _value(variable)):
            notes.append(f"{variable}={_value(variable)} sets {name}")
    return notes


def _settings_set(kind: type[ConstantGroup]) -> list[str]:
    notes = []
    for variable, setting in SETTINGS.items():
        value = _value(variable)
        if value and value == _value(setting):
            notes.append(f"{variable}={value} sets {setting}")
        elif value and setting == "BASE_URL" and _trains(kind):
            notes.append(
                f"{variable} has no effect (an iteration changes the weights, so it starts its own "
                "servers)"
            )
    return notes


def _without_effect(kind: type[ConstantGroup]) -> list[str]:
    """Return a note for each variable whose constant the experiment lacks."""
    lacking = [variable for variable in CONSTANTS if not _constant_of(variable, kind)]
    return [f"{variable} has no effect here" for variable in lacking if _value(variable)]


def _trains(kind: type[ConstantGroup]) -> bool:
    return "ITERATION" in rules(kind)


def _value(name: str) -> str:
    return os.environ.get(name, "").strip()


def _named(kind: type[ConstantGroup]) -> Mapping[str, Any]:
    """Return the constants of a named policy, or {} for the tiny one. The constants of its model
    card replace them."""
    if not is_named():
        return {}
    of_card = environment.card().constants_of(kind)
    known = rules(kind)
    return {name: value for name, value in NAMED.items() if name in known and name not in of_card}


def _given(kind: type[ConstantGroup]) -> dict[str, str]:
    """Return the variables that set constants, and for each the constant's name."""
    names = {variable: _constant_of(variable, kind) for variable in CONSTANTS}
    return {variable: name for variable, name in names.items() if name and _value(variable)}


def _constant_of(variable: str, kind: type[ConstantGroup]) -> str:
    """Return the constant that a variable sets, or "" if the experiment lacks it."""
    known = rules(kind)
    return next((name for name in CONSTANTS[variable] if name in known), "")
