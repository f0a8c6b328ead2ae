"""RSA as a model: POST /v1/chat/completions in front of any server, answered by RSA. `bash scripts/serve_rsa.sh`.

The answer is a member of the last population: of those that hold the majority answer, the first. Without an answer
(a proof, a chat) nobody votes, and it is the first member that says anything. Members of a population are
exchangeable, so that "the first" is a fair draw; drawing from the last population and voting are the RSA paper's two
ways to end (arXiv 2509.26626). With n > 1 the next members follow, those of larger minorities first.
"""

import argparse
import asyncio
import hmac
import json
import socket
import sys
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from core import constants
from core.base import limits, seeds
from core.base.arguments import Parser
from core.base.errors import UserError, command, one_line
from core.base.files import results_dir
from core.base.hosts import Names
from core.base.signals import Stop
from core.constants import OnProblems, Paid, Repeated, Seeded, rules
from core.engines import environment
from core.engines.identity import UNKNOWN
from core.engines.server import Server, is_local
from core.engines.start import serving
from core.generate.generator import Generator
from core.generate.journal import Journal
from core.grading.answers import Groups, groups
from core.grading.boxed import extract
from core.grading.judge import stopping_judge
from core.scaffolds.rsa import RSA, RsaConstants, rsa
from core.session.run import check_context, need_of, open_journal
from core.types import Completion, Member, Message, Population, Problem, Sampling
from labs.endpoint import chat, guard
from labs.endpoint.chat import ChatRequest
from labs.endpoint.guard import Refusal

# What a request does not set; NAME=value on the command line sets others. They mean what they mean in 02_rsa_basic.
OF_RUNS = [name for part in (OnProblems, Seeded, Repeated, Paid) for name in rules(part)]  # not an endpoint's
DEFAULTS = {name: value for name, value in vars(RsaConstants()).items() if name not in OF_RUNS}
PORT = "30100"
MAX_BODY = 2 * 2**20  # bytes of a request
MOST_COMPLETIONS = 4096  # that a request may take, N·(T+1), and candidates that a step may show, N·K
MOST_BYTES = 16 * 2**20  # of the prompts that a step sends: N times the request's
MOST_REQUESTS = 128  # of a client, at a time
AT_A_TIME = 4  # requests of the largest kind that a client may have in progress
LEAST_CONNECTIONS = 8  # of clients; with open files for fewer, the endpoint does not start
RETRY_SECONDS = 5  # until a client with too many in progress should ask again
GRACE_SECONDS = 5  # that clients have to read the end of what they were sent, when the endpoint stops
KEEP_ALIVE = 15.0  # seconds of silence in a stream before a comment is sent, so that nobody on the way hangs up
PIECE = 2000  # characters of a content delta: some clients refuse lines of more than 16 kB
SHOWN_ANSWERS = 5  # in a line of progress
JSON = "application/json"
# Threads of their own: math-verify may take seconds for one pair of answers, and asyncio's few serve /health too.
VOTING = ThreadPoolExecutor(max_workers=4, thread_name_prefix="vote")


# RSA


@dataclass(frozen=True)
class Step:
    """What came of one step: votes by answer, most first; members without an answer, failed, and cut off."""

    step: int
    answers: dict[str, int]
    unread: int
    failed: int
    truncated: int

    def line(self, config: RsaConstants) -> str:
        """Progress, in words."""
        votes = list(self.answers.items())
        shown = [f"{answer:.40} ×{count}" for answer, count in votes[:SHOWN_ANSWERS]]
        if len(votes) > SHOWN_ANSWERS:
            shown.append(f"{len(votes) - SHOWN_ANSWERS} others")
        counts = ((self.unread, "without an answer"), (self.failed, "failed"), (self.truncated, "cut off"))
        told = [f"answers {', '.join(shown)}"] * bool(shown) + [f"{count} {what}" for count, what in counts if count]
        return f"step {self.step} of {config.T}: {config.N} solutions, {'; '.join(told)}\n"


