"""Send requests to model servers, other than the chat requests of a run (see core/client).

Requests to this machine (loopback or BIND) ignore the environment's proxy (http_proxy). A redirect
to another origin (scheme, host or port) is refused, because urllib would send our key there."""

import http.client
import json
import re
import urllib.error
import urllib.request
from contextlib import suppress
from typing import Any

from core.base.errors import RedirectRefused, UserError, one_line
from core.engines import environment
from core.engines.cards import origin
from core.engines.protocol import KWARGS, MARK, NO_KEY, Key, Server, template_arguments

SECONDS = 10.0  # without data, after which a request fails
MAX_BYTES = 2**25  # of an answer (a list of a thousand models takes 2**21)
LONGEST = 300  # characters of a name or a setting
LARGEST = 10**12  # the largest count that is accepted
LOADING = (502, 503, 504)  # the status of a starting server, or of a gateway in front of it
ERROR_BYTES = 2**12  # read of an error's body, to see whether it names the loading
_STOPPED = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


class Loading(UserError):
    """A server that listens but is not ready. `words` describe its answer, which may say itself
    that it loads."""

    def __init__(self, url: str, words: str, says_so: bool = False) -> None:
        super().__init__(
            f"the server at {url} is not ready ({words}). Wait until it has loaded its model"
        )
        self.words = words
        self.says_so = says_so


class NoHttp(ConnectionError):
    """A response that is not HTTP, from another kind of program."""


def send(
    url: str, key: Key = NO_KEY, body: Any = None, method: str | None = None, seconds: float = 0
) -> bytes:
    """Return the first MAX_BYTES of the response to a GET of `url`, a POST of `body` as JSON, or
    another `method`. The request fails after `seconds` (0: SECONDS) without data. Raises HTTPError
    for an error status, and RedirectRefused for a redirect to another origin. Raises NoHttp for a
    response in another protocol, and another OSError without a response."""
    request = urllib.request.Request(url, method=method)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    if key:
        request.add_header(*key.sent)
    handlers: list[Any] = [SameOrigin]
    if environment.is_ours(url):
        handlers.append(urllib.request.ProxyHandler({}))  # no proxy
    opener = urllib.request.build_opener(*handlers)
    try:
        with opener.open(request, timeout=seconds or SECONDS) as reply:
            return bytes(reply.read(MAX_BYTES))
    except (http.client.RemoteDisconnected, http.client.IncompleteRead):
        raise ConnectionResetError("it closes the connection without a reply") from None
    except http.client.HTTPException as error:
        raise NoHttp(one_line(str(error), 120)) from error


def find(url: str, key: Key = NO_KEY, body: Any = None) -> dict[str, Any] | None:
    """Return the JSON object that a GET or POST (see `send`) returns. Return {} for any other
    response, and None if nothing listens. Raises Loading if a server listens but is not ready: it
    answers with a status of LOADING, sends nothing, or ends the connection. Raises UserError for a
    refused key, and RedirectRefused for another origin."""
    try:
        page = json.loads(send(url, key, body))
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            raise UserError(
                f"the server at {url} reports a missing or invalid key. {key.remedy}"
            ) from None
        if error.code in LOADING:
            raise _loading(error, url) from None
        return {}
    except (ValueError, RecursionError, NoHttp):
        return {}
    except OSError as error:
        if words := _why_silent(error, url):
            raise Loading(url, words) from None
        return None
    return page if isinstance(page, dict) else {}


def _loading(error: urllib.error.HTTPError, url: str) -> Loading:
    """Return the error for a server at `url` that answers with a status of LOADING."""
    body = b""
    with suppress(OSError, http.client.HTTPException):
        body = error.read(ERROR_BYTES)
    says_so = re.search(rb"\bload", body, re.IGNORECASE) is not None
    return Loading(url, one_line(f"it answers {error.code} {error.reason}", 120), says_so)


def _why_silent(error: OSError, url: str) -> str:
    """Return why a listening program sent no response, in a few words, or "" if nothing listens at
    `url`. On this machine, a connection that times out was not refused, so a program listens."""
    reason = getattr(error, "reason", None)  # of an error before the request was sent
    cause = error if reason is None else reason
    if isinstance(cause, _STOPPED):
        return "it closes each connection without a reply"
    if isinstance(cause, TimeoutError) and (reason is None or environment.is_ours(url)):
        return f"it sends no reply within {SECONDS:.0f} s"
    return ""


