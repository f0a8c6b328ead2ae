"""The names by which an HTTP server of this project may be asked."""

import ipaddress
import re
import socket
from collections.abc import Sequence

HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^\[\]:@/\\\s]+)(?::[0-9]{1,5})?")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class Names:
    """By what a server that listens on the address `bound` may be asked for. A page elsewhere, whose own name was made
    to point here (DNS rebinding), asks by that name and gets nothing; addresses can't be made to point anywhere.

    On a loopback address: localhost and loopback addresses. On others: any address, and this machine's name. `named`:
    further names, and the one that `bound` was found by. Ports may be forwarded, and are not compared.
    """

    def __init__(self, bound: str, named: Sequence[str] = ()) -> None:
        found = address(bound)
        self._is_local = found is not None and found.is_loopback
        whole = socket.gethostname()
        mine = [] if self._is_local else [whole, (short := whole.partition(".")[0]), f"{short}.local"]
        self._names = {_plain(name) for name in ("localhost", *mine, *named) if name}

    def hold(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        """Whether a request with these headers asks by one of them."""
        told = [value.decode("latin-1").strip().lower() for name, value in headers if name == b"host"]
        found = HOST.fullmatch(told[0]) if len(told) == 1 else None
        if not found:
            return False
        name = _plain(found[1])
        if known := address(name.strip("[]")):
            return known.is_loopback or not self._is_local
        return name in self._names


def _plain(name: str) -> str:
    return name.lower().removesuffix(".")


def address(text: str) -> Address | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
