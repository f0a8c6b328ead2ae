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
from harness.results import progress, registry
from harness.results.find import NoResults, archive, comparison, results_files
from harness.results.warnings import CONTINUES

EVERY = 3  # seconds between two requests of a page
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
FileVersion = tuple[Path, int, int]  # a path, its time of change in ns, and its size


class Live:
    """The results on a live page. A results file is read again if it has changed."""

    def __init__(self, names: Sequence[str], folder: Path) -> None:
        self._names = names
        self._folder = folder
        self._versions: list[FileVersion] = []
        self.runs: list[Results] = []
        self.page_data: dict[str, Any] = {}
        self.view: registry.View | None = None
        self.tag = ""

    def renew(self) -> None:
        """Read the files that have changed. Raises UserError if there are no results, or a file
        can't be read."""
        paths = [_newest(path) for path in results_files(self._names, self._folder)]
        compared = comparison(self._names, self._folder)
        lab = registry.report_of(compared) if compared else None
        records = lab.records(compared) if lab and compared else []
        versions = [_version(path) for path in (*paths, *records)]
        if versions == self._versions:
            return
        # the first versions belong to the runs, the others to records
        read = dict(zip(self._versions, self.runs, strict=False))
        runs = []
        for version, path in zip(versions, paths, strict=False):
            runs.append(read.get(version) or Results(path))
        self.runs = runs
        self.view = lab.page(compared, runs) if lab and compared and records else None
        self.page_data = page.data(runs, view=self.view)
        self._versions = versions
        self.tag = f'"{hash(tuple(versions))}"'

    def progress(self) -> list[dict[str, str]]:
        """Return the names and states of the runs on the page that send requests at the moment, or
        one state that says that none does."""
        states = [state for path in self._progress_files() if (state := progress.read(path))]
        if states or not self.runs:
            return states
        last = max(self.runs, key=lambda run: run.head.ended).head
        if all(run.head.complete for run in self.runs):
            text = f"the run ended at {last.ended}"
        else:
            text = f"no requests at the moment ({CONTINUES})"
        return [{"name": "", "text": text}]

    def _progress_files(self) -> list[Path]:
        """List the files of the progress, also of runs that have no results yet. Runs with several
        seeds, comparisons and labs' runs have folders with a file for each stage."""
        if not (self._names and self.runs):
            names = tuple(self._names or [""])
            paths = _progress_in(self._folder)
            return [path for path in paths if _first_part(path, self._folder).startswith(names)]
        files: dict[Path, None] = {}
        for run in self.runs:
            folder = run.path.parent
            name = run.path.name.partition(".")[0]
            if folder == self._folder:
                paths = [path for path in _progress_in(folder) if _first_part(path, folder) == name]
            else:
                paths = _progress_in(folder)
            files |= dict.fromkeys(paths)
        return list(files)


def _progress_in(folder: Path) -> list[Path]:
    """List the files of the progress in `folder` and the folders in it."""
    ending = progress.ENDING
    return sorted([*folder.glob(f"*{ending}"), *folder.glob(f"*/*{ending}")])


def _first_part(path: Path, folder: Path) -> str:
    """Return the name of a run, which names its file or its folder in `folder`."""
    return path.relative_to(folder).parts[0].removesuffix(progress.ENDING)


def _version(path: Path) -> FileVersion:
    stat = path.stat()
    return path, stat.st_mtime_ns, stat.st_size


def _newest(path: Path) -> Path:
    """Return the newer file of a run: its complete or its partial results."""
    stem = path.name.removesuffix(".json").removesuffix(".partial")
    paths = [path.with_name(f"{stem}{ending}") for ending in (".json", ".partial.json")]
    existing = [candidate for candidate in paths if candidate.exists()]
    return max(existing, key=lambda candidate: candidate.stat().st_mtime_ns, default=path)


def application(live: Live) -> Starlette:
    """Return the app that serves `live`. It only accepts a local host name, as a defence against
    DNS rebinding."""

    async def answer(request: Request) -> Response:
        if request.url.path == "/progress":
            return Response(json.dumps(live.progress()), 200, HEADERS, "application/json")
        try:
            live.renew()
        except (UserError, OSError) as error:  # a browser asks again
            headers = HEADERS | {"Refresh": str(EVERY)}
            lines = [f"waiting: {error}"]
            lines += [f"{state['name']}: {state['text']}" for state in live.progress()]
            return Response("\n".join(lines) + "\n", 503, headers, "text/plain")
        if request.url.path == "/":
            pieces = page.html(live.page_data, live=EVERY, view=live.view)
            return Response(b"".join(pieces), 200, HEADERS, "text/html")
        if request.url.path == "/data":
            return _data(live, request.headers.get("if-none-match"))
        return _texts(live, **request.path_params)

    paths = ("/", "/data", "/progress", "/part/p{run:int}-{number:int}-{tier}")
    hosts = Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    return Starlette(routes=[Route(path, answer) for path in paths], middleware=[hosts])


def _data(live: Live, tag: str | None) -> Response:
    """Return the page's data, unless the browser has them already."""
    headers = HEADERS | {"ETag": live.tag}
    if tag == live.tag:
        return Response(None, 304, headers, "application/json")
    body = json.dumps(live.page_data, ensure_ascii=True)
    return Response(body, 200, headers, "application/json")


def _texts(live: Live, run: int, number: int, tier: str) -> Response:
    """Return the texts of a problem."""
    has_problem = run < len(live.runs) and number < len(live.runs[run].problems)
    if not has_problem or tier not in texts.TIERS:
        return Response("no such problem\n", 404, HEADERS, "text/plain")
    results = live.runs[run]
    with archive(results.path, results.head.experiment) as journals:
        tiers, _ = texts.of_problem(results.problems[number], journals)
    body = json.dumps(tiers[tier], ensure_ascii=True)
    return Response(body, 200, HEADERS, "application/json")


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
    address, port = listener.getsockname()
    print(f"report  http://{address}:{port}/ (Ctrl-C ends it)", flush=True)
    config = uvicorn.Config(application(live), log_level="warning", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])
