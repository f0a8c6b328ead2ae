"""The two sides of a row as a model in Hugging Face's layout is asked and answers: by its own chat template."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.engines import chat_template, weights
from core.engines.server import MARK
from core.types import Message
from labs.training.architectures import read_object
from labs.training.rows import Row

THINK, END_THINK = "<think>", "</think>"


@dataclass(frozen=True)
class Chat:
    """`end`: the token that ends a turn; `bos` and `eos`: what the template may write by these names."""

    template: str
    end: str
    bos: str = ""
    eos: str = ""

    @classmethod
    def of(cls, folder: Path) -> "Chat":
        """Of the model in `folder`. Raises UserError where its template can't be used."""
        template = weights.template(folder)
        if template is None:
            raise UserError(
                f"{folder} holds no chat template. Is chat_template.jinja or tokenizer_config.json missing?"
            )
        bos, eos = _control(folder, "bos_token"), _control(folder, "eos_token")
        chat = cls(template, eos, bos, eos)
        asked = {"role": "user", "content": "1"}
        tail = chat_template.tail_of(chat.rendered([asked, {"role": "assistant", "content": MARK}], False))
        if tail is None or chat.rendered([asked]) is None:
            raise UserError(f"the chat template in {folder} can't be rendered. Fetch the model again")
        added = [token["content"] for token in read_object(folder / "tokenizer.json").get("added_tokens") or []]
        end = max((token for token in added if tail.lstrip().startswith(token)), key=len, default=eos)
        if not end:
            raise UserError(f"{folder} does not say what ends a turn (eos_token). Is tokenizer_config.json whole?")
        return replace(chat, end=end)

    def rendered(self, messages: Sequence[Message], is_open: bool = True, **settings: Any) -> str | None:
        """What servers make of `messages`; `is_open`: with what opens an answer behind them. None where we can't."""
        named = {"bos_token": self.bos, "eos_token": self.eos, "strftime_now": time.strftime}
        return chat_template.rendered(self.template, messages, is_open, **named, **settings)

    def texts(self, row: Row) -> tuple[str, str]:
        """What the model is given and what it answers, without the end of its turn. Where the template opens thinking,
        that stands in what is given; it is closed there for an answer without thinking."""
        asked, said = self._asked(row), row.said.removeprefix(f"{THINK}\n")
        is_opened, thinks = _is_open(asked), row.said.startswith(THINK) or END_THINK in row.said
        if thinks:
            return asked, said if is_opened else f"{THINK}\n{said}"
        if is_opened and _is_open(asked := self._asked(row, enable_thinking=False)):
            asked += f"\n{END_THINK}\n\n"
        return asked, said

    def _asked(self, row: Row, **settings: Any) -> str:
        made = self.rendered([{"role": "user", "content": row.asked}], **settings)
        if made is None:  # it was, for another question
            raise UserError(f"the chat template can't render {row.asked!r:.80}")
        return made


def _control(folder: Path, name: str) -> str:
    """Return the token of control that tokenizer_config.json gives this name, bare or with properties; "" if none."""
    named = read_object(folder / "tokenizer_config.json").get(name)
    text = named.get("content") if isinstance(named, dict) else named
    return text if isinstance(text, str) else ""


def _is_open(asked: str) -> bool:
    return asked.rstrip().endswith(THINK)
