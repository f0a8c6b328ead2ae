"""Read the chat template that CHAT_TEMPLATE selects for a GGUF file.

llama.cpp knows some formats by name, like chatml or gemma. It renders them without Jinja, and then
it can't continue an answer that has begun. A file in Jinja has no such limit."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import UserError
from core.base.files import read_text

_DIGEST = "sha256:"
WAY = "Set CHAT_TEMPLATE to a Jinja file, or to a name that llama.cpp knows, such as gemma"


@dataclass(frozen=True)
class ChatTemplate:
    """A chat template: its text in Jinja, or its name in llama.cpp."""

    content: str
    is_jinja: bool

    @classmethod
    def of(cls, value: str) -> "ChatTemplate":
        """Read the template that `value` names: a file, or else one of llama.cpp's names. Raises
        UserError if a file is missing or unreadable."""
        path = Path(value).expanduser()
        if path.is_file():
            return cls(read_text(path, "the chat template", "Correct CHAT_TEMPLATE"), True)
        if "/" in value or "." in value:
            raise UserError(f"CHAT_TEMPLATE={value} is no file. {WAY}")
        return cls(value, False)

    @property
    def tag(self) -> str:
        """The name, or the digest of the text. It enters journal keys."""
        if not self.is_jinja:
            return self.content
        return _DIGEST + hashlib.sha256(self.content.encode()).hexdigest()[:12]

    @staticmethod
    def is_name(tag: str) -> bool:
        """Return whether a `tag` is a name, so that the server can't continue a message."""
        return bool(tag) and not tag.startswith(_DIGEST)
