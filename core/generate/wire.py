"""Wire: one chat request out, one Reply in, through the openai client; and what can go wrong between.

Replies are streamed, because only a stream shows that a request is at work, and not lost: a watchdog ends a request
from which no byte has come for too long. A queue is not a stall: a request may wait for its first byte while the server
is at work, unless it serves what was sent long after it.
"""

import asyncio
import json
import math
import os
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import aiohttp
import httpx2
import openai
from openai.types.chat import ChatCompletionChunk

from core.base import limits
from core.base.errors import Elsewhere, UserError, one_line
from core.engines.server import Server, is_local
from core.generate import pulse
from core.generate.rates import Rates
from core.generate.reply import (
    BOM,
    EVENT,
    LONGEST_FIELD,
    LONGEST_WORDS,
    THROTTLED,
    Hung,
    Lost,
    Malformed,
    Oversized,
    Overtime,
    Refused,
    Reply,
    Stalled,
    assembled,
    compared,
    object_in,
    reply_from,
)

T = TypeVar("T")

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 4.0  # less than servers keep an idle connection (llama.cpp: 5 s), lest one be reused as it closes
LIST_SECONDS = 10.0  # for the list of models
ASIDE = 4  # connections beside those of the requests
# How a reply is asked for, the best first. Few servers refuse one, and of those most take the next; a stream without
# usage comes last, for nobody knows its tokens.
_WAYS: tuple[dict[str, Any], ...] = ({"stream": True, "stream_options": {"include_usage": True}}, {}, {"stream": True})
# Of a reply: bytes for each token of its cap, and for whatever else it holds. A larger one is ended.
BYTES, ROOM = 16, 2**20
ERROR_BYTES = 2**16  # of an error, which the client reads whole
AROUND = 4096  # bytes around each token in a stream, or with probabilities
_SHORTEST_KEY = 8  # characters: a shorter one may be any word
OPENAI = "api.openai.com"
_NOBODY = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts no certificate at all
_UNSENT = (httpx2.ConnectError, httpx2.ConnectTimeout, aiohttp.ClientConnectorError)  # nothing has reached a server


@dataclass(eq=False)
class _Flight:
    """A request on its way. Times are the event loop's, in seconds."""

    sent: float
    patience: float
    deadline: asyncio.Timeout
    heard: float | None = None  # when its last byte came
    events: int = 0  # of its stream so far: most servers send one for each token
    stalled: bool = False
    hung: bool = False  # the server hangs
    client: int = 0  # number of the client that it goes through


