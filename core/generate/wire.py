"""Wire: one chat request out, one Reply in, through the openai client; and what can go wrong between.

Replies are streamed, because only a stream shows that a request is at work, and not lost: a watchdog ends a request
from which no byte has come for too long. A queue is not a stall: a request may wait for its first byte while the server
is at work, unless it serves what was sent long after it.
"""

import asyncio
import json
import math
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import aiohttp
import httpx2
import openai
from openai.types.chat import ChatCompletionChunk

from core import limits
from core.engines.server import Server, is_local
from core.errors import Elsewhere, UserError, one_line

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 4.0  # less than servers keep an idle connection (llama.cpp: 5 s), lest one be reused as it closes
LONGEST_WORDS = 300  # characters of a server's own words that are shown
LIST_SECONDS = 30.0  # for the list of models
MOST_TOKENS = 10**12  # that one reply may claim to have taken

_BOM = b"\xef\xbb\xbf"  # may stand before anything, and means nothing
_EVENT = re.compile(rb"\s*(?:data|event|id|retry)?:")  # how server-sent events begin; JSON begins otherwise
_LONGEST_FIELD = 6  # bytes of "event:": so many distinguish them
_BROKEN_OFF = ("abort", "error")  # finish reasons of a reply that the server gave up
# How a reply is asked for, the best first. Few servers refuse one, and of those most take the next; a stream without
# usage comes last, for nobody knows its tokens.
_WAYS: tuple[dict[str, Any], ...] = ({"stream": True, "stream_options": {"include_usage": True}}, {}, {"stream": True})
_STREAM = re.compile(r"\bstream(?:s|ed|ing|_options)?\b|include_usage")
_CANNOT = re.compile(r"stream_options|support|implement|allow|permit|disabled")  # of a 5xx: not what passes by itself
_PASSING = (408, 409, 425, 429)  # besides 5xx
_UNPAID = re.compile(
    r"insufficient[ _-]?(?:quota|credit|balance|fund)|credit balance|billing|payment[ _]required|quota[ _]exhausted"
)
_LATER = re.compile(r"(?:retry|try again|wait)\D{0,20}[\d.]+ ?(?:m?s|sec|min|h)")
_WORDS = ("message", "msg", "detail", "error", "errors", "title", "reason")  # where errors say what is wrong
_CODES = ("code", "type", "param", "status")
_DEEPEST = 5  # levels of an error that are looked into
_SHORTEST_KEY = 8  # characters: a shorter one may be any word


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

    @property
    def is_of_streaming(self) -> bool:
        """Whether it is streaming that the server refuses, and not the request."""
        is_about = bool(_STREAM.search(self._all)) and self.status not in _PASSING
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


@dataclass(eq=False)
class _Flight:
    """A request on its way. Times are the event loop's, in seconds."""

    sent: float
    patience: float
    deadline: asyncio.Timeout
    heard: float | None = None  # when its last byte came
    stalled: bool = False


