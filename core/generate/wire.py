"""Wire: one chat request out, one Reply in, and what can go wrong between.

It speaks HTTP by aiohttp alone. The openai client on top of it was measured (benchmarks/client_cost.py): building a
request and reading a stream there cost twice the CPU of all that is done here.

Replies are streamed, because only a stream shows that a request is at work, and not lost: a watchdog ends a request
from which no byte has come for too long. A queue is not a stall: a request may wait for its first byte while the server
is at work, unless it serves what was sent long after it.
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
from core.generate.reply import (
    LONGEST_WORDS,
    Lost,
    Malformed,
    Oversized,
    Overtime,
    Refused,
    Reply,
    Stalled,
    found_in,
    reply_from,
)

CONNECT_SECONDS = 10.0
KEEPALIVE_SECONDS = 4.0  # less than servers keep an idle connection (llama.cpp: 5 s), lest one be reused as it closes
# Bytes of a reply: for each token of its cap, in a stream or with probabilities, and for all else. A larger one is
# ended.
BYTES, ROOM = 4096, 2**20
ERROR_BYTES = 2**16  # of an error
REDIRECTS = 3
SHORTEST_KEY = 8  # characters: a shorter one may be any word
_UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)  # nothing has reached a server


@dataclass(eq=False)
class _Flight:
    """A request on its way to the server at `address`. Times are the event loop's, in seconds."""

    sent: float
    patience: float
    deadline: asyncio.Timeout
    address: str
    heard: float | None = None  # when its last byte came
    events: int = 0  # of its stream so far: most servers send one for each token
    stalled: bool = False


class Wire:
    """Connections to `server`, up to `limit` at a time; use it as a context manager. Of its replicas, each request goes
    to the one with the fewest on their way. Raises UserError if the system does not allow so many connections."""

    def __init__(self, server: Server, limit: int) -> None:
        _allow(limit, server)
        self._addresses = (server.base_url, *server.replicas)
        self._key, self._query, self._limit = server.key, server.query, limit
        self._flights: set[_Flight] = set()
        self._heard = 0.0  # when the last byte of any reply came
        self._served = 0.0  # when the newest request that a byte has come for was sent

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
        """Return the reply to `body`, the JSON object of a chat request. It is given up when no byte has come for
        `patience` seconds, or when it is not complete after `limit` seconds. Raises Failure, and Elsewhere if the
        server sends us on to another one."""
        content = json.dumps(body).encode()
        cap = body.get("max_tokens") or body.get("max_completion_tokens") or math.inf
        most = ROOM + len(content) + BYTES * cap  # some servers repeat what they were sent

        now = asyncio.get_running_loop().time()
        flight = _Flight(now, patience, asyncio.timeout_at(now + limit), self._least_busy())
        self._flights.add(flight)
        try:
            async with flight.deadline, self._sent(content, flight.address) as response:
                return reply_from(await found_in(self._received(response, flight, most)))
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
        """Send a request, and again to where the same server redirects it. Raises Refused if the answer is an error."""
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
        """Read the body of an error, as far as its words go."""
        found = b""
        async for part in response.content.iter_any():
            found += part
            if len(found) >= ERROR_BYTES:
                break
        return found[:ERROR_BYTES].decode("utf-8", "replace").strip()

    def _without_key(self, words: str) -> str:
        """Hide the key in a server's words, also if it was cut off at the end."""
        if len(self._key) < SHORTEST_KEY:
            return words
        shown = f"({self._key.variable})"
        words = words.replace(self._key, shown).removesuffix("…")
        ends = (end for end in range(len(self._key) - 1, SHORTEST_KEY - 1, -1) if words.endswith(self._key[:end]))
        return words[:-end] + shown if (end := next(ends, 0)) else words

    def _least_busy(self) -> str:
        busy = Counter(flight.address for flight in self._flights)
        return min(self._addresses, key=busy.__getitem__)

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

    async def _received(self, response: aiohttp.ClientResponse, flight: _Flight, most: float) -> AsyncIterator[bytes]:
        """Yield the body as it comes, each part noted for the watchdog. Raises Oversized after `most` bytes."""
        async for part in response.content.iter_any():
            if (most := most - len(part)) < 0:
                raise Oversized("the reply was ended: it is larger than its cap allows")
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


def _proxy(address: str) -> str | None:
    """Return the proxy of the environment for this address. It is for the world outside, never for this machine."""
    parts = urllib.parse.urlsplit(address)
    if is_local(address) or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def _why_lost(error: aiohttp.ClientError) -> str:
    """The system's own words where it has some: aiohttp's tell of TLS also where there is none."""
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(abs(error.os_error.errno)).lower()
    return one_line(str(error), LONGEST_WORDS) or type(error).__name__