class _Beginning(httpx2.AsyncByteStream):
    """The first ERROR_BYTES of a `stream`, about."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = ERROR_BYTES
        async for part in self._stream:
            yield part[:left]
            if (left := left - len(part)) <= 0:
                break

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    """Cut off what an error says, however long it is."""
    if response.is_error and isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = _Beginning(response.stream)


class Wire:
    """Connections to `server`, up to `limit` at a time, each used when its `rates` allow; use it as a context manager.
    Of its replicas, each request goes to the one with the fewest on their way. Raises UserError where the system does
    not allow so many connections."""

    def __init__(self, server: Server, limit: int, rates: Rates | None = None) -> None:
        _allow(limit, server)
        self._rates = rates or Rates(lambda round, wait: 0.0)
        self._ways = _WAYS if server.streams else ({},)
        self._way = self._ways[0]  # the one that was taken last
        addresses = (server.base_url, *server.replicas)
        self._homes = [httpx2.URL(address).origin for address in addresses]
        self._key, self._query = server.key, server.query
        self._flights: set[_Flight] = set()
        self._heard = 0.0  # when the last byte of any reply came
        self._served = 0.0  # when the newest request that a byte has come for was sent
        self._clients = [self._client(address, limit) for address in addresses]
        self._aside = self._client(addresses[0], ASIDE)
        self.answers_at_work = False  # as pulse.Connections wants it

    def _client(self, address: str, limit: int) -> openai.AsyncOpenAI:
        client = openai.AsyncOpenAI(
            base_url=address,
            api_key=str(self._key) or "none",
            default_query=self._query,
            timeout=openai.Timeout(None, connect=CONNECT_SECONDS),  # the others are ours: see exchange()
            http_client=openai.DefaultAioHttpClient(  # half the CPU of the default one, also with thousands in flight
                # A proxy of the environment is for the world outside, never for a server on this machine.
                trust_env=not is_local(address),
                # To load all authorities takes 20 ms, and here nobody shows a certificate: _stay lets none be asked.
                verify=_NOBODY if is_local(address) and address.startswith("http://") else True,
                limits=httpx2.Limits(max_connections=limit, keepalive_expiry=KEEPALIVE_SECONDS),
                event_hooks={"request": [self._stay, self._sign], "response": [_bound]},
            ),
            max_retries=0,  # what may be asked again, and for how long, is the generator's to decide
        )
        if httpx2.URL(address).host != OPENAI:
            client._custom_headers = {}  # it takes OPENAI_CUSTOM_HEADERS from the environment
        return client

    async def __aenter__(self) -> "Wire":
        self._watchdog = asyncio.create_task(self._watch())
        self._pulse = asyncio.create_task(pulse.watch(self))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watchdog.cancel()
        self._pulse.cancel()
        for client in (*self._clients, self._aside):
            await client.close()

    async def exchange(self, body: Mapping[str, Any], patience: float, limit: float) -> Reply:
        """The reply to `body`, the JSON object of a chat request. It is sent when the rates allow, and given up when no
        byte has come for `patience` seconds from then on, or when it is not complete after `limit` seconds. It is asked
        for in the first of our ways that the server takes: each request looks for itself, and what it found is kept;
        while a server is new to us, many are on their way at once.

        Raises Lost, Malformed, Refused, Stalled or Overtime, and Elsewhere where the server sends us on to another.
        """
        ways = [self._way, *(way for way in self._ways if way is not self._way)]
        for way in ways:
            try:
                reply = await self._in_time({**body, **way}, patience, limit)
            except Refused as refusal:
                if way is ways[-1] or not refusal.is_of_streaming:
                    raise
            else:
                self._way = way
                return reply
        raise AssertionError("the last way returns or raises")

    async def _in_time(self, body: Mapping[str, Any], patience: float, limit: float) -> Reply:
        entered = await self._rates.enter()
        try:
            reply = await self._exchange(body, patience, limit)
        except Refused as refusal:
            if refusal.status == THROTTLED and not refusal.is_too_large:
                self._rates.refused(entered, refusal.wait)
            raise
        finally:
            self._rates.leave()
        self._rates.answered()
        return reply

    async def post(self, path: str, body: Mapping[str, Any], limit: float) -> Any:
        """The value in the JSON that a POST of `body` to `path`, below the server's address, is answered with within
        `limit` seconds. Raises Lost, Malformed, Refused, Stalled or Overtime, and Elsewhere."""

        async def posted(flight: _Flight) -> Any:
            try:
                content = json.dumps(body).encode()
                return await self._clients[flight.client].post(path, content=content, cast_to=object)
            except openai.APIStatusError as error:
                raise Refused(error.status_code, *_error_in(error.response)) from None
            except (openai.APIResponseValidationError, ValueError, RecursionError):
                raise Malformed("no JSON") from None

        return await self._flown(posted, limit, limit)

    async def _exchange(self, body: Mapping[str, Any], patience: float, limit: float) -> Reply:
        return await self._flown(lambda flight: self._asked(body, flight), patience, limit)

    async def _flown(self, asked: Callable[[_Flight], Awaitable[T]], patience: float, limit: float) -> T:
        """What comes of `asked`, a request that is sent now."""
        now = asyncio.get_running_loop().time()
        flight = _Flight(now, patience, asyncio.timeout_at(now + limit), client=self._least_busy())
        self._flights.add(flight)
        try:
            async with flight.deadline:
                return await asked(flight)
        except TimeoutError:
            if flight.hung:
                raise Hung("it sends nothing, and answers no new connection") from None
            raise (Stalled if flight.stalled else Overtime)() from None
        except Refused as refusal:
            refusal.said = self._without_key(refusal.said)
            raise
        except Malformed as malformed:
            malformed.args = (self._without_key(str(malformed)),)
            raise malformed from None
        except (openai.APIConnectionError, httpx2.HTTPError, aiohttp.ClientError) as error:
            lost = Lost(_why_lost(error))
            lost.is_free = isinstance(error.__cause__ or error, _UNSENT)
            raise lost from None
        finally:
            self._flights.discard(flight)

    def _least_busy(self) -> int:
        busy = Counter(flight.client for flight in self._flights)
        return min(range(len(self._clients)), key=busy.__getitem__)

    def is_at_work(self, since: float) -> bool:
        """Whether the server is at work on a request: bytes of a reply are coming, or it has had one `since` (a time of
        the event loop) and has not failed it yet."""
        return any(flight.heard is not None or flight.sent <= since for flight in self._flights)

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    @property
    def streamed(self) -> int:
        """Tokens of the replies that are coming, about."""
        return sum(flight.events for flight in self._flights)

    async def models(self) -> list[str]:
        """The names of the models that are served now; none where the server does not list them. Raises Lost."""
        try:
            async with asyncio.timeout(LIST_SECONDS):
                listed = await self._aside.get("/models", cast_to=object)
        except openai.APIStatusError as error:
            if error.status_code >= 500:
                raise Lost(f"status {error.status_code}") from None
            return []
        except openai.APIConnectionError as error:
            raise Lost(_why_lost(error)) from None
        except TimeoutError:
            raise Lost(f"no answer within {LIST_SECONDS:.0f} s") from None
        except (openai.APIError, ValueError):
            return []
        found = listed.get("data") if isinstance(listed, dict) else None
        return [str(model.get("id")) for model in (found if isinstance(found, list) else []) if isinstance(model, dict)]

    @property
    def silence(self) -> float:
        """As pulse.Connections wants it."""
        now = asyncio.get_running_loop().time()
        return now - max(self._heard, min((flight.sent for flight in self._flights), default=now))

    async def is_alive(self) -> bool:
        """Whether the server answers, whatever it says."""
        at_work = set(self._flights)
        try:
            await self._aside.get("/models", cast_to=object)
        except openai.APIConnectionError:
            return False
        except (openai.APIError, Elsewhere, ValueError, RecursionError):
            pass
        self.answers_at_work |= bool(at_work) and at_work <= self._flights
        return True

    def lose(self) -> None:
        """End all requests in flight: the server hangs."""
        for flight in self._flights:
            if not flight.deadline.expired():
                flight.hung = True
                flight.deadline.reschedule(asyncio.get_running_loop().time())

    async def _stay(self, request: httpx2.Request) -> None:
        """Before each request, those that follow a redirect among them."""
        if request.url.origin not in self._homes:
            raise Elsewhere(*map(_shown, (self._homes[0], request.url.origin)))

    async def _sign(self, request: httpx2.Request) -> None:
        """With the key where this server wants it, and with nothing else that the client found in the environment:
        whom an OPENAI_ORG_ID is of is for OpenAI alone."""
        if self._key and self._key.header:
            request.headers.pop("Authorization", None)
            request.headers[self._key.header] = self._key.sent[1]
        if request.url.host != OPENAI:
            for name in ("OpenAI-Organization", "OpenAI-Project"):
                request.headers.pop(name, None)

    def _without_key(self, words: str) -> str:
        """A server's words without the key, which some repeat, also where it was cut off at the end."""
        if len(self._key) < _SHORTEST_KEY:
            return words
        words = words.replace(self._key, f"({self._key.variable})")
        for end in range(len(self._key) - 1, _SHORTEST_KEY - 1, -1):
            if words.removesuffix("…").endswith(self._key[:end]):
                return words.removesuffix("…")[:-end] + f"({self._key.variable})"
        return words

    async def _asked(self, body: Mapping[str, Any], flight: _Flight) -> Reply:
        content = json.dumps(body).encode()
        try:
            # The bytes are ours to write and to read: most of the client's own CPU goes into checking their types.
            stream = await self._clients[flight.client].post(
                "/chat/completions",
                content=content,
                cast_to=ChatCompletionChunk,
                stream=True,  # also where the server sends all at once
                stream_cls=openai.AsyncStream[ChatCompletionChunk],
            )
        except openai.APIStatusError as error:
            raise Refused(error.status_code, *_error_in(error.response)) from None
        async with stream:
            cap = body.get("max_tokens") or body.get("max_completion_tokens") or math.inf
            most = len(content) + ROOM + BYTES * cap  # some servers repeat what they were sent
            around = AROUND * cap if body.get("stream") or body.get("logprobs") else 0
            received = self._received(stream.response.aiter_bytes(), flight, most + around)
            head = b""
            while len(head) < LONGEST_FIELD and (part := await anext(received, b"")):
                head = (head + part).removeprefix(BOM).lstrip()
            if EVENT.match(head):  # what it is labelled as is not to be relied on
                found = await assembled(head, received, most)
            else:
                found = object_in(head + b"".join([part async for part in received]))
            return compared(reply_from(found), body["messages"])

    async def _received(self, parts: AsyncIterator[bytes], flight: _Flight, most: float) -> AsyncIterator[bytes]:
        """Yield `parts` as they come, each noted for the watchdog. Raises Oversized after `most` bytes."""
        async for part in parts:
            if (most := most - len(part)) < 0:
                raise Oversized
            self._heard = flight.heard = asyncio.get_running_loop().time()
            self._served = max(self._served, flight.sent)
            flight.events += part.count(b"data:")
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
    ends = 2 if server.dialect.is_in_process and is_local(server.base_url) else 1
    room = limits.reserve(ends * connections) // ends
    if room >= connections:
        return
    less = f"Give CONCURRENCY={room}, or " if room else ""
    raise UserError(
        f"the system allows too few open files for {connections} requests in flight. {less}"
        f"{limits.short_of(ends * connections)}"
    )


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


def _shown(origin: Any) -> str:
    """An origin as it is written."""
    return str(httpx2.URL(scheme=origin.scheme, host=origin.host, port=origin.port))


def _why_lost(error: Exception) -> str:
    """The system's own words where it has some: aiohttp's tell of TLS also where there is none."""
    cause = error.__cause__ or error
    if isinstance(cause, aiohttp.ClientConnectorError) and cause.os_error.errno:
        return os.strerror(abs(cause.os_error.errno)).lower()
    return one_line(str(cause), LONGEST_WORDS)
