"""Serve scaffolds as models: answer POST /v1/chat/completions."""

import asyncio
import hmac
import json
import socket
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from core.base.errors import UserError, one_line
from core.client.budget import RunExhausted
from core.client.journal import Journal
from core.constants import Constants
from core.engines import environment
from core.engines.protocol import Server
from core.generate import Generator
from harness.session.checks import check_context
from labs.endpoint import chat
from labs.endpoint.answer import Solved, solve
from labs.endpoint.chat import ChatRequest, Offer, Refusal, own
from labs.endpoint.connection import Connection
from labs.endpoint.hosts import Names

MAX_BODY = 2 * 2**20  # bytes of a request
# limit for a request's completions and N times its candidates, unless the defaults need more
MOST_COMPLETIONS = 4096
MOST_CONNECTIONS = 256  # open connections at a time (further requests get 503)
GRACE_SECONDS = 5  # time for clients to read the end of a response when the endpoint stops
IDLE_SECONDS = 30  # after a response, time for the connection's next request
# seconds without an event, after which a comment keeps proxies from closing the stream
KEEP_ALIVE = 15.0
PIECE = 2000  # characters of a content delta, because some clients refuse lines above 16 kB


def clients_key(server: Server) -> str:
    """Return the key that clients must send. It is API_KEY, or "" for none, but never a provider's
    key."""
    return environment.api_key() or (server.key if server.key.variable == "API_KEY" else "")


Job = asyncio.Task[Solved]


