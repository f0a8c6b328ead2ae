"""Chat templates: the text that they put behind a question, as a server or a rendered template tells."""

from collections.abc import Sequence
from typing import Any

from core.engines.client import page_of
from core.engines.server import MARK, Server
from core.types import Message


def tail_by_tokens(server: Server, field: str) -> str | None:
    """Return the text behind a question in the prompt that `server` renders: its tokens, then the `field` of their
    text. None if it does not tell."""
    tokens = page_of(server, "tokenize", question(server)).get("tokens")
    body = {"model": server.model, "tokens": tokens, "skip_special_tokens": False}
    return tail_of(page_of(server, "detokenize", body).get(field)) if tokens else None


def question(server: Server) -> dict[str, Any]:
    """Return a request of MARK alone."""
    return {"model": server.model, "messages": [{"role": "user", "content": MARK}]}


def tail_of(prompt: Any) -> str | None:
    """What stands in a `prompt` behind MARK. None where it holds no MARK."""
    _, mark, tail = prompt.rpartition(MARK) if isinstance(prompt, str) else ("", "", "")
    return tail if mark else None


def rendered(
    template: Any, messages: Sequence[Message] = (), add_generation_prompt: bool = True, **settings: Any
) -> str | None:
    """The prompt that a chat template makes of `messages` (else of MARK); None where we can't render it. `settings` are
    other names that it may use; tokens of control are empty where they don't say them."""
    from jinja2.sandbox import ImmutableSandboxedEnvironment  # it is someone else's program

    if not isinstance(template, str):
        return None
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.add_extension("jinja2.ext.loopcontrols")
    try:
        return environment.from_string(template).render(
            messages=messages or [{"role": "user", "content": MARK}],
            add_generation_prompt=add_generation_prompt,
            **{"bos_token": "", "eos_token": "", "tools": None, "strftime_now": str} | settings,
        )
    except Exception:  # of any kind: it may do what it likes
        return None
