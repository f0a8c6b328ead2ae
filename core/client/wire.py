"""Send chat requests over HTTP, read the replies, and end requests that stall.

This module uses aiohttp, because the openai client needs about three times the CPU time
(benchmarks/client_cost.py). Replies are streamed if the card allows it, because only a stream shows
that the server works on a request. A watchdog ends requests without data for too long. A request
may queue longer while other replies arrive, unless it is overtaken.
"""

import asyncio
import json
import math
import os
import resource
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import aiohttp
from yarl import URL

from core.base.errors import MORE_FILES, Elsewhere, UserError, one_line
from core.client.reply import (
    LONGEST_WORDS,
    Lost,
    Malformed,
    Oversized,
    Overtime,
    Refused,
    Reply,
    Stalled,
    read,
    refusal,
)
from core.engines import environment
from core.engines.cards import with_query
from core.engines.protocol import Server, is_local

CONNECT_SECONDS = 10.0
# close idle connections before servers do (uvicorn: after 5 s), so that no request is lost
KEEPALIVE_SECONDS = 4.0
# a reply may have BYTES for each token of its cap, the request's size and ROOM bytes more
BYTES, ROOM = 4096, 2**20
ERROR_BYTES = 2**16  # the most bytes to read of an error response
SPARE_FILES = 16  # additional open files: saved results, the judge's pipes, name look-ups
# characters. A shorter key is not hidden in messages, because it may be an ordinary word
SHORTEST_KEY = 8
# errors before the request reached a server
_UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


@dataclass(eq=False)
class _Flight:
    """A request in flight to the server at `address`. Times are in seconds of the event loop's
    clock."""

    sent: float
    patience: float
    deadline: asyncio.Timeout
    address: str
    heard: float | None = None  # when its last data came
    events: int = 0  # events of its stream so far. Most servers send one event per token
    stalled: bool = False


class Wire:
    """Up to `limit` connections to a server and its replicas. Use it as a context manager. Each
    request goes to the least busy address. Raises UserError if the system does not allow so many
    connections."""

    def __init__(self, server: Server, limit: int) -> None:
        _allow(limit, server)
        self._addresses = (server.base_url, *server.replicas)
        self._hangs_up = server.dialect.hangs_up
        self._key, self._query, self._limit = server.key, server.query, limit
        self._flights: set[_Flight] = set()
        self._heard = 0.0  # when the last data of any reply came
        self._served = 0.0  # when the newest request that has received data was sent

    async def __aenter__(self) -> "Wire":
        headers = {"Content-Type": "application/json", "User-Agent": "qed-rsa"}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._limit, keepalive_timeout=KEEPALIVE_SECONDS),
            headers=headers | (dict([self._key.sent]) if self._key else {}),
            # the watchdog does the rest
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
            proxy=environment.proxy_of(self._addresses[0]),
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._watchdog = asyncio.create_task(self._watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watchdog.cancel()
        await self._session.close()

    async def exchange(self, body: Mapping[str, Any], patience: float, limit: float) -> Reply:
        """Send `body`, the JSON object of a chat request, and return the reply. The request fails
        after `limit` seconds, or `patience` seconds without data (_is_silent). Raises Failure, or
        Elsewhere for a redirect."""
        content = json.dumps(body).encode()
        # A request on a connection that the server has closed is lost, so the connection is not
        # reused.
        headers = {"Connection": "close"} if self._hangs_up and body.get("stream") else {}
        cap = body.get("max_tokens") or body.get("max_completion_tokens") or math.inf
        most = ROOM + len(content) + BYTES * cap  # some servers repeat the request in the reply

        now = asyncio.get_running_loop().time()
        address = min(
            self._addresses, key=Counter(flight.address for flight in self._flights).__getitem__
        )
        url = URL(with_query(f"{address}/chat/completions", self._query))
        flight = _Flight(now, patience, asyncio.timeout_at(now + limit), address)
        self._flights.add(flight)
        try:
            async with (
                flight.deadline,
                self._session.post(
                    url, data=content, headers=headers, allow_redirects=False
                ) as response,
            ):
                if response.status >= 300:
                    raise await self._refused(response)
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

    async def _refused(self, response: aiohttp.ClientResponse) -> Refused:
        """Return the failure in an error response. Raises Elsewhere or Malformed if the server
        redirects the request, because another server would get the key and the prompts."""
        if 300 <= response.status < 400:
            with suppress(ValueError, KeyError):  # the address is invalid or missing
                here, there = (
                    response.url.origin(),
                    response.url.join(URL(response.headers["Location"])).origin(),
                )
                if there != here:
                    raise Elsewhere(str(here), str(there))
            raise Malformed(
                "it redirects to another path. Put the address of the API into BASE_URL"
            )
        found = b""
        async for part in response.content.iter_any():
            found += part
            if len(found) >= ERROR_BYTES:
                break
        words = found[:ERROR_BYTES].decode("utf-8", "replace").strip()
        return refusal(response.status, words, response.headers)

    def _without_key(self, words: str) -> str:
        """Replace our API key in a server's message by its variable's name, even if the message
        ends within the key."""
        if len(self._key) < SHORTEST_KEY:
            return words
        shown = f"({self._key.variable})"
        words = words.replace(self._key, shown).removesuffix("…")
        ends = (
            end
            for end in range(len(self._key) - 1, SHORTEST_KEY - 1, -1)
            if words.endswith(self._key[:end])
        )
        return words[:-end] + shown if (end := next(ends, 0)) else words

    def is_at_work(self, since: float) -> bool:
        """Return whether the server is working: it has begun and not ended a reply, or it holds a
        request that was sent before `since` (in the event loop's time)."""
        return any(flight.heard is not None or flight.sent <= since for flight in self._flights)

    @property
    def in_flight(self) -> int:
        return len(self._flights)

    @property
    def streamed(self) -> int:
        """An estimate of the tokens received in unfinished replies, or 0 if the server does not
        stream."""
        return sum(flight.events for flight in self._flights)

    async def _received(
        self, response: aiohttp.ClientResponse, flight: _Flight, most: float
    ) -> AsyncIterator[bytes]:
        """Yield the parts of a response's body, and note their times. Raises Oversized after `most`
        bytes."""
        async for part in response.content.iter_any():
            if (most := most - len(part)) < 0:
                raise Oversized("the reply is larger than its token cap allows, and was cut off")
            self._heard = flight.heard = asyncio.get_running_loop().time()
            self._served = max(self._served, flight.sent)
            flight.events += part.count(b"data:")
            yield part

    async def _watch(self) -> None:
        """End each request that receives no data for too long."""
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
    """Raise the limit on open files for so many `connections`. Raises UserError if the system does
    not allow it."""
    # 2: this process is also the server
    ends = 2 if server.dialect.is_in_process and is_local(server.base_url) else 1
    wanted = len(os.listdir("/dev/fd")) + ends * connections + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        except (ValueError, OSError):  # `wanted` is above the hard limit, or above the system's own
            fault = f"the system allows too few open files for {connections} requests in flight"
            raise UserError(f"{fault}: {MORE_FILES}") from None


def _why_lost(error: aiohttp.ClientError) -> str:
    """Return the system's message if a connection failed (aiohttp's always mentions TLS), else
    aiohttp's."""
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.errno:
        return os.strerror(abs(error.os_error.errno)).lower()
    return one_line(str(error), LONGEST_WORDS) or type(error).__name__
