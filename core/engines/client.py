"""HTTP to servers of models, for what stands beside the chat requests of a run (those: core/generate/wire.py).

A proxy of the environment (http_proxy) is for the world outside, never for a server on this machine. A redirect within
a server is followed; one to another origin (scheme, host or port) is refused, for our key would go along.
"""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

from core.base.errors import Elsewhere, UserError, one_line
from core.engines.server import Key, Server, is_local

SECONDS = 10.0  # to wait for an answer
MOST_BYTES = 2**25  # of an answer that are read; a list of a thousand models takes 2**21
LONGEST = 300  # characters of a name or a setting that are kept
MOST = 10**12  # of anything that is counted
LOADING = (502, 503, 504)  # what a server that starts answers, or a gateway for it


def send(url: str, key: str = "", body: Any = None, method: str | None = None, seconds: float = SECONDS) -> bytes:
    """The answer to a GET of `url`, or to a POST of `body` as JSON (`method`: another one): MOST_BYTES at most.

    Raises urllib.error.HTTPError where the answer is an error, another OSError where none comes, and Elsewhere.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {}, method=method)
    if key:
        request.add_header(*Key.of(key).sent)
    opener = urllib.request.build_opener(SameOrigin, *([urllib.request.ProxyHandler({})] if is_local(url) else []))
    try:
        with opener.open(request, timeout=seconds) as reply:
            return bytes(reply.read(MOST_BYTES))
    except http.client.HTTPException as error:
        raise ConnectionError(str(error)) from error


def find(url: str, key: str = "", body: Any = None) -> dict[str, Any] | None:
    """The JSON object that `url` answers with; {} where something else answers, None where nothing does. Raises
    UserError where the key is refused, and Elsewhere."""
    try:
        found = json.loads(send(url, key, body))
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise UserError(f"the server at {url} refuses the key. {Key.of(key).remedy}") from None
        return None if error.code in LOADING else {}
    except (ValueError, RecursionError):
        return {}
    except OSError:
        return None
    return found if isinstance(found, dict) else {}


def why_not(url: str) -> str:
    """Return why nothing answers at `url`, in the system's words."""
    try:
        send(url)
    except OSError as error:
        reason = getattr(error, "reason", error)
        return one_line(str(getattr(reason, "strerror", None) or reason), 120)
    return "it answers now"


def page(url: str, key: str = "", body: Any = None) -> dict[str, Any]:
    """Return the JSON object of an optional page; {} if the server lacks it, refuses it or redirects it to a manual.
    A server too busy to answer is asked twice: what it does not say is missing from the journal's keys."""
    try:
        found = find(url, key, body)
        return (find(url, key, body) if found is None else found) or {}
    except UserError:
        return {}


def page_of(server: Server, name: str, body: Any = None) -> dict[str, Any]:
    """Return the page of this `name` that a `server` has beside /v1."""
    return page(f"{server.root}/{name}", server.api_key, body)


def objects(page: Any, name: str) -> list[dict[str, Any]]:
    """Return the JSON objects in the list `name` of a `page`; [] if there is no such list."""
    found = page.get(name) if isinstance(page, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def count(value: Any) -> int | None:
    """Return what a server gives for a number of tokens or requests; None if it is no whole number from 1 up."""
    try:
        number = int(value) if isinstance(value, int | float | str) and value is not True else 0
    except (ValueError, OverflowError):
        return None
    return number if 0 < number <= MOST else None


def line(value: Any) -> str | None:
    """Return what a server gives for a text; None if it is none."""
    return one_line(value, LONGEST) or None if isinstance(value, str) else None


def text(url: str, key: str = "") -> str:
    """The text at `url`; "" where there is none."""
    try:
        return send(url, key).decode("utf-8", "replace")
    except (OSError, Elsewhere):
        return ""


def is_healthy(root: str) -> bool:
    """Whether the server at `root` says that it is ready: one that loads answers 503, or not at all."""
    try:
        send(f"{root}/health")
    except OSError:
        return False
    return True


class SameOrigin(urllib.request.HTTPRedirectHandler):
    """For urllib, which carries our key wherever it is sent. Raises Elsewhere."""

    def redirect_request(self, req: urllib.request.Request, *about: Any) -> urllib.request.Request | None:
        onward = super().redirect_request(req, *about)
        if onward is not None and _origin(onward) != _origin(req):
            raise Elsewhere(_origin(req), _origin(onward))
        return onward


def _origin(request: urllib.request.Request) -> str:
    """As urllib itself reads the address."""
    host = request.host.lower().rpartition("@")[2] if request.host else ""
    return f"{request.type}://{host.removesuffix({'http': ':80', 'https': ':443'}.get(request.type, ':'))}"
