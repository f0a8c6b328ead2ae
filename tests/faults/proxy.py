"""A proxy that mistreats requests to a real server. A fault is a function that mistreats one
request.

Most faults fetch the server's own answer, and cut it, relabel it or hold it back.
"""

import itertools
import json
import random
import socket
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tests.fakes.http import HttpFake, Request, forwarded, is_gone

NONE: Mapping[str, str] = {}
# of the servers, by address, path and body
ANSWERS: dict[tuple[str, str, bytes], tuple[int, str, bytes]] = {}


class Exchange:
    """One request at the proxy, and the connection to its client."""

    def __init__(self, target: str, request: Request, body: bytes) -> None:
        self.request, self._target, self._body = request, target, body

    def answer(self) -> tuple[int, str, bytes]:
        """Return the server's whole answer: status, content type and body. A repeated request gets
        the same answer."""
        asked = self._target, self.request.path, self._body
        if asked not in ANSWERS or not self._body:
            ANSWERS[asked] = forwarded(self._target, self.request, self._body or None)
        return ANSWERS[asked]

    def write(self, data: bytes) -> None:
        self.request.wfile.write(data)

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.write(f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode("latin-1"))

    def send(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        """Send a whole, well framed answer; the connection stays open."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        self.head(status, {"content-type": kind, "content-length": str(len(body))} | more)
        self.write(body)

    def close(self, reset: bool = False) -> None:
        """End the connection, with a FIN or a reset."""
        self.request.close_connection = True
        if reset:
            time.sleep(0.05)  # until the data has arrived
            linger = struct.pack("ii", 1, 0)
            self.request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.request.connection.close()
        else:
            self.request.connection.shutdown(socket.SHUT_RDWR)


Fault = Callable[[Exchange], None]


class Proxy(HttpFake):
    """A proxy of the server at `target`. The next requests meet the faults in `script`, one each,
    and later ones meet `choose()` (None: no fault)."""

    def __init__(self, target: str) -> None:
        self._target = target.removesuffix("/v1")
        self.script: list[Fault] = []
        self.choose: Callable[[], Fault | None] = lambda: None
        self.bodies: list[dict[str, Any]] = []
        super().__init__()

    def get(self, request: Request) -> None:
        exchange = Exchange(self._target, request, b"")
        exchange.send(*exchange.answer())

    def post(self, request: Request, body: bytes) -> None:
        fault = None
        if request.path != "/apply-template":  # a probe of the engine meets no fault
            with self.lock:
                self.bodies.append(json.loads(body))
                fault = self.script.pop(0) if self.script else self.choose()
        with suppress(OSError):  # the client has gone, or we have closed the connection
            (fault or passed())(Exchange(self._target, request, body))


def mix(
    seed: int, rate: float, faults: Mapping[str, Fault], rare: Mapping[str, Fault]
) -> Callable[[], Fault | None]:
    """Return a Proxy.choose: a share `rate` of requests meets one of `faults`, and each of the
    slow, `rare` faults is met once in the first hundred requests."""
    rng, numbers = random.Random(seed), itertools.count()
    moments = dict(zip(rng.sample(range(100), len(rare)), rare.values(), strict=True))

    def choose() -> Fault | None:
        if slow := moments.get(next(numbers)):
            return slow
        return rng.choice(list(faults.values())) if rng.random() < rate else None

    return choose


def says(status: int, body: Any, kind: str = "application/json", **headers: str) -> Fault:
    """Send this answer instead of the server's."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda exchange: exchange.send(status, kind, content, **headers)


def raw(data: bytes, close: bool = True, reset: bool = False) -> Fault:
    """Send these bytes instead of an answer."""

    def fault(exchange: Exchange) -> None:
        exchange.write(data)
        if close:
            exchange.close(reset)

    return fault


def broken_off(share: float, reset: bool = False, framing: str = "length") -> Fault:
    """Send a `share` of the answer's body and end the connection. `framing`: the headers promise a
    "length", "chunks", or the "end" of the connection, as in HTTP/1.0."""

    def fault(exchange: Exchange) -> None:
        status, kind, body = exchange.answer()
        part = body[: int(share * len(body))]
        if framing == "end":
            exchange.write(b"HTTP/1.0 200 OK\r\ncontent-type: %s\r\n\r\n%s" % (kind.encode(), part))
        elif framing == "chunks":
            exchange.head(status, {"content-type": kind, "transfer-encoding": "chunked"})
            exchange.write(b"%x\r\n%s" % (len(body), part))
        else:
            exchange.head(status, {"content-type": kind, "content-length": str(len(body))})
            exchange.write(part)
        exchange.close(reset)

    return fault


def passed(
    kind: str = "",
    change: Callable[[bytes], bytes] = bytes,
    before: bytes = b"",
    headers: Mapping[str, str] = NONE,
) -> Fault:
    """Send the answer with a changed body, another content type or other headers, and bytes
    `before` it (a 1xx)."""

    def fault(exchange: Exchange) -> None:
        status, its, body = exchange.answer()
        exchange.write(before)
        exchange.send(status, kind or its, change(body), **headers)

    return fault


def closed_after(reset: bool) -> Fault:
    """Send the whole answer and end the connection unannounced. A reset comes while it is idle."""

    def fault(exchange: Exchange) -> None:
        exchange.send(*exchange.answer())
        exchange.close(reset)

    return fault


def stuck(
    share: float | None, every: float = 3600.0, say: bytes = b"", first: bytes = b""
) -> Fault:
    """Send a `share` of the body (None: no headers either) and keep the connection. `say`: sent for
    ever, `every` so many seconds, after `first`."""

    def fault(exchange: Exchange) -> None:
        if share is not None:
            status, kind, body = exchange.answer()
            exchange.head(status, {"content-type": kind, "transfer-encoding": "chunked"})
            if part := body[: int(share * len(body))]:
                exchange.write(b"%x\r\n%s\r\n" % (len(part), part))
        exchange.write(first)
        framed = b"%x\r\n%s\r\n" % (len(say), say) if say and share is not None else say
        heard = time.monotonic()
        while not is_gone(exchange.request):
            time.sleep(0.05)
            if say and time.monotonic() - heard > every:
                exchange.write(framed)
                heard = time.monotonic()
        exchange.close()

    return fault