@dataclass(frozen=True)
class Solved:
    """`order`: positions in the last population, the one to answer with first; `answers`: what each member votes for,
    in the commonest spelling of those who say the same. `spent`: every completion, without its texts."""

    steps: list[Step]
    population: Population
    answers: Sequence[str | None]
    order: list[int]
    spent: list[Completion]

    def usage(self) -> dict[str, Any] | None:
        """OpenAI's usage object, summed over all completions: what the answer took when it was made. None where the
        server behind did not report all of it."""
        prompt = sum(made.prompt_tokens for made in self.spent)
        completion = sum(made.completion_tokens for made in self.spent)
        if any(None in made.counted for made in self.spent):
            return None
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
            "prompt_tokens_details": {"cached_tokens": sum(made.cached_tokens for made in self.spent)},
        }

    def details(self, config: RsaConstants) -> dict[str, Any]:
        """The extra field "rsa" of an answer."""
        votes, voted = self.steps[-1].answers, self.answers[self.order[0]]
        return {
            "config": {name: getattr(config, name) for name in chat.OF_A_REQUEST},
            "generations": len(self.spent),
            "reused": sum(made.reused for made in self.spent),
            "origins": dict(Counter(made.origin or UNKNOWN for made in self.spent)),
            "steps": [vars(step) for step in self.steps],
            "vote": {
                "answer": voted,
                "votes": votes.get(voted, 0) if voted else 0,
                "tied": list(votes.values()).count(max(votes.values(), default=0)) > 1,
            },
            "population": [
                {
                    "answer": answer,
                    "parents": member.parents,
                    "finish_reason": member.completion.finish_reason,
                    "error": member.completion.error,
                    "key": member.completion.key,
                }
                for member, answer in zip(self.population, self.answers, strict=True)
            ],
            "members": self.order,
        }


async def solve(
    asked: ChatRequest, generator: Generator, limit: int, turns: asyncio.Lock, tell: Callable[[str], None]
) -> Solved:
    """Run RSA on what is asked; `tell` is given a line after every step. At most `limit` of its requests wait for the
    server, so that a large population keeps nobody out; they are made up one at a time, over all that share `turns`,
    for a long conversation takes a while to write. Cancelled, or left by an error, it leaves no request behind. Raises
    UserError where the server is lost, Refusal where every solution of a step failed."""
    config, problem = asked.config, asked.problem
    sampling = Sampling.of(config)
    steps: list[Step] = []
    spent: list[Completion] = []
    waiting = asyncio.Semaphore(limit)

    async def ask(messages: Sequence[Message], *names: str | int, **changes: Any) -> Completion:
        seed = seeds.derive(config.SEED, problem.id, *names)
        async with waiting:
            async with turns:
                await asyncio.sleep(0)  # whatever else has to be done goes first
            made = await generator([*asked.before, *messages], seed, replace(sampling, **changes))
        spent.append(replace(made, thinking="", answer="", forced=None, logprobs={}))
        return made

    async with aclosing(rsa(problem, ask, config)) as populations:  # closed, it leaves no request behind
        async for population in populations:
            made = [member.completion for member in population]
            if all(completion.error for completion in made):
                raise _all_failed(made[0].error or "")
            found = await asyncio.get_running_loop().run_in_executor(VOTING, _voted, problem, made)
            answers, votes = found.names, found.counts
            failed, truncated = sum(c.error is not None for c in made), sum(c.truncated for c in made)
            steps.append(Step(len(steps), votes, answers.count(None) - failed, failed, truncated))
            tell(steps[-1].line(config))
    rank = [
        (c.error is not None, not c.text, -votes.get(answer or "", 0)) for c, answer in zip(made, answers, strict=True)
    ]
    order = sorted(range(config.N), key=rank.__getitem__)  # stable: members that stand equal keep their order
    return Solved(steps, population, answers, order, spent)


