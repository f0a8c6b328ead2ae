"""Name the settings in the environment, and advise on unknown constants."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from core.base.errors import UserError, one_line
from core.base.files import ROOT

# Settings of servers and folders (docs/engines.md). They are environment variables and precede a
# command.
SETTINGS = (
    "API_KEY",
    "BASE_URL",
    "BIND",
    "CHAT_TEMPLATE",
    "DETERMINISTIC",
    "EFFORT",
    "ENGINE",
    "EXACT",
    "GRADER_KEY",
    "GRADER_MODEL",
    "GRADER_URL",
    "KV",
    "MODEL",
    "PORT",
    "RESULTS_DIR",
    "REVISION",
    "SCORER_KEY",
    "SCORER_MODEL",
    "SCORER_URL",
    "TEMPLATE",
    "TP",
    "WEIGHTS_DIR",
)


def advice_on(name: str, valid_names: Collection[str], value: str) -> str:
    """Return "Did you mean N=4? " if `name` resembles a constant, advice if it is a setting such as
    --model, or ""."""
    upper = name.lstrip("-").replace("-", "_").upper()
    value = one_line(value.lstrip("= "), 40) or "…"
    if upper in valid_names:
        return f"Did you mean {upper}={value}? "
    if upper in SETTINGS:
        value = "…" if "KEY" in upper else value
        return f"Put the setting {upper}={value} before the command. "
    constant = similar(upper, valid_names)
    return f"Did you mean {constant}={value}? " if constant else ""


def similar(name: str, valid_names: Collection[str]) -> str:
    """Return the only one of `valid_names` that begins with `name`, or the first one if `name` has
    three letters or more. Otherwise return the one that resembles it, or ""."""
    beginnings = [valid for valid in valid_names if name and valid.startswith(name)]
    if len(beginnings) == 1 or (beginnings and len(name) > 2):
        return beginnings[0]
    # a short name such as NN has only one letter that may be right
    least = 0.8 if len(name) > 2 else 0.6
    close = difflib.get_close_matches(name, valid_names, 1, least)
    return close[0] if close else ""


def chosen_names(constant: str, value: str, names: Sequence[str]) -> list[str]:
    """Split the `value` of a constant at commas, or return all `names` for "all". Raises
    UserError for another name."""
    if value == "all":
        return list(names)
    chosen = [name.strip() for name in value.split(",")]
    for name in chosen:
        if name not in names:
            raise UserError(
                f"{constant} names {name!r:.40}. Give one or several of {', '.join(names)}, or all"
            )
    return chosen


def help_of(namespace: Mapping[str, Any]) -> str:
    """Return the command that prints the help of an experiment of ours, or "--help"."""
    file = Path(namespace.get("__file__", ""))
    if file.parent != ROOT / "experiments":
        return "--help"
    return f"bash scripts/run.sh {file.stem} --help"