class Endpoint:
    """The routes of the endpoint. Requests share one generator. They choose one of `offers` by its
    name, and may replace most of its constants."""

    def __init__(self, generator: Generator, offers: Mapping[str, Offer], names: Names) -> None:
        self.generator = generator
        self.offers = offers
        self.names = names
        self.server = generator.server
        self.common = next(iter(offers.values())).defaults
        self.key = clients_key(self.server)
        self.created = int(time.time())
        self.jobs = set[Job]()  # the requests in progress
        self._requests = 0  # number of requests since the start

    def app(self) -> Starlette:
        """Return the Starlette application, which uvicorn serves."""
        chats = Route(
            "/v1/chat/completions", self.completions, methods=["POST"], max_body_size=MAX_BODY
        )
        handlers: Any = {Refusal: refused, ClientDisconnect: lambda *_: Response(status_code=499)}
        return Starlette(
            routes=[chats, Route("/v1/models", self.models)], exception_handlers=handlers
        )

    async def models(self, request: Request) -> Response:
        """Answer with the list of models, one for each offer."""
        self._authorize(request)
        models = [
            {
                "id": f"{name}/{self.server.model}",
                "object": "model",
                "created": self.created,
                "owned_by": "qed-rsa",
            }
            for name in self.offers
        ]
        return JSONResponse({"object": "list", "data": models})

    async def completions(self, request: Request) -> Response:
        """Answer a chat request, as one response or as a stream. If the client disconnects, the
        work is cancelled."""
        self._authorize(request)
        content_type = request.headers.get("content-type", "").partition(";")[0]
        if content_type.strip().lower() != "application/json":
            # Web pages of other sites can't send this type unasked.
            raise Refusal("the content type must be application/json", status=415)
        way = self.server.card.answer_form(self.common)
        asked = chat.read(await request.body(), self.server.model, self.offers, way)
        self._check(asked)
        lines: asyncio.Queue[str | None] = asyncio.Queue()
        job = self._start(asked, lines.put_nowait)
        left = asyncio.create_task(_left(request))  # ends the work when the client leaves
        left.add_done_callback(lambda _: job.cancel())
        job.add_done_callback(lambda _: left.cancel())
        if asked.stream:
            job.add_done_callback(lambda _: lines.put_nowait(None))
            # so that proxies pass events on at once
            headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
            events = self._stream(asked, job, lines)
            return StreamingResponse(events, media_type="text/event-stream", headers=headers)
        await asyncio.wait({job})
        return self._whole(asked, _result(job))

    def stop(self) -> None:
        """Cancel the requests in progress."""
        for job in self.jobs:
            job.cancel()

    def _check(self, asked: ChatRequest) -> None:
        """Raise Refusal if the model's context is too short for the constants, or if they need too
        many completions."""
        try:
            check_context(self.server, asked.config)
        except UserError as error:
            raise Refusal(str(error), "max_tokens", "context_length_exceeded") from None
        name = asked.offer.name
        count = _size(asked.offer, asked.config)
        limit = max(MOST_COMPLETIONS, _size(asked.offer, asked.offer.defaults))
        if count > limit:
            raise Refusal(
                f"{name} may need {count:,} completions, or candidates in a step "
                f"({own(asked.config)}), but the limit is {limit:,}. Lower the object {name}'s "
                "constants",
                name,
            )

    def _start(self, asked: ChatRequest, tell: Callable[[str], None]) -> Job:
        limit = self.common.CONCURRENCY or self.server.limit
        job = asyncio.create_task(solve(asked, self.generator, limit, tell))
        self._requests += 1
        number = self._requests
        began = time.monotonic()
        count = asked.offer.scaffold.max_completions(asked.config)
        streamed = ", streamed" if asked.stream else ""
        print(
            f"request {number}: {asked.offer.name} {own(asked.config)}, at most {count} "
            f"completions{streamed}, {asked.size:,} characters",
            flush=True,
        )

        def log_end(job: Job) -> None:
            print(f"request {number}: {_ended(job, began)}", flush=True)

        job.add_done_callback(log_end)
        self.jobs.add(job)
        job.add_done_callback(self._finished)
        return job

    def _finished(self, job: Job) -> None:
        """Remove a finished job. If used-up quota ended it, send the requests of other clients."""
        self.jobs.discard(job)
        if not job.cancelled() and isinstance(job.exception(), RunExhausted):
            self.generator.reopen()

    def _whole(self, asked: ChatRequest, solved: Solved) -> Response:
        text, reason = solved.content(asked.stop)
        progress = "".join(step.line() for step in solved.steps)
        message = {"role": "assistant", "content": text, "reasoning_content": progress}
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        body = self._head("chat.completion", asked) | {"choices": [choice], "usage": solved.usage()}
        return JSONResponse(body | {asked.offer.name: solved.details(asked.config)})

    async def _stream(
        self, asked: ChatRequest, job: Job, lines: "asyncio.Queue[str | None]"
    ) -> AsyncIterator[str]:
        """Yield server-sent events: progress as reasoning, an error or the answer (and usage if
        asked), [DONE]."""
        head = self._head("chat.completion.chunk", asked)
        if asked.include_usage:
            head["usage"] = None

        def chunk(delta: dict[str, str], reason: str | None = None, **more: Any) -> str:
            choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
            return _event(head | {"choices": [choice]} | more)

        yield chunk({"role": "assistant", "content": ""})
        while True:
            try:
                line = await asyncio.wait_for(lines.get(), KEEP_ALIVE)
            except TimeoutError:
                yield ": still at work\n\n"
                continue
            if line is None:
                break
            yield chunk({"reasoning_content": line})
        try:
            solved = _result(job)
        except Refusal as error:  # the status was sent already, so report the error in the stream
            yield _event(error.to_json())
        else:
            text, reason = solved.content(asked.stop)
            for start in range(0, len(text), PIECE):
                yield chunk({"content": text[start : start + PIECE]})
            yield chunk({}, reason, **{asked.offer.name: solved.details(asked.config)})
            if asked.include_usage:
                yield _event(head | {"choices": [], "usage": solved.usage()})
        yield "data: [DONE]\n\n"

    def _head(self, kind: str, asked: ChatRequest) -> dict[str, Any]:
        model = f"{asked.offer.name}/{self.server.model}"
        return {
            "id": f"chatcmpl-{uuid.uuid4().hex}",
            "object": kind,
            "created": int(time.time()),
            "model": model,
        }

    def _authorize(self, request: Request) -> None:
        """Raise Refusal if the request lacks the key. If no key is set, refuse unknown host
        names."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        is_equal = hmac.compare_digest(key.strip().encode(), self.key.encode())
        is_ours = is_equal and scheme.lower() == "bearer"
        if self.key and not is_ours:
            raise Refusal(
                "the API key is missing or wrong. Send it as a Bearer token",
                code="invalid_api_key",
                status=401,
            )
        if not self.key and not self.names.hold(request.headers.get("host", "")):
            raise Refusal(
                "unknown host. Use this machine's address, or start the endpoint with --allow-host "
                "NAME or with API_KEY",
                code="unknown_host",
                status=403,
            )


def _size(offer: Offer, config: Constants) -> int:
    """Return the number of completions that a request may need, or of candidates that a step may
    show, whichever is larger."""
    shown = getattr(config, "N", 1) * offer.scaffold.texts_shown(config)
    return max(offer.scaffold.max_completions(config), shown)


def _result(job: Job) -> Solved:
    """Return the outcome of a finished job. Raises Refusal if the job failed, was cancelled or lost
    its server."""
    if job.cancelled():
        raise Refusal("the endpoint was stopped", code="stopped", status=503)
    try:
        return job.result()
    except UserError as error:
        message = " ".join(str(error).split())
        raise Refusal(message, code="upstream_unavailable", status=503) from None


def _ended(job: Job, began: float) -> str:
    """Describe the end of a request for the log. `began` is its start by time.monotonic()."""
    seconds = time.monotonic() - began
    if job.cancelled():
        return f"ended after {seconds:.1f} s: the client disconnected, or the endpoint was stopped"
    if error := job.exception():
        return f"failed after {seconds:.1f} s: {one_line(str(error), 200)}"
    usage = job.result().usage()
    tokens = f"{usage['completion_tokens']:,}" if usage else "unknown"
    return f"answered after {seconds:.1f} s, {tokens} completion tokens"


async def _left(request: Request) -> None:
    """Wait until the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def refused(request: Request, error: Any) -> Response:
    """Send the error of a Refusal. From status 500, a header asks openai's client not to retry,
    because we did."""
    if error.status < 500:
        print(f"refused: {error.status} {one_line(str(error), 200)}", flush=True)
    headers = {"x-should-retry": "false"} if error.status >= 500 else None
    return JSONResponse(error.to_json(), error.status, headers)


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens on `host` and `port` (0: any free port). Raises UserError if the
    system refuses."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except (OSError, OverflowError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(
            f"can't serve on {host} port {port} ({reason}). Choose another --port or --host"
        ) from None


