"""Make a model continue its thinking with a "Wait" (s1, arXiv 2501.19393), if its token cap is not used up.

The authors suppress the token that ends thinking. A chat server shows the end of thinking only together with an answer.
So this answer is stored as the answer before the wait, and a second request has the thinking without its closing tag.
"""

from core.engines.server import untagged
from core.generate.reply import Reply
from core.types import Completion

NO_THINKING = "the completion shows no thinking to continue"
LEFT_OUT = "the server dropped the thinking that it should continue"


def may_wait(completion: Completion) -> bool:
    """Return whether the model itself ended `completion`, and no earlier wait failed."""
    is_ended = completion.finish_reason is not None and not (completion.truncated or completion.filtered)
    return is_ended and completion.not_waited is None


def opened(thinking: str, word: str) -> str:
    """Return the thinking so far without tags, then the `word` as a new paragraph. The model continues after it."""
    return f"{untagged(thinking)}\n\n{word}"


def whole(reply: Reply, thinking: str) -> tuple[str, str]:
    """Return the content and the reasoning of a reply, completed with the `thinking` that the reply continues."""
    if reply.reasoning:  # llama.cpp repeats all thinking in replies that are not streamed
        return reply.content, reply.reasoning if reply.reasoning.startswith(thinking) else thinking + reply.reasoning
    if "</think>" in reply.content or reply.finish_reason == "length":  # a server that does not separate thinking
        return thinking + reply.content, ""
    return reply.content, thinking  # the model closed the thinking at once


def is_left_out(reply: Reply, before: Completion) -> bool:
    """Return whether the server dropped the thinking: the prompt is no longer than the average prompt of `before`."""
    requests = 1 + len(before.before_waits)
    return 0 < reply.prompt_tokens * requests <= before.prompt_tokens