class Wire:
    """Connections to `server`, up to `limit` at a time; use it as a context manager. Raises UserError where the system
    does not allow so many."""

    def __init__(self, server: Server, limit: int) -> None:
        _allow(limit, server)
        self._ways = _WAYS if server.streams else ({},)
        self._way = self._ways[0]  # the one that was taken last
        self._home = httpx2.URL(server.base_url).origin
        self._key = server.api_key
        self._flights: set[_Flight] = set()
        self._heard = 0.0  # when the last byte of any reply came
        self._served = 0.0  # when the newest request that a byte has come for was sent
        self._client = openai.AsyncOpenAI(
            base_url=server.base_url,
            api_key=server.api_key or "none",
            timeout=openai.Timeout(None, connect=CONNECT_SECONDS),  # the others are ours: see exchange()
            http_client=openai.DefaultAioHttpClient(  # half the CPU of the default one, also with thousands in flight
                # A proxy of the environment is for the world outside, never for a server on this machine.
                trust_env=not is_local(server.base_url),
                limits=httpx2.Limits(max_connections=limit, keepalive_expiry=KEEPALIVE_SECONDS),
                event_hooks={"request": [self._stay]},
            ),
            max_retries=0,  # what may be asked again, and for how long, is the generator's to decide
        )

    async def __aenter__(self) -> "Wire":
        self._watchdog = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watchdog.cancel()
        await self._client.close()

    async def exchange(self, body: Mapping[str, Any], patience: float, limit: float) -> Reply:
        """The reply to `body`, the JSON object of a chat request. It is given up when no byte has come for
        `patience` seconds, or when it is not complete after `limit` seconds.

        Raises Lost, Malformed, Refused, Stalled or Overtime, and Elsewhere where the server sends us on to another.
        """
        now = asyncio.get_running_loop().time()
        flight = _Flight(now, patience, asyncio.timeout_at(now + limit))
        self._flights.add(flight)
        try:
            async with flight.deadline:
                return await self._exchange(body, flight)
        except TimeoutError:
            raise (Stalled if flight.stalled else Overtime)() from None
        except Refused as refusal:
            if len(self._key) >= _SHORTEST_KEY:  # some servers repeat it
                refusal.said = refusal.said.replace(self._key, "(API_KEY)")
            raise
        except (openai.APIConnectionError, httpx2.HTTPError, aiohttp.ClientError) as error:
            raise Lost(one_line(str(error.__cause__ or error), LONGEST_WORDS)) from None
        finally:
            self._flights.discard(flight)

    def is_at_work(self, since: float) -> bool:
        """Whether the server is at work on a request: bytes of a reply are coming, or it has had one `since` (a time of
        the event loop) and has not failed it yet."""
        return any(flight.heard is not None or flight.sent <= since for flight in self._flights)

    async def models(self) -> list[str]:
        """The names of the models that are served now; none where the server does not list them. Raises Lost."""
        try:
            async with asyncio.timeout(LIST_SECONDS):
                listed = await self._client.get("/models", cast_to=object)
        except openai.APIStatusError as error:
            if error.status_code >= 500:
                raise Lost(f"status {error.status_code}") from None
            return []
        except (openai.APIConnectionError, TimeoutError) as error:
            raise Lost(one_line(str(error.__cause__ or error), LONGEST_WORDS)) from None
        except (openai.APIError, ValueError):
            return []
        found = listed.get("data") if isinstance(listed, dict) else None
        return [str(model.get("id")) for model in found or [] if isinstance(model, dict)]

    async def _exchange(self, body: Mapping[str, Any], flight: _Flight) -> Reply:
        """In the first of our ways that the server takes. Each request looks for itself, and what it found is kept:
        while a server is new to us, many are on their way at once."""
        ways = [self._way, *(way for way in self._ways if way is not self._way)]
        for way in ways:
            try:
                reply = await self._asked({**body, **way}, flight)
            except Refused as refusal:
                if way is ways[-1] or not refusal.is_of_streaming:
                    raise
            else:
                self._way = way
                return reply
        raise AssertionError("the last way returns or raises")

    async def _stay(self, request: httpx2.Request) -> None:
        """Before each request, those that follow a redirect among them."""
        if request.url.origin != self._home:
            raise Elsewhere(*map(_shown, (self._home, request.url.origin)))

    async def _asked(self, body: Mapping[str, Any], flight: _Flight) -> Reply:
        try:
            # The bytes are ours to write and to read: most of the client's own CPU goes into checking their types.
            stream = await self._client.post(
                "/chat/completions",
                content=json.dumps(body).encode(),
                cast_to=ChatCompletionChunk,
                stream=True,  # also where the server sends all at once
                stream_cls=openai.AsyncStream[ChatCompletionChunk],
            )
        except openai.APIStatusError as error:
            raise Refused(error.status_code, *_error_in(error.response)) from None
        async with stream:
            received = self._received(stream.response.aiter_bytes(), flight)
            head = b""
            while len(head.removeprefix(_BOM).lstrip()) < _LONGEST_FIELD and (part := await anext(received, b"")):
                head += part
            head = head.removeprefix(_BOM)
            if _EVENT.match(head):  # what it is labelled as is not to be relied on
                return _reply(await _assembled(head, received))
            return _reply(_object(head + b"".join([part async for part in received])))

    async def _received(self, parts: AsyncIterator[bytes], flight: _Flight) -> AsyncIterator[bytes]:
        """`parts` as they come, each noted for the watchdog."""
        async for part in parts:
            self._heard = flight.heard = asyncio.get_running_loop().time()
            self._served = max(self._served, flight.sent)
            yield part

    async def _watch(self) -> None:
        """End the requests that are silent for too long."""
        loop = asyncio.get_running_loop()
        while True:
            shortest = min((flight.patience for flight in self._flights), default=1.0)
            await asyncio.sleep(min(1.0, shortest / 10))
            now = loop.time()
            for flight in self._flights:
                if self._is_silent(flight, now) and not flight.deadline.expired():
                    flight.stalled = True
                    flight.deadline.reschedule(now)

    def _is_silent(self, flight: _Flight, now: float) -> bool:
        if flight.heard is not None:
            return now - flight.heard > flight.patience
        is_overtaken = self._served - flight.sent > flight.patience
        return is_overtaken or now - max(flight.sent, self._heard) > flight.patience