def _voted(problem: Problem, made: Sequence[Completion]) -> Groups:
    read = [extract(c.text, problem.answer_type, c.truncated).answer for c in made]
    return groups(read, problem.answer_type)


def _all_failed(error: str) -> Refusal:
    if error.startswith("context overflow"):
        return Refusal(f"the conversation is too long for the model: {error}", "messages", "context_length_exceeded")
    return Refusal(f"every solution of a step failed; the first: {error}", code="upstream_failed", status=502)


def _cut(member: Member, stops: Sequence[str]) -> tuple[str, str]:
    """The text of an answer up to the first of `stops`, and why it ends."""
    made = member.completion
    ends = [at for stop in stops if (at := made.text.find(stop)) >= 0]
    return (made.text[: min(ends)], "stop") if ends else (made.text, made.finish_reason or "error")


# HTTP


@dataclass(frozen=True)
class Most:
    """What one request may take: bytes of its `body`; completions, N·(T+1), and candidates shown in a step, N·K; bytes
    of prompts in a step, N times its own. A client may have AT_A_TIME as much in progress, and so many requests."""

    body: int = MAX_BODY
    completions: int = MOST_COMPLETIONS
    bytes: int = MOST_BYTES
    requests: int = MOST_REQUESTS

    def check(self, config: RsaConstants, size: int) -> None:
        """Raises Refusal for a request with these constants, of `size` bytes, that goes beyond."""
        n, k, t = config.N, config.K, config.T
        for what, amount, most, lower in (
            (f"N·(T+1) = {n}·{t + 1} completions", n * (t + 1), self.completions, "N or T"),
            (f"N·K = {n}·{k} candidates shown in a step", n * k, self.completions, "N or K"),
            (f"N = {n} prompts of {size:,} bytes", n * size, self.bytes, "N, or shorten the conversation"),
        ):
            if amount > most:
                raise Refusal(f"{what} are {amount:,}, and a request may take {most:,} here. Lower {lower}", "rsa")


def clients_key(server: Server) -> str:
    """What clients have to send: API_KEY, as our servers ask for it. The key of a provider is not theirs to know."""
    return environment.api_key() or (server.api_key if server.key.variable == "API_KEY" else "")


