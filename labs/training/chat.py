"""Turn a row into the texts of its prompt and reply, with the chat template of a model in Hugging
Face's layout."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from core.base.errors import UserError
from core.engines import weights
from core.engines.protocol import MARK
from core.engines.queries import tail_of
from core.types import Message
from labs.training.architectures import read_object
from labs.training.rows import Line

THINK, END_THINK = "<think>", "</think>"


@dataclass(frozen=True)
class Chat:
    """A chat template, the token that ends a turn (`end`), and the template's variables bos_token
    and eos_token."""

    template: str
    end: str
    bos: str = ""
    eos: str = ""

    @classmethod
    def of(cls, folder: Path) -> "Chat":
        """Read the chat template of the model in `folder`. Raises UserError if the template can't
        be used."""
        bos, eos = _control(folder, "bos_token"), _control(folder, "eos_token")
        chat = cls(weights.template(folder) or "", eos, bos, eos)
        question = {"role": "user", "content": "1"}
        tail = tail_of(chat.rendered([question, {"role": "assistant", "content": MARK}], False))
        if tail is None or chat.rendered([question]) is None:
            raise UserError(
                f"{folder} has no chat template that can be rendered. Is chat_template.jinja "
                "missing?"
            )
        added = [
            token["content"]
            for token in read_object(folder / "tokenizer.json").get("added_tokens") or []
        ]
        end = max(
            (token for token in added if tail.lstrip().startswith(token)), key=len, default=eos
        )
        if not end:
            raise UserError(
                f"{folder} has no eos_token, which ends a turn. Is tokenizer_config.json complete?"
            )
        return replace(chat, end=end)

    def rendered(
        self, messages: Sequence[Message], is_open: bool = True, **settings: Any
    ) -> str | None:
        """Render `messages` as servers do. If `is_open`, append the opening of a reply. Return None
        on an error."""
        named = {
            "bos_token": self.bos,
            "eos_token": self.eos,
            "tools": None,
            "strftime_now": time.strftime,
        }
        try:
            template = _compiled(self.template)
            prompt: str = template.render(
                messages=messages, add_generation_prompt=is_open, **named | settings
            )
            return prompt
        except Exception:  # a template may raise anything
            return None

    def texts(self, row: Line) -> tuple[str, str]:
        """Return the prompt and the reply, without the token that ends the turn. If the template
        opens thinking, the prompt ends with <think>. For a reply without thinking, thinking is
        turned off, or closed by </think>."""
        prompt, reply = self._prompt(row), row.output.removeprefix(f"{THINK}\n")
        is_opened = prompt.rstrip().endswith(THINK)
        if row.output.startswith(THINK) or END_THINK in row.output:
            return prompt, reply if is_opened else f"{THINK}\n{reply}"
        if is_opened and (prompt := self._prompt(row, enable_thinking=False)).rstrip().endswith(
            THINK
        ):
            prompt += f"\n{END_THINK}\n\n"
        return prompt, reply

    def _prompt(self, row: Line, **settings: Any) -> str:
        system = [{"role": "system", "content": row.system}] if row.system else []
        text = self.rendered([*system, {"role": "user", "content": row.prompt}], **settings)
        if text is None:  # unexpected, because `of` rendered another message
            raise UserError(
                f"the chat template can't render the prompt {row.prompt!r:.80}. Remove this row"
            )
        return text


@lru_cache(maxsize=1)  # a prompt is rendered for each row
def _compiled(template: str) -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # a template is untrusted code

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.add_extension("jinja2.ext.loopcontrols")
    return environment.from_string(template)


def _control(folder: Path, name: str) -> str:
    """Return the control token `name` of tokenizer_config.json (a string or an object), or "" if
    there is none."""
    named = read_object(folder / "tokenizer_config.json").get(name)
    text = named.get("content") if isinstance(named, dict) else named
    return text if isinstance(text, str) else ""
