"""Chat templates: what they put behind a question, and whether they can close thinking, as a server or its model's
files say."""

from collections.abc import Sequence
from typing import Any

from core.engines import client, weights
from core.engines.identity import weights_at
from core.engines.server import MARK, Server, is_local
from core.types import Message


def tail_on_llamacpp(server: Server) -> str | None:
    """What llama.cpp's chat template puts behind a question; None where that is not said."""
    made = _page(server, "apply-template", _chat(server)).get("prompt")
    return tail_of(made or rendered(_page(server, "props").get("chat_template")))


def tail_on_gpu_engine(server: Server, path: str) -> str | None:
    """The same for SGLang and vLLM, by the prompt that they render; else by the template in the model's folder, where
    its `path` is on this machine and no other template was chosen."""
    if tokens := _page(server, "tokenize", _chat(server)).get("tokens"):
        said = _page(server, "detokenize", {"model": server.model, "tokens": tokens, "skip_special_tokens": False})
        if made := said.get("text" if server.kind == "sglang" else "prompt"):
            return tail_of(str(made))
    is_its_own = is_local(server.base_url) and "chat_template" not in server.weights
    return tail_of(rendered(template_of(path))) if is_its_own else None


def closes_on_sglang(server: Server) -> bool:
    """Whether SGLang's chat template renders another prompt where thinking is switched off."""
    asked = {"model": server.model, "messages": [{"role": "user", "content": "1"}], "add_generation_prompt": True}
    closed = asked | {"chat_template_kwargs": {"enable_thinking": False}}
    tokens = [_page(server, "tokenize", body).get("tokens") for body in (asked, closed)]
    return isinstance(tokens[1], list) and tokens[0] != tokens[1]


def _chat(server: Server) -> dict[str, Any]:
    return {"model": server.model, "messages": [{"role": "user", "content": MARK}]}


def _page(server: Server, name: str, body: Any = None) -> dict[str, Any]:
    return client.page(f"{server.base_url.removesuffix('/v1')}/{name}", server.api_key, body)


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


def template_of(path: str) -> str | None:
    """The chat template in a model's folder on this machine."""
    folder = weights_at(path)
    return None if folder is None else weights.template(folder)
