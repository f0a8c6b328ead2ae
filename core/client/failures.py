"""The failures of a request: no connection, no usable reply, or an error response of the server."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from core.base.errors import one_line

LONGEST_WORDS = 300  # characters of a server's error message that are shown
PASSING = (408, 409, 425, 429)  # status codes of temporary errors, besides 5xx
THROTTLED = 429  # the status code of a rate limit
TOO_LARGE = 413  # the status code of a request that is too large
UNKNOWN_MODEL = 404  # the status code of an unknown model
DENIED = (401, 403, UNKNOWN_MODEL)  # status codes of a refused key or an unknown model
INVALID = (400, 422)  # status codes of an invalid request
OVERFLOW_CODE = "context_length_exceeded"  # OpenAI's code of a prompt that exceeds the context
# status codes of a gateway. The model may still work on the request
PASSED_ON = (408, 502, 504, 524)
_UNPAID = re.compile(
    r"insufficient[ _-]?(?:quota|credit|balance|fund)|credit balance|payment[ _]required"
    r"|billing_(?:hard_limit|not_active)"
)
_FILTERED = re.compile(r"content[ _-]?(?:filter|management|policy)|moderation")
# Messages of servers that refuse a request because it does not fit the model's context.
# tests/core/client/test_refusals.py quotes them. A dot matches line breaks, and a gap is short, so
# that a long message is searched in no time.
_OVERFLOW = re.compile(
    r"""
    context[ _-]*(?:length|window|size|limit|overflow) | \bn_ctx\b | \bsession_len\b
    | max_(?:model|seq|input|prompt)_len | \bmax_num_tokens\b | max_position_embeddings
    | max(?:imum)?[ ](?:prompt|input|sequence|model|message)[ ](?:length|tokens|characters)
    | max_?length | predefined[ ]maximum
    | max(?:imum)?[ ]length[ ](?:reached | of[ ].{0,20}?(?:question|prompt|input))
    | (?:prompt|inputs?|messages?|conversation|text|request(?:[ ]body)?)(?![^\W_])
      .{0,80}? (?:\b|_)too[ _](?:long|large|big|many[ _]tokens)
    | \btoo[ ]many[ ](?:\w+[ ])?tokens\b
    | (?<!output[ ])(?<!completion[ ])token[ ]limit\b | tokens_limit
    | prompt[ ]exceeds | range[ ]of[ ]input[ ]length | `inputs`[ ](?:tokens|must[ ]have)
    | (?:input|prompt|message|total|requested|request|sequence)s?[ ]?(?:token|length)s?\b .{0,80}?
      (?:exceed|longer|larger|greater|more[ ]than|supports[ ]|limit
        |(?:must|should)[ ](?:not|be[ ](?:<|less|at[ ]most)))
    | (?:input|prompt|message|request|conversation)s?\b .{0,60}? \d[ ]tokens\b .{0,60}?
      (?:exceed|longer|larger|greater|more[ ]than|supports[ ]|limit|maximum)
    | number[ ]of[ ](?:\w+[ ])?tokens .{0,60}? (?:exceed|larger|greater|more[ ]than)
    | (?:input|prompt|message|request|conversation)s?\b (?:(?!output|completion|max_).){0,60}?
      (?:exceed|(?:longer|larger|greater|more)[ ]than)
      (?:(?!output|completion|max_).){0,40}? \btokens?\b
    | \d[ ]tokens\b .{0,40}? \ballows[ ]only | tokens_exceeded | string_above_max
    | tokens[ ]in[ ]the[ ](?:prompt|messages?|input)
    | (?:prompt|inputs?)\W{1,3}(?:and\W+|plus\W+)?max_(?:new_)?tokens
    | \bfit\b .{0,20}? \bcontext\b | 上下文 | (?:输入|提示|prompt) .{0,20}? (?:过长|超)
    | exceeds?[ ]the[ ](?:model|maximum)\S*[ ]
      .{0,40}? (?:input|prompt|number[ ]of|sequence|total)[ ](?:token|length)
    | (?:reduce|shorten)[ ](?:the[ ]length[ ]of[ ])?
      (?:the|your|either)[ ](?:messages?|input|prompt|one)
    """,
    re.VERBOSE | re.DOTALL,
)
# Limits per time and limits of files are not the model's context.
_RATE = re.compile(r"rate[ _-]?limit|\bper[ -](?:sec|min|hour|day|month)|\btp[mdh]\b|quota|throttl")
_FILE = re.compile(r"\b(?:image|photo|audio|video|file|pdf|attachment|payload|entity|upload)")
_TOO_LARGE = re.compile(r"\btoo[ _](?:large|long|big)\b")
# fields in which a validator repeats the request
_ECHOED = ("input", "messages", "body", "request")
_SEARCHED = 4096  # characters of an error in which these words are searched
# fields that may hold an error's message
_WORDS = ("message", "msg", "detail", "error", "errors", "title", "reason")
_DEEPEST = 5  # nested levels of an error that are searched


class Failure(Exception):
    """The error of a request without a usable reply. Its text is the reason."""

    # True if the provider can't charge: the request was refused before any token, or never arrived
    is_free = False
    may_pass = True  # whether a retry may help
    tries = math.inf  # after so many failures of this kind, the request is given up
    prefix = ""  # the beginning of `words`

    @property
    def words(self) -> str:
        """The failure's kind and reason. Completions store this text, except for overflows and
        filtered prompts."""
        return f"{self.prefix}{self}"


class Lost(Failure):
    """A connection that could not be opened, or that ended before the reply was complete."""

    prefix = "no connection: "


class Malformed(Failure):
    """A response that is neither an error nor a complete chat completion, or a redirect that can't
    be followed."""

    prefix = "the server's response is not a chat completion: "


class NoScore(Malformed):
    """A reward model's response without usable scores."""

    tries = 2
    prefix = "the scorer's response is unusable: "


