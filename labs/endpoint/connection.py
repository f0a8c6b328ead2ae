"""Close connections that do not send a request, because they count towards the limit of open
connections."""

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 10.0  # time to send a request's head, and longest pause in its body


class Connection(H11Protocol):
    """An HTTP connection that is closed if its request does not arrive in time. Requests that have
    arrived may take any time. Between two requests, uvicorn's own timeout applies."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._start()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        is_awaited = self._is_awaited()
        if not is_awaited or self.conn.their_state is h11.SEND_BODY:
            self._stop()
        if is_awaited and self._timer is None:
            self._start()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _is_awaited(self) -> bool:
        """Return whether the client has not yet sent the whole of its first request, or of one that
        it has begun."""
        if self.conn.their_state is h11.IDLE:
            return self.cycle is None or bool(self.conn.trailing_data[0])
        return self.conn.their_state is h11.SEND_BODY

    def _start(self) -> None:
        self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
