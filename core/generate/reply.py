"""Read what a server sends as a Reply, or name what is wrong with it. It knows no client: importing it loads none."""

import json
import math
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from core.base.errors import one_line
from core.base.files import storable
from core.base.prices import Counted
from core.types import BROKEN, CUT, Message, end_of

LONGEST_WORDS = 300  # characters of a server's own words that are shown
MOST_TOKENS = 10**12  # that one reply may claim to have taken
PASSING = (408, 409, 425, 429)  # besides 5xx: states that pass by themselves
THROTTLED = 429
PASSED_ON = (408, 502, 504, 524)  # what a gateway says of a request that a model may be at work on
_UNPAID = re.compile(
    r"insufficient[ _-]?(?:quota|credit|balance|fund)|credit balance|payment[ _]required"
    r"|billing_(?:hard_limit|not_active)"
)
_FILTERED = re.compile(r"content[ _-]?(?:filter|management|policy)|moderation")
_WORDS = ("message", "msg", "detail", "error", "errors", "title", "reason")  # where errors say what is wrong
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

    @property
    def counted(self) -> Counted:
        """The same, None where it is not given. No prompt takes 0, nor does a reply that says something."""
        is_silent = bool(self.prompt_tokens) and not (self.content or self.reasoning)
        completion = self.completion_tokens if self.completion_tokens or is_silent else None
        return self.prompt_tokens or None, self.cached_tokens, completion


class Failure(Exception):
    """A request that came to nothing; the text says why."""

    is_free = False  # it can't be charged, for it was refused before any token, or never arrived
    may_pass = True  # by itself: then the request is asked again,
    tries = math.inf  # so often at most, of its kind
    is_final = False  # this very request can never succeed: that is kept
    what = ""  # what its words begin with

    @property
    def words(self) -> str:
        """Return what a completion records of it."""
        return f"{self.what}{self}"


class Lost(Failure):
    """The connection was refused, or ended before the reply did."""

    what = "no connection: "


class Malformed(Failure):
    """The server said that all is well, and what it sent is not a chat completion."""

    what = "the server's answer could not be read: "


class Oversized(Failure):
    """The reply was ended: it is larger than its cap allows."""

    may_pass = False


class Stalled(Failure):
    """No byte came for as long as patience lasted, which is longer each time."""

    tries = 3


class Overtime(Failure):
    """The reply took longer than a request may take in all."""

    tries = 2


class Refused(Failure):
    """The server answered with an error; the text is its own words on one line. `wait`: the seconds that it asks us to
    wait (None: it does not say)."""

    def __init__(self, status: int, body: Any, headers: Mapping[str, str], is_within: bool = False) -> None:
        """`body`: of the answer, as text or as JSON; `is_within`: it came in a reply that had begun well, of which
        tokens may have to be paid."""
        text, error = (body, _json(body)) if isinstance(body, str) else (json.dumps(body), body)
        super().__init__(one_line(_words(error) or text or f"Error code: {status}", LONGEST_WORDS))
        self.status, self._all, self.what = status, text.lower(), f"status {status}: "
        self.wait = _wait({name.lower(): value for name, value in headers.items()})
        self.is_free = not (is_within or status in PASSED_ON)
        self.is_final = status in (400, 413, 422)
        is_too_large = "request too large" in self._all  # for the limit of a minute, also alone
        self.may_pass = status >= 500 or (status in PASSING and not is_too_large)

    def names(self, field: str) -> bool:
        """Whether it speaks of this `field` of a request."""
        return bool(re.search(rf"\b{field}\b", self._all))

    @property
    def is_unpaid(self) -> bool:
        """Return whether quota or credit is used up. Unlike a limit of the rate, that does not pass by itself."""
        return self.status == 402 or (self.status in (400, 403, 429) and bool(_UNPAID.search(self._all)))

    @property
    def is_filtered(self) -> bool:
        """Whether a filter for contents refuses this very prompt."""
        return bool(_FILTERED.search(self._all))