def why_not(url: str) -> str:
    """Return the reason why no server answers at `url`, in a few words of the system or the
    server."""
    try:
        send(url)
    except OSError as error:
        reason = getattr(error, "reason", error)
        words = getattr(reason, "strerror", None) or reason
        return one_line(str(words), 120)
    return "it answers now"


def why_unlisted(url: str, key: Key) -> str:
    """Return the reason why `url` returned no list of models, in a few words."""
    try:
        send(url, key)
    except urllib.error.HTTPError as error:
        return one_line(f"it answers {error.code} {error.reason}", 120)
    except NoHttp:
        return "its answer is not HTTP"
    except OSError:
        return "it does not answer"
    return "its answer names none"


def page_of(server: Server, name: str, body: Any = None) -> dict[str, Any]:
    """Return the JSON object of the optional endpoint `name` of a `server`, or {} if it does not
    answer with one. A silent server is asked twice, because a missing answer would change the keys
    of the journal. Raises Loading if the server says that it loads: llama.cpp lists its model
    before it answers at other endpoints."""
    url = f"{server.root}/{name}"
    for _ in range(2):
        try:
            page = find(url, server.key, body)
        except Loading as loading:
            if loading.says_so:
                raise
            page = None
        except UserError:
            return {}
        if page is not None:
            return page
    return {}


def objects(page: Any, name: str) -> list[dict[str, Any]]:
    """Return the JSON objects in the list `name` of a `page`, or [] if there is no such list."""
    entries = page.get(name) if isinstance(page, dict) else None
    if not isinstance(entries, list):
        return []
    return [entry for entry in entries if isinstance(entry, dict)]


def count(value: Any) -> int | None:
    """Return a server's number of tokens or requests, rounded down, or None if it is no number from
    1 to MOST."""
    if value is True or not isinstance(value, int | float | str):
        return None
    try:
        number = int(value)
    except (ValueError, OverflowError):
        return None
    return number if 0 < number <= LARGEST else None


def line(value: Any) -> str | None:
    """Return a server's text as one line of at most LONGEST characters, or None if `value` is empty
    or no text."""
    if not isinstance(value, str):
        return None
    return one_line(value, LONGEST) or None


class SameOrigin(urllib.request.HTTPRedirectHandler):
    """A redirect handler that refuses other origins, because urllib would send them our key. Raises
    RedirectRefused."""

    def redirect_request(
        self, req: urllib.request.Request, *response: Any
    ) -> urllib.request.Request | None:
        redirected = super().redirect_request(req, *response)
        if redirected is None:
            return None
        asked_origin = origin(req.full_url)
        redirected_origin = origin(redirected.full_url)
        if redirected_origin != asked_origin:
            raise RedirectRefused(asked_origin, redirected_origin)
        return redirected


# The text that a chat template appends to a question


def rendered(server: Server) -> Any:
    """Return the prompt of a question (text or tokens) as `server` renders it, or None if it does
    not report it."""
    endpoint, field = server.dialect.renders
    return page_of(server, endpoint, question(server)).get(field) if endpoint else None


def tail_by_tokens(server: Server, field: str) -> str | None:
    """Return the text after a question in the prompt that `server` renders, or None if the server
    does not report it. The server first returns the prompt's tokens, and then the text of these
    tokens as `field`."""
    tokens = rendered(server)
    if not tokens:
        return None
    body = {"model": server.model, "tokens": tokens, "skip_special_tokens": False}
    return tail_of(page_of(server, "detokenize", body).get(field))


def question(server: Server) -> dict[str, Any]:
    """Return a request with MARK as its only message, and the arguments of the chat template."""
    body = {"model": server.model, "messages": [{"role": "user", "content": MARK}]}
    arguments = template_arguments(server.card.effort, server.card.template)
    return body | {KWARGS: arguments} if arguments else body


def tail_of(prompt: Any) -> str | None:
    """Return the text after MARK in a `prompt`, or None if it does not contain MARK."""
    if not isinstance(prompt, str) or MARK not in prompt:
        return None
    return prompt.rpartition(MARK)[2]
