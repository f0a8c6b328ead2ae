"""Serve scaffolds as models: answer POST /v1/chat/completions. scripts/serve_rsa.sh starts the
endpoint."""

import asyncio
import hmac
import json
import socket
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from core import constants
from core.base import signals
from core.base.errors import Parser, UserError, command, one_line
from core.base.files import results_dir
from core.base.terminal import say
from core.client.budget import Over
from core.client.journal import Journal
from core.constants import OF_RUNS, rules
from core.engines import environment
from core.engines.protocol import Server, is_local
from core.generate import Generator
from core.grading.sympy_process import stopping_judge
from core.server import serving
from harness.experiment_file import of_scaffolds, scaffold_named
from harness.session import session
from harness.session.session import need_of
from labs.endpoint import chat
from labs.endpoint.answer import Solved, named, solve
from labs.endpoint.chat import ChatRequest, Offer, Refusal, own
from labs.endpoint.connection import Connection
from labs.endpoint.hosts import Names

PORT = 30100
MAX_BODY = 2 * 2**20  # bytes of a request
# limit for a request's completions and N times its candidates, unless the defaults need more
MOST_COMPLETIONS = 4096
MOST_CONNECTIONS = 256  # open connections at a time (further requests get 503)
GRACE_SECONDS = 5  # time for clients to read the end of a response when the endpoint stops
IDLE_SECONDS = 30  # after a response, time for the connection's next request
# seconds without an event, after which a comment keeps proxies from closing the stream
KEEP_ALIVE = 15.0
PIECE = 2000  # characters of a content delta, because some clients refuse lines above 16 kB
ABOUT = (
    "constants of requests (docs/constants.md), for the scaffolds that have them. SCAFFOLD=NAME "
    "offers only one"
)


def clients_key(server: Server) -> str:
    """Return the key that clients must send. It is API_KEY, or "" for none, but never a provider's
    key."""
    return environment.api_key() or (server.key if server.key.variable == "API_KEY" else "")


Job = asyncio.Task[Solved]