class Endpoint:
    """The routes, over one generator for all requests; `defaults` are the constants that requests may change, `most`
    what they may take (as much as the defaults do, in any case), `names` those that this server may be asked by."""

    def __init__(self, generator: Generator, defaults: RsaConstants, most: Most, names: Names) -> None:
        self.generator, self.defaults, self.names = generator, defaults, names
        self.server = generator.server
        self.model, self.key = f"rsa/{self.server.model}", clients_key(self.server)
        self.created = int(time.time())
        self.most = replace(most, completions=max(most.completions, defaults.N * max(defaults.T + 1, defaults.K)))
        self.allowance = guard.Allowance(
            {
                "completions": AT_A_TIME * self.most.completions,
                "bytes": AT_A_TIME * self.most.bytes,
                "requests": self.most.requests,
            }
        )
        self._limit = defaults.CONCURRENCY or self.server.limit
        self._turns = asyncio.Lock()
        self._probing: asyncio.Task[bool] | None = None
        self._jobs: set[asyncio.Task[Solved]] = set()
        self._stopped = False
        self._requests = 0  # so far

    def app(self) -> Starlette:
        routes = [
            Route("/v1/chat/completions", self.completions, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/health", self.health),
        ]
        told = dict.fromkeys((Refusal, UserError, HTTPException, ClientDisconnect, Exception), _told)
        return Starlette(routes=routes, exception_handlers=told)

    def guarded(self) -> "Callable[[Scope, Receive, Send], Coroutine[Any, Any, None]]":
        """The routes, for those who ask by one of our names (or have a key, which no page elsewhere has). What a
        request holds, in scope["held"], is let go when it is answered or its client has left, however that comes."""
        app = self.app()

        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            async with AsyncExitStack() as held:
                scope["held"] = held
                if self.key or self.names.hold(scope["headers"]):
                    await app(scope, receive, send)
                else:
                    refusal = Refusal(
                        "unknown host. Ask by this machine's address, or start the endpoint with --allow-host NAME or "
                        "an API_KEY",
                        code="unknown_host",
                        status=403,
                    )
                    await _refused(refusal)(scope, receive, send)

        return answer

    def stop(self) -> None:
        """Give up what is being answered; whoever waits for it is told."""
        self._stopped = True
        for job in self._jobs:
            job.cancel()

    async def health(self, request: Request) -> Response:
        """200 when the server behind answers, else 503; needs no key. It is asked once for all who wait."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(asyncio.to_thread(self._answers))
        alive = await asyncio.shield(self._probing)
        return _json({"status": "ok" if alive else "the server behind does not answer"}, 200 if alive else 503)

    def _answers(self) -> bool:
        try:
            return self.server.look(self.server) is not None
        except UserError:  # it answers, but no longer serves our model, or refuses our key
            return False

    async def models(self, request: Request) -> Response:
        self._authorize(request)
        about = {"id": self.model, "object": "model", "created": self.created, "owned_by": "qed-rsa"}
        return _json({"object": "list", "data": [about]})

    async def completions(self, request: Request) -> Response:
        self._authorize(request)
        held: AsyncExitStack = request.scope["held"]
        share = held.enter_context(self.allowance.share(guard.client(request.scope)))
        share.take("requests", 1)
        body = await _body(request, share, self.most.body)
        try:
            asked = chat.read(body, self.model, self.defaults)
            check_context(self.server, asked.config)
        except RecursionError:  # it was read, and can't be shown in a refusal
            raise Refusal("the body is nested too deeply") from None
        except UserError as error:
            raise Refusal(str(error), "max_tokens", "context_length_exceeded") from None
        size = share.taken["bytes"]
        self.most.check(asked.config, size)
        share.take("bytes", size * (asked.config.N - 1))
        share.take("completions", asked.config.N * max(asked.config.T + 1, asked.config.K))
        if asked.stream:
            lines: asyncio.Queue[str | None] = asyncio.Queue()
            job = self._start(asked, lines.put_nowait, held)
            job.add_done_callback(lambda _: lines.put_nowait(None))
            # The headers keep proxies from holding the stream back.
            headers = {"cache-control": "no-cache", "x-accel-buffering": "no"}
            return StreamingResponse(self._stream(asked, job, lines), media_type="text/event-stream", headers=headers)
        progress: list[str] = []
        job = self._start(asked, progress.append, held)
        gone = asyncio.create_task(_gone(request))
        try:
            await asyncio.wait({job, gone}, return_when=asyncio.FIRST_COMPLETED)
            return self._whole(asked, _result(job), "".join(progress)) if job.done() else Response(status_code=499)
        finally:
            gone.cancel()

    def _start(self, asked: ChatRequest, tell: Callable[[str], None], held: AsyncExitStack) -> "asyncio.Task[Solved]":
        job = asyncio.create_task(solve(asked, self.generator, self._limit, self._turns, tell))
        self._requests += 1
        number, began = self._requests, time.monotonic()
        print(f"request {number}: {_asked(asked)}", flush=True)
        job.add_done_callback(lambda job: print(f"request {number}: {_ended(job, began)}", flush=True))
        held.push_async_callback(_end, job)
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        if self._stopped:
            job.cancel()
        return job

    def _whole(self, asked: ChatRequest, solved: Solved, progress: str) -> Response:
        choices = []
        for index, position in enumerate(solved.order[: asked.choices]):
            text, reason = _cut(solved.population[position], asked.stop)
            message = {"role": "assistant", "content": text} | ({} if index else {"reasoning_content": progress})
            choices.append({"index": index, "message": message, "finish_reason": reason, "logprobs": None})
        body = self._head("chat.completion") | {"choices": choices, "usage": solved.usage()}
        return _json(body | {"rsa": solved.details(asked.config)})

    async def _stream(
        self, asked: ChatRequest, job: "asyncio.Task[Solved]", lines: "asyncio.Queue[str | None]"
    ) -> AsyncIterator[str]:
        """Server-sent events: progress as reasoning of choice 0, the answers, why they end, usage, [DONE]."""
        head = self._head("chat.completion.chunk") | ({"usage": None} if asked.include_usage else {})

        def chunk(index: int, delta: dict[str, str], reason: str | None = None, **more: Any) -> str:
            choice = {"index": index, "delta": delta, "finish_reason": reason, "logprobs": None}
            return _event(head | {"choices": [choice]} | more)

        for index in range(asked.choices):
            yield chunk(index, {"role": "assistant", "content": ""})
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE):
                    line = await lines.get()
            except TimeoutError:
                yield ": still at work\n\n"
                continue
            if line is None:
                break
            yield chunk(0, {"reasoning_content": line})
        try:
            solved = _result(job)
        except (Refusal, UserError) as error:  # the status is long sent: it is put as clients look for it in a stream
            yield _event(_refusal(error).to_json())
        else:
            for index, position in enumerate(solved.order[: asked.choices]):
                text, reason = _cut(solved.population[position], asked.stop)
                for start in range(0, len(text), PIECE):
                    yield chunk(index, {"content": text[start : start + PIECE]})
                yield chunk(index, {}, reason, **({} if index else {"rsa": solved.details(asked.config)}))
            if asked.include_usage:
                yield _event(head | {"choices": [], "usage": solved.usage()})
        yield "data: [DONE]\n\n"

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": f"chatcmpl-{uuid.uuid4().hex}", "object": kind, "created": int(time.time()), "model": self.model}

    def _authorize(self, request: Request) -> None:
        """Where the run has a key, requests need it too. Compared in constant time."""
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        is_ours = hmac.compare_digest(key.strip().encode(), self.key.encode()) and scheme.lower() == "bearer"
        if self.key and not is_ours:
            raise Refusal("the API key is missing or wrong. Send it as a Bearer token", None, "invalid_api_key", 401)


async def _body(request: Request, share: guard.Share, most: int) -> Any:
    """The decoded JSON of a request. A web page can send no JSON to another site without asking that site first, so
    that insisting on its type keeps the browser's pages off a server without a key."""
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
        raise Refusal(f"the content type must be {JSON}", status=415)
    body = bytearray()
    try:
        async with asyncio.timeout(guard.PATIENCE):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise Refusal(f"the body is larger than {most} bytes", status=413)
                share.take("bytes", len(piece))
    except TimeoutError:
        raise Refusal(f"the body did not come within {guard.PATIENCE:.0f} s", status=408) from None
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refusal(f"the body is not valid JSON: {error}") from None


def _result(job: "asyncio.Task[Solved]") -> Solved:
    if job.cancelled():
        raise Refusal("the endpoint was stopped", code="stopped", status=503)
    return job.result()


def _asked(asked: ChatRequest) -> str:
    """What a request asks for, for the log: no text of it."""
    size = sum(len(message["content"]) for message in asked.before) + len(asked.problem.statement)
    n, k, t = asked.config.N, asked.config.K, asked.config.T
    return f"N={n} K={k} T={t}, {n * (t + 1)} completions{', streamed' if asked.stream else ''}, {size:,} characters"


def _ended(job: "asyncio.Task[Solved]", began: float) -> str:
    """What came of it, for the log."""
    seconds = time.monotonic() - began
    if job.cancelled():
        return f"ended after {seconds:.1f} s: its client left, or the endpoint was stopped"
    if error := job.exception():
        return f"failed after {seconds:.1f} s: {one_line(str(error), 200)}"
    usage = job.result().usage()
    tokens = f"{usage['completion_tokens']:,}" if usage else "unknown"
    return f"answered after {seconds:.1f} s, {tokens} completion tokens"


async def _end(job: "asyncio.Task[Solved]") -> None:
    """Cancel a job, and wait until nothing of it is left. A bug of ours raises, also where nobody waits any more."""
    job.cancel()
    await asyncio.wait({job})
    if not job.cancelled():
        with suppress(Refusal, UserError):
            job.result()


async def _gone(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _refusal(error: Exception) -> Refusal:
    """Any exception as what a client is told."""
    match error:
        case Refusal():
            return error
        case UserError():
            return Refusal(" ".join(str(error).split()), code="upstream_unavailable", status=503)
        case HTTPException():
            return Refusal(str(error.detail), status=error.status_code)
        case _:
            return Refusal("a bug of qed-rsa; its log has the traceback", code="internal_error", status=500)


async def _told(request: Request, error: Exception) -> Response:
    if isinstance(error, ClientDisconnect):
        return Response(status_code=499)
    if isinstance(error, Refusal) and error.status < 500:
        print(f"refused: {error.status} {one_line(str(error), 200)}", flush=True)
    return _refused(_refusal(error))


def _refused(refusal: Refusal) -> Response:
    response = _json(refusal.to_json(), refusal.status)
    if refusal.status >= 500:
        response.headers["x-should-retry"] = "false"  # the openai client's: asking again is done here already
    if refusal.status == 401:
        response.headers["www-authenticate"] = "Bearer"
    if refusal.status == 429:
        response.headers["retry-after"] = str(RETRY_SECONDS)
    return response


def _json(content: dict[str, Any], status: int = 200) -> Response:
    return Response(json.dumps(content), status, media_type=JSON)


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content)}\n\n"


