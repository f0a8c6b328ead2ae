"""Wait for a server that is loading its model."""

import sys
import time
from collections.abc import Callable

from core.base.errors import UserError
from core.base.terminal import heartbeat, say
from core.engines.protocol import Server
from core.engines.queries import Loading

LOADING_SECONDS = 1800  # for a running server to load its model
# after which a loading server that nothing listens for has ended (a server may restart itself)
GONE_SECONDS = 10
POLL = 1.0  # seconds between checks of a loading server


def awaited(ask: Callable[[], Server | None], where: str) -> Server | None:
    """Return the first server that `ask` returns, or None if nothing listens. While a server loads,
    wait up to LOADING_SECONDS. Raises UserError if it takes longer, or if the loading server
    ends."""
    with heartbeat(f"waiting for the server {where}"):
        try:
            return ask()
        except Loading as loading:
            minutes = f"{LOADING_SECONDS / 60:.0f} minutes"
            words = f"is loading ({loading.words}). The command waits up to {minutes} for it"
            say(f"the server {where} {words} …", sys.stderr)
        return _loaded(ask, where)


def _loaded(ask: Callable[[], Server | None], where: str) -> Server:
    """Return the server that `ask` returns once it is loaded, as `awaited` describes."""
    last_seen = time.monotonic()  # when it last showed that it is loading
    deadline = last_seen + LOADING_SECONDS
    while True:
        time.sleep(POLL)
        try:
            server = ask()
        except Loading as loading:
            last_seen = time.monotonic()
            if last_seen > deadline:
                raise UserError(
                    f"the server {where} is not ready after {LOADING_SECONDS / 60:.0f} minutes "
                    f"({loading.words}). See its output. If another program listens there, give "
                    "another address or PORT"
                ) from None
        else:
            if server:
                return server
            if time.monotonic() > last_seen + GONE_SECONDS:
                raise UserError(
                    f"the server {where} ended while it was loading. See its output, and start it "
                    "again"
                )
