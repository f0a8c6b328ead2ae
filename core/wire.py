"""Wire: one chat request out, one Reply in, through the openai client; and what can go wrong between.

Replies are streamed, because only a stream tells a request at work from one that is lost: a watchdog ends a request
from which no byte has come for too long. A queue is no stall: a request may wait for its first byte while the server is
at work, unless it serves what was sent long after it.
"""

import asyncio
import json
import math
import re
import resource
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import httpx2
import openai
from openai.types.chat import ChatCompletionChunk

from core.errors import UserError, one_line
from core.server import Server, is_local

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 4.0  # less than servers keep an idle connection (llama.cpp: 5 s), lest one be reused as it closes
OTHER_FILES = 200  # that a run may have open beside its connections
LONGEST_WORDS = 300  # characters of a server's own words that are shown
LIST_SECONDS = 30.0  # for the list of models
MOST_TOKENS = 10**12  # that one reply may claim to have taken

_EVENT = re.compile(rb"\s*(?:data|event|id|retry)?:")  # how server-sent events begin; JSON begins otherwise
_LONGEST_FIELD = 6  # bytes of "event:": so many tell them apart
_BROKEN_OFF = ("abort", "error")  # finish reasons of a reply that the server gave up
_STREAM = re.compile(r"\bstream(?:ing|_options)?\b")


@dataclass(frozen=True)
class Reply:
    """What the server said. Texts are as they came, but for halves of surrogate pairs, which can't be sent again.
    Tokens are 0 where the server does not tell."""

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
    """The server said that all is well, and what it sent is no chat completion."""


class Stalled(Exception):
    """No byte came for as long as patience lasted."""


class Overtime(Exception):
    """The reply took longer than a request may take in all."""


class Refused(Exception):
    """The server answered with an error: its status, its own words on one line, and how long it asks us to wait."""

    def __init__(self, status: int, said: str, headers: Mapping[str, str]) -> None:
        super().__init__(said)
        self.status, self.said = status, said
        try:
            self.wait: float | None = max(0.0, float(headers["retry-after"]))  # seconds; dates are not read
        except (KeyError, ValueError):
            self.wait = None


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
        _allow(limit)
        self._streams = server.streams
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

        Raises Lost, Malformed, Refused, Stalled or Overtime.
        """
        now = asyncio.get_running_loop().time()
        flight = _Flight(now, patience, asyncio.timeout_at(now + limit))
        self._flights.add(flight)
        try:
            async with flight.deadline:
                return await self._exchange(body, flight)
        except TimeoutError:
            raise (Stalled if flight.stalled else Overtime)() from None
        except openai.APIStatusError as error:
            raise Refused(error.status_code, _said(error.body, error.message), error.response.headers) from None
        except (openai.APIConnectionError, httpx2.HTTPError, aiohttp.ClientError) as error:
            raise Lost(one_line(str(error.__cause__ or error), LONGEST_WORDS)) from None
        finally:
            self._flights.discard(flight)

    async def models(self) -> list[str]:
        """The names of the models that are served now; none where the server does not tell. Raises Lost."""
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
        asked = {"stream": True, "stream_options": {"include_usage": True}} if self._streams else {}
        try:
            # The bytes are ours to write and to read: most of the client's own CPU goes into checking their types.
            stream = await self._client.post(
                "/chat/completions",
                content=json.dumps({**body, **asked}).encode(),
                cast_to=ChatCompletionChunk,
                stream=True,  # also where the server sends all at once
                stream_cls=openai.AsyncStream[ChatCompletionChunk],
            )
        except openai.APIStatusError as error:
            if not (self._streams and _STREAM.search(_said(error.body, error.message)) and error.status_code < 500):
                raise
            self._streams = False  # a server that can't
            return await self._exchange(body, flight)
        async with stream:
            received = self._received(stream.response.aiter_bytes(), flight)
            head = b""
            while len(head.lstrip()) < _LONGEST_FIELD and (part := await anext(received, b"")):
                head += part
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


def _allow(connections: int) -> None:
    """Raise the number of files that this process may have open, where it needs more."""
    wanted = connections + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise UserError(
            f"{connections} requests in flight need {wanted} open files and the system allows {hard}. Lower "
            "CONCURRENCY, or raise the limit (ulimit -Hn)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


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
    async for line in _lines(head, rest):
        if not line.startswith(b"data:"):
            continue  # a comment, an event's name, a blank line
        data = line[5:].strip()
        if data == b"[DONE]":
            is_done = True
        elif data:
            message.add(_object(data))
    if not is_done and not (message.finish_reason and message.usage):
        raise Malformed("the stream ended before the reply did")
    return message.whole()


async def _lines(head: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    open_line: list[bytes] = []  # pieces of the line that has not ended; joined once, however long it is
    part: bytes | None = head
    while part is not None:
        *ended, last = part.split(b"\n")
        for piece in ended:
            yield b"".join([*open_line, piece])
            open_line = []
        open_line.append(last)
        part = await anext(rest, None)
    yield b"".join(open_line)


def _object(data: bytes) -> dict[str, Any]:
    """The JSON object in `data`. Raises Malformed, and Refused where it tells of an error."""
    try:
        found = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise Malformed(f"no JSON: {data[:80]!r}") from None
    if not isinstance(found, dict):
        raise Malformed(f"no JSON object: {data[:80]!r}")
    if error := found.get("error"):
        code = error.get("code") if isinstance(error, dict) else None
        raise Refused(code if isinstance(code, int) and 400 <= code < 600 else 500, _said(error, ""), {})
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
        raise Malformed(f"a field is no text: {value!r:.80}")
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
        told = {_text(t["token"]): float(t["logprob"]) for t in found["content"][0]["top_logprobs"]}
    except (KeyError, IndexError, TypeError, ValueError):
        return {}
    return {token: logprob for token, logprob in told.items() if not math.isnan(logprob)}


def _said(body: Any, otherwise: str) -> str:
    """A server's own words on one line, and not too many."""
    message = body.get("message") if isinstance(body, dict) else body
    return one_line(str(message or otherwise), LONGEST_WORDS)
