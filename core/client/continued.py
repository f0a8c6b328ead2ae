"""Continue a completion: continue its thinking, or elicit the answer that it lacks.

A "Wait" continues thinking (s1, arXiv 2501.19393) if its token cap is not used up. The authors
suppress the token that ends thinking. A chat server shows the end of thinking only together with an
answer. So this answer is stored as the answer before the wait, and a second request has the
thinking without its closing tag.

ELICIT=1 continues a reply without an answer by "Therefore, the answer is" and an open box. This is
the second prompt of zero-shot chain of thought (Kojima et al. 2022, arXiv 2205.11916). If the run
reads words, the box is left out."""

from dataclasses import replace

from core.base.thinking import is_closed
from core.client.reply import Reply
from core.constants import BOXED
from core.grading.text import read, text_read
from core.types import Completion

NO_THINKING = "the completion shows no thinking to continue"
LEFT_OUT = "the server dropped the thinking that it should continue"


def lacks_answer(completion: Completion, reading: str) -> bool:
    """Return whether the model itself ended `completion` and the grading finds no answer
    (Problem.reading) in it. Empty, failed, filtered, truncated and forced completions and tool
    calls do not count."""
    is_silent = completion.empty or completion.only_calls or bool(completion.error)
    if not is_ended(completion) or is_silent or completion.forced is not None:
        return False
    way, _, answer_type = reading.rpartition(" ")
    text = text_read(completion, completion.answer, way)
    return read(text, way or BOXED, answer_type).answer is None


def is_ended(completion: Completion) -> bool:
    """Return whether the model itself ended `completion`."""
    return completion.finish_reason is not None and not (
        completion.truncated or completion.filtered
    )


def whole(reply: Reply, thinking: str) -> tuple[str, str]:
    """Return the content and the reasoning of a reply, completed with the `thinking` that the reply
    continues."""
    if reply.reasoning:  # llama.cpp repeats all thinking in replies that are not streamed
        return reply.content, reply.reasoning if reply.reasoning.startswith(
            thinking
        ) else thinking + reply.reasoning
    # a server that does not separate thinking
    if is_closed(reply.content) or reply.finish_reason == "length":
        return thinking + reply.content, ""
    return reply.content, thinking  # the model closed the thinking at once


def is_left_out(reply: Reply, before: Completion) -> bool:
    """Return whether the server dropped the thinking: the prompt is no longer than the average
    prompt of `before`."""
    requests = 1 + len(before.before_waits)
    return 0 < reply.prompt_tokens * requests <= before.prompt_tokens


def summed(completion: Completion, reply: Reply) -> Completion:
    """Add the tokens of a `reply` that continues `completion`. If a prompt's count is unknown, all
    sums are 0."""
    is_counted = bool(completion.prompt_tokens and reply.prompt_tokens)
    return replace(
        completion,
        prompt_tokens=is_counted * (completion.prompt_tokens + reply.prompt_tokens),
        cached_tokens=is_counted * (completion.cached_tokens + reply.cached_tokens),
        completion_tokens=is_counted * (completion.completion_tokens + reply.completion_tokens),
        logprob=None,  # the model did not write the text between the completion and the reply
        model=reply.model or completion.model,
    )
