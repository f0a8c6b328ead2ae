"""Serve a policy that proposes tactics, and embed states with the same weights. Read the variables
of BurnQED.

The policy is the tiny policy of data/lean, unless the user names another. SGLang proposes and
embeds in one server. For a policy that llama.cpp serves, a second server in this process embeds.
vLLM only proposes. A named policy has BurnQED's defaults. docs/lean.md#from-burnqed tells which of
BurnQED's variables have no counterpart, and why.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from core import server as start
from core.base.errors import UserError
from core.base.files import DATA
from core.constants import Part, rules
from core.engines import environment, weights
from core.engines.need import Need
from core.engines.protocol import Server
from labs.lean.constants import LeanConstants
from labs.training import served
from labs.training.served import Weights, is_on_gpu

POLICY = DATA / "lean" / "policy.gguf"
NAME, ABOUT = "qed-rsa-lean-policy", "a tiny policy for generated lemmas, not for Mathlib"
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
NAMED = {"CANDIDATES": 4, "MAX_NODES": 100, "TRAIN_NODES": 100, "BATCH": 32, "NUM_WORKERS": 6, (
    "MAX_TOKENS"
): 128,
         "EXPLORE": "none", "GUISES": 0, "RATE": 2e-4, "MAX_ITERATION": 4}  # fmt: skip


def is_named() -> bool:
    """Return whether BASE_URL, MODEL or ENGINE selects another policy than the tiny one."""
    model = environment.model()
    is_tiny = bool(model) and Path(model).resolve() == POLICY
    return bool(environment.base_url() or ((model or environment.engine()) and not is_tiny))


def first() -> Weights:
    """Return the policy from which iterations start. Raises UserError if it is missing or on a
    remote server."""
    if is_named():
        return served.first()
    if not POLICY.is_file():
        raise UserError(
            f"the tiny policy {POLICY} is missing. Check out the repository again, or set MODEL"
        )
    return Weights(POLICY, NAME, ABOUT)


def trained(path: Path) -> Weights:
    """Return the weights that an iteration trained."""
    return Weights(path) if is_named() else Weights(path, NAME, ABOUT)


def policy(need: Need, folder: Path) -> AbstractContextManager[Server]:
    """Serve the policy that the user names, or the tiny policy. Raises UserError."""
    return start.serving(need) if is_named() else served.served(first(), need, folder)


def need(policy: Weights, config: LeanConstants, embeds: bool = False) -> Need:
    """Return what a search needs from its server. If it `embeds` and is on a GPU, it also embeds
    with the policy."""
    return Need(0, config.MAX_TOKENS, 0, embeds=embeds and is_on_gpu(policy))


def check_embeds(policy: Weights, config: LeanConstants) -> None:
    """Raise UserError if the GPU engine does not embed, or if its memory is too small to propose
    and to embed."""
    if is_on_gpu(policy):
        start.gpu_engine(embeds=True)
        start.settings_for(weights.Model.at(str(policy.path)), need(policy, config, embeds=True))


@contextmanager
def serving(
    policy: Weights, config: LeanConstants, folder: Path, embeds: bool = True
) -> Iterator[tuple[Server, Server]]:
    """Serve a policy. Yield the server that proposes tactics, and the server that embeds if
    `embeds` is True. They may be the same server. The logs and converted weights are written to
    `folder`. Raises UserError."""
    needed = need(policy, config, embeds)
    with ExitStack() as running:
        second = (
            running.enter_context(served.embedding(policy, folder))
            if embeds and not needed.embeds
            else None
        )
        server = running.enter_context(served.served(policy, needed, folder))
        yield server, second or server


# The environment variables of BurnQED


def settings_of(kind: type[Part]) -> dict[str, str]:
    """Return MODEL and BASE_URL from the variables that replace them, for a command. An iteration
    changes the policy's weights, so it starts its own servers and does not use SGLANG_URL."""
    given = {
        ours: _value(theirs)
        for theirs, ours in SETTINGS.items()
        if _value(theirs) and not _value(ours)
    }
    return {
        ours: value
        for ours, value in given.items()
        if ours != "BASE_URL" or "ITERATION" not in rules(kind)
    }


def words_of(kind: type[Part]) -> list[str]:
    """Return a command's NAME=value words that come from a named policy and the environment."""
    defaults = [f"{name}={value}" for name, value in _named(kind).items()]
    return [*defaults, *(f"{name}={_value(theirs)}" for theirs, name in _given(kind).items())]


def rows(config: Part) -> list[tuple[str, str]]:
    """Return rows of a run's opening: the constants in `config` that come from the environment or a
    named policy."""
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
            shown.append(
                f"{theirs} has no effect (an iteration changes the weights, so it starts its own "
                "servers)"
            )
    defaults = [
        f"{name}={value}" for name, value in _named(kind).items() if getattr(config, name) == value
    ]
    found = [("environment", ", ".join(shown))] if shown else []
    return (
        [*found, ("constants", f"{' '.join(defaults)}, for a named policy")] if defaults else found
    )


def _value(name: str) -> str:
    return os.environ.get(name, "").strip()


def _named(kind: type[Part]) -> Mapping[str, Any]:
    """Return the constants of a named policy, or {} for the tiny one. The constants of its model
    card replace them."""
    of_card = environment.card().constants_of(kind) if is_named() else NAMED
    return {
        name: value for name, value in NAMED.items() if name in rules(kind) and name not in of_card
    }


def _given(kind: type[Part]) -> dict[str, str]:
    """Return the variables that set constants, and for each the constant's name."""
    names = {
        theirs: next((name for name in ours if name in rules(kind)), "")
        for theirs, ours in CONSTANTS.items()
    }
    return {theirs: name for theirs, name in names.items() if name and _value(theirs)}
