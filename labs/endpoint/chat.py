"""Read and check a chat completion request in OpenAI's format. The last message is the problem. The
messages before it are sent as plain text before every prompt of the scaffold, and developer
messages as system messages."""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec

from core.base.errors import UserError
from core.client.journal import content_key
from core.constants import BOXED, Carrying, Constants, Framed, Reasoning, Repeated, Shuffled, rules
from core.types import Message, Problem, Scaffold
from harness.experiment_file import experiments_by_scaffold

# OpenAI's fields (and two that servers add), and the constants that they set. max_completion_tokens
# has precedence.
FIELDS = {
    name: name.upper() for name in ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed")
}
FIELDS["max_completion_tokens"] = "MAX_TOKENS"
# A request may not change the free constants. They belong to the server, except the problem, which
# is in the messages. SAMPLING only selects the server's defaults, and a request is a single run.
# An endpoint has one model, so VERIFIER is not a choice.
NOT_OF_A_REQUEST = {
    *rules(Framed),
    *rules(Reasoning),
    *rules(Repeated),
    *rules(Shuffled),
    "ANSWER",
    "SAMPLING",
    "SCAFFOLD",
    "VERIFIER",
}

# Fields that the endpoint does not support. A request may contain them only with null or one of
# these neutral values.
UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "n": (1,),
    **dict.fromkeys(("tools", "functions"), ([],)),
    **dict.fromkeys(("tool_choice", "function_call"), ("none", "auto")),
    **dict.fromkeys(("presence_penalty", "frequency_penalty", "top_logprobs"), (0,)),
    "response_format": ({"type": "text"},),
    "logprobs": (False,),
    "logit_bias": ({},),
    "modalities": (["text"],),
    "audio": (),
}


class Refusal(Exception):
    """The error for a request that is refused. It has the HTTP status and the error object of
    OpenAI's API."""

    def __init__(
        self, message: str, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status

    def to_json(self) -> dict[str, Any]:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {
            "error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}
        }


class TextPart(msgspec.Struct):
    """A part of a message. Parts other than text, such as images, are refused."""

    type: Literal["text"]
    text: str


class ChatMessage(msgspec.Struct):
    """A message of the conversation. Tool results are refused, because the model cannot call
    tools."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]

    def read(self) -> Message:
        parts = (
            [self.content]
            if isinstance(self.content, str)
            else [part.text for part in self.content]
        )
        return {
            "role": "system" if self.role == "developer" else self.role,
            "content": "\n".join(parts),
        }


class Body(msgspec.Struct):
    """The fields of a request that are neither constants nor unsupported nor ignored."""

    model: str
    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    stop: str | list[str] | None = None


@dataclass(frozen=True)
class Offer:
    """A scaffold that clients can choose as the model `name`/NAME, and the default constants of its
    requests."""

    name: str
    scaffold: Scaffold[Any]
    defaults: Constants


@dataclass(frozen=True)
class ChatRequest:
    """A parsed request. `before` has the messages to send before every prompt. A text in `stop`
    ends the answer."""

    offer: Offer
    problem: Problem
    before: list[Message]
    config: Constants
    stop: list[str]
    stream: bool
    include_usage: bool

    @property
    def size(self) -> int:
        """The number of characters in the conversation."""
        return sum(len(message["content"]) for message in self.before) + len(self.problem.statement)


def of_a_request(kind: type[Constants]) -> tuple[str, ...]:
    """Return the names of the constants that a request to a scaffold with constants of this `kind`
    may set."""
    return tuple(
        name for name, rule in rules(kind).items() if not rule.free and name not in NOT_OF_A_REQUEST
    )


def own(config: Constants) -> str:
    """Return the constants that belong to the scaffold itself as text, such as "N=8 K=3 T=5"."""
    shared = rules(Carrying)
    return " ".join(
        f"{name}={getattr(config, name)}"
        for name in of_a_request(type(config))
        if name not in shared
    )


def read(body: bytes, served: str, offers: Mapping[str, Offer], way: str = BOXED) -> ChatRequest:
    """Read a JSON request to one of `offers`, which use the model `served`. Raises Refusal if it is
    invalid.

    OpenAI's fields set constants. The object with the scaffold's name ({"rsa": {"n": 4}} or {"rsa":
    {"N": 4}}) overrides them. A missing seed is drawn at random. The problem's id is a hash of the
    conversation. So equal requests with equal seeds reuse completions. `way` is the way to read
    answers (Problem.answer_form)."""
    try:
        fields = msgspec.json.decode(body)
        asked = msgspec.convert(fields, Body)
    except msgspec.ValidationError as error:
        found = re.search(r"`\$\.?(.+)`$", str(error))
        raise Refusal(str(error), found[1] if found else None) from None
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the body is not valid JSON: {error}") from None
    chosen, _, rest = asked.model.partition("/")
    # the hash of the weights is optional
    if chosen not in offers or rest not in (served, served.partition("@")[0]):
        known = ", ".join(f"{each}/{served}" for each in offers)
        raise Refusal(
            f"unknown model {asked.model!r:.80}. The models are {known}",
            "model",
            "model_not_found",
            404,
        )
    for other in experiments_by_scaffold().keys() - {chosen}:
        if fields.get(other) is not None:
            raise Refusal(
                f"{other} is another scaffold. Name the object with the constants {chosen}", other
            )
    for name, neutral in UNSUPPORTED.items():
        if fields.get(name) is not None and fields[name] not in neutral:
            raise Refusal(
                f"this value of {name} is not supported. Leave the field out", name, "unsupported"
            )
    *before, last = [message.read() for message in asked.messages]
    if last["role"] != "user" or not last["content"].strip():
        raise Refusal(
            'the last message is the problem, so it must have text and the role "user"', "messages"
        )
    config = _constants(fields, offers[chosen])
    problem = Problem(
        content_key([*before, last]),
        last["content"].strip(),
        "",
        answer_type="math",
        answer_form=way,
    )
    stops = [*filter(None, [asked.stop] if isinstance(asked.stop, str) else asked.stop or [])]
    include_usage = bool((asked.stream_options or {}).get("include_usage"))
    return ChatRequest(
        offers[chosen], problem, before, config, stops, bool(asked.stream), include_usage
    )


def _constants(fields: dict[str, Any], offer: Offer) -> Constants:
    known, extras = rules(type(offer.defaults)), fields.get(offer.name)
    if not isinstance(extras, dict | None):
        raise Refusal(f"{offer.name} must be an object with constants", offer.name)
    stated = [(field, name, fields[field]) for field, name in FIELDS.items() if field in fields]
    stated += [
        (f"{offer.name}.{field}", field.upper(), value) for field, value in (extras or {}).items()
    ]
    values: dict[str, Any] = {"SEED": secrets.randbelow(2**31)}
    for field, name, value in stated:
        if value is None:
            continue
        if name not in (may := of_a_request(type(offer.defaults))):
            raise Refusal(f"a request can't set {field:.40}. It can set {', '.join(may)}", field)
        try:  # other servers accept -1 for off
            values[name] = known[name].read(field, 0 if name == "TOP_K" and value == -1 else value)
        except UserError as error:
            raise Refusal(str(error), field) from None
    try:
        return replace(offer.defaults, **values)
    except UserError as error:
        raise Refusal(str(error), offer.name) from None
