"""Waits (s1, arXiv 2501.19393): thinking that ends before the cap is opened again, behind a "Wait", and goes on.

s1 suppresses the delimiter that ends thinking. A server of chats tells of it only when the answer is there too; so that
answer is kept, as the reading before the wait, and the request is sent again with all thinking so far, left open.
"""

import re
from collections.abc import Sequence
from typing import Any

from core.engines.server import Server
from core.generate.reply import Reply
from core.types import Completion, Message

NO_THINKING = "the completion shows no thinking that could go on"
LEFT_OUT = "the server left out the thinking that it was to go on with"

_TAG = re.compile(r"</?think>")


def may_wait(made: Completion) -> bool:
    """Whether the model ended `made` by itself, and nothing has kept an earlier wait from it."""
    is_whole = made.finish_reason is not None and not (made.error or made.truncated or made.filtered)
    return is_whole and made.not_waited is None


def opened(thinking: str, word: str) -> str:
    """All thinking so far and the `word`, in a paragraph of its own, that it is to go on behind."""
    return f"{_TAG.sub(' ', thinking).strip()}\n\n{word}"


def inside(messages: Sequence[Message], thinking: str, server: Server) -> dict[str, Any]:
    """The fields of a request that make `server` go on inside `thinking`, which stays open.

    llama.cpp leaves the thinking of a message without content open. SGLang appends the text to a generation prompt. On
    vLLM the template renders the message, and those of Qwen3 put closed thinking before whatever an assistant says: so
    the question itself is gone on with, by what the template puts behind questions and by the thinking, and the prompt
    is what SGLang's is. Where vLLM does not tell its template, and on others, an assistant's message opens the tag.
    """
    if server.kind == "llama.cpp":
        return {"messages": [*messages, {"role": "assistant", "reasoning_content": thinking, "content": ""}]}
    tagged = f"<think>\n{thinking}"
    if server.kind == "sglang":
        content = tagged if server.thinking is False else thinking
        return {"messages": [*messages, {"role": "assistant", "content": content}], "continue_final_message": True}
    going_on = {"continue_final_message": True, "add_generation_prompt": False} if server.kind == "vllm" else {}
    *before, last = messages
    if server.kind == "vllm" and server.tail is not None and last["role"] == "user":
        asked = last["content"] + server.tail + (thinking if server.thinking else tagged)
        return {"messages": [*before, last | {"content": asked}]} | going_on
    return {"messages": [*messages, {"role": "assistant", "content": tagged}]} | going_on


def whole(reply: Reply, thinking: str) -> tuple[str, str]:
    """Content and reasoning as they would have come in one piece, of a reply that went on inside `thinking`. llama.cpp
    gives all of it again where it does not stream."""
    if reply.reasoning:
        return reply.content, reply.reasoning if reply.reasoning.startswith(thinking) else thinking + reply.reasoning
    if "</think>" in reply.content or reply.finish_reason == "length":  # a server that keeps nothing apart
        return thinking + reply.content, ""
    return reply.content, thinking  # it was closed at once


def is_left_out(reply: Reply, before: Completion) -> bool:
    """Whether the server left out the thinking that it was to go on with: it has read no more than for the completion
    `before`, whose prompts are counted together."""
    requests = 1 + len(before.before_waits)
    return 0 < reply.prompt_tokens * requests <= before.prompt_tokens
