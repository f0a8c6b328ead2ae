"""What a server sends, as a Reply, and what can be wrong with it. It knows no client: importing it loads none."""

import json
import math
import re
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from core.base.errors import one_line
from core.base.files import storable
from core.base.prices import Counted
from core.types import BROKEN, CUT, end_of

LONGEST_WORDS = 300  # characters of a server's own words that are shown
MOST_TOKENS = 10**12  # that one reply may claim to have taken
BOM = b"\xef\xbb\xbf"  # may stand before anything, and means nothing
EVENT = re.compile(rb"\s*(?:data|event|id|retry)?:")  # how server-sent events begin; JSON begins otherwise
LONGEST_FIELD = 6  # bytes of "event:": so many distinguish them
_STREAM = re.compile(r"\bstream(?:s|ed|ing|_options)?\b|include_usage")
_CANNOT = re.compile(r"stream_options|support|implement|allow|permit|disabled")  # of a 5xx: not what passes by itself
PASSING = (408, 409, 425, 429)  # besides 5xx: states that pass by themselves
THROTTLED = 429
PASSED_ON = (408, 502, 504, 524)  # what a gateway says of a request that a model may be at work on
_UNPAID = re.compile(
    r"insufficient[ _-]?(?:quota|credit|balance|fund)|credit balance|billing|payment[ _]required|quota[ _]exhausted"
)
# These do not pass, even if the server gives a time: Google gives seconds for limits of a day.
_USED_UP = re.compile(
    r"insufficient_quota|billing_(?:hard_limit|not_active)|exceeded_current_quota|perday|limit: 0\b(?![.,]\d)"
)
# Whole numbers of tokens, without others between them but what is used up: "Limit 30,000, Used 0, Requested 36,500".
_SIZES = re.compile(
    r"\blimit:? (\d[\d,]{0,15})(?![\d.]|,?\d| ?[kmb]\b)(?: tokens)?[^\w\n]{1,3}(?:used:? [\d,]{1,15}[^\w\n]{1,3})?"
    r"requested:? (\d[\d,]{0,15})(?![\d.]*\d| ?[kmb]\b)"
)
_UNIT = r"(?:ms|s|seconds?|secs?|m|minutes?|mins?|h|hours?|d|days?)(?![a-z])"
_LATER = re.compile(rf"(?:retry|try again|wait)\D{{0,20}}((?:[\d.]+ ?{_UNIT}\s?)+)")
_SPAN = re.compile(rf"([\d.]++) ?({_UNIT})?\s?")  # "6m0s", "20 seconds", "1.5s", "90"
_SECONDS_IN = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_EPOCH = 1e9  # a larger number is no span of seconds but a moment since 1970, above a thousand times that in ms
_WORDS = ("message", "msg", "detail", "error", "errors", "title", "reason")  # where errors say what is wrong
_CODES = ("code", "type", "param", "status", "quotaId", "raw")
_INNER = ("error", "detail", "details", "violations", "metadata")  # where an error holds others
_DEEPEST = 5  # levels of an error, or of a message's parts, that are looked into
LEAST_CUT = 200  # tokens of a prompt; shorter ones are cut by no server
_KINDS = {"thinking": "reasoning", "reasoning": "reasoning", "refusal": "refusal"}  # of parts, by their types
_WORD = re.compile(r"[^\W\d_]+|\d+")


@dataclass(frozen=True)
class Reply:
    """What the server said. Texts are as they came, but for halves of surrogate pairs, which can't be sent again.
    Tokens are 0 where the server does not give them (Completion says which are)."""

    model: str
    content: str
    reasoning: str
    finish_reason: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    logprobs: dict[str, float]  # alternatives for the first token -> natural log of its probability
    logprob: float | None = None  # the sum of the natural logs of all tokens' probabilities; None: not all are given
    doubt: str = ""  # why the tokens that the server gives are not taken
    unread: bool = False  # the server counts fewer prompt tokens than the prompt has words

    @property
    def counted(self) -> Counted:
        """The same, None where it is not given. No prompt takes 0, nor does a reply that says something."""
        is_silent = bool(self.prompt_tokens) and not (self.content or self.reasoning)
        completion = self.completion_tokens if self.completion_tokens or is_silent else None
        return self.prompt_tokens or None, self.cached_tokens, completion


class Failure(Exception):
    """A request came to nothing. `is_free`: it can't be charged, for it was refused before any token, or never arrived.
    `counted`: the tokens that the server says it took all the same."""

    is_free: bool = False
    counted: Counted = (None, None, None)


class Lost(Failure):
    """The connection was refused, or ended before the reply did."""


