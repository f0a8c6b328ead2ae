"""Turn a server's reply into a completion, and decide whether the reply was truncated."""

import re
from dataclasses import replace

from core.base.thinking import has_tag, split_thinking
from core.client.reply import Reply
from core.engines.protocol import Server
from core.types import CUT, TOOL_CALL, UNSURE, Completion, Sampling, end_of

NEW_TURN = "the server began a new message instead of continuing the opened answer"
# A reply with more tokens left than this and than a tenth of its cap was not truncated by the cap.
# A reply with fewer tokens did not fill a context.
FEW_LEFT = 16
CONTEXTS = 1024  # tokens, of which a server's context is a multiple
# The end of a reply that does not stop in mid-sentence: punctuation, a box, or the end of a code
# block or a tag
_ENDED = re.compile(r"""(?:[.!?…。！？．」』”]["'*`)\]}$]*|\\boxed\{.*[}\])$*]|```|\|>|</\w+>)$""")


def completion_of(reply: Reply, server: Server, seed: int, sampling: Sampling) -> Completion:
    """Return the completion in a `reply`, without its key. If the request began the answer, all of
    the reply belongs to the answer."""
    is_cut = _is_cut_thinking(reply, server, sampling)
    thinking, answer = split_thinking(reply.content, reply.reasoning, is_cut)
    is_new_turn = False
    if sampling.opening:
        thinking = ""
        rest = server.dialect.continuation(reply.content, reply.reasoning, sampling.opening)
        is_new_turn = rest is None
        answer = f"{sampling.opening}{rest}"
    if is_new_turn:
        thinking = reply.reasoning or reply.content
        answer = ""
    if reply.finish_reason == UNSURE:  # a beginning must not count as an answer
        thinking = f"{thinking}{answer}"
        answer = ""
    finish_reason = reply.finish_reason
    if sampling.top_logprobs and sampling.max_tokens == 1:
        # a reply of one token for its probabilities is complete, although the token cap ended it
        finish_reason = "stop"
    return Completion(
        "",
        seed,
        thinking,
        answer,
        not_forced=NEW_TURN if is_new_turn else None,
        finish_reason=finish_reason,
        prompt_tokens=reply.prompt_tokens,
        cached_tokens=reply.cached_tokens,
        completion_tokens=reply.completion_tokens,
        logprobs=reply.logprobs if sampling.opening and not is_new_turn else {},
        logprob=reply.logprob if sampling.sum_logprobs and not is_new_turn else None,
        confidences=reply.confidences if sampling.confidences and not is_new_turn else [],
        context=full_context(reply, sampling),
        model=reply.model,
    )


def _is_cut_thinking(reply: Reply, server: Server, sampling: Sampling) -> bool:
    """Return whether a truncated reply is thinking without tags, because the chat template opened
    the tag. The server's card decides this, or else its chat template."""
    if sampling.opening or reply.finish_reason != CUT or reply.reasoning:
        return False
    if has_tag(reply.content):
        return False
    if server.card.thinking:
        return server.card.thinking == "tags"
    return server.thinking is True


def with_finish_reason(reply: Reply, sampling: Sampling) -> Reply:
    """Return `reply` with the finish reason "length" if it stops in mid-sentence at its token cap
    or its context. Some servers report "stop" in this case. A stop text or a tactic may end
    anywhere, so such replies are unchanged."""
    has_ended = reply.finish_reason == TOOL_CALL or bool(end_of(reply.finish_reason))
    if has_ended or sampling.stop or sampling.sum_logprobs:
        return reply
    if not _is_at_limit(reply, sampling) or _is_whole(reply.content):
        return reply
    return replace(reply, finish_reason=CUT)


def _is_at_limit(reply: Reply, sampling: Sampling) -> bool:
    """Return whether a reply has as many tokens as its cap, or fills a context of the usual size,
    which is a multiple of CONTEXTS."""
    prompt, _, written = reply.counted
    if written is None:
        return False
    if written >= sampling.max_tokens > 1:
        return True
    return bool(prompt) and written > FEW_LEFT and ((prompt or 0) + written) % CONTEXTS == 0


def _is_whole(content: str) -> bool:
    """Return whether a text does not end in mid-sentence."""
    last_line = content.rstrip().rpartition("\n")[2]
    is_open = last_line.count("{") > last_line.count("}")
    return not is_open and _ENDED.search(last_line) is not None


def full_context(reply: Reply, sampling: Sampling) -> int:
    """Return the tokens of prompt and reply if the server truncated the reply far below its token
    cap, else 0."""
    prompt, _, written = reply.counted
    if reply.finish_reason != CUT or prompt is None or written is None:
        return 0
    unused = sampling.max_tokens - written
    return prompt + written if unused > max(FEW_LEFT, sampling.max_tokens // 10) else 0
