"""Attach to any other server with OpenAI's API: providers, Ollama, transformers serve, LM Studio
and others."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.base.thinking import TAG
from core.engines.protocol import Dialect, Server, named
from core.engines.queries import objects, page_of


class Other(Dialect):
    """An unknown engine. Only its replies or a card show whether it continues a message."""

    is_in_keys = False
    has_top_k = False
    continues = None

    def described(
        self, server: Server, entry: Mapping[str, Any], models: Mapping[str, Any]
    ) -> Server:
        is_provider = server.card.name and not server.card.engine
        # llama.cpp under another owner, such as a proxy
        if not is_provider and page_of(server, "props"):
            return named("llama.cpp").described(server, entry, models)
        if server.card.key_env:  # so it is not Ollama
            return server
        return replace(server, weights=_weights(server))

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


def _weights(server: Server) -> dict[str, str]:
    """Return 16 digits of the digest by which Ollama identifies a model's weights, template and
    settings, or {}."""
    names = (server.model, f"{server.model}:latest")
    for entry in objects(page_of(server, "api/tags"), "models"):
        digest = re.fullmatch("(?:sha256:)?([0-9a-f]{16})[0-9a-f]{48}", str(entry.get("digest")))
        if digest and entry.get("name") in names:
            return {"weights": digest[1]}
    return {}


def _closes(text: str) -> bool:
    """Return whether `text` closes a brace that it did not open."""
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return True
    return False


DIALECT = Other()
