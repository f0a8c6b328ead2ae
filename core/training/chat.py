"""The two sides of a row as a model in Hugging Face's layout is asked and answers: by its own chat template."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.engines import chat_template
from core.engines.server import MARK
from core.errors import UserError
from core.training.qwen import read_object
from core.training.rows import Row

THINK, END_THINK = "<think>", "</think>"


@dataclass(frozen=True)
class Chat:
    """`end`: the token that ends a turn."""

    template: str
    end: str

    @classmethod
    def of(cls, folder: Path) -> "Chat":
        """Of the model in `folder`. Raises UserError where its template can't be used."""
        template = chat_template.template_of(str(folder.resolve()))
        if template is None:
            raise UserError(
                f"{folder} holds no chat template. Is chat_template.jinja or tokenizer_config.json missing?"
            )
        asked = {"role": "user", "content": "1"}
        turn = chat_template.rendered(template, [asked, {"role": "assistant", "content": MARK}], False)
        tail = chat_template.tail_of(turn)
        if tail is None or chat_template.rendered(template) is None:
            raise UserError(f"the chat template in {folder} can't be rendered. Fetch the model again")
        added = read_object(folder / "tokenizer.json").get("added_tokens") or []
        ends = [token["content"] for token in added if tail.lstrip().startswith(token["content"])]
        named = read_object(folder / "tokenizer_config.json").get("eos_token")
        end = max(ends, key=len, default=named.get("content") if isinstance(named, dict) else named)
        if not isinstance(end, str) or not end:
            raise UserError(f"{folder} does not say what ends a turn (eos_token). Is tokenizer_config.json whole?")
        return cls(template, end)

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
        messages = [{"role": "user", "content": row.asked}]
        made = chat_template.rendered(self.template, messages, **settings)
        if made is None:  # it was, for another question
            raise UserError(f"the chat template can't render {row.asked!r:.80}")
        return made


def _is_open(asked: str) -> bool:
    return asked.rstrip().endswith(THINK)
