"""Send chat requests over HTTP, read the replies, and end requests that stall.

It uses aiohttp alone: the openai client needs twice its CPU time (benchmarks/client_cost.py). Replies are streamed,
because only a stream shows that the server works on a request. A watchdog ends requests that are silent for too long.
Waiting in the server's queue is not a stall, unless the server serves requests that were sent much later.
"""

import asyncio
import json
import math
import os
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from core.base import limits
from core.base.errors import Elsewhere, UserError, one_line
from core.engines.cards import with_query
from core.engines.server import Server, is_local
from core.generate.reply import LONGEST_WORDS, Lost, Malformed, Oversized, Overtime, Refused, Reply, Stalled, read

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 4.0  # less than servers keep an idle connection (llama.cpp: 5 s): none is reused as it closes
BYTES, ROOM = 4096, 2**20  # the most bytes of a reply: for each token of its cap, and in addition
ERROR_BYTES = 2**16  # read of an error response
REDIRECTS = 3
SHORTEST_KEY = 8  # characters; a shorter key may be any word
_UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)  # the request has reached no server


@dataclass(eq=False)
class _Flight:
    """A request in flight to the server at `address`. Times are the event loop's, in seconds."""

    sent: float
    patience: float
    deadline: asyncio.Timeout
    address: str
    heard: float | None = None  # when its last byte came
    events: int = 0  # of its stream so far; most servers send one for each token
    stalled: bool = False


class Wire:
    """Up to `limit` connections to `server`; use it as a context manager. A request goes to the least busy replica.
    Raises UserError if the system does not allow so many connections."""

    def __init__(self, server: Server, limit: int) -> None:
        _allow(limit, server)
        self._addresses = (server.base_url, *server.replicas)
        self._key, self._query, self._limit = server.key, server.query, limit
        self._flights: set[_Flight] = set()
        self._heard = 0.0  # when the last byte of any reply came
        self._served = 0.0  # when the newest request with a byte of reply was sent

    async def __aenter__(self) -> "Wire":
        headers = {"Content-Type": "application/json", "User-Agent": "qed-rsa"}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._limit, keepalive_timeout=KEEPALIVE_SECONDS),
            headers=headers | (dict([self._key.sent]) if self._key else {}),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),  # the others are ours
            proxy=_proxy(self._addresses[0]),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._watchdog = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watchdog.cancel()
        await self._session.close()

    async def exchange(self, body: Mapping[str, Any], patience: float, limit: float) -> Reply:
        """Return the reply to `body`, the JSON object of a chat request. It may be silent for `patience` seconds and
        take `limit` seconds. Raises Failure, and Elsewhere if the server redirects to another one."""
        content = json.dumps(body).encode()
        cap = body.get("max_tokens") or body.get("max_completion_tokens") or math.inf
        most = ROOM + len(content) + BYTES * cap  # some servers repeat the request

        now = asyncio.get_running_loop().time()
        address = min(self._addresses, key=Counter(flight.address for flight in self._flights).__getitem__)
        flight = _Flight(now, patience, asyncio.timeout_at(now + limit), address)
        self._flights.add(flight)
        try:
            async with flight.deadline, self._sent(content, flight.address) as response:
                return await read(self._received(response, flight, most))
        except (Refused, Malformed) as failure:
            failure.args = (self._without_key(str(failure)),)
            raise
        except aiohttp.ClientError as error:
            lost = Lost(_why_lost(error))
            lost.is_free = isinstance(error, _UNSENT)
            raise lost from None
        except TimeoutError:
            if flight.stalled:
                raise Stalled(f"silent for {patience:.0f} s") from None
            raise Overtime(f"no answer within {limit:.0f} s") from None
        finally:
            self._flights.discard(flight)

    @asynccontextmanager
    async def _sent(self, content: bytes, address: str) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request, and follow redirects within the server. Raises Refused if the response is an error."""
        url = home = URL(with_query(f"{address}/chat/completions", self._query))
        for _ in range(REDIRECTS):
            async with self._session.post(url, data=content, allow_redirects=False) as response:
                if 300 <= response.status < 400 and (location := response.headers.get("Location")):
                    try:
                        url = url.join(URL(location))
                        there = url.origin()
                    except ValueError:
                        raise Malformed("it redirects to no address") from None
                    if there != home.origin():
                        raise Elsewhere(str(home.origin()), str(there))
                    continue
                if response.status >= 300:
                    raise Refused(response.status, await self._words(response), response.headers)
                yield response
                return
        raise Malformed("it redirects without end")

    async def _words(self, response: aiohttp.ClientResponse) -> str:
        """Read the beginning of an error response."""
        found = b""
        async for part in response.content.iter_any():
            found += part
            if len(found) >= ERROR_BYTES:
                break
        return found[:ERROR_BYTES].decode("utf-8", "replace").strip()

    def _without_key(self, words: str) -> str:
        """Hide the key in a server's message, even if the message ends within the key."""
        if len(self._key) < SHORTEST_KEY:
            return words
        shown = f"({self._key.variable})"
        words = words.replace(self._key, shown).removesuffix("…")
        ends = (end for end in range(len(self._key) - 1, SHORTEST_KEY - 1, -1) if words.endswith(self._key[:end]))
        return words[:-end] + shown if (end := next(ends, 0)) else words

    def is_at_work(self, since: float) -> bool:
        """Return whether the server works on a request: it has sent a part of a reply, or holds a request that was sent
        before `since`, a time of the event loop."""
        return any(flight.heard is not None or flight.sent <= since for flight in self._flights)

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    @property
    def streamed(self) -> int:
        """An estimate of the tokens in unfinished replies."""
        return sum(flight.events for flight in self._flights)

    async def _received(self, response: aiohttp.ClientResponse, flight: _Flight, most: float) -> AsyncIterator[bytes]:
        """Yield the parts of the body and note them for the watchdog. Raises Oversized after `most` bytes."""
        async for part in response.content.iter_any():
            if (most := most - len(part)) < 0:
                raise Oversized("the reply is larger than its cap allows, and was cut off")
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
    """Raise UserError if the system does not allow so many open connections."""
    ends = 2 if server.dialect.is_in_process and is_local(server.base_url) else 1  # both ends are in this process
    room = limits.reserve(ends * connections) // ends
    if room >= connections:
        return
    less = f"Give CONCURRENCY={room}, or " if room else ""
    raise UserError(
        f"the system allows too few open files for {connections} requests in flight. {less}"
        f"{limits.short_of(ends * connections)}"
    )


def _proxy(address: str) -> str | None:
    """Return the environment's proxy for this address; None for an address on this machine."""
    parts = urllib.parse.urlsplit(address)
    if is_local(address) or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _why_lost(error: aiohttp.ClientError) -> str:
    """Return the system's error message if there is one: aiohttp's mentions TLS even without TLS."""
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(abs(error.os_error.errno)).lower()
    return one_line(str(error), LONGEST_WORDS) or type(error).__name__
