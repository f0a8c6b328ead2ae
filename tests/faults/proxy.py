"""A proxy that mistreats requests, before a real server: a fault is what it does with one request.

Answers are the server's own, asked for and then cut, relabelled, rewritten or held back; only what no server would
send is made up.
"""

import asyncio
import json
import random
import socket
import struct
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import httpx2

Chunk = Any  # one JSON object of an answer: the whole of a plain one, an event of a streamed one
Change = Callable[[list[Chunk]], list[Chunk] | None]  # alters them in place, or gives others


@dataclass
class Answer:
    """A server's answer to one request. A streamed one is a list of events, each "data: …" without its line ends."""

    status: int
    kind: str
    body: bytes

    @property
    def is_stream(self) -> bool:
        return self.kind.startswith("text/event-stream")

    @property
    def events(self) -> list[bytes]:
        return [event for event in self.body.split(b"\n\n") if event]

    def changed(self, change: "Change") -> "Answer":
        """With its JSON objects put through `change`."""
        if not self.is_stream:
            chunks = [json.loads(self.body)]
            made = change(chunks)
            return Answer(self.status, self.kind, json.dumps((chunks if made is None else made)[0]).encode())
        chunks = [json.loads(event.removeprefix(b"data: ")) for event in self.events if not event.endswith(b"[DONE]")]
        made = change(chunks)
        events = [json.dumps(chunk) for chunk in (chunks if made is None else made)]
        return Answer(self.status, self.kind, "".join(f"data: {event}\n\n" for event in (*events, "[DONE]")).encode())


class Exchange:
    """One request at the proxy, and the raw connection to whoever sent it."""

    def __init__(self, proxy: "Proxy", head: str, body: bytes, reader: asyncio.StreamReader, writer: Any) -> None:
        self.proxy, self.body, self._reader, self._writer = proxy, body, reader, writer
        self.method, self.path, _ = head.split("\r\n", 1)[0].split(" ")
        self.is_closed = False

    async def answer(self) -> Answer:
        """The server's whole answer."""
        reply = await self.proxy.client.request(self.method, self.proxy.target + self.path, content=self.body)
        return Answer(reply.status_code, reply.headers.get("content-type", ""), reply.content)

    async def forward(self) -> None:
        """The server's answer, byte by byte as it comes; nobody to hear it ends the request at the server too."""
        gone = asyncio.create_task(self._lost())
        work = asyncio.create_task(self._relay())
        await asyncio.wait({gone, work}, return_when=asyncio.FIRST_COMPLETED)
        for task in (gone, work):
            task.cancel()
        if gone.done():
            self.is_closed = True
        with suppress(asyncio.CancelledError):
            await work

    async def _relay(self) -> None:
        request = self.proxy.client.stream(self.method, self.proxy.target + self.path, content=self.body)
        async with request as reply:
            kind = reply.headers.get("content-type", "")
            if "content-length" in reply.headers:
                await self.send(Answer(reply.status_code, kind, await reply.aread()))
                return
            await self.head(reply.status_code, {"content-type": kind, "transfer-encoding": "chunked"})
            async for piece in reply.aiter_raw():
                await self.chunk(piece)
            await self.write(b"0\r\n\r\n")

    async def _lost(self) -> None:
        while not self._reader.at_eof() and not self._reader.exception():  # noqa: ASYNC110 (a read could take bytes)
            await asyncio.sleep(0.05)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def head(self, status: int, headers: Mapping[str, str]) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        await self.write(f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode("latin-1"))

    async def chunk(self, data: bytes) -> None:
        if data:
            await self.write(b"%x\r\n%s\r\n" % (len(data), data))

    async def send(self, answer: Answer, **headers: str) -> None:
        """`answer`, whole and well framed; the connection stays open."""
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        length = {"content-length": str(len(answer.body))}
        await self.head(answer.status, {"content-type": answer.kind} | length | more)
        await self.write(answer.body)

    async def close(self, reset: bool = False) -> None:
        """End the connection, with a FIN or a reset."""
        self.is_closed = True
        if reset:
            await asyncio.sleep(0.05)  # what was sent should arrive first
            linger = struct.pack("ii", 1, 0)
            self._writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._writer.transport.abort()
        else:
            self._writer.close()

    async def until_gone(self, every: float = 3600.0, say: bytes = b"") -> None:
        """Wait until the client has gone; meanwhile `say` something `every` so many seconds."""
        gone = asyncio.create_task(self._reader.read())
        while not gone.done():
            await asyncio.wait({gone}, timeout=every)
            if say and not gone.done():
                await self.write(say)
        await self.close()


