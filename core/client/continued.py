"""Continue a completion: continue its thinking, or elicit the answer that it lacks.

A "Wait" continues thinking (s1, arXiv 2501.19393) if its token cap is not used up. The authors
suppress the token that ends thinking. A chat server shows the end of thinking only together with an
answer. So this answer is stored as the answer before the wait, and a second request has the
thinking without its closing tag.

ELICIT=1 continues a reply without an answer by "Therefore, the answer is" and an open box. This is
the second prompt of zero-shot chain of thought (Kojima et al. 2022, arXiv 2205.11916). If the run
reads words, the box is left out."""

from dataclasses import replace

from core.base.errors import one_line
from core.base.thinking import is_closed
from core.client.failures import Failure
from core.client.reply import Reply
from core.client.request import Request
from core.constants import BOXED
from core.grading.kind import Kind
from core.grading.kinds import named
from core.grading.text import text_read
from core.types import CHARACTERS, CUT, ELICITED_ANSWER, UNSURE, Completion, Sampling

NO_THINKING = "the completion shows no thinking to continue"
LEFT_OUT = "the server dropped the thinking that it should continue"
NOT_CONTINUED = (
    "a trial has shown that the server can't continue a message (if it can, set continues = true "
    "in its card)"
)
# the journal keeps so many characters of the reason why an answer was not forced, or a wait failed
REASON = 100
SPARE_TOKENS = 32  # left free in the context when an answer is forced


class Unable(Failure):
    """A request that is not sent, because the completion or the server can't be continued. Its text
    is the reason."""


def reason_of(failure: Failure) -> str:
    """Return the reason why a completion was not continued, as the journal stores it."""
    if isinstance(failure, Unable):
        return str(failure)
    return one_line(f"{type(failure).__name__.lower()} {failure}".strip(), REASON)


def lacks_forcing(stored: Completion, sampling: Sampling) -> bool:
    """Return whether the request that forces the answer of a `stored` completion failed in an
    earlier run, so that it is sent again."""
    is_cut = stored.truncated and bool(stored.thinking) and not stored.answer
    is_forced = stored.forced is not None or stored.not_forced is not None
    return is_cut and not is_forced and bool(sampling.answer_tokens) and not sampling.opening


def fitting_thinking(before: Completion, request: Request, context: int | None) -> str:
    """Return the thinking of `before`, or only its end if not all of it fits the server's `context`
    with the answer."""
    thinking = before.thinking
    if not context:
        return thinking
    characters = sum(len(message["content"]) for message in request.messages)
    prompt_tokens = before.prompt_tokens or characters // CHARACTERS
    room = context - prompt_tokens - request.sampling.answer_tokens - SPARE_TOKENS
    spent = before.completion_tokens or request.sampling.max_tokens
    if spent <= room:
        return thinking
    fitting = len(thinking + before.answer) * max(room, 0) // spent - len(before.answer)
    return thinking[-max(1, fitting) :]


def lacks_answer(completion: Completion, reading: str) -> bool:
    """Return whether the model itself ended `completion` and the grading finds no answer
    (Problem.form_and_type) in it. Empty, failed, filtered, truncated and forced completions and
    tool calls do not count."""
    is_silent = completion.empty or completion.only_calls or bool(completion.error)
    if not is_ended(completion) or is_silent or completion.forced is not None:
        return False
    way, kind = _way_and_kind(reading)
    text = text_read(completion, completion.answer, way)
    return kind.read(text, way).answer is None


def elicited_opening(reading: str) -> str:
    """Return the text that opens an elicited answer, for a Problem.form_and_type."""
    way, kind = _way_and_kind(reading)
    return kind.opening(ELICITED_ANSWER, way)


def _way_and_kind(reading: str) -> tuple[str, Kind]:
    way, _, answer_type = reading.rpartition(" ")
    return way or BOXED, named(answer_type)()


def is_ended(completion: Completion) -> bool:
    """Return whether the model itself ended `completion`."""
    if completion.finish_reason in (None, UNSURE):
        return False
    return not (completion.truncated or completion.filtered)


def whole(reply: Reply, thinking: str) -> tuple[str, str]:
    """Return the content and the reasoning of a reply, completed with the `thinking` that the reply
    continues."""
    if reply.reasoning and reply.reasoning.startswith(thinking):
        # llama.cpp repeats all thinking in replies that are not streamed
        return reply.content, reply.reasoning
    if reply.reasoning:
        return reply.content, thinking + reply.reasoning
    if is_closed(reply.content) or reply.finish_reason == CUT:
        # a server that does not separate thinking
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
    prompt = cached = written = 0
    if completion.prompt_tokens and reply.prompt_tokens:
        prompt = completion.prompt_tokens + reply.prompt_tokens
        cached = completion.cached_tokens + reply.cached_tokens
        written = completion.completion_tokens + reply.completion_tokens
    confidences: list[float] = []
    if completion.confidences and reply.confidences:
        confidences = [*completion.confidences, *reply.confidences]
    return replace(
        completion,
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=written,
        logprob=None,  # the model did not write the text between the completion and the reply
        confidences=confidences,
        model=reply.model or completion.model,
    )
