"""Send chat requests through openai.AsyncOpenAI, and read the replies.

The openai client provides the connections, the proxies and certificates of the environment, the
key, the query, logging (OPENAI_LOG) and exceptions. This module adds several addresses, a
watchdog (core/client/flights.py), limits on the size of a response, and errors that never show the
key. Replies are streamed if the card allows it, because only a stream shows that the server works
on a request.
"""

import asyncio
import json
import math
import os
import resource
import urllib.parse
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any, Self, TypeVar, cast

import aiohttp
import httpx2  # the HTTP library of the openai client
import openai

from core.base.errors import MORE_FILES, RedirectRefused, UserError, one_line
from core.client import rewards
from core.client.failures import (
    LONGEST_WORDS,
    Failure,
    Lost,
    Malformed,
    Oversized,
    Overtime,
    Refused,
    Stalled,
    refusal,
)
from core.client.flights import Flight, Flights
from core.client.logprobs import Ends
from core.client.reply import Reply, read
from core.engines import environment
from core.engines.cards import origin
from core.engines.protocol import Key, Server, is_local

R = TypeVar("R")

CONNECT_SECONDS = 10.0
# close idle connections before servers do (uvicorn: after 5 s), so that no request is lost
KEEPALIVE_SECONDS = 4.0
# a reply may have BYTES for each token of its cap and ALTERNATIVE for each likely token listed with
# it, and the request's size and ROOM bytes more
BYTES = 4096
ALTERNATIVE = 256
ROOM = 2**20
PAGE = 2**26  # the most bytes of a list with numbers for each token of a prompt
ERROR_BYTES = 2**16  # the most bytes to read of an error response
SPARE_FILES = 16  # additional open files: saved results, the judge's pipes, name look-ups
# characters. A shorter key is not hidden in messages, because it may be an ordinary word
SHORTEST_KEY = 8
NO_BEARER = "none"  # the client demands a key, but sends none if its header is omitted
# errors of a connection. The client raises its own before a response, and its libraries' after
_CONNECTION_ERRORS = (openai.APIConnectionError, httpx2.HTTPError, aiohttp.ClientError)
# errors before the request reached a server
_UNSENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)