class Endpoint:
    """The routes of the endpoint. Requests share one generator. They choose one of `offers` by its
    name, and may replace most of its constants."""

    def __init__(self, generator: Generator, offers: Mapping[str, Offer], names: Names) -> None:
        self.generator, self.offers, self.names = generator, offers, names
        self.server, self.common = generator.server, next(iter(offers.values())).defaults
        self.key = clients_key(self.server)
        self.created = int(time.time())
        self.jobs = set[Job]()  # the requests in progress
        self._requests = 0  # number of requests since the start

    def app(self) -> Starlette:
        """Return the Starlette application, which uvicorn serves."""
        chats = Route(
            "/v1/chat/completions", self.completions, methods=["POST"], max_body_size=MAX_BODY
        )
        handlers: Any = {Refusal: _refused, ClientDisconnect: lambda *_: Response(status_code=499)}
        return Starlette(
            routes=[chats, Route("/v1/models", self.models)], exception_handlers=handlers
        )

    async def models(self, request: Request) -> Response:
        """Answer with the list of models, one for each offer."""
        self._authorize(request)
        about = {"object": "model", "created": self.created, "owned_by": "qed-rsa"}
        listed = [{"id": f"{name}/{self.server.model}"} | about for name in self.offers]
        return JSONResponse({"object": "list", "data": listed})

    async def completions(self, request: Request) -> Response:
        """Answer a chat request, as one response or as a stream. If the client disconnects, the
        work is cancelled."""
        self._authorize(request)
        if (
            request.headers.get("content-type", "").partition(";")[0].strip().lower()
            != "application/json"
        ):
            # Web pages of other sites can't send this type unasked.
            raise Refusal("the content type must be application/json", status=415)
        way = self.server.card.way(self.common)
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

    def _check(self, asked: ChatRequest) -> None:
        """Raise Refusal if the model's context is too short for the constants, or if they need too
        many completions."""
        try:
            session.check_context(self.server, asked.config)
        except UserError as error:
            raise Refusal(str(error), "max_tokens", "context_length_exceeded") from None
        name, scaffold = asked.offer.name, asked.offer.scaffold
        count, usual = (
            max(
                scaffold.max_completions(config),
                getattr(config, "N", 1) * scaffold.texts_shown(config),
            )
            for config in (asked.config, asked.offer.defaults)
        )
        if count > (most := max(MOST_COMPLETIONS, usual)):
            what = f"{count:,} completions, or candidates in a step ({own(asked.config)})"
            raise Refusal(
                (
                    f"{name} may need {what}, but the limit is {most:,}. Lower the object {name}'s "
                    "constants"
                ),
                name,
            )

    def _start(self, asked: ChatRequest, tell: Callable[[str], None]) -> Job:
        limit = self.common.CONCURRENCY or self.server.limit
        job = asyncio.create_task(solve(asked, self.generator, limit, tell))
        self._requests += 1
        number, began = self._requests, time.monotonic()
        most = asked.offer.scaffold.max_completions(asked.config)
        about = (
            f"at most {most} completions{', streamed' * asked.stream}, {asked.size:,} characters"
        )
        print(f"request {number}: {asked.offer.name} {own(asked.config)}, {about}", flush=True)
        job.add_done_callback(
            lambda job: print(f"request {number}: {_ended(job, began)}", flush=True)
        )
        self.jobs.add(job)
        job.add_done_callback(self._finished)
        return job

    def _finished(self, job: Job) -> None:
        """Remove a finished job. If used-up quota ended it, send the requests of other clients."""
        self.jobs.discard(job)
        if not job.cancelled() and isinstance(job.exception(), Over):
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
        head = self._head("chat.completion.chunk", asked) | (
            {"usage": None} if asked.include_usage else {}
        )

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
        is_ours = (
            hmac.compare_digest(key.strip().encode(), self.key.encode())
            and scheme.lower() == "bearer"
        )
        if self.key and not is_ours:
            raise Refusal(
                "the API key is missing or wrong. Send it as a Bearer token",
                None,
                "invalid_api_key",
                401,
            )
        if not self.key and not self.names.hold(request.headers.get("host", "")):
            how = (
                "Use this machine's address, or start the endpoint with --allow-host NAME or with "
                "API_KEY"
            )
            raise Refusal(f"unknown host. {how}", None, "unknown_host", 403)


def _result(job: Job) -> Solved:
    """Return the outcome of a finished job. Raises Refusal if the job failed, was cancelled or lost
    its server."""
    if job.cancelled():
        raise Refusal("the endpoint was stopped", code="stopped", status=503)
    try:
        return job.result()
    except UserError as error:
        raise Refusal(
            " ".join(str(error).split()), code="upstream_unavailable", status=503
        ) from None


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


async def _refused(request: Request, error: Any) -> Response:
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
        quiet: dict[str, Any] = {
            "ws": "none",
            "lifespan": "off",
            "log_level": "error",
            "access_log": False,
        }
        limits: dict[str, Any] = {
            "limit_concurrency": MOST_CONNECTIONS,
            "timeout_graceful_shutdown": GRACE_SECONDS,
            "timeout_keep_alive": IDLE_SECONDS,
        }
        web = uvicorn.Server(uvicorn.Config(endpoint.app(), http=Connection, **quiet, **limits))
        web.capture_signals = nullcontext  # type: ignore  # asyncio and main() handle signals
        work = asyncio.create_task(web.serve([place]))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            for job in endpoint.jobs:
                job.cancel()
            web.should_exit = True
            await work
            raise