class Oversized(Failure):
    """A reply with more bytes than its token cap allows. The rest was not read."""

    may_pass = False


class Stalled(Failure):
    """A request that received no data for too long. After each such failure, the next try waits
    twice as long."""

    tries = 3


class Overtime(Failure):
    """A reply that took longer than the time limit of a request."""

    tries = 2


class Refused(Failure):
    """An error response. Its text is the server's message on one line. `wait` is its Retry-After in
    seconds, or None. `body` is text or JSON. `is_within` means an error within a response of status
    2xx, which may be charged."""

    def __init__(
        self, status: int, body: Any, headers: Mapping[str, str], is_within: bool = False
    ) -> None:
        is_text = isinstance(body, str)
        text = body if is_text else json.dumps(body)
        error = parsed_json(body) if is_text else body
        super().__init__(one_line(_words(error) or text or f"Error code: {status}", LONGEST_WORDS))
        self.status = status
        self.prefix = f"status {status}: "
        self._all = text.lower()
        self._message = " ".join(_texts(text if error is None else error))[:_SEARCHED].lower()
        self.wait = _wait({name.lower(): value for name, value in headers.items()})
        self.is_free = not (is_within or status in PASSED_ON)
        # one request exceeds the limit of tokens per minute
        is_too_large = "request too large" in self._all
        is_for_good = is_too_large or OVERFLOW_CODE in self._message
        self.may_pass = (status >= 500 or status in PASSING) and not is_for_good

    @property
    def is_unpaid(self) -> bool:
        """True if the account's quota or credit is used up. Unlike a rate limit, this error does
        not pass by itself."""
        if self.status == 402:
            return True
        return self.status in (400, 403, 429) and bool(_UNPAID.search(self._all))

    @property
    def is_overflow(self) -> bool:
        """True if prompt and token cap do not fit the model's context. Rate limits and large images
        do not count."""
        if OVERFLOW_CODE in self._message:
            return True
        is_file = bool(_FILE.search(self._message)) and "token" not in self._message
        is_limit = self.status == THROTTLED or bool(_RATE.search(self._message))
        return not (is_file or is_limit) and bool(_OVERFLOW.search(self._message))

    @property
    def is_of_its_prompt(self) -> bool:
        """True if the error concerns this prompt, so that the server may accept other prompts."""
        is_too_large = self.status == TOO_LARGE or bool(_TOO_LARGE.search(self._message))
        return self.is_overflow or self.is_filtered or is_too_large

    @property
    def is_of_a_field(self) -> bool:
        """True if the server refuses the request's fields, and not its prompt or its key."""
        return self.status in INVALID and not self.is_of_its_prompt

    def names(self, field: str) -> bool:
        """Return whether the server refuses the request because of this `field`."""
        return self.is_of_a_field and re.search(rf"\b{field}\b", self._message) is not None

    @property
    def is_filtered(self) -> bool:
        """True if the error mentions a content filter, content policy or moderation."""
        return bool(_FILTERED.search(self._all))


class Denied(Refused):
    """An error response that denies the key or the model (DENIED), and usually repeats for every
    request."""

    tries = 4


def refusal(status: int, body: Any, headers: Mapping[str, str], is_within: bool = False) -> Refused:
    """Return the failure in an error response. Its arguments equal the arguments of Refused."""
    refused = Refused(status, body, headers, is_within)
    if status not in DENIED or refused.is_filtered:  # OpenRouter moderates with 403
        return refused
    return Denied(status, body, headers, is_within)


def parsed_json(text: str) -> Any:
    """Return the value of a JSON text, or None if it is no JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _words(error: Any, depth: int = 0) -> str:
    """Return the message in a server's error (in OpenAI's form, a simpler form, or a validator's
    list), or ""."""
    if isinstance(error, str):
        return error.strip()
    if depth > _DEEPEST or not isinstance(error, dict | list):
        return ""
    if isinstance(error, list):
        messages = [_words(part, depth + 1) for part in error[:8]]
        return "; ".join(filter(None, messages))
    for name in _WORDS:
        if message := _words(error.get(name), depth + 1):
            location = error.get("loc")  # the field that a validator refuses
            if isinstance(location, list | tuple):
                return f"{'.'.join(map(str, location))}: {message}"
            return message
    return ""


def _texts(error: Any, depth: int = 0) -> Iterator[str]:
    """Yield all texts in a server's error, except for the fields in which a validator repeats the
    request (_ECHOED)."""
    if isinstance(error, str):
        yield error
    elif depth > _DEEPEST:
        return
    elif isinstance(error, list):
        for part in error:
            yield from _texts(part, depth + 1)
    elif isinstance(error, dict):
        for name, value in error.items():
            if name not in _ECHOED:
                yield from _texts(value, depth + 1)


def _wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds of a Retry-After header, or None. Providers send no dates, which HTTP also
    permits."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            seconds = float(headers.get(name, "")) * unit
            return None if math.isnan(seconds) else max(0.0, seconds)
    return None
