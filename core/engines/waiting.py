"""Wait for a server that is loading its model."""

import sys
import time
from collections.abc import Callable

from core.base.errors import UserError
from core.base.terminal import say
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
    deadline = time.monotonic() + LOADING_SECONDS
    last_seen: float | None = None  # when it last showed that it is loading
    while True:
        try:
            server = ask()
        except Loading as loading:
            if last_seen is None:
                _announce(where, loading)
            last_seen = time.monotonic()
            if last_seen > deadline:
                raise UserError(
                    f"the server {where} is not ready after {LOADING_SECONDS / 60:.0f} minutes "
                    f"({loading.words}). See its output. If another program listens there, give "
                    "another address or PORT"
                ) from None
        else:
            if server or last_seen is None:
                return server
            if time.monotonic() > last_seen + GONE_SECONDS:
                raise UserError(
                    f"the server {where} ended while it was loading. See its output, and start it "
                    "again"
                )
        time.sleep(POLL)


def _announce(where: str, loading: Loading) -> None:
    limit = f"for up to {LOADING_SECONDS / 60:.0f} minutes"
    words = f"waiting {limit} for the server {where}, which is loading ({loading.words}) …"
    say(words, sys.stderr)
