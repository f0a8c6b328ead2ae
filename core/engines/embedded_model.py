"""The embedded model: its file, its name, its card, and how llama.cpp serves it."""

import os

from core.base.files import DATA
from core.engines import cards, weights
from core.engines.cards import Card

EMBEDDED_GGUF = DATA / "embedded" / "model.gguf"
EMBEDDED_SLOTS = 16  # requests decoded together, by all engines of a run
# A model this small gains nothing from a second thread (docs/LOG.md), but from a second engine.
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
EMBEDDED_ENGINES = min(4, CORES)
EMBEDDED_CONTEXT = 2048  # tokens per slot: what the model was trained for


def embedded_name() -> str:
    """The model under a name that says which file it is, so that retraining changes every journal key."""
    return f"{embedded_card().model}@{embedded_sha256()[:12]}"


def embedded_card() -> Card:
    """What else is known of it: data/models/embedded.toml."""
    return cards.named("embedded")


def embedded_sha256() -> str:
    """Of the model's file."""
    return weights.sha256(EMBEDDED_GGUF)
