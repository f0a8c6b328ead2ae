"""Continue thinking that ended before the cap with a "Wait" (s1, arXiv 2501.19393).

s1 suppresses the token that ends thinking. A chat server shows that token only together with the answer. So the answer
is kept as the reading before the wait, and the request is sent again with all thinking so far, left open.
"""

from core.engines.server import untagged
from core.generate.reply import Reply
from core.types import Completion

NO_THINKING = "the completion shows no thinking to continue"
LEFT_OUT = "the server left out the thinking that it was to continue"


def may_wait(completion: Completion) -> bool:
    """Return whether the model ended `completion` by itself, and no earlier wait failed."""
    is_ended = completion.finish_reason is not None and not (completion.truncated or completion.filtered)
    return is_ended and completion.not_waited is None


def opened(thinking: str, word: str) -> str:
    """Return all thinking so far and the `word` in a paragraph of its own, after which the model continues."""
    return f"{untagged(thinking)}\n\n{word}"


def whole(reply: Reply, thinking: str) -> tuple[str, str]:
    """Return content and reasoning of a reply that continues `thinking`, with that thinking at the beginning."""
    if reply.reasoning:  # llama.cpp repeats all of it if it does not stream
        return reply.content, reply.reasoning if reply.reasoning.startswith(thinking) else thinking + reply.reasoning
    if "</think>" in reply.content or reply.finish_reason == "length":  # a server that does not separate thinking
        return thinking + reply.content, ""
    return reply.content, thinking  # the model closed it at once


def is_left_out(reply: Reply, before: Completion) -> bool:
    """Return whether the server left out the thinking: the prompt is no longer than the average one of `before`."""
    requests = 1 + len(before.before_waits)
    return 0 < reply.prompt_tokens * requests <= before.prompt_tokens
