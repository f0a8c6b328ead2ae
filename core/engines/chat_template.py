"""Render chat templates, and find the text that a server's chat template appends to a question."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from core.engines.client import page_of
from core.engines.server import MARK, Server
from core.types import Message


def tail_by_tokens(server: Server, field: str) -> str | None:
    """Return the text after a question in the prompt that `server` renders, or None if the server does not report it.
    The server first returns the prompt's tokens, and then the text of these tokens as `field`."""
    tokens = page_of(server, "tokenize", question(server)).get("tokens")
    body = {"model": server.model, "tokens": tokens, "skip_special_tokens": False}
    return tail_of(page_of(server, "detokenize", body).get(field)) if tokens else None


def question(server: Server) -> dict[str, Any]:
    """Return a request with MARK as its only message."""
    return {"model": server.model, "messages": [{"role": "user", "content": MARK}]}


def tail_of(prompt: Any) -> str | None:
    """Return the text after MARK in a `prompt`, or None if it does not contain MARK."""
    _, mark, tail = prompt.rpartition(MARK) if isinstance(prompt, str) else ("", "", "")
    return tail if mark else None


def rendered(
    template: Any, messages: Sequence[Message] = (), add_generation_prompt: bool = True, **settings: Any
) -> str | None:
    """Return the prompt that `template` renders from `messages` (default: MARK). An invalid template gives None.
    `settings` are further variables of the template. bos_token and eos_token are empty by default."""
    if not isinstance(template, str):
        return None
    try:
        prompt: str = _compiled(template).render(
            messages=messages or [{"role": "user", "content": MARK}],
            add_generation_prompt=add_generation_prompt,
            **{"bos_token": "", "eos_token": "", "tools": None, "strftime_now": str} | settings,
        )
        return prompt
    except Exception:  # a template may raise anything
        return None


@lru_cache(maxsize=1)  # training renders a prompt for each row
def _compiled(template: str) -> Any:
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # a template is untrusted code

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.add_extension("jinja2.ext.loopcontrols")
    return environment.from_string(template)