@dataclass
class _Message:
    """A streamed message, as far as it has come."""

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
        self.finish_reason = choice.get("finish_reason") or self.finish_reason
        self.tokens += _listed(choice.get("logprobs"))

    def whole(self) -> dict[str, Any]:
        """As the server would have sent it without streaming."""
        message = {name: "".join(parts) for name, parts in self.texts.items()}
        choice = {"message": message, "finish_reason": self.finish_reason, "logprobs": {"content": self.tokens}}
        return {"model": self.model, "choices": [choice], "usage": self.usage}


async def found_in(parts: AsyncIterator[bytes]) -> dict[str, Any]:
    """Read a chat completion as it comes: server-sent events or JSON in one piece, whatever it is labelled. Raises
    Malformed for events that are cut off: a piece must not pass for the whole."""
    message, others = _Message(), list[bytes]()
    is_stream = is_done = False
    async for line in _lines(parts):
        if not line.startswith(b"data:"):
            others.append(line)  # a comment, an event's name, a blank line; or a part of JSON
            continue
        is_stream, data = True, line[5:].strip()
        if data == b"[DONE]":
            is_done = True
        elif data:
            message.add(object_in(data))
    if not is_stream:
        return object_in(b"\n".join(others))
    if not is_done and not (message.finish_reason and message.usage):
        raise Malformed("the stream ended before the reply did")
    return message.whole()


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    open_line: list[bytes] = []  # pieces of the line that has not ended; joined once, however long it is
    async for part in parts:
        *ended, last = part.split(b"\n")
        for piece in ended:
            yield b"".join([*open_line, piece])
            open_line = []
        open_line.append(last)
    yield b"".join(open_line)


def object_in(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises Malformed, and Refused where it is an error."""
    found = _json(data.decode("utf-8", "replace"))
    if not isinstance(found, dict):
        raise Malformed(f"no JSON object: {data[:80]!r}")
    if error := found.get("error") or (found.get("object") == "error" and found):
        code = error.get("code") if isinstance(error, dict) else None
        raise Refused(code if type(code) is int and 400 <= code < 600 else 500, error, {}, is_within=True)
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def reply_from(found: dict[str, Any]) -> Reply:
    """`found` read as a chat completion. Raises Malformed where it is none."""
    choices = found.get("choices")
    choice = _first(choices) or choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise Malformed(f"no message in {found!r:.120}")
    finish = _text(choice.get("finish_reason"))
    if not finish or end_of(finish) == BROKEN:  # a piece must not pass for the whole
        raise Malformed(f"the reply has no end (finish_reason {finish or None})")
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
    )


def is_cut(reply: Reply, messages: Sequence[Message]) -> bool:
    """Return whether the server cut these `messages`: it counts fewer prompt tokens than they have words. No usual
    tokenizer makes one token of two words, or of more than 256 characters. A fifth is taken off for exceptions."""
    text = " ".join(message["content"] for message in messages)
    fewest = max(0.8 * sum(1 for _ in _WORD.finditer(text)), len(text) / 256)
    return fewest > LEAST_CUT and 0 < reply.prompt_tokens < fewest


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


def _usage(usage: Any) -> tuple[int, int, int]:
    """Prompt, cached and completion tokens. By OpenAI's format, completion tokens hold those of thinking; some count
    these apart (Google's total is prompt + completion + thoughts), and then they are what the total has besides."""
    if not isinstance(usage, dict):
        return 0, 0, 0
    prompt, completion, total = (_count(usage.get(f"{name}_tokens")) for name in ("prompt", "completion", "total"))
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    return prompt, cached, max(completion, total - prompt) if prompt else completion


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


def _wait(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until a server wants to be asked again: a number, or a date. None if it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            seconds = float(headers.get(name, "")) * unit
            return None if math.isnan(seconds) else max(0.0, seconds)
    with suppress(ValueError, TypeError, IndexError, OverflowError):
        then = parsedate_to_datetime(headers.get("retry-after", ""))
        return max(0.0, (then.replace(tzinfo=then.tzinfo or UTC) - datetime.now(UTC)).total_seconds())
    return None
