"""A chat completion request in OpenAI's format, read and checked: the problem, what stands before it, RSA's constants.

The problem is the last user message. What stands before it (system messages, earlier turns) is left as it is and sent
ahead of every prompt of RSA, so that candidates are written, and aggregated, in the light of the whole conversation.
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from core.base.errors import UserError
from core.constants import rules
from core.generate.journal import content_key
from core.scaffolds.rsa import RsaConstants
from core.types import Message, Problem
from labs.endpoint.guard import Refusal

# OpenAI's fields (and two that servers add to them) and the constants they set; max_tokens is the older name.
FIELDS = {
    "max_tokens": "MAX_TOKENS",
    "max_completion_tokens": "MAX_TOKENS",
    "temperature": "TEMPERATURE",
    "top_p": "TOP_P",
    "top_k": "TOP_K",
    "min_p": "MIN_P",
    "seed": "SEED",
}
RULES = rules(RsaConstants)
# A request may not change the free constants: some are the server's, and the problem is the request's own.
OF_A_REQUEST = tuple(name for name, rule in RULES.items() if not rule.free)

# What RSA can't do, with the values that ask for nothing; null always does. Ignoring them would answer another request.
UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "tools": ([],),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "function_call": ("none", "auto"),
    "response_format": ({"type": "text"},),
    "logprobs": (False,),
    "top_logprobs": (0,),
    "logit_bias": ({},),
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "modalities": (["text"],),
    "audio": (),
}
MOST_STOPS = 64  # texts in a list of `stop`
MOST_MESSAGES = 1000
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


@dataclass(frozen=True)
class ChatRequest:
    """What is asked. `before`: messages that go ahead of every prompt; `choices`: answers wanted (n); `stop`: texts
    that end an answer."""

    problem: Problem
    before: list[Message]
    config: RsaConstants
    choices: int
    stop: list[str]
    stream: bool
    include_usage: bool


def read(body: Any, model: str, defaults: RsaConstants) -> ChatRequest:
    """The request in `body` (decoded JSON) to `model`; `defaults` are the constants that it does not set.

    Constants come from OpenAI's fields, from upper-case fields ("N": 4), and from the object "rsa" ({"n": 4} or
    {"N": 4}), which goes first. Without a seed, a random one. Other fields are ignored, as everywhere. The problem's id
    is a hash of the conversation: with equal seeds, equal requests get equal answers. Raises Refusal.
    """
    if not isinstance(body, dict):
        raise Refusal('the body must be a JSON object like {"model": …, "messages": […]}')
    if not isinstance(body.get("model"), str):
        raise Refusal(f"model must be a text: {model}", "model")
    if body["model"] not in (model, model.partition("@")[0]):  # with the hash of its weights, or without
        raise Refusal(f"no model {body['model']!r:.80} here; there is {model}", "model", "model_not_found", 404)
    for name, neutral in UNSUPPORTED.items():
        if body.get(name) is not None and body[name] not in neutral:
            raise Refusal(f"{name} is not supported: RSA aggregates plain text. Leave it out", name, "unsupported")
    *before, last = _messages(body.get("messages"))
    if last["role"] != "user" or not last["content"].strip():
        raise Refusal("the last message must be the user's and hold text: it is the problem", "messages")
    config = _constants(body, defaults)
    problem = Problem(content_key([*before, last]), last["content"].strip(), answer="", answer_type="math")
    choices = body.get("n")
    if choices is None:
        choices = 1
    if isinstance(choices, bool) or not isinstance(choices, int) or not 1 <= choices <= config.N:
        raise Refusal(f"n must be a whole number from 1 to N={config.N}, the population that is chosen from", "n")
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise Refusal("stream_options must be an object", "stream_options")
    stream, include_usage = _flag(body, "stream"), _flag(options, "include_usage")
    return ChatRequest(problem, before, config, choices, _stop(body.get("stop")), stream, include_usage)


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise Refusal(f"{name} must be true or false", name)
    return bool(value)


def _stop(value: Any) -> list[str]:
    stops = [] if value is None else [value] if isinstance(value, str) else value
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop for stop in stops):
        raise Refusal("stop must be a text or a list of texts, none of them empty", "stop")
    if len(stops) > MOST_STOPS:
        raise Refusal(f"stop may hold {MOST_STOPS} texts, not {len(stops):,}", "stop")
    return stops


def _messages(value: Any) -> list[Message]:
    if not isinstance(value, list) or not value:
        raise Refusal("messages must be a list of at least one message", "messages")
    if len(value) > MOST_MESSAGES:
        raise Refusal(f"a conversation may hold {MOST_MESSAGES:,} messages, not {len(value):,}", "messages")
    messages = []
    for i, message in enumerate(value):
        where = f"messages[{i}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str) or message["role"] not in ROLES:
            raise Refusal(f"{where} must be an object whose role is one of {', '.join(ROLES)}", f"{where}.role")
        if message.get("tool_calls") or message.get("function_call"):
            raise Refusal(f"{where} calls a tool, and tools are not supported", f"{where}.tool_calls", "unsupported")
        messages.append({"role": ROLES[message["role"]], "content": _text(message.get("content"), f"{where}.content")})
    return messages


def _text(content: Any, where: str) -> str:
    """The text of a message; of parts, those of type text, a line each."""
    if isinstance(content, list):
        for i, part in enumerate(content):
            if not isinstance(part, dict) or part.get("type") != "text" or not isinstance(part.get("text"), str):
                kind = part.get("type") if isinstance(part, dict) else part
                raise Refusal(f"{where}[{i}] is not text ({kind!r:.40}); only text is read", where, "unsupported")
        content = "\n".join(part["text"] for part in content)
    if not isinstance(content, str):
        raise Refusal(f"{where} must be a text or a list of text parts", where)
    try:
        content.encode()
    except UnicodeEncodeError:
        raise Refusal(f"{where} holds half a surrogate pair, which is not text", where) from None
    return content


def _constants(body: dict[str, Any], defaults: RsaConstants) -> RsaConstants:
    extras = body.get("rsa")
    if extras is not None and not isinstance(extras, dict):
        raise Refusal('rsa must be an object like {"N": 4, "T": 2}', "rsa")
    stated = [(field, name, body[field]) for field, name in FIELDS.items() if field in body]
    stated += [(field, field, value) for field, value in body.items() if field.isupper()]
    stated += [(f"rsa.{field}", field.upper(), value) for field, value in (extras or {}).items()]
    values: dict[str, Any] = {"SEED": secrets.randbelow(2**31)}
    for field, name, value in stated:
        if value is None:
            continue
        if name not in OF_A_REQUEST:
            raise Refusal(f"{field:.40} is not a constant of a request. There are {', '.join(OF_A_REQUEST)}", field)
        rule = RULES[name]
        if isinstance(value, str) and rule.type is not str:  # the command line's numbers are texts, JSON's are not
            raise Refusal(f"{field}={value!r:.40} is not {rule.wanted()}", field)
        try:
            values[name] = rule.read(field, 0 if name == "TOP_K" and value == -1 else value)  # -1: how others say off
        except UserError as error:
            raise Refusal(str(error), field) from None
    try:
        return replace(defaults, **values)
    except UserError as error:
        raise Refusal(str(error), "rsa") from None