# The command


def bound(host: str, port: int) -> socket.socket:
    """A socket on `host` and `port` (0: a free one), not yet listening. Raises UserError where it can't be had."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        made = socket.socket(family)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"can't serve on {host} port {port} ({reason}). Choose another --port, or --host") from None
    return made


class _Server(uvicorn.Server):
    """uvicorn's server, with the signals left to asyncio and to main()."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(
    place: socket.socket,
    server: Server,
    defaults: RsaConstants,
    journal: Journal,
    most: Most | None = None,
    named: Sequence[str] = (),
) -> None:
    """Answer on `place` until cancelled; requests still being answered then end with an error. `named`: further
    names that this server may be asked by. Raises UserError where the system does not allow enough open files."""
    limit = defaults.CONCURRENCY or server.limit
    async with Generator(server, journal, limit, defaults.TIMEOUT, stall=defaults.STALL_SECONDS) as generator:
        names = Names(place.getsockname()[0], named)
        endpoint = Endpoint(generator, defaults, most or Most(), names)
        settings = uvicorn.Config(
            endpoint.guarded(),
            http=_connections(limit),
            ws="none",
            lifespan="off",
            proxy_headers=False,  # anybody may send them, and be another client each time
            log_level="error",
            access_log=False,
            timeout_graceful_shutdown=GRACE_SECONDS + 1,
        )
        web = _Server(settings)
        work = asyncio.create_task(web.serve([place]))
        try:
            await asyncio.shield(work)
        except asyncio.CancelledError:
            endpoint.stop()
            web.should_exit = True
            # uvicorn would cancel whoever writes to clients that do not read, which looks like a bug of ours.
            asyncio.get_running_loop().call_later(GRACE_SECONDS, _abort, web)
            await work
            raise


