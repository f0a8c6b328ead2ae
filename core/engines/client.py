"""Send requests to model servers, other than the chat requests of a run (core/generate/wire.py).

Requests to this machine (loopback or BIND) ignore the environment's proxy (http_proxy). A redirect to another origin
(scheme, host or port) is refused, because urllib would send our key there."""

import http.client
import json
import urllib.error
import urllib.request
from typing import Any

from core.base.errors import Elsewhere, UserError, one_line
from core.engines import environment
from core.engines.cards import origin
from core.engines.server import MARK, NO_KEY, Key, Server

SECONDS = 10.0  # without data, after which a request fails
MOST_BYTES = 2**25  # of an answer (a list of a thousand models takes 2**21)
LONGEST = 300  # characters of a name or a setting
MOST = 10**12  # the largest count that is accepted
LOADING = (502, 503, 504)  # the status of a starting server, or of a gateway in front of it


def send(url: str, key: Key = NO_KEY, body: Any = None, method: str | None = None, seconds: float = SECONDS) -> bytes:
    """Return the first MOST_BYTES of the response to a GET of `url`, a POST of `body` as JSON, or another `method`.
    Raises HTTPError for an error status, Elsewhere for a redirect to another origin, and OSError without a response."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {}, method=method)
    if key:
        request.add_header(*key.sent)
    direct = [urllib.request.ProxyHandler({})] if environment.is_ours(url) else []
    opener = urllib.request.build_opener(SameOrigin, *direct)
    try:
        with opener.open(request, timeout=seconds) as reply:
            return bytes(reply.read(MOST_BYTES))
    except http.client.HTTPException as error:
        raise ConnectionError(str(error)) from error


def find(url: str, key: Key = NO_KEY, body: Any = None) -> dict[str, Any] | None:
    """Return the JSON object that a GET or POST (see `send`) returns. Return {} for any other response, and None if the
    server is absent or loading. Raises UserError for a refused key, and Elsewhere for another origin."""
    try:
        found = json.loads(send(url, key, body))
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise UserError(f"the server at {url} reports a missing or invalid key. {key.remedy}") from None
        return None if error.code in LOADING else {}
    except (ValueError, RecursionError):
        return {}
    except OSError:
        return None
    return found if isinstance(found, dict) else {}


def why_not(url: str) -> str:
    """Return the reason why no server answers at `url`, in a few words of the system or the server."""
    try:
        send(url)
    except OSError as error:
        reason = getattr(error, "reason", error)
        return one_line(str(getattr(reason, "strerror", None) or reason), 120)
    return "it answers now"


def page_of(server: Server, name: str, body: Any = None) -> dict[str, Any]:
    """Return the JSON object of the optional endpoint `name` of a `server`, or {} if it does not answer with one.
    A silent or loading server is asked twice, because a missing answer would change the keys of the journal."""
    url = f"{server.root}/{name}"
    try:
        found = find(url, server.key, body)
        return (find(url, server.key, body) if found is None else found) or {}
    except UserError:
        return {}


def objects(page: Any, name: str) -> list[dict[str, Any]]:
    """Return the JSON objects in the list `name` of a `page`, or [] if there is no such list."""
    found = page.get(name) if isinstance(page, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def count(value: Any) -> int | None:
    """Return a server's number of tokens or requests, rounded down, or None if it is no number from 1 to MOST."""
    try:
        number = int(value) if isinstance(value, int | float | str) and value is not True else 0
    except (ValueError, OverflowError):
        return None
    return number if 0 < number <= MOST else None


def line(value: Any) -> str | None:
    """Return a server's text as one line of at most LONGEST characters, or None if `value` is empty or no text."""
    return one_line(value, LONGEST) or None if isinstance(value, str) else None


class SameOrigin(urllib.request.HTTPRedirectHandler):
    """A redirect handler that refuses other origins, because urllib would send them our key. Raises Elsewhere."""

    def redirect_request(self, req: urllib.request.Request, *about: Any) -> urllib.request.Request | None:
        onward = super().redirect_request(req, *about)
        if onward is not None and (there := origin(onward.full_url)) != origin(req.full_url):
            raise Elsewhere(origin(req.full_url), there)
        return onward


# The text that a chat template appends to a question


def tail_by_tokens(server: Server, field: str) -> str | None:
    """Return the text after a question in the prompt that `server` renders, or None if the server does not report it.
    The server first returns the prompt's tokens, and then the text of these tokens as `field`."""
    tokens = page_of(server, "tokenize", question(server)).get("tokens")
    body = {"model": server.model, "tokens": tokens, "skip_special_tokens": False}
    return tail_of(page_of(server, "detokenize", body).get(field)) if tokens else None


def question(server: Server) -> dict[str, Any]:
    """Return a request with MARK as its only message."""
    return {"model": server.model, "messages": [{"role": "user", "content": MARK}]}


def tail_of(prompt: Any) -> str | None:
    """Return the text after MARK in a `prompt`, or None if it does not contain MARK."""
    _, mark, tail = prompt.rpartition(MARK) if isinstance(prompt, str) else ("", "", "")
    return tail if mark else None
