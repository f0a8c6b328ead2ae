"""Read and check a chat completion request in OpenAI's format. The last message is the problem. The messages before it
are sent as plain text before every prompt of RSA, and developer messages as system messages."""

import re
import secrets
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import msgspec

from core.base.errors import UserError
from core.constants import Framed, Repeated, rules
from core.generate.journal import content_key
from core.scaffolds.rsa import RsaConstants
from core.types import Message, Problem

# OpenAI's fields (and two that servers add), and the constants that they set. max_completion_tokens has precedence.
FIELDS = {name: name.upper() for name in ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed")}
FIELDS["max_completion_tokens"] = "MAX_TOKENS"
RULES = rules(RsaConstants)
# A request may not change the free constants. They belong to the server, except the problem, which is in the messages.
# SAMPLING only selects the server's defaults, and a request is a single run.
NOT_OF_A_REQUEST = {*rules(Framed), *rules(Repeated), "ANSWER", "SAMPLING"}
OF_A_REQUEST = tuple(name for name, rule in RULES.items() if not rule.free and name not in NOT_OF_A_REQUEST)

# Fields that RSA does not support. A request may contain them only with null or one of these neutral values.
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
    """The error for a request that is refused. It has the HTTP status and the error object of OpenAI's API."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param, self.code, self.status = param, code, status

    def to_json(self) -> dict[str, Any]:
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


class TextPart(msgspec.Struct):
    """A part of a message. Parts other than text, such as images, are refused."""

    type: Literal["text"]
    text: str


class ChatMessage(msgspec.Struct):
    """A message of the conversation. Tool results are refused, because the model cannot call tools."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart]

    def read(self) -> Message:
        parts = [self.content] if isinstance(self.content, str) else [part.text for part in self.content]
        return {"role": "system" if self.role == "developer" else self.role, "content": "\n".join(parts)}


class Body(msgspec.Struct):
    """The fields of a request that are neither constants nor unsupported nor ignored."""

    model: str
    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    stop: str | list[str] | None = None
    rsa: dict[str, Any] | None = None


@dataclass(frozen=True)
class ChatRequest:
    """A parsed request. `before` has the messages to send before every prompt. A text in `stop` ends the answer."""

    problem: Problem
    before: list[Message]
    config: RsaConstants
    stop: list[str]
    stream: bool
    include_usage: bool

    @property
    def size(self) -> int:
        """The number of characters in the conversation."""
        return sum(len(message["content"]) for message in self.before) + len(self.problem.statement)


def read(body: bytes, model: str, defaults: RsaConstants) -> ChatRequest:
    """Read a JSON request to `model`. Raises Refusal if it is invalid. Its constants replace those in `defaults`.

    OpenAI's fields set constants, and the object "rsa" ({"n": 4} or {"N": 4}) overrides them. A missing seed is drawn
    at random. The problem's id is a hash of the conversation. So equal requests with equal seeds reuse completions."""
    try:
        fields = msgspec.json.decode(body)
        asked = msgspec.convert(fields, Body)
    except msgspec.ValidationError as error:
        found = re.search(r"`\$\.?(.+)`$", str(error))
        raise Refusal(str(error), found[1] if found else None) from None
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the body is not valid JSON: {error}") from None
    if asked.model not in (model, model.partition("@")[0]):  # the hash of the weights is optional
        raise Refusal(f"unknown model {asked.model!r:.80}. The only model is {model}", "model", "model_not_found", 404)
    for name, neutral in UNSUPPORTED.items():
        if fields.get(name) is not None and fields[name] not in neutral:
            raise Refusal(f"RSA does not support this value of {name}. Leave the field out", name, "unsupported")
    *before, last = [message.read() for message in asked.messages]
    if last["role"] != "user" or not last["content"].strip():
        raise Refusal('the last message is the problem, so it must have text and the role "user"', "messages")
    config = _constants(fields, asked.rsa or {}, defaults)
    problem = Problem(content_key([*before, last]), last["content"].strip(), answer="", answer_type="math")
    stops = [asked.stop] if isinstance(asked.stop, str) else asked.stop or []
    include_usage = bool((asked.stream_options or {}).get("include_usage"))
    return ChatRequest(problem, before, config, [*filter(None, stops)], bool(asked.stream), include_usage)


def _constants(fields: dict[str, Any], extras: dict[str, Any], defaults: RsaConstants) -> RsaConstants:
    stated = [(field, name, fields[field]) for field, name in FIELDS.items() if field in fields]
    stated += [(f"rsa.{field}", field.upper(), value) for field, value in extras.items()]
    values: dict[str, Any] = {"SEED": secrets.randbelow(2**31)}
    for field, name, value in stated:
        if value is None:
            continue
        if name not in OF_A_REQUEST:
            raise Refusal(f"a request can't set {field:.40}. It can set {', '.join(OF_A_REQUEST)}", field)
        try:  # other servers accept -1 for off
            values[name] = RULES[name].read(field, 0 if name == "TOP_K" and value == -1 else value)
        except UserError as error:
            raise Refusal(str(error), field) from None
    try:
        return replace(defaults, **values)
    except UserError as error:
        raise Refusal(str(error), "rsa") from None
