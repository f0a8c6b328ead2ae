"""Waits (s1, arXiv 2501.19393): thinking that ends before the cap is opened again, behind a "Wait", and goes on.

s1 suppresses the delimiter that ends thinking. A server of chats tells of it only when the answer is there too; so that
answer is kept, as the reading before the wait, and the request is sent again with all thinking so far, left open.
"""

from core.engines.server import untagged
from core.generate.reply import Reply
from core.types import Completion

NO_THINKING = "the completion shows no thinking that could go on"
LEFT_OUT = "the server left out the thinking that it was to go on with"


def may_wait(made: Completion) -> bool:
    """Whether the model ended `made` by itself, and nothing has kept an earlier wait from it."""
    is_whole = made.finish_reason is not None and not (made.error or made.truncated or made.filtered)
    return is_whole and made.not_waited is None


def opened(thinking: str, word: str) -> str:
    """All thinking so far and the `word`, in a paragraph of its own, that it is to go on behind."""
    return f"{untagged(thinking)}\n\n{word}"


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
