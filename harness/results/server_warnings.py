"""Warn about the model card and the engine of a run, and about replies that may come from other
models."""

import re
from collections.abc import Mapping
from typing import Any

from core.base.errors import one_line
from core.constants import PENALTIES

# Counts of completions in `metrics`: journal completions by the server that made them
# (Server.origin), journal completions whose weights only a name or path shows (Server.rests_on),
# and completions by the model in their replies.
COUNTS = ("reused", "reused_by", "models")
Counts = Mapping[str, int]
SHOWN_MODELS = 3  # maximum number of models in a warning
# At the end of names: gpt-4o-2024-08-06, claude-sonnet-4-20250514, gpt-4-0613, gemini-1.5-pro-002,
# qwen3:latest.
_RELEASE = re.compile(r"(?:[-@:](?:latest|preview|0|\d{4}-\d\d-\d\d|\d{8}|\d{3,4}))+$")


def of_card(model: Mapping[str, Any]) -> list[str]:
    """Return warnings from a model card: its note, and the constants that are never sent to the
    server."""
    card = model.get("card") or {}
    warnings = []
    if card.get("note"):
        warnings.append(card["note"])
    never = card.get("never", ())
    unsent = ", ".join(name.upper() for name in never if name not in PENALTIES)
    if unsent:
        warnings.append(
            f"the model card {card['name']} excludes these constants, so they had no effect: "
            f"{unsent}"
        )
    return warnings


def of_seeds(engine: Mapping[str, Any]) -> list[str]:
    """Return a warning if equal seeds do not give equal replies. `engine` is the field of the
    results."""
    if engine.get("seeds") is not False:
        return []
    return [
        "equal seeds give different replies on this server, so another run gives other answers. "
        "With SGLang, set DETERMINISTIC=1"
    ]


def of_template(engine: Mapping[str, Any]) -> list[str]:
    """Return a warning if the model's GGUF file has no chat template."""
    if engine.get("templated") is not False:
        return []
    return [
        "the model's GGUF file has no chat template, so llama.cpp used ChatML. Use a file with "
        "a template, or set CHAT_TEMPLATE"
    ]


def of_thinking(engine: Mapping[str, Any]) -> list[str]:
    """Return a warning if replies think, although an argument of the chat template should prevent
    it."""
    argument = engine.get("ignores")
    if argument is None:
        return []
    return [
        f"replies have thinking, although {argument} was sent. The model or its server ignores this"
    ]


def of_server(document: Mapping[str, Any], counts: Mapping[str, Counts]) -> list[str]:
    """Return warnings if the COUNTS show that completions may come from models that `document` does
    not name."""
    server = document["engine"].get("origin")
    warnings = _of_origins(server, counts.get("reused", {}))
    reused_by = counts.get("reused_by", {})
    for rests_on, count in reused_by.items():
        warnings.append(
            f"{count:,} completions from the journal were matched only by {rests_on}: they may "
            "come from other weights"
        )
    model = document["model"]["name"]
    return warnings + _of_models(model, counts.get("models", {}))


def _of_origins(server: str | None, reused: Counts) -> list[str]:
    """Return a warning if completions from the journal come from other servers."""
    others = {origin: count for origin, count in reused.items() if origin != server}
    if not others or not server:
        return []
    by_count = sorted(others.items(), key=lambda item: -item[1])
    origins = ", ".join(f"{count:,} by {origin}" for origin, count in by_count)
    total = sum(others.values())
    return [
        f"{total:,} completions from the journal come from other servers than {server}: {origins}"
    ]


def _of_models(asked: str, models: Counts) -> list[str]:
    """Return a warning if the replies name several models, or another model than the one that was
    `asked`."""
    names = sorted(models, key=lambda name: -models[name])
    spellings = {name.lower() for name in names}
    if len(spellings) > 1:
        first = names[:SHOWN_MODELS]
        counts = ", ".join(f"{models[name]:,} {one_line(name, 100)}" for name in first)
        return [f"the replies name {len(names)} models ({counts}). The figures mix these models"]
    asked = one_line(asked, 300)  # shortened like names in replies
    if names and not is_spelling(asked, names[0]):
        replied = one_line(names[0], 100)
        return [f"the run asked for the model {asked}, but the replies name {replied}"]
    return []


def is_spelling(asked: str, replied: str) -> bool:
    """Return whether two names mean one model. Path, suffix, release and route may differ. One may
    lack the maker."""
    asked = _plain(asked)
    replied = _plain(replied)
    if _has_maker(asked) and _has_maker(replied):
        return asked == replied
    _, _, asked_model = asked.rpartition("/")
    _, _, replied_model = replied.rpartition("/")
    return asked_model == replied_model


def _plain(name: str) -> str:
    """Return a model's name without suffix, route and release."""
    path = name.lower().replace("\\", "/").rstrip("/")
    path = path.removesuffix(".gguf")
    without_route = re.sub(r":[a-z]+$", "", path)
    return _RELEASE.sub("", without_route)


def _has_maker(name: str) -> bool:
    """Return whether the name has the form maker/model."""
    return name.count("/") == 1 and not name.startswith("/")
