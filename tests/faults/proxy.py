"""A proxy that mistreats requests, before a real server: a fault is what it does with one request.

Answers are the server's own, asked for and then cut, relabelled or held back; only what no server would send is made
up.
"""

import json
import random
import socket
import struct
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from tests.fakes.http import HttpFake, Request, is_gone


class Exchange:
    """One request at the proxy, and the connection to the client that sent it."""

    def __init__(self, target: str, request: Request, body: bytes) -> None:
        self.request, self._target, self._body = request, target, body

    def answer(self) -> tuple[int, str, bytes]:
        """The server's whole answer: status, content type and body."""
        kind = {"content-type": "application/json"}
        onward = urllib.request.Request(self._target + self.request.path, self._body or None, kind)
        try:
            with urllib.request.urlopen(onward, timeout=120) as reply:
                return reply.status, reply.headers.get("content-type", ""), reply.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers.get("content-type", ""), error.read()

    def write(self, data: bytes) -> None:
        self.request.wfile.write(data)

    def head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.write(f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode("latin-1"))

    def send(self, status: int, kind: str, body: bytes, **headers: str) -> None:
        """An answer, whole and well framed; the connection stays open."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        self.head(status, {"content-type": kind, "content-length": str(len(body))} | more)
        self.write(body)

    def close(self, reset: bool = False) -> None:
        """End the connection, with a FIN or a reset."""
        self.request.close_connection = True
        if reset:
            time.sleep(0.05)  # what was sent should arrive first
            linger = struct.pack("ii", 1, 0)
            self.request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.request.connection.close()
        else:
            self.request.connection.shutdown(socket.SHUT_RDWR)


Fault = Callable[[Exchange], None]


class Proxy(HttpFake):
    """Passes requests on to `target` (a base URL), after the faults in `script` (one a request) are used up; then each
    meets what `choose` gives (None: no fault)."""

    def __init__(self, target: str) -> None:
        self._target = target.removesuffix("/v1")
        self.script: list[Fault] = []
        self.choose: Callable[[], Fault | None] = lambda: None
        self.rename: tuple[str, str] | None = None  # a model's name and what the list of models calls it instead
        self.bodies: list[dict[str, Any]] = []
        self.met: Counter[str] = Counter()  # how often each fault was met
        super().__init__()

    def get(self, request: Request) -> None:
        exchange = Exchange(self._target, request, b"")
        status, kind, body = exchange.answer()
        if self.rename:
            was, name = self.rename
            body = body.replace(was.encode(), name.encode())
        exchange.send(status, kind, body)

    def post(self, request: Request, body: bytes) -> None:
        with self.lock:
            self.bodies.append(json.loads(body))
            fault = self.script.pop(0) if self.script else self.choose()
            self.met[getattr(fault, "__name__", "?")] += bool(fault)
        with suppress(OSError):  # the client has gone, or we have closed the connection
            (fault or passed())(Exchange(self._target, request, body))


def mix(seed: int, rate: float, faults: Mapping[str, Fault], rare: Mapping[str, Fault]) -> Callable[[], Fault | None]:
    """What Proxy.choose may be: a share `rate` of requests meets one of `faults`; each of the `rare` ones, which cost
    time, is met once, somewhere in the first hundred requests."""
    rng = random.Random(seed)
    count = 0
    moments = dict(zip(rng.sample(range(100), len(rare)), rare.values(), strict=True))

    def choose() -> Fault | None:
        nonlocal count
        count += 1
        if slow := moments.get(count - 1):
            return slow
        return rng.choice(list(faults.values())) if rng.random() < rate else None

    return choose


# Faults. Each says what the client sees.


def says(status: int, body: Any, kind: str = "application/json", **headers: str) -> Fault:
    """This answer instead of the server's."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda exchange: exchange.send(status, kind, content, **headers)


def raw(data: bytes, close: bool = True, reset: bool = False) -> Fault:
    """These bytes instead of an answer."""

    def fault(exchange: Exchange) -> None:
        exchange.write(data)
        if close:
            exchange.close(reset)

    return fault


def broken_off(share: float, reset: bool = False, framing: str = "length") -> Fault:
    """The server's answer up to a `share` of its body; then the connection ends. `framing`: what the headers promise: a
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
    change: Callable[[bytes], bytes] = lambda body: body,
    before: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> Fault:
    """The server's answer, with its body changed, under another content type or with other headers, and bytes `before`
    it, as 1xx answers are."""

    def fault(exchange: Exchange) -> None:
        status, its, body = exchange.answer()
        exchange.write(before)
        exchange.send(status, kind or its, change(body), **(headers or {}))

    return fault


def closed_after(reset: bool) -> Fault:
    """The whole answer; then the connection ends, and no header has said so. A reset comes while it is idle."""

    def fault(exchange: Exchange) -> None:
        exchange.send(*exchange.answer())
        exchange.close(reset)

    return fault


def stuck(share: float | None, every: float = 3600.0, say: bytes = b"", first: bytes = b"") -> Fault:
    """Nothing more ever comes, but the connection stays. `share`: of the body that came before (None: not even
    headers). With `say` there comes that, `every` so many seconds, for ever, and before it `first`."""

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


def named(faults: Mapping[str, Fault]) -> dict[str, Fault]:
    """`faults` that know their names, for Proxy.met."""
    for name, fault in faults.items():
        fault.__name__ = name
    return dict(faults)