def _allow(connections: int, server: Server) -> None:
    """See to it that so many connections can be open. Of a server in this process, both ends of each are ours."""
    ends = 2 if server.kind == "llama.cpp" and is_local(server.base_url) else 1
    room = limits.reserve(ends * connections) // ends
    if room >= connections:
        return
    less = f"Give CONCURRENCY={room}, or " if room else ""
    raise UserError(
        f"the system allows too few open files for {connections} requests in flight. {less}"
        f"{limits.short_of(ends * connections)}"
    )


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


async def _assembled(head: bytes, rest: AsyncIterator[bytes]) -> dict[str, Any]:
    """The chat completion that server-sent events make: `head`, and the `rest` as it comes. Cut off, it is Malformed:
    a piece must not pass for the whole."""
    message, is_done = _Message(), False
    open_event: list[bytes] = []  # lines of one that has not ended
    async for line in _lines(head, rest):
        if not line and open_event:
            message.add(_object(b"\n".join(open_event)))
            open_event = []
        if not line.startswith(b"data:"):
            continue  # a comment, an event's name, a blank line
        data = line[5:].strip()
        if data == b"[DONE]":
            is_done = True
        elif open_event or (data and not data.endswith(b"}")):  # JSON over several lines
            open_event.append(data)
        elif data:  # in one, as almost always; not all servers put a blank line behind it
            message.add(_object(data))
    if open_event:
        message.add(_object(b"\n".join(open_event)))
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


def _object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises Malformed, and Refused where it is an error."""
    try:
        found = json.loads(data.removeprefix(_BOM).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise Malformed(f"no JSON: {data[:80]!r}") from None
    if not isinstance(found, dict):
        raise Malformed(f"no JSON object: {data[:80]!r}")
    if error := found.get("error") or (found.get("object") == "error" and found):
        code = error.get("code") if isinstance(error, dict) else None
        raise Refused(code if isinstance(code, int) and 400 <= code < 600 else 500, error, {})
    return found


def _reply(found: dict[str, Any]) -> Reply:
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


def _error_in(response: httpx2.Response) -> tuple[Any, Mapping[str, str], str]:
    """What Refused wants to know of an error: its JSON, if it is any, headers and body."""
    try:
        text = response.text.strip().removeprefix("\ufeff")
    except httpx2.StreamError:  # nobody has read it, and nobody can now
        return None, response.headers, ""
    try:
        return json.loads(text), response.headers, text
    except (ValueError, RecursionError):
        return None, response.headers, text


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


def _shown(origin: Any) -> str:
    """An origin as it is written."""
    return str(httpx2.URL(scheme=origin.scheme, host=origin.host, port=origin.port))
