"""Serve the report of a run in progress, from its partial results: `bash scripts/report.sh --live`."""

import hashlib
import html
import json
import socket
import threading
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
from core.report import page, texts
from core.report.data import Results
from core.results import labs
from core.results.find import NoResults, archive, comparison, found

EVERY = 3.0  # seconds between two requests of a page
WAITING = """<!doctype html><html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="3">
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>qed-rsa: waiting</title><body style="font: 16px/1.5 system-ui, sans-serif; margin: 3rem auto; max-width: 40rem">
<h1>Waiting for the first results of a run</h1><p>{why}</p><p>This page reloads every 3 seconds.</p></body></html>
"""
HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-cache"}


class Live:
    """The results on a live page. A results file is read again if it has changed."""

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        self._names, self._folder = names, folder
        self._seen: list[tuple[Path, int, int]] = []
        self._lock = threading.Lock()
        self.runs: list[Results] = []
        self.known: dict[str, Any] = {}
        self.view: labs.View | None = None
        self.tag = ""
        self.body = b""

    def renew(self) -> None:
        """Read the files that have changed. Raises UserError if there are no results, or a file can't be read."""
        with self._lock:
            paths = [_newest(path) for path in found(self._names, self._folder)]
            compared = comparison(self._names, self._folder)
            lab = labs.report_of(compared) if compared else None
            records = lab.records(compared) if lab and compared else []
            seen = [(path, (stat := path.stat()).st_mtime_ns, stat.st_size) for path in (*paths, *records)]
            if seen == self._seen:
                return
            known = {run.path: run for path, run in zip(self._seen, self.runs, strict=False) if path in seen}
            self.runs = [known.get(path) or Results(path) for path in paths]
            self.view = lab.page(compared, self.runs) if lab and compared and records else None
            self.known = page.data(self.runs, view=self.view)
            self.body = json.dumps(self.known, ensure_ascii=True).encode()
            self.tag = f'"{hashlib.sha256(self.body).hexdigest()[:16]}"'
            self._seen = seen


def _newest(path: Path) -> Path:
    """Return the newer file of a run: its complete or its partial results."""
    stem = path.name.removesuffix(".json").removesuffix(".partial")
    both = [path.with_name(f"{stem}{ending}") for ending in (".json", ".partial.json")]
    return max(filter(Path.exists, both), key=lambda other: other.stat().st_mtime_ns, default=path)


def application(live: Live) -> Starlette:
    """Return the app that serves `live`. It only accepts a local host name, as a defence against DNS rebinding."""

    def answer(request: Request) -> Response:
        try:
            live.renew()
        except NoResults as missing:
            if request.url.path != "/":
                return Response(f"{missing}\n", 503, HEADERS, "text/plain")
            return Response(WAITING.format(why=html.escape(str(missing))), 200, HEADERS, "text/html")
        except (UserError, OSError) as error:
            return Response(f"{error}\n", 503, HEADERS, "text/plain")
        if request.url.path == "/":
            pieces = page.html(live.known, live=EVERY, view=live.view)
            return Response(b"".join(pieces), 200, HEADERS, "text/html")
        if request.url.path == "/data":
            if request.headers.get("if-none-match") == live.tag:
                return Response(status_code=304, headers=HEADERS | {"ETag": live.tag})
            return Response(live.body, 200, HEADERS | {"ETag": live.tag}, "application/json")
        run, number, tier = (request.path_params[name] for name in ("run", "number", "tier"))
        if run >= len(live.runs) or number >= len(live.runs[run].problems) or tier not in texts.TIERS:
            return Response("no such problem\n", 404, HEADERS, "text/plain")
        with archive(live.runs[run].path, live.runs[run].head.experiment) as journals:
            found = texts.of_problem(live.runs[run].problems[number], journals)
        return Response(json.dumps(found.tiers[tier], ensure_ascii=True), 200, HEADERS, "application/json")

    paths = ("/", "/data", "/part/p{run:int}-{number:int}-{tier}")
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    return Starlette(routes=[Route(path, answer) for path in paths], middleware=[hosts])


def serve(names: Sequence[str], folder: Path, port: int) -> None:
    """Serve the report, or a waiting page without results, until Ctrl-C. Raises UserError if the port is taken."""
    live = Live(names, folder)
    with suppress(NoResults):
        live.renew()
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen()  # browsers can now connect and wait
    except (OSError, OverflowError):
        raise UserError(f"port {port} of 127.0.0.1 is not available. Set --port to another port, or to 0") from None
    print(f"report  http://127.0.0.1:{listener.getsockname()[1]}/ (Ctrl-C ends it)", flush=True)
    server = uvicorn.Server(uvicorn.Config(application(live), log_level="warning", timeout_graceful_shutdown=1))
    server.run(sockets=[listener])
