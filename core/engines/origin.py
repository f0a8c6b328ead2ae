"""Where requests go: to the server that the user named, and nowhere else. A redirect within it is followed; one to
another origin (scheme, host or port) is refused, for our key would go along, and the prompts."""

import urllib.request
from typing import Any

from core.errors import UserError, one_line


class Elsewhere(UserError):
    """A server sends us on to another one."""

    def __init__(self, here: str, there: str) -> None:
        """The origins; whatever else an address holds is not shown."""
        super().__init__(
            f"the server at {here} sends requests on to {one_line(there, 200)}, which would be given API_KEY and the "
            "prompts; that is refused. If it is the server you mean, set BASE_URL to its address"
        )


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
