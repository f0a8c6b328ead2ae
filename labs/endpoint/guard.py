"""What clients may do to the HTTP servers of this project: how much they ask at a time, how slowly."""

import ipaddress
from asyncio import TimerHandle
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from core.base import hosts

PATIENCE = 30.0  # seconds in which a client has to go on: with a request it has begun, or with reading what it is sent
MOST_CONNECTIONS = 256  # open at a time, of all clients
CLIENTS = 4  # all clients together may have so many times what one may
AHEAD = 64 * 1024  # bytes that a client may send ahead of the answer it waits for


# Refusals


class Refusal(Exception):
    """A request that is not answered, with the HTTP status and the error object that OpenAI's clients expect."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None, status: int = 400) -> None:
        super().__init__(message)
        self.param, self.code, self.status = param, code, status

    def to_json(self) -> dict[str, Any]:
        kinds = {429: "rate_limit_error"}
        kind = "server_error" if self.status >= 500 else kinds.get(self.status, "invalid_request_error")
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


# Amounts


class Share:
    """What one request takes of what its client may have at a time."""

    def __init__(self, allowance: "Allowance", client: str) -> None:
        self._allowance, self._client = allowance, client
        self.taken: Counter[str] = Counter()

    def take(self, what: str, amount: int) -> None:
        """Raises Refusal (429) where the client, or all clients together, would have too much."""
        each, by = self._allowance.most[what], self._allowance.by
        for whose, most, held in (
            ("one client", each, by[self._client][what]),
            ("all clients", CLIENTS * each, sum(taken[what] for taken in by.values())),
        ):
            if held + amount > most:
                raise Refusal(
                    f"no more than {most:,} {what} of {whose} may be in progress. Ask again when others are done",
                    code="rate_limit_exceeded",
                    status=429,
                )
        by[self._client][what] += amount
        self.taken[what] += amount


class Allowance:
    """What clients may have in progress at a time, of each thing that `most` names: a client so much, all together
    CLIENTS times that."""

    def __init__(self, most: dict[str, int]) -> None:
        self.most = most
        self.by: defaultdict[str, Counter[str]] = defaultdict(Counter)

    @contextmanager
    def share(self, client: str) -> Iterator[Share]:
        """A request's; given back at the end."""
        share = Share(self, client)
        try:
            yield share
        finally:
            self.by[client] -= share.taken  # what comes to nothing is dropped
            if not self.by[client]:
                del self.by[client]


def client(scope: Mapping[str, Any]) -> str:
    """Who asks, by address; of IPv6, where everybody has many, by network."""
    host = (scope.get("client") or ("", 0))[0]
    address = hosts.address(host.partition("%")[0])
    if address is None or address.version == 4:
        return str(address or host)
    return str(ipaddress.ip_network((address, 64), strict=False))


# Patience


class Connection(H11Protocol):
    """uvicorn's connection, ended where the client does not go on: a request that is begun and never whole, an answer
    that is never read. Who leaves is noticed also behind a request that was sent ahead. If all places are taken, the
    oldest connection without a request makes room."""

    most = MOST_CONNECTIONS  # open at a time
    _opened = 0.0  # when, by the event loop's clock
    _timer: TimerHandle | None = None
    _resumed = 0  # how often writing went on, once it had to wait for the client

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._opened = self.loop.time()
        self._look(self, 0, 0)
        others = [each for each in self.connections - {self} if isinstance(each, Connection) and not each._is_ending()]
        if len(others) >= self.most:  # uvicorn's limit_concurrency would refuse the requests of all clients
            idle = [each for each in others if not each._is_answering()]
            min(idle, key=lambda each: each._opened, default=self).transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._is_answering() and not self.cycle.more_body and (ahead := self.conn.trailing_data[0]):
            if len(ahead) > AHEAD:
                self.transport.abort()
            else:
                self.flow.resume_reading()  # else nobody would notice that it left

    def resume_writing(self) -> None:
        super().resume_writing()
        self._resumed += 1

    def _is_ending(self) -> bool:
        return bool(self.transport.is_closing())

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _look(self, waiting: Any, unread: int, resumed: int) -> None:
        """Compare with what was at the last look: the request last answered while the next was `waiting` for (else
        the connection itself), bytes `unread`, and how often writing had `resumed`."""
        now = self if self._is_answering() else self.cycle
        left = self.transport.get_write_buffer_size()
        if (now is not self and now is waiting) or (left >= unread > 0 and self._resumed == resumed):
            self.transport.abort()
        else:
            self._timer = self.loop.call_later(PATIENCE, self._look, now, left, self._resumed)
