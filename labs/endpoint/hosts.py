"""Check the Host header of requests to the endpoint."""

import ipaddress
import re
import socket
from collections.abc import Sequence

HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/\\\s]+)(?::[0-9]{1,5})?")


class Names:
    """The host names that a server accepts, as a protection against DNS rebinding. The server
    listens on IP `bound`. On a loopback address, it accepts localhost, loopback addresses and the
    names `named`. On other addresses, it also accepts all IP addresses and this machine's name.
    Ports are ignored, because they may be forwarded."""

    def __init__(self, bound: str, named: Sequence[str] = ()) -> None:
        known = address(bound)
        self._is_local = known is not None and known.is_loopback
        whole = socket.gethostname()
        mine = (
            [] if self._is_local else [whole, (short := whole.partition(".")[0]), f"{short}.local"]
        )
        self._names = {
            name.lower().removesuffix(".") for name in ("localhost", *mine, *named) if name
        }

    def hold(self, host: str) -> bool:
        """Return whether the name in a request's Host header is accepted."""
        if not (found := HOST.fullmatch(host.strip().lower())):
            return False
        name = found[1].removesuffix(".")
        if known := address(name.strip("[]")):
            return known.is_loopback or not self._is_local
        return name in self._names


def address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(parsed, "ipv4_mapped", None) or parsed