class HttpClient:
    """Up to `limit` connections to a server and its replicas. Use it as a context manager. Each
    request goes to the least busy address. Raises UserError if the system does not allow so many
    connections."""

    def __init__(self, server: Server, limit: int) -> None:
        _allow_connections(limit, server)
        addresses = (server.base_url, *server.replicas)
        self.flights = Flights(addresses)
        self._key = server.key
        self._hangs_up = server.dialect.hangs_up
        self._rewards = server.dialect.rewards
        with environment.openai_settings_for(server.key):
            self._client = _openai_client(server, limit)
            # all of them share the connections of the first
            self._clients = {
                address: self._client.with_options(base_url=address) for address in addresses
            }

    async def __aenter__(self) -> Self:
        self._watchdog = asyncio.create_task(self.flights.watch())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._watchdog.cancel()
        await self._client.close()

    async def send(
        self, body: Mapping[str, Any], patience: float, seconds: float, ends: Ends | None = None
    ) -> Reply:
        """Send `body`, the JSON object of a chat request, and return the reply. `ends` may end its
        stream early (see `read`). The request fails after `seconds`, or after `patience` seconds
        without data (Flights). Raises Failure, or RedirectRefused for a redirect."""
        tokens = body.get("max_tokens") or body.get("max_completion_tokens") or math.inf
        room = tokens * (BYTES + ALTERNATIVE * (body.get("top_logprobs") or 0))
        with self.flights.begin(patience, seconds) as flight, self._failures(flight):
            async with flight.deadline:
                reading = partial(read, ends=ends)
                return await self._post("/chat/completions", body, flight, room, reading)

    async def score(
        self, body: Mapping[str, Any], patience: float, seconds: float, steps: int
    ) -> Reply:
        """Send `body`, the JSON object of a request to a reward model, and return its reply. The
        reply has a score for each of `steps`, or for the whole solution (0). `patience` and
        `seconds` limit the time as in `send`. Raises Failure, NoScore for unusable scores, or
        RedirectRefused for a redirect."""
        endpoint = self._rewards
        assert endpoint is not None, "the run has checked it"
        with self.flights.begin(patience, seconds) as flight, self._failures(flight):
            root = flight.address.removesuffix("/v1")
            async with flight.deadline:
                sent: Mapping[str, Any] = body
                if endpoint.takes_tokens:
                    page = await self._post(f"{root}/tokenize", body, flight, PAGE, rewards.page)
                    sent = {"input_ids": rewards.tokens_in(page)}
                page = await self._post(f"{root}{endpoint.path}", sent, flight, PAGE, rewards.page)
                return rewards.reply_of(page, steps, endpoint)

    async def _post(
        self,
        path: str,
        body: Mapping[str, Any],
        flight: Flight,
        room: float,
        read: Callable[[AsyncIterator[bytes]], Awaitable[R]],
    ) -> R:
        """Send `body` to `path`, or to another address of the server, and return the response as
        `read` returns it. It may have `room` bytes more than the request. Raises the errors of the
        openai client, and of its libraries, besides the failures of `read`."""
        content = json.dumps(body).encode()
        # chat.completions.create would take 0.4 ms more to convert the body, and can't send lone
        # surrogates
        posted = await self._clients[flight.address].post(
            path,
            content=content,
            options={"headers": self._headers(body)},
            cast_to=httpx2.Response,
            stream=True,
            stream_cls=openai.AsyncStream[object],
        )
        response = cast(httpx2.Response, posted)
        # some servers repeat the request in the reply
        max_bytes = ROOM + len(content) + room
        try:
            return await read(self._received(response, flight, max_bytes))
        finally:
            await response.aclose()

    @contextmanager
    def _failures(self, flight: Flight) -> Iterator[None]:
        """Raise the errors of the openai client, and of its libraries, as Failures."""
        try:
            yield
        except openai.APIStatusError as error:
            raise self._without_key(_refused(error.response)) from None
        except (Refused, Malformed) as failure:
            raise self._without_key(failure) from None
        except _CONNECTION_ERRORS as error:
            raise _lost(error) from None
        except TimeoutError:
            if flight.is_stalled:
                raise Stalled(f"silent for {flight.patience:.0f} s") from None
            raise Overtime(f"no answer within {flight.seconds:.0f} s") from None

    def _headers(self, body: Mapping[str, Any]) -> dict[str, str | openai.Omit]:
        headers: dict[str, str | openai.Omit] = {}
        if not _is_bearer(self._key):
            headers["Authorization"] = openai.omit
        if self._hangs_up and body.get("stream"):
            # a request on a connection that the server has closed is lost, so it is not reused
            headers["Connection"] = "close"
        return headers

    async def _received(
        self, response: httpx2.Response, flight: Flight, max_bytes: float
    ) -> AsyncIterator[bytes]:
        """Yield the parts of a response's body, and note their times. Raises Oversized after
        `max_bytes`."""
        size = 0
        async for part in response.aiter_bytes():
            size += len(part)
            if size > max_bytes:
                raise Oversized("the reply is larger than its token cap allows, and was cut off")
            self.flights.note_data(flight, part)
            yield part

    def _without_key(self, failure: Failure) -> Failure:
        """Replace our API key in the server's message by its variable's name, even if the message
        ends within the key."""
        if len(self._key) >= SHORTEST_KEY:
            failure.args = (_hidden(self._key, str(failure)),)
        return failure


def _openai_client(server: Server, limit: int) -> openai.AsyncOpenAI:
    addresses = (server.base_url, *server.replicas)
    try:
        connections = openai.DefaultAioHttpClient(
            follow_redirects=False,  # another server would get the key and the prompts
            limits=httpx2.Limits(max_connections=limit, keepalive_expiry=KEEPALIVE_SECONDS),
            mounts=_unproxied(addresses),
            event_hooks={"response": [_shorten_error]},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
        )
    except (httpx2.InvalidURL, ValueError) as error:
        raise UserError(
            f"the environment names an invalid proxy ({one_line(str(error), LONGEST_WORDS)}). "
            "Correct or unset http_proxy, https_proxy and all_proxy"
        ) from None
    _refuse_cookies(connections)
    key = server.key
    has_own_header = bool(key) and not _is_bearer(key)
    return openai.AsyncOpenAI(
        base_url=server.base_url,
        api_key=str(key) if _is_bearer(key) else NO_BEARER,
        default_headers=dict([key.sent]) if has_own_header else {},
        default_query=server.query,
        timeout=openai.Timeout(None, connect=CONNECT_SECONDS),  # the watchdog does the rest
        max_retries=0,  # RetryingClient retries
        http_client=connections,
    )


def _is_bearer(key: Key) -> bool:
    """Return whether the header Authorization carries the key."""
    return bool(key) and not key.header