async def serve(
    place: socket.socket,
    server: Server,
    offers: Mapping[str, Offer],
    journal: Journal,
    hosts: Sequence[str] = (),
) -> None:
    """Serve on the socket `place` until cancelled. Requests in progress then end with an error.
    Without a key, clients must use the socket's address or a host name in `hosts`. Raises UserError
    if too few open files are allowed."""
    common = next(iter(offers.values())).defaults
    limit = common.CONCURRENCY or server.limit
    async with Generator(
        server, journal, limit, common.TIMEOUT, stall=common.STALL_SECONDS
    ) as generator:
        endpoint = Endpoint(generator, offers, Names(place.getsockname()[0], hosts))
        await serve_app(place, endpoint.app(), endpoint.stop)


async def serve_app(
    place: socket.socket, app: Starlette, stop: Callable[[], None] | None = None
) -> None:
    """Serve an application on the socket `place` until cancelled. `stop` then ends its requests in
    progress."""
    settings = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        lifespan="off",
        log_level="error",
        access_log=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=IDLE_SECONDS,
    )
    web = uvicorn.Server(settings)
    web.capture_signals = nullcontext  # type: ignore  # asyncio and main() handle signals
    work = asyncio.create_task(web.serve([place]))
    try:
        await asyncio.shield(work)
    except asyncio.CancelledError:
        if stop:
            stop()
        web.should_exit = True
        await work
        raise
