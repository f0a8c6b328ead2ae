"""Define the embedded model: its file, name and card, and the size of its server."""

import os

from core.base.files import DATA
from core.engines import cards, weights
from core.engines.cards import Card

EMBEDDED_GGUF = DATA / "embedded" / "model.gguf"
EMBEDDED_SLOTS = 16  # the most requests that all engines of a run decode together
# A second engine speeds up a model this small, but a second thread does not (docs/LOG.md).
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
EMBEDDED_ENGINES = min(4, CORES)
EMBEDDED_CONTEXT = 2048  # tokens per slot, as in training


def embedded_name() -> str:
    """Return the model's name. The name contains the file's digest, so that retraining changes every journal key."""
    return f"{embedded_card().model}@{weights.sha256(EMBEDDED_GGUF)[:12]}"


def embedded_card() -> Card:
    return cards.named("embedded")