Fault = Callable[[Exchange], Awaitable[None]]


class Proxy:
    """Passes requests on to `target` (a base URL that may be changed), after the faults in `script` (one a request) are
    used up; then each meets what `choose` gives (None: no fault). Runs in a thread of its own; use it as a context
    manager."""

    def __init__(self, target: str, host: str = "127.0.0.1") -> None:
        self.target = target.removesuffix("/v1")
        self.script: list[Fault] = []
        self.choose: Callable[[], Fault | None] = lambda: None
        self.rename: tuple[str, str] | None = None  # a model's name and what the list of models calls it instead
        self.bodies: list[dict[str, Any]] = []
        self.met: Counter[str] = Counter()  # how often each fault was met
        self._host = host
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> "Proxy":
        self._thread.start()
        self._do(self._open(0))
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _do(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _open(self, port: int) -> None:
        self._refusing = asyncio.Lock()
        self.client = httpx2.AsyncClient(timeout=None, trust_env=False)
        self._server = await asyncio.start_server(self._serve, self._host, port, limit=2**20)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://{f'[{self._host}]' if ':' in self._host else self._host}:{self.port}/v1"

    async def _close(self) -> None:
        self._server.close()
        here = asyncio.current_task()
        tasks = [task for task in asyncio.all_tasks() if task is not here]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.client.aclose()

    async def refuse(self, seconds: float) -> None:
        """Nobody listens for a while: new connections are refused."""
        async with self._refusing:
            self._server.close()
            await asyncio.sleep(seconds)
            self._server = await asyncio.start_server(self._serve, self._host, self.port, limit=2**20)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                length = next((v for k, _, v in _fields(head) if k == "content-length"), "0")
                exchange = Exchange(self, head, await reader.readexactly(int(length)), reader, writer)
                await self._meet(exchange)
                if exchange.is_closed:
                    break
        writer.close()

    async def _meet(self, exchange: Exchange) -> None:
        if exchange.method == "GET":
            answer = await exchange.answer()
            if self.rename:
                was, name = self.rename
                answer.body = answer.body.replace(was.encode(), name.encode())
            await exchange.send(answer)
            return
        self.bodies.append(json.loads(exchange.body))
        fault = self.script.pop(0) if self.script else self.choose()
        if fault:
            self.met[getattr(fault, "__name__", "?")] += 1
            await fault(exchange)
        else:
            await exchange.forward()


def _fields(head: str) -> list[tuple[str, str, str]]:
    lines = (line.partition(":") for line in head.split("\r\n")[1:])
    return [(name.strip().lower(), colon, value.strip()) for name, colon, value in lines]


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

    async def fault(exchange: Exchange) -> None:
        await exchange.send(Answer(status, kind, content), **headers)

    return fault


def raw(data: bytes, close: bool = True) -> Fault:
    """These bytes instead of an answer."""

    async def fault(exchange: Exchange) -> None:
        await exchange.write(data)
        if close:
            await exchange.close()

    return fault


def lost(reset: bool) -> Fault:
    """The connection ends before any answer."""

    async def fault(exchange: Exchange) -> None:
        await exchange.close(reset)

    return fault


async def refused(exchange: Exchange) -> None:
    """The connection is lost, and for a while nobody listens."""
    await exchange.close(reset=True)
    await exchange.proxy.refuse(0.03)


def broken_off(share: float, reset: bool = False, chunked: bool = False) -> Fault:
    """The server's answer up to a `share` of its body; then the connection ends, whatever its headers promised."""

    async def fault(exchange: Exchange) -> None:
        answer = await exchange.answer()
        part = answer.body[: int(share * len(answer.body))]
        if chunked:
            await exchange.head(answer.status, {"content-type": answer.kind, "transfer-encoding": "chunked"})
            await exchange.write(b"%x\r\n%s" % (len(answer.body), part))
        else:
            length = str(len(answer.body))
            await exchange.head(answer.status, {"content-type": answer.kind, "content-length": length})
            await exchange.write(part)
        await exchange.close(reset)

    return fault


def ends_early(events: int | None = None, share: float = 1.0, close: bool = False) -> Fault:
    """The answer without its last `events` (a plain one: up to `share`), well framed as if it were whole. With `close`
    the end of the connection is what ends it, as in HTTP/1.0."""

    async def fault(exchange: Exchange) -> None:
        answer = await exchange.answer()
        if answer.is_stream and events is not None:
            kept = answer.events
            answer.body = b"".join(event + b"\n\n" for event in kept[: max(0, len(kept) - events)])
        else:
            answer.body = answer.body[: int(share * len(answer.body))]
        if close:
            await exchange.write(b"HTTP/1.0 200 OK\r\ncontent-type: %s\r\n\r\n%s" % (answer.kind.encode(), answer.body))
            await exchange.close()
        else:
            await exchange.send(answer)

    return fault


def labelled(kind: str, **headers: str) -> Fault:
    """The server's answer under another content type, or with other headers."""

    async def fault(exchange: Exchange) -> None:
        answer = await exchange.answer()
        await exchange.send(Answer(answer.status, kind or answer.kind, answer.body), **headers)

    return fault


def rewritten(change: Change, framing: Callable[[bytes], bytes] = lambda body: body) -> Fault:
    """The server's answer with its JSON objects put through `change`, and the body of a stream through `framing`."""

    async def fault(exchange: Exchange) -> None:
        answer = (await exchange.answer()).changed(change)
        if answer.is_stream:
            answer.body = framing(answer.body)
        await exchange.send(answer)

    return fault


def in_pieces(size: int) -> Fault:
    """The server's answer in chunks of `size` bytes, which end anywhere: in a line, a word, a character."""

    async def fault(exchange: Exchange) -> None:
        answer = await exchange.answer()
        await exchange.head(answer.status, {"content-type": answer.kind, "transfer-encoding": "chunked"})
        for at in range(0, len(answer.body), size):
            await exchange.chunk(answer.body[at : at + size])
            await asyncio.sleep(0)
        await exchange.write(b"0\r\n\r\n")

    return fault


def prefaced(head: bytes) -> Fault:
    """Bytes before the server's answer, as 1xx answers are."""

    async def fault(exchange: Exchange) -> None:
        await exchange.write(head)
        await exchange.forward()

    return fault


async def closed_after(exchange: Exchange) -> None:
    """The whole answer; then the server closes the connection without having said so."""
    await exchange.forward()
    await exchange.close()


async def closed_when_idle(exchange: Exchange) -> None:
    """The whole answer; then the connection is reset while it is idle, as it might just be reused."""
    await exchange.forward()
    await exchange.close(reset=True)


def stuck(share: float | None, every: float = 3600.0, say: bytes = b"", first: bytes = b"") -> Fault:
    """Nothing more ever comes, but the connection stays. `share`: of the body that came before (None: not even
    headers). With `say` there comes that, `every` so many seconds, for ever, and before it `first`."""

    async def fault(exchange: Exchange) -> None:
        if share is not None:
            answer = await exchange.answer()
            await exchange.head(answer.status, {"content-type": answer.kind, "transfer-encoding": "chunked"})
            await exchange.chunk(answer.body[: int(share * len(answer.body))])
        await exchange.write(first)
        framed = b"%x\r\n%s\r\n" % (len(say), say) if say and share is not None else say
        await exchange.until_gone(every, framed)

    return fault


def named(faults: Mapping[str, Fault]) -> dict[str, Fault]:
    """`faults` that know their names, for Proxy.met."""
    for name, fault in faults.items():
        fault.__name__ = name
    return dict(faults)


def messages(change: Callable[[dict[str, Any]], Any]) -> Change:
    """A change of the message of every choice (in a stream: of every delta)."""

    def each(chunks: list[Chunk]) -> None:
        for one in (one for chunk in chunks for one in chunk["choices"]):
            change(one["message"] if "message" in one else one["delta"])

    return each
