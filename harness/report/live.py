"""Serve the report of a run in progress, from its partial results: `bash scripts/report.sh
--live`."""

import json
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from core.base.errors import UserError
from harness.report import page, texts
from harness.report.data import Results
from harness.results import registry
from harness.results.find import NoResults, archive, comparison, found

EVERY = 3  # seconds between two requests of a page
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


class Live:
    """The results on a live page. A results file is read again if it has changed."""

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        self._names, self._folder = names, folder
        self._seen: list[tuple[Path, int, int]] = []
        self.runs: list[Results] = []
        self.known: dict[str, Any] = {}
        self.view: registry.View | None = None
        self.tag = ""

    def renew(self) -> None:
        """Read the files that have changed. Raises UserError if there are no results, or a file
        can't be read."""
        paths = [_newest(path) for path in found(self._names, self._folder)]
        compared = comparison(self._names, self._folder)
        lab = registry.report_of(compared) if compared else None
        records = lab.records(compared) if lab and compared else []
        seen = [
            (path, (stat := path.stat()).st_mtime_ns, stat.st_size) for path in (*paths, *records)
        ]
        if seen != self._seen:
            known = dict(zip(self._seen, self.runs, strict=False))
            self.runs = [known.get(each) or Results(each[0]) for each in seen[: len(paths)]]
            self.view = lab.page(compared, self.runs) if lab and compared and records else None
            self.known = page.data(self.runs, view=self.view)
            self._seen, self.tag = seen, f'"{hash(tuple(seen))}"'


def _newest(path: Path) -> Path:
    """Return the newer file of a run: its complete or its partial results."""
    stem = path.name.removesuffix(".json").removesuffix(".partial")
    both = [path.with_name(f"{stem}{ending}") for ending in (".json", ".partial.json")]
    return max(filter(Path.exists, both), key=lambda other: other.stat().st_mtime_ns, default=path)


def application(live: Live) -> Starlette:
    """Return the app that serves `live`. It only accepts a local host name, as a defence against
    DNS rebinding."""

    async def answer(request: Request) -> Response:
        try:
            live.renew()
        except (UserError, OSError) as error:  # a browser asks again
            return Response(
                f"waiting: {error}\n", 503, HEADERS | {"Refresh": str(EVERY)}, "text/plain"
            )
        if request.url.path == "/":
            pieces = page.html(live.known, live=EVERY, view=live.view)
            return Response(b"".join(pieces), 200, HEADERS, "text/html")
        if request.url.path == "/data":
            status = 304 if request.headers.get("if-none-match") == live.tag else 200
            body = json.dumps(live.known, ensure_ascii=True) if status == 200 else None
            return Response(body, status, HEADERS | {"ETag": live.tag}, "application/json")
        run, number, tier = (request.path_params[name] for name in ("run", "number", "tier"))
        if (
            run >= len(live.runs)
            or number >= len(live.runs[run].problems)
            or tier not in texts.TIERS
        ):
            return Response("no such problem\n", 404, HEADERS, "text/plain")
        with archive(live.runs[run].path, live.runs[run].head.experiment) as journals:
            tiers, _ = texts.of_problem(live.runs[run].problems[number], journals)
        return Response(
            json.dumps(tiers[tier], ensure_ascii=True), 200, HEADERS, "application/json"
        )

    paths = ("/", "/data", "/part/p{run:int}-{number:int}-{tier}")
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    return Starlette(routes=[Route(path, answer) for path in paths], middleware=[hosts])


def serve(names: Sequence[str], folder: Path, port: int) -> None:
    """Serve the report until Ctrl-C, also before the first results. Raises UserError if the port is
    taken."""
    live = Live(names, folder)
    with suppress(NoResults):
        live.renew()
    try:
        listener = socket.create_server(("127.0.0.1", port))
    except (OSError, OverflowError):
        raise UserError(
            f"port {port} of 127.0.0.1 is not available. Set --port to another port, or to 0"
        ) from None
    print(f"report  http://127.0.0.1:{listener.getsockname()[1]}/ (Ctrl-C ends it)", flush=True)
    server = uvicorn.Server(
        uvicorn.Config(application(live), log_level="warning", timeout_graceful_shutdown=1)
    )
    server.run(sockets=[listener])
