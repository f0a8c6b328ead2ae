"""Any other server that answers like OpenAI's: providers, transformers serve, LM Studio and so on."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.engines.client import count
from core.engines.server import TAG, Dialect, Server


class Other(Dialect):
    """An unknown engine. Whether it continues a message shows only in what it answers."""

    is_known = False
    is_in_keys = False
    has_top_k = False
    continues = None

    def recognised(self, found: Server, about: Mapping[str, Any], models: Mapping[str, Any]) -> Server:
        return replace(found, context=count(about.get("max_model_len")))

    def continuation(self, content: str, reasoning: str, opening: str) -> str | None:
        """Return the text behind `opening`. It began a new turn if the text does not close the brace that `opening`
        left open, or, without one, if it reasons again."""
        said = super().continuation(content, reasoning, opening)
        if said is None or content.startswith(opening):
            return said
        if opening.count("{") > opening.count("}"):
            return said if _closes(TAG.split(said)[0]) else None
        return None if reasoning or TAG.search(said) else said


def _closes(text: str) -> bool:
    """Return whether `text` closes a brace that it did not open."""
    depth = 0
    for brace in re.findall(r"(?<!\\)[{}]", text):
        depth += 1 if brace == "{" else -1
        if depth < 0:
            return True
    return False


DIALECT = Other()
