"""Attach to any other server with OpenAI's API: providers, Ollama, transformers serve, LM Studio
and others."""

import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

from core.base.thinking import TAG
from core.engines import queries as client
from core.engines.protocol import Dialect, Server, named


class Other(Dialect):
    """An unknown engine. Only its replies or a card show whether it continues a message."""

    is_in_keys = False
    has_top_k = False
    continues = None

    def described(
        self, found: Server, about: Mapping[str, Any], models: Mapping[str, Any]
    ) -> Server:
        is_provider = found.card.name and not found.card.engine
        # llama.cpp under another owner, such as a proxy
        if not is_provider and client.page_of(found, "props"):
            return named("llama.cpp").described(found, about, models)
        # Ollama needs no key
        return found if found.card.key_env else replace(found, weights=_weights(found))

    def continuation(self, content: str, reasoning: str, opening: str) -> str | None:
        """Return the text after `opening`, or None if the server began a new turn. A new turn is a
        reply that leaves the brace of `opening` open, or without such a brace, a reply that
        thinks."""
        text = super().continuation(content, reasoning, opening)
        if text is None or content.startswith(opening):
            return text
        if opening.count("{") > opening.count("}"):
            return text if _closes(TAG.split(text)[0]) else None
        return None if reasoning or TAG.search(text) else text


def _weights(found: Server) -> dict[str, str]:
    """Return 16 digits of the digest by which Ollama identifies a model's weights, template and
    settings, or {}."""
    for about in client.objects(client.page_of(found, "api/tags"), "models"):
        digest = re.fullmatch("(?:sha256:)?([0-9a-f]{16})[0-9a-f]{48}", str(about.get("digest")))
        if digest and about.get("name") in (found.model, f"{found.model}:latest"):
            return {"weights": digest[1]}
    return {}


def _closes(text: str) -> bool:
    """Return whether `text` closes a brace that it did not open."""
    depths = accumulate(1 if brace == "{" else -1 for brace in re.findall(r"(?<!\\)[{}]", text))
    return min(depths, default=0) < 0


DIALECT = Other()