def _connections(limit: int) -> type[guard.Connection]:
    """Connections of clients, as many as can be open beside `limit` requests to the server (both ends may be here)."""
    wanted = guard.MOST_CONNECTIONS
    room = limits.reserve(2 * limit + wanted) - 2 * limit
    if room < LEAST_CONNECTIONS:
        fits = (2 * limit + room - LEAST_CONNECTIONS) // 2
        less = f"Give CONCURRENCY={fits}, or " if fits > 0 else ""
        raise UserError(
            f"the system allows too few open files for clients beside {limit} requests in flight. {less}"
            f"{limits.short_of(2 * limit + wanted)}"
        )
    return type("Connection", (guard.Connection,), {"most": room})


def _abort(web: uvicorn.Server) -> None:
    for connection in list(web.server_state.connections):
        connection.transport.abort()


async def _until_stopped(work: Coroutine[Any, Any, None], stop: Stop) -> None:
    with stop.cancelling():
        async with stopping_judge():
            await work


def _number(args: argparse.Namespace, name: str) -> int:
    text: str = getattr(args, name)
    if not (text.isascii() and text.isdigit() and 0 < int(text[:20]) <= 10**12):
        raise UserError(f"--{name.replace('_', '-')} {text:.40} is not a number from 1 to {10**12:,}")
    return int(text)


