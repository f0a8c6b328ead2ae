"""Serve a value head as a reward model: `bash scripts/serve_value.sh FILE`.

POST /pooling answers in vLLM's form. It takes the messages of a problem and a solution, and returns
one number, the chance that the solution is right. So runs with SCORE=reward can ask it.

The embeddings come from a server of the head's model, which MODEL selects. It is llama.cpp on a
CPU, and SGLang on a GPU."""

import asyncio
import sys
import tempfile
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from core.base import signals
from core.base.errors import Parser, RunFailed, command, one_line
from core.base.terminal import say
from core.engines import environment
from core.engines.need import FEWEST_HELD
from core.engines.protocol import Server
from core.engines.wanted import PORTS, SCORER
from labs.endpoint.app import bind, refused, serve_app
from labs.endpoint.chat import ChatMessage, Refusal
from labs.training import served
from labs.training.embeddings import CONCURRENCY, Embedder
from labs.training.value_head import Head, text_of

HOST = "127.0.0.1"


class Pooled(msgspec.Struct):
    """The fields of a request that matter here."""

    model: str
    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]


class ValueServer:
    """The routes of the server of a `head`. An embedder of the head's model reads the texts."""

    def __init__(self, head: Head, embedder: Embedder, version: str) -> None:
        self.head = head
        self.embedder = embedder
        self.version = version  # of the engine that embeds

    def app(self) -> Starlette:
        """Return the Starlette application, which uvicorn serves."""
        routes = [
            Route("/v1/models", self.models),
            Route("/version", self.release),
            Route("/metrics", self.metrics),
            Route("/pooling", self.pooling, methods=["POST"]),
        ]
        handlers: Any = {Refusal: refused}
        return Starlette(routes=routes, exception_handlers=handlers)

    async def models(self, request: Request) -> Response:
        """Answer with the head as the only model. Clients recognise the form of the API by its
        owner."""
        model = {"id": self.head.name, "object": "model", "owned_by": "vllm"}
        return JSONResponse({"object": "list", "data": [model]})

    async def release(self, request: Request) -> Response:
        """Answer with the version. Results store it, so it shows that this is not vLLM."""
        return JSONResponse({"version": f"value head on {self.version}"})

    async def metrics(self, request: Request) -> Response:
        """Answer with the size of a KV cache, from which a run computes how many requests to send
        at a time. More of them would only wait, and might seem to stall."""
        tokens = CONCURRENCY * FEWEST_HELD
        return PlainTextResponse(f'vllm:cache_config_info{{kv_cache_size_tokens="{tokens}"}} 1\n')

    async def pooling(self, request: Request) -> Response:
        """Answer with the value of a solution."""
        asked = self._read(await request.body())
        text = text_of([message.read() for message in asked.messages])
        try:
            embedded = await self.embedder.counted([text])
        except RunFailed as error:
            raise Refusal(str(error), code="upstream_unavailable", status=503) from None
        if text in self.embedder.cut:
            say(
                f"note: a text of {len(text):,} characters is too long, so its middle was not read",
                sys.stderr,
            )
        (value,) = self.head.regression.values(embedded.vectors).tolist()
        fields: dict[str, Any] = {
            "object": "list",
            "model": self.head.name,
            "data": [{"index": 0, "object": "pooling", "data": [value]}],
        }
        if embedded.tokens:
            usage = {"prompt_tokens": embedded.tokens, "total_tokens": embedded.tokens}
            fields["usage"] = usage
        return JSONResponse(fields)

    def _read(self, body: bytes) -> Pooled:
        """Read a request. Raises Refusal if it is invalid, or for another model."""
        try:
            asked = msgspec.json.decode(body, type=Pooled)
        except (ValueError, RecursionError) as error:
            raise Refusal(f"the request is invalid: {one_line(str(error), 300)}") from None
        if asked.model != self.head.name:
            raise Refusal(
                f"unknown model {asked.model!r:.80}. The model is {self.head.name}",
                "model",
                "model_not_found",
                404,
            )
        return asked


def options_of(argv: Sequence[str] | None) -> Namespace:
    """Read the arguments of the command. Raises UserError."""
    parser = Parser(prog="serve_value.sh", description=__doc__)
    about = "a value head that value.sh has written"
    parser.add_argument("head", type=Path, metavar="FILE", help=about)
    port = environment.hosting().PORT + PORTS[SCORER]
    about = f"port to serve on (default: {port}, 0: any free port)"
    parser.add_argument("--port", type=int, default=port, help=about)
    return parser.parse_args(argv)


async def serve(place: Any, head: Head, server: Server) -> None:
    """Serve the `head` on the socket `place` until cancelled. `server` embeds. Raises UserError if
    it has another model than the head."""
    async with Embedder(server, batch=1) as embedder:
        head.check_model(embedder.model)
        port = place.getsockname()[1]
        say(
            f"{head.name} on http://{HOST}:{port}/v1, {head.about}. Runs use it with "
            f"SCORER_URL=http://{HOST}:{port}/v1 and SCORE=reward. Press Ctrl-C to stop."
        )
        values = ValueServer(head, embedder, f"{server.kind} {server.version or ''}".strip())
        await serve_app(place, values.app())


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until stopped."""
    with command():
        args = options_of(argv)
        signals.catch()
        head = Head.read(args.head)
        policy = served.to_read()
        # Take the port first, because the engine may need minutes to start. Early clients wait.
        with (
            bind(HOST, args.port) as place,
            tempfile.TemporaryDirectory() as folder,
            served.embedding(policy, Path(folder)) as server,
        ):
            try:
                signals.run(serve(place, head, server))
            except (KeyboardInterrupt, asyncio.CancelledError):
                print("stopped", file=sys.stderr)


if __name__ == "__main__":
    main()