def _unproxied(addresses: tuple[str, ...]) -> dict[str, None]:
    """Return the client's patterns of URLs that use no proxy of the environment: the `addresses` on
    this machine, and those that only all_proxy matches. all_proxy is often a SOCKS proxy, which
    aiohttp can't use, and core/engines/queries.py ignores it too."""
    patterns: dict[str, None] = {"all://": None}
    for address in addresses:
        host = urllib.parse.urlsplit(address).hostname or ""
        if environment.is_ours(address):
            patterns[f"all://[{host}]" if ":" in host else f"all://{host}"] = None
    return patterns


def _refuse_cookies(connections: Any) -> None:
    """Make aiohttp, below the `connections`, store no cookies either. With a load balancer's
    cookie, one replica would get all requests."""
    for transport in (connections._transport, *connections._mounts.values()):
        if transport is not None:
            transport.client = partial(_session, transport)


def _session(transport: Any) -> aiohttp.ClientSession:
    """Return what the openai client's `transport` creates (get_client), without cookies."""
    limits = transport.limits
    connector = aiohttp.TCPConnector(
        limit=limits.max_connections,
        keepalive_timeout=limits.keepalive_expiry,
        ssl=transport.ssl_context,
    )
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


class _Beginning(httpx2.AsyncByteStream):
    """The first `length` bytes of a response's body."""

    def __init__(self, body: httpx2.AsyncByteStream, length: int) -> None:
        self._body = body
        self._length = length

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if not self._length:
            return
        size = 0
        async for part in self._body:
            yield part[: self._length - size]
            size += len(part)
            if size >= self._length:
                return

    async def aclose(self) -> None:
        await self._body.aclose()


async def _shorten_error(response: httpx2.Response) -> None:
    """Keep only the beginning of an error's body, and nothing of a redirect's. The openai client
    reads this body whole, as text of the charset that the server names."""
    if not response.is_success:
        body = cast(httpx2.AsyncByteStream, response.stream)
        response.stream = _Beginning(body, 0 if response.is_redirect else ERROR_BYTES)
        # an invalid text, or one in an odd charset like idna, would raise an error
        response.encoding = "utf-8"


def _refused(response: httpx2.Response) -> Failure:
    """Return the failure in an error response. Raises RedirectRefused for a redirect to another
    server."""
    if response.is_informational:
        return Malformed("it switches to another protocol")
    if not response.is_redirect:
        words = response.content.decode("utf-8", "replace").strip()
        # of a header that is repeated, the last value
        headers = dict(response.headers.multi_items())
        return refusal(response.status_code, words, headers)
    here = str(response.request.url)
    with suppress(ValueError):  # the address is invalid
        there = urllib.parse.urljoin(here, response.headers.get("Location", ""))
        if urllib.parse.urlsplit(there).hostname and origin(there) != origin(here):
            raise RedirectRefused(origin(here), origin(there))
    return Malformed("it redirects to another path. Put the address of the API into BASE_URL")


def _lost(error: Exception) -> Lost:
    """Return the failure of a connection, with the reason of the library that noticed it."""
    reason: BaseException = error
    while reason.__cause__ is not None and not isinstance(reason, aiohttp.ClientError):
        reason = reason.__cause__
    lost = Lost(_why_lost(reason))
    lost.is_free = isinstance(reason, _UNSENT)
    return lost


def _why_lost(reason: BaseException) -> str:
    """Return the system's message if a connection failed (aiohttp's always mentions TLS), else
    the library's, for example about a certificate."""
    is_tls = isinstance(reason, aiohttp.ClientSSLError)
    if isinstance(reason, aiohttp.ClientConnectorError) and reason.os_error.errno and not is_tls:
        return os.strerror(abs(reason.os_error.errno)).lower()
    return one_line(str(reason), LONGEST_WORDS) or type(reason).__name__


def _hidden(key: Key, words: str) -> str:
    """Return `words` with the name of the key's variable in place of the key."""
    name = f"({key.variable})"
    words = words.replace(key, name).removesuffix("…")
    for length in range(len(key) - 1, SHORTEST_KEY - 1, -1):
        if words.endswith(key[:length]):
            return words[:-length] + name
    return words


def _allow_connections(count: int, server: Server) -> None:
    """Raise the limit on open files for `count` connections. Raises UserError if the system does
    not allow it."""
    # 2: this process is also the server
    ends = 2 if server.dialect.is_in_process and is_local(server.base_url) else 1
    needed = len(os.listdir("/dev/fd")) + ends * count + SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
    except (ValueError, OSError):  # `needed` is above the hard limit, or above the system's own
        fault = f"the system allows too few open files for {count} requests in flight"
        raise UserError(f"{fault}: {MORE_FILES}") from None