class Hung(Lost):
    """The server keeps its connections open, sends nothing and answers no new one."""


class Malformed(Failure):
    """The server said that all is well, and what it sent is not a chat completion."""


class Oversized(Failure):
    """The reply was ended: it is larger than its cap allows."""


class Stalled(Failure):
    """No byte came for as long as patience lasted."""


class Overtime(Failure):
    """The reply took longer than a request may take in all."""


class Refused(Failure):
    """The server answered with an error: its status, its own words on one line, and how long it asks us to wait, in
    seconds (None: it does not say)."""

    def __init__(
        self, status: int, error: Any, headers: Mapping[str, str], text: str = "", is_within: bool = False
    ) -> None:
        """`error`: as JSON where it is that; `text`: the whole body as it came; `is_within`: it came in a reply that
        had begun well, of which tokens may have to be paid."""
        words = _words(error) or text
        self.status, self.said = status, one_line(words or f"Error code: {status}", LONGEST_WORDS)
        super().__init__(self.said)
        self._all = f"{words} {_codes(error)}".lower()
        self.wait = _wait(status, {name.lower(): value for name, value in headers.items()}, words.lower(), error)
        self.is_free = self.is_of_streaming or not (is_within or status in PASSED_ON)

    @property
    def is_throttled(self) -> bool:
        """Whether it is a limit of our rate, with the time at which it will have passed."""
        return self.status == THROTTLED and bool(self.wait)

    def names(self, field: str) -> bool:
        """Whether it speaks of this `field` of a request."""
        return bool(re.search(rf"\b{field}\b", self._all))

    @property
    def is_of_streaming(self) -> bool:
        """Whether it is streaming that the server refuses, and not the request."""
        is_about = bool(_STREAM.search(self._all)) and self.status not in PASSING
        return is_about and (self.status < 500 or bool(_CANNOT.search(self._all)))

    @property
    def is_unpaid(self) -> bool:
        """Whether it is quota or credit that is used up, which does not pass by itself, as limits of a rate do."""
        if self.status == 402 or _USED_UP.search(self._all):
            return True
        return bool(_UNPAID.search(self._all)) and self.wait is None

    @property
    def is_too_large(self) -> bool:
        """Whether this one request is larger than the limit of a minute, and can never pass."""
        if self.status != THROTTLED:
            return False
        sizes = _SIZES.search(self._all)
        if sizes is None:
            return "request too large" in self._all
        limit, requested = (int(size.replace(",", "")) for size in sizes.groups())
        return requested > limit

    @property
    def is_filtered(self) -> bool:
        """Whether a filter for contents refuses this very prompt."""
        return bool(re.search(r"content[ _-]?(?:filter|management|policy)|moderation", self._all))


@dataclass
class _Message:
    """A streamed message, as far as it has come."""

    left: float  # characters that may still come
    texts: dict[str, list[str]] = field(default_factory=dict)
    finish_reason: Any = None
    tokens: list[Any] = field(default_factory=list)  # with their probabilities, where they are given
    usage: Any = None
    model: Any = None

    def add(self, chunk: dict[str, Any]) -> None:
        self.model = self.model or chunk.get("model")
        self.usage = chunk.get("usage") or self.usage
        choices = chunk.get("choices") or [{}]
        if not isinstance(choices, list) or not all(isinstance(each, dict) for each in choices):
            raise Malformed(f"a chunk without choices: {chunk!r:.80}")
        if (choice := _first(choices)) is None:
            return  # other choices, which nobody asked for
        delta = choice.get("delta") or {}
        if not isinstance(delta, dict):
            raise Malformed(f"a chunk without text: {chunk!r:.80}")
        for name, text in _texts(delta):
            self.texts.setdefault(name, []).append(text)
            self.left -= len(text)
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        tokens = _listed(choice.get("logprobs"))
        self.tokens += tokens
        self.left -= len(tokens)
        if self.left < 0:
            raise Oversized

    def whole(self) -> dict[str, Any]:
        """As the server would have sent it without streaming."""
        message = {name: "".join(parts) for name, parts in self.texts.items()}
        choice = {"message": message, "finish_reason": self.finish_reason, "logprobs": {"content": self.tokens}}
        return {"model": self.model, "choices": [choice], "usage": self.usage}


async def assembled(head: bytes, rest: AsyncIterator[bytes], most: float = math.inf) -> dict[str, Any]:
    """The chat completion that server-sent events make: `head`, and the `rest` as it comes. Cut off, it is Malformed:
    a piece must not pass for the whole. Raises Oversized if its text has more than `most` characters."""
    message = _Message(most)
    try:
        await _take_in(message, head, rest)
    except Failure as failure:
        failure.counted = _counted(message.usage)
        raise
    return message.whole()


