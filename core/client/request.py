"""Build the JSON body of a chat request, with the sampling fields that its server accepts."""

from dataclasses import dataclass, replace
from typing import Any

from core.base.thinking import TAGS
from core.client.budget import Reservation
from core.constants import PENALTIES
from core.engines.cards import SAMPLING
from core.engines.protocol import KWARGS, Server, ending
from core.types import TOP_LOGPROBS, Messages, Sampling

OFF = -1  # the value of top_k that switches it off


@dataclass(frozen=True)
class Request:
    """A request for one completion, and the `reservation` that pays for it."""

    messages: Messages
    seed: int
    sampling: Sampling
    reservation: Reservation

    def with_sampling(self, **changes: Any) -> "Request":
        """Return the request with `changes` of its sampling."""
        return replace(self, sampling=replace(self.sampling, **changes))


def chat_body(server: Server, request: Request) -> dict[str, Any]:
    """Return the body of a `request` to `server`, with the changes of the server's card."""
    sampling = request.sampling
    body: dict[str, Any] = {
        "model": server.model,
        "messages": list(request.messages),
        "seed": request.seed,
        **_sampling_fields(server, sampling),
        "max_tokens": sampling.max_tokens,
        **server.dialect.reasoning(server.card.effort, server.card.template),
    }
    if sampling.opening:
        body |= closed_thinking(server, request.messages, "", sampling.opening)
    if sampling.stop:
        body["stop"] = [sampling.stop]
    if count := _alternatives(sampling):
        body |= {"logprobs": True, "top_logprobs": count}
    if server.card.streams:  # only a stream shows that the server still works on a request
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return server.card.body(body)


def _alternatives(sampling: Sampling) -> int:
    """Return the number of likely tokens to list for each token, or 0 for no log-probabilities."""
    if sampling.confidences:
        return TOP_LOGPROBS
    # at least one, otherwise llama.cpp returns no probabilities at all
    return sampling.top_logprobs or int(sampling.sum_logprobs)


def closed_thinking(
    server: Server,
    messages: Messages,
    thinking: str,
    opening: str,
    tags: tuple[str, str] = TAGS,
) -> dict[str, Any]:
    """Return the fields of a request that closes `thinking` with the model's own `tags`, and begins
    the answer with `opening`. Without thinking, tags would confuse a model that does not think, so
    there is only the opening."""
    fields = server.dialect.closed(server, messages, thinking, opening)
    if not (thinking or server.thinking):
        fields |= ending(messages, opening)
    if KWARGS in fields:
        arguments = {**server.card.template, **fields[KWARGS]}
        fields |= {KWARGS: arguments}
    *before, last = fields["messages"]
    content = last["content"]
    for usual_tag, tag in zip(TAGS, tags, strict=True):
        content = content.replace(usual_tag, tag, 1)
    return fields | {"messages": [*before, last | {"content": content}]}


def _sampling_fields(server: Server, sampling: Sampling) -> dict[str, Any]:
    """Return the sampling fields of a request, before the server's card changes them."""
    fields: dict[str, Any] = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    if server.dialect.has_top_k or sampling.top_k or sampling.min_p:
        # Both are sent even if off, because llama.cpp's defaults (top_k 40, min_p 0.05) sharpen the
        # distribution. SGLang and its gateway refuse a top_k of 0, and llama.cpp and vLLM accept
        # both 0 and OFF.
        fields["top_k"] = sampling.top_k or OFF
        fields["min_p"] = sampling.min_p
    return {**fields, **server.dialect.neutral}


def sampling_sent(server: Server, sampling: Sampling) -> dict[str, Any]:
    """Return the sampling fields that requests to `server` contain, with the changes of its
    card."""
    fields = _sampling_fields(server, sampling)
    sent = server.card.body(fields | {"max_tokens": sampling.max_tokens})
    names = {*fields, *SAMPLING, *PENALTIES}
    return {name: value for name, value in sent.items() if name in names}


def sampling_unsent(server: Server, sampling: Sampling) -> list[str]:
    """Return the names of the sampling parameters that requests lack, so that the server's defaults
    apply."""
    sent = set(sampling_sent(server, sampling))
    if "repeat_penalty" in sent:  # llama.cpp's name
        sent.add("repetition_penalty")
    return [name for name in (*SAMPLING, *PENALTIES) if name not in sent]