def offered(words: Sequence[str] = ()) -> dict[str, Offer]:
    """Return all scaffolds by name, RSA first, or only the scaffold that SCAFFOLD=… in `words`
    names. NAME=value in `words` and the card's constants apply to the scaffolds with this constant.
    If they contradict a constant of another scaffold than the first, a note says that it is not
    served. Raises UserError for other faults."""
    names = (
        [named(words)] if named(words) else sorted(of_scaffolds(), key=lambda name: name != "rsa")
    )
    scaffolds = {name: scaffold_named(name) for name in names}
    known = {each for scaffold in scaffolds.values() for each in rules(scaffold.constants)}
    if bad := next((word for word in words if word.partition("=")[0] in OF_RUNS), None):
        raise UserError(
            f"an endpoint has no constant {bad.partition('=')[0]!r}. docs/constants.md has all"
        )
    found: dict[str, Offer] = {}
    for name, scaffold in scaffolds.items():
        own_rules = rules(scaffold.constants)
        of_card = environment.card().constants_of(scaffold.constants)
        file = {
            each: value for each, value in of_card.items() if each not in (*OF_RUNS, "SCAFFOLD")
        }
        given = [word for word in words if word.partition("=")[0] not in known - own_rules.keys()]
        try:
            defaults = constants.read(
                scaffold.constants, {"SHOTS": 0, "SYSTEM": "", "PROMPT": "", **file}, given
            )
        except UserError as error:
            if not found:
                raise
            for each, _, value in (word.partition("=") for word in given):
                own_rules[each].read(each, value)
            say(f"note: {name} is not served: {error}", sys.stderr)
        else:
            found[name] = Offer(name, scaffold, defaults)
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until stopped. The model server is the one that a run would use."""
    parser = Parser(
        prog="serve_rsa.sh",
        description="Offer RSA and other scaffolds as models to any chat client.",
    )
    host = environment.hosting().BIND
    parser.add_argument(
        "--host", default=host, help="address to serve on (default: BIND or 127.0.0.1)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=PORT,
        help=f"port to serve on (default: {PORT}, 0: any free port)",
    )
    parser.add_argument("constants", nargs="*", metavar="NAME=value", help=ABOUT)
    parser.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="host name that clients may use (repeatable)",
    )
    with command():
        args = parser.parse_intermixed_args(argv)
        signals.catch()
        offers = offered(args.constants)
        first = next(iter(offers.values()))
        if args.port == environment.hosting().PORT:
            raise UserError(
                f"port {args.port} belongs to the model server. Choose another --port, or set "
                "another PORT"
            )
        folder = results_dir()
        # Take the port first, because the engine may need minutes to start. Early clients wait.
        with (
            bind(args.host, args.port) as place,
            serving(need_of(first.scaffold, first.defaults)) as server,
        ):
            for name, offer in offers.items():
                session.check_context(server, offer.defaults)
                offers[name] = replace(offer, defaults=server.card.sampled(offer.defaults))
            with session.open(
                "serve_rsa", first.defaults, folder, server, is_private=True
            ) as opened:
                host, port = place.getsockname()[:2]
                url = f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
                others = ", ".join(f"{name}/…" for name in offers if name != first.name)
                also = f" Other models: {others}." if others else ""
                say(
                    f"{first.name}/{server.model} on {url}: {own(first.defaults)}.{also} Model "
                    f"server: {server.model} ({server.kind} at {server.base_url}), because "
                    f"{server.why}. Press Ctrl-C to stop."
                )
                if not is_local(url) and not clients_key(server):
                    say(
                        (
                            "note: everyone who can reach this address can use the model. Set "
                            "API_KEY=… to require a key"
                        ),
                        sys.stderr,
                    )

                async def until_stopped() -> None:
                    async with stopping_judge():
                        await serve(
                            place, server, offers, opened.journal, (args.host, *args.allow_host)
                        )

                try:
                    signals.run(until_stopped())
                except (KeyboardInterrupt, asyncio.CancelledError):
                    print("stopped", file=sys.stderr)


if __name__ == "__main__":
    main()