async def _take_in(message: _Message, head: bytes, rest: AsyncIterator[bytes]) -> None:
    is_done = False
    open_event: list[bytes] = []  # lines of one that has not ended
    async for line in _lines(head, rest):
        if not line and open_event:
            message.add(object_in(b"\n".join(open_event)))
            open_event = []
        if not line.startswith(b"data:"):
            continue  # a comment, an event's name, a blank line
        data = line[5:].strip()
        if data == b"[DONE]":
            is_done = True
        elif open_event or (data and not data.endswith(b"}")):  # JSON over several lines
            open_event.append(data)
        elif data:  # in one, as almost always; not all servers put a blank line behind it
            message.add(object_in(data))
    if open_event:
        message.add(object_in(b"\n".join(open_event)))
    if not is_done and not (message.finish_reason and message.usage):
        raise Malformed("the stream ended before the reply did")


async def _lines(head: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The lines, which end with LF, CR or both, as the format has it."""
    open_line: list[bytes] = []  # pieces of the line that has not ended; joined once, however long it is
    part: bytes | None = head
    is_after_cr = False
    while part is not None:
        plain = part.removeprefix(b"\n") if is_after_cr else part
        if part:
            is_after_cr = part.endswith(b"\r")
        if b"\r" in plain:
            plain = plain.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *ended, last = plain.split(b"\n")
        for piece in ended:
            yield b"".join([*open_line, piece])
            open_line = []
        open_line.append(last)
        part = await anext(rest, None)
    yield b"".join(open_line)


def object_in(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises Malformed, and Refused where it is an error."""
    try:
        found = json.loads(data.removeprefix(BOM).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise Malformed(f"no JSON: {data[:80]!r}") from None
    if not isinstance(found, dict):
        raise Malformed(f"no JSON object: {data[:80]!r}")
    if error := found.get("error") or (found.get("object") == "error" and found):
        code = error.get("code") if isinstance(error, dict) else None
        told = error.get("metadata") if isinstance(error, dict) else None  # OpenRouter puts its provider's there
        headers = told.get("headers") if isinstance(told, dict) else None
        named = {str(k): str(v) for k, v in headers.items()} if isinstance(headers, dict) else {}
        status = code if isinstance(code, int) and 400 <= code < 600 else 500
        raise Refused(status, error, named, is_within=True)
    return found


def reply_from(found: dict[str, Any]) -> Reply:
    """`found` read as a chat completion. Raises Malformed where it is none."""
    choices = found.get("choices")
    choice = _first(choices) or choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise Malformed(f"no message in {found!r:.120}")
    finish = _text(choice.get("finish_reason"))
    if not finish or end_of(finish) == BROKEN:  # a piece must not pass for the whole
        broken_off = Malformed(f"the reply has no end (finish_reason {finish or None})")
        broken_off.counted = _counted(found.get("usage"))
        raise broken_off
    if end_of(finish) == CUT:
        finish = CUT
    texts: dict[str, str] = {}
    for name, text in _texts(message):
        texts[name] = texts.get(name, "") + text
    content, refusal = storable(texts.get("content", "")), storable(texts.get("refusal", ""))
    reasoning = storable(texts.get("reasoning_content") or texts.get("reasoning", ""))
    if refusal:
        content, finish = "\n\n".join(filter(None, (content, refusal))), "refusal"
    prompt, cached, completion = _usage(found.get("usage"))
    if doubt := _contradiction(found.get("usage")):
        prompt = cached = completion = 0
    tokens = _listed(choice.get("logprobs"))
    return Reply(
        model=one_line(model, LONGEST_WORDS) if isinstance(model := found.get("model"), str) else "",
        content=content,
        reasoning=reasoning,
        finish_reason=finish,
        prompt_tokens=prompt,
        cached_tokens=cached,
        completion_tokens=completion,
        logprobs=_logprobs(tokens),
        logprob=_logprob(tokens, completion, finish, content or reasoning),
        doubt=doubt,
    )


def _first(choices: list[Any]) -> dict[str, Any] | None:
    """Find the choice of index 0, or one without an index, wherever it is in the list."""
    return next((each for each in choices if isinstance(each, dict) and not each.get("index")), None)


def _texts(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the texts of a message, or of a chunk, each with its kind: "content", "reasoning_content", "reasoning" or
    "refusal". A field may be a list of parts, each with a type of its own."""
    for name in ("content", "reasoning_content", "reasoning", "refusal"):
        yield from _parts(name, message.get(name))


def _parts(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    if isinstance(value, list) and depth < _DEEPEST:
        for part in value:
            kind, text = name, part
            if isinstance(part, dict):
                kind = _KINDS.get(str(part.get("type")), name)
                text = next((part[field] for field in ("text", *_KINDS) if field in part), None)
            yield from _parts(kind, text, depth + 1)
    elif value:
        yield name, _string(value)


def _contradiction(usage: Any) -> str:
    """Return how the counts in `usage` contradict each other; "" if they do not."""
    prompt, cached, completion = _usage(usage)
    if cached > prompt > 0:
        return f"{cached} of {prompt} prompt tokens came from a cache"
    details = usage.get("completion_tokens_details") if isinstance(usage, dict) else None
    reasoning = _count(details.get("reasoning_tokens")) if isinstance(details, dict) else 0
    if reasoning > completion > 0:
        return f"{reasoning} of {completion} completion tokens are reasoning"
    return ""


def compared(reply: Reply, messages: Sequence[Mapping[str, str]]) -> Reply:
    """Compare the counts of a `reply` with its text and with the `messages` that were sent. Too few completion tokens
    count as not reported; too few prompt tokens show that the server cut the prompt."""
    said = reply.content + reply.reasoning
    is_new = messages[-1].get("role") != "assistant"  # llama.cpp sends the text again that the reply goes on with
    if is_new and 0 < reply.completion_tokens < _fewest_tokens(said):
        doubt = f"{reply.completion_tokens} completion tokens for {len(said)} characters"
        return replace(reply, prompt_tokens=0, cached_tokens=0, completion_tokens=0, logprob=None, doubt=doubt)
    sent = _fewest_tokens(" ".join(message["content"] for message in messages))
    return replace(reply, unread=sent > LEAST_CUT and 0 < reply.prompt_tokens < sent)


def _fewest_tokens(text: str) -> float:
    """Return fewer tokens than any usual tokenizer makes of `text`: no token holds two words or numbers, or more than
    256 characters. A fifth is taken off for exceptions."""
    return max(0.8 * sum(1 for _ in _WORD.finditer(text)), len(text) / 256)


def _usage(usage: Any) -> tuple[int, int, int]:
    """Prompt, cached and completion tokens. By OpenAI's format, completion tokens hold those of thinking; some count
    these apart (Google's total is prompt + completion + thoughts), and then they are what the total has besides."""
    if not isinstance(usage, dict):
        return 0, 0, 0
    prompt, completion, total = (_count(usage.get(f"{name}_tokens")) for name in ("prompt", "completion", "total"))
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return prompt, cached, max(completion, total - prompt) if prompt else completion


def _counted(usage: Any) -> Counted:
    """The same of a reply that broke off, None where it is not given: it wrote something, or would not have begun."""
    prompt, cached, completion = _usage(usage)
    return prompt or None, cached, completion or None


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise Malformed(f"a field is not a text: {value!r:.80}")
    return value


def _text(value: Any) -> str:
    """A field that should be text, as text that can be sent again: half a surrogate pair can't. The halves of one that
    was cut between two chunks are joined."""
    return "" if value is None else storable(_string(value))


def _count(value: Any) -> int:
    """A number of tokens; 0 for what can't be one, like the integers of hundreds of digits that JSON may hold."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST_TOKENS else 0


def _listed(logprobs: Any) -> list[Any]:
    """The tokens of a field "logprobs", whatever they are."""
    listed = logprobs.get("content") if isinstance(logprobs, dict) else None
    return listed if isinstance(listed, list) else []


def _logprobs(tokens: list[Any]) -> dict[str, float]:
    """Alternatives for the first token."""
    try:
        given = {_text(t["token"]): float(t["logprob"]) for t in tokens[0]["top_logprobs"]}
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        return {}
    return {token: logprob for token, logprob in given.items() if not math.isnan(logprob)}


def _logprob(tokens: list[Any], counted: int, finish: str, text: str) -> float | None:
    """The sum over all `tokens`, None where some are missing of those that the server has `counted` (0: nobody has).

    llama.cpp lists a character that takes several tokens with the probability of the last alone, and neither the stop
    text nor the token that it was in. So one token may be missing at the end, where those listed end as the `text` does
    and the last of them is part of it: that which ends a turn is listed with the text ""."""
    try:
        given = [(_text(token["token"]), float(token["logprob"])) for token in tokens]
        total = math.fsum(logprob for _, logprob in given)
    except (KeyError, TypeError, ValueError, OverflowError, Malformed):
        return None
    if not given or not math.isfinite(total):
        return None
    missing = counted - len(given)
    if missing > 0:
        said, text = "".join(token for token, _ in given).strip(), text.strip()
        is_whole = said.endswith(text) or text.endswith(said)  # one may hold more: thinking, or an answer's opening
        if missing > 1 or finish != "stop" or not given[-1][0] or not is_whole:
            return None
    return total


def _words(error: Any, depth: int = 0) -> str:
    """What an error says in words, wherever its server puts them: OpenAI's {"error": {"message"}} and plainer forms,
    {"detail"} as a text or as the list of a validator, which names the place too."""
    if isinstance(error, str):
        return error.strip()
    if depth > _DEEPEST or not isinstance(error, dict | list):
        return ""
    if isinstance(error, list):
        return "; ".join(filter(None, (_words(each, depth + 1) for each in error[:8])))
    said = next(filter(None, (_words(error.get(name), depth + 1) for name in _WORDS)), "")
    place = error.get("loc")
    return f"{'.'.join(map(str, place))}: {said}" if said and isinstance(place, list | tuple) else said


def _codes(error: Any, depth: int = 0) -> str:
    """The codes by which an error names itself, and the parameter that it is about."""
    if depth > _DEEPEST or not isinstance(error, dict | list):
        return ""
    if isinstance(error, list):
        return " ".join(_codes(each, depth + 1) for each in error[:8])
    here = [error[name] for name in _CODES if isinstance(error.get(name), str)]
    return " ".join([*here, *(_codes(error.get(name), depth + 1) for name in _INNER)])


def _wait(status: int, headers: Mapping[str, str], words: str, error: Any) -> float | None:
    """Seconds until a server wants to be asked again: as it says in its headers, given as such or as a date, by its own
    clock where it shows that; and of a limit of rates, also as the window's reset, or in its own `words`. None where it
    gives nothing that can be read."""
    told = _seconds(headers.get("retry-after-ms", ""), 0.001)
    if told is None:
        told = _retry_after(headers)
    if told is None and status == THROTTLED:
        told = _reset(headers)
    if told is None and (delay := _delay(error)):
        told = _span(delay)
    if told is None and (said := _LATER.search(words)):
        told = _span(said[1])
    return told


def _seconds(said: str, unit: float = 1.0) -> float | None:
    try:
        seconds = float(said) * unit
    except ValueError:
        return None
    return None if math.isnan(seconds) else max(0.0, seconds)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    said = headers.get("retry-after", "").strip()
    if (seconds := _seconds(said)) is not None:
        return seconds
    try:
        now = _moment(headers["date"]) if "date" in headers else datetime.now(UTC)
        return max(0.0, (_moment(said) - now).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _reset(headers: Mapping[str, str]) -> float | None:
    """When the window of requests or of tokens begins anew. Of two, that of which nothing remains; where both have
    something left, or don't say, the sooner: asked too early, the server says it again."""
    spans: dict[str, float] = {}
    for kind in ("-requests", "-tokens", ""):
        if (span := _span(headers.get(f"x-ratelimit-reset{kind}", ""))) is not None:
            spans[kind] = span
    used_up = [span for kind, span in spans.items() if _seconds(headers.get(f"x-ratelimit-remaining{kind}", "")) == 0]
    return max(used_up) if used_up else min(spans.values(), default=None)


def _span(said: str) -> float | None:
    """ "6m0s", "1.5s", "20ms", "12": seconds; of a moment since 1970, those until then."""
    said = said.strip().lower()
    if not said or not re.fullmatch(f"(?:{_SPAN.pattern})+", said):
        return None
    parts = [(_seconds(n), _SECONDS_IN[unit if unit == "ms" else unit[:1]]) for n, unit in _SPAN.findall(said)]
    if any(number is None for number, _ in parts):
        return None
    seconds = sum((number or 0.0) * unit for number, unit in parts)
    if seconds < _EPOCH:
        return seconds
    return max(0.0, (seconds / 1000 if seconds > 1000 * _EPOCH else seconds) - time.time())


def _delay(error: Any, depth: int = 0) -> str:
    """Google's: {"details": [{"@type": "…RetryInfo", "retryDelay": "38s"}]}, anywhere in an error; "" without one."""
    if depth > _DEEPEST or not isinstance(error, dict | list):
        return ""
    if isinstance(error, dict) and isinstance(found := error.get("retryDelay"), str):
        return found
    inner = error.values() if isinstance(error, dict) else error[:8]
    return next(filter(None, (_delay(each, depth + 1) for each in inner)), "")


def _moment(said: str) -> datetime:
    found = parsedate_to_datetime(said)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
