"""What a server sends, as a Reply, and what can be wrong with it. It knows no client: importing it loads none."""

import json
import math
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from core.errors import one_line

LONGEST_WORDS = 300  # characters of a server's own words that are shown
MOST_TOKENS = 10**12  # that one reply may claim to have taken
BOM = b"\xef\xbb\xbf"  # may stand before anything, and means nothing
EVENT = re.compile(rb"\s*(?:data|event|id|retry)?:")  # how server-sent events begin; JSON begins otherwise
LONGEST_FIELD = 6  # bytes of "event:": so many distinguish them
_BROKEN_OFF = ("abort", "error")  # finish reasons of a reply that the server gave up
_STREAM = re.compile(r"\bstream(?:s|ed|ing|_options)?\b|include_usage")
_CANNOT = re.compile(r"stream_options|support|implement|allow|permit|disabled")  # of a 5xx: not what passes by itself
PASSING = (408, 409, 425, 429)  # besides 5xx: states that pass by themselves
_UNPAID = re.compile(
    r"insufficient[ _-]?(?:quota|credit|balance|fund)|credit balance|billing|payment[ _]required|quota[ _]exhausted"
)
_LATER = re.compile(r"(?:retry|try again|wait)\D{0,20}[\d.]+ ?(?:m?s|sec|min|h)")
_WORDS = ("message", "msg", "detail", "error", "errors", "title", "reason")  # where errors say what is wrong
_CODES = ("code", "type", "param", "status")
_DEEPEST = 5  # levels of an error that are looked into


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


class Lost(Exception):
    """The connection was refused, or ended before the reply did."""


class Malformed(Exception):
    """The server said that all is well, and what it sent is not a chat completion."""


class Stalled(Exception):
    """No byte came for as long as patience lasted."""


class Overtime(Exception):
    """The reply took longer than a request may take in all."""


class Refused(Exception):
    """The server answered with an error: its status, its own words on one line, and how long it asks us to wait, in
    seconds."""

    def __init__(self, status: int, error: Any, headers: Mapping[str, str], text: str = "") -> None:
        """`error`: as JSON where it is that; `text`: the whole body as it came."""
        words = _words(error) or text
        self.status, self.said = status, one_line(words or f"Error code: {status}", LONGEST_WORDS)
        super().__init__(self.said)
        self.wait = _wait(headers)
        self._all = f"{words} {_codes(error)}".lower()

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
        if self.status == 402 or "insufficient_quota" in self._all:
            return True
        is_passing = self.wait is not None or _LATER.search(self._all)
        return bool(_UNPAID.search(self._all)) and not is_passing

    @property
    def is_filtered(self) -> bool:
        """Whether a filter for contents refuses this very prompt."""
        return bool(re.search(r"content[ _-]?(?:filter|management|policy)|moderation", self._all))


@dataclass
class _Message:
    """A streamed message, as far as it has come."""

    texts: dict[str, list[str]] = field(default_factory=dict)
    finish_reason: Any = None
    logprobs: Any = None
    usage: Any = None
    model: Any = None

    def add(self, chunk: dict[str, Any]) -> None:
        self.model = self.model or chunk.get("model")
        self.usage = chunk.get("usage") or self.usage
        choices = chunk.get("choices") or [{}]
        if not isinstance(choices, list) or not isinstance(choices[0], dict):
            raise Malformed(f"a chunk without choices: {chunk!r:.80}")
        if choices[0].get("index"):
            return  # another choice, which nobody asked for
        delta = choices[0].get("delta") or {}
        if not isinstance(delta, dict):
            raise Malformed(f"a chunk without text: {chunk!r:.80}")
        for name in ("content", "reasoning_content", "reasoning"):
            if text := delta.get(name):
                self.texts.setdefault(name, []).append(_string(text))
        self.finish_reason = choices[0].get("finish_reason") or self.finish_reason
        self.logprobs = self.logprobs or choices[0].get("logprobs")

    def whole(self) -> dict[str, Any]:
        """As the server would have sent it without streaming."""
        message = {name: "".join(parts) for name, parts in self.texts.items()}
        choice = {"message": message, "finish_reason": self.finish_reason, "logprobs": self.logprobs}
        return {"model": self.model, "choices": [choice], "usage": self.usage}


async def assembled(head: bytes, rest: AsyncIterator[bytes]) -> dict[str, Any]:
    """The chat completion that server-sent events make: `head`, and the `rest` as it comes. Cut off, it is Malformed:
    a piece must not pass for the whole."""
    message, is_done = _Message(), False
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
    return message.whole()


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
        raise Refused(code if isinstance(code, int) and 400 <= code < 600 else 500, error, {})
    return found


def reply_from(found: dict[str, Any]) -> Reply:
    """`found` read as a chat completion. Raises Malformed where it is none."""
    choices = found.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise Malformed(f"no message in {found!r:.120}")
    finish = _text(choice.get("finish_reason"))
    if not finish or finish in _BROKEN_OFF:  # a piece must not pass for the whole
        raise Malformed(f"the reply has no end (finish_reason {finish or None})")
    usage = found.get("usage")
    usage = usage if isinstance(usage, dict) else {}
    details = usage.get("prompt_tokens_details")
    return Reply(
        model=_text(found.get("model")),
        content=_text(message.get("content")),
        reasoning=_text(message.get("reasoning_content")) or _text(message.get("reasoning")),
        finish_reason=finish,
        prompt_tokens=_count(usage.get("prompt_tokens")),
        cached_tokens=_count(details.get("cached_tokens")) if isinstance(details, dict) else 0,
        completion_tokens=_count(usage.get("completion_tokens")),
        logprobs=_logprobs(choice.get("logprobs")),
    )


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise Malformed(f"a field is not a text: {value!r:.80}")
    return value


def _text(value: Any) -> str:
    """A field that should be text, as text that can be sent again: half a surrogate pair can't. The halves of one that
    was cut between two chunks are joined."""
    text = "" if value is None else _string(value)
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(value: Any) -> int:
    """A number of tokens; 0 for what can't be one, like the integers of hundreds of digits that JSON may hold."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < MOST_TOKENS else 0


def _logprobs(found: Any) -> dict[str, float]:
    try:
        given = {_text(t["token"]): float(t["logprob"]) for t in found["content"][0]["top_logprobs"]}
    except (KeyError, IndexError, TypeError, ValueError):
        return {}
    return {token: logprob for token, logprob in given.items() if not math.isnan(logprob)}


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
    return " ".join([*here, *(_codes(error.get(name), depth + 1) for name in ("error", "detail"))])


def _wait(headers: Mapping[str, str]) -> float | None:
    """Seconds until a server wants to be asked again, given as such or as a date, by its own clock where it shows that;
    None where it gives nothing that can be read."""
    said = headers.get("retry-after", "").strip()
    try:
        seconds = float(said)
    except ValueError:
        try:
            now = _moment(headers["date"]) if "date" in headers else datetime.now(UTC)
            seconds = (_moment(said) - now).total_seconds()
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
    return None if math.isnan(seconds) else max(0.0, seconds)


def _moment(said: str) -> datetime:
    found = parsedate_to_datetime(said)
    return found if found.tzinfo else found.replace(tzinfo=UTC)
