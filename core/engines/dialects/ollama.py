"""Attach to Ollama, which identifies models by digests."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.engines import client
from core.engines.dialects.other import Other
from core.engines.server import Server

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Ollama(Other):
    """A server that reports a digest of a model's weights, template and settings. Its kind in journals is "other"."""

    is_known = True

    def recognised(  # type: ignore[override]  # another server may answer
        self, found: Server, about: Mapping[str, Any], models: Mapping[str, Any]
    ) -> Server | None:
        if found.card.key_env:
            return None  # Ollama needs no key
        digest = _digest(found)
        return super().recognised(replace(found, weights={"weights": digest}), about, models) if digest else None


def _digest(found: Server) -> str:
    """Return the first 16 digits of the model's digest, or "" if the server does not report one as Ollama does."""
    for about in client.objects(client.page_of(found, "api/tags"), "models"):
        digest = str(about.get("digest")).removeprefix("sha256:")
        if about.get("name") in (found.model, f"{found.model}:latest") and _DIGEST.fullmatch(digest):
            return digest[:16]
    return ""


DIALECT = Ollama()