def main(argv: Sequence[str] | None = None) -> None:
    shown = " ".join(f"{name}={value}" for name, value in DEFAULTS.items())
    parser = Parser(prog="serve_rsa.sh", description="Offer RSA as a model to any chat client.")
    parser.add_argument("--host", default=environment.host(), help="address to serve on (default: this machine only)")
    parser.add_argument("--port", default=PORT, help=f"default {PORT}; 0 takes a free one")
    parser.add_argument(
        "constants", nargs="*", metavar="NAME=value", help=f"for requests that do not set them: {shown}"
    )
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME", help="a name that clients may ask by; repeatable"
    )
    for flag, default, help in (
        ("--max-body", MAX_BODY, "bytes that a request may have"),
        ("--most-completions", MOST_COMPLETIONS, "that a request may take: N·(T+1), and N·K candidates in a step"),
        ("--most-bytes", MOST_BYTES, "of prompts that a request may send in a step: N times its own"),
        ("--most-requests", MOST_REQUESTS, "that a client may have in progress"),
    ):
        parser.add_argument(flag, default=str(default), metavar="NUMBER", help=f"{help} (default: {default:,})")
    with command():
        args = parser.parse_intermixed_args(argv)
        stop = Stop()
        for name in (given.partition("=")[0] for given in args.constants):
            if name in OF_RUNS:
                raise UserError(f"unknown constant {name!r}: requests bring their own. There are {', '.join(DEFAULTS)}")
        defaults = constants.read(RsaConstants, {}, args.constants)
        if not args.port.isascii() or not args.port.isdigit() or int(args.port) > 65535:
            raise UserError(f"--port {args.port} is not a port. Give a number from 1 to 65535, or 0 for a free one")
        if args.port == str(environment.port()):
            raise UserError(
                f"port {args.port} is where the server behind is looked for. Choose another --port, or PORT"
            )
        most = Most(*(_number(args, name) for name in ("max_body", "most_completions", "most_bytes", "most_requests")))
        folder = results_dir()
        # The port before the engine, which may take minutes to start.
        with bound(args.host, int(args.port)) as place, serving(need_of(RSA, defaults)) as server:
            check_context(server, defaults)
            defaults = server.card.sampled(defaults)
            with open_journal(folder / "journal" / "serve_rsa.jsonl", is_private=True) as journal:
                place.listen()
                host, port = place.getsockname()[:2]
                url = f"http://{f'[{host}]' if ':' in host else host}:{port}/v1"
                print(
                    f"rsa/{server.model} on {url}: N={defaults.N} K={defaults.K} T={defaults.T} over {server.model} "
                    f"({server.kind} at {server.base_url}) because {server.why}. Ctrl-C stops it.",
                    flush=True,
                )
                if not is_local(url) and not clients_key(server):
                    print("note: whoever reaches this address may use it; API_KEY=… asks for a key", file=sys.stderr)
                try:
                    named = (args.host, *args.allow_host)
                    asyncio.run(_until_stopped(serve(place, server, defaults, journal, most, named), stop))
                except (KeyboardInterrupt, asyncio.CancelledError):
                    print("stopped", file=sys.stderr)


if __name__ == "__main__":
    main()
