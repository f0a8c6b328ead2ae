"""Mark the port of a server that is still loading, so that runs wait for it.

llama.cpp shares the port with a listener that answers "loading". SGLang and vLLM share no port, and
SGLang does not listen while it loads. For them, start_server.sh holds the UDP port of the same
number, which no model server uses."""

import errno
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import Any

from core.base.errors import UserError

# llama.cpp's own answer while it loads a model
_ERROR = {"message": "Loading model", "type": "unavailable_error", "code": 503}
ANSWER = json.dumps({"error": _ERROR}).encode()

Ready = Callable[[], None]  # called once a server has loaded its model


def nothing() -> None:
    """Return at once, because no port is held."""


class _Listener(ThreadingHTTPServer):
    # the server binds the port while this listener still answers, so that there is no gap
    allow_reuse_port = True
    daemon_threads = True

    def server_bind(self) -> None:
        """Open the port without looking up the host's name, which may take seconds."""
        TCPServer.server_bind(self)

    def handle_error(self, *_: object) -> None:
        """Print nothing if a client leaves."""


class _Handler(BaseHTTPRequestHandler):
    def _refuse(self) -> None:
        self.send_response(503)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    do_GET = do_POST = _refuse

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@contextmanager
def held(host: str, port: int) -> Iterator[Ready]:
    """Answer 503 on a port during the block, or until the yielded function is called. Raises
    UserError if the port is in use. Another server may bind the port meanwhile if it also sets
    SO_REUSEPORT, as in_process.serving does."""
    try:
        listener = _Listener((host, port), _Handler)
    except OSError as error:
        raise UserError(
            f"BIND={host} PORT={port} can't be used ({error.strerror}). Choose another PORT, or "
            "another BIND"
        ) from None
    thread = threading.Thread(target=partial(listener.serve_forever, 0.05), daemon=True)
    thread.start()

    def release() -> None:
        if thread.is_alive():
            listener.shutdown()
            thread.join()
        listener.server_close()

    try:
        yield release
    finally:
        release()


@contextmanager
def claimed(host: str, port: int) -> Iterator[None]:
    """Open a claim to a port during the block, without listening on it. It ends with this process
    at the latest."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as claim:
        with suppress(OSError):  # without a claim, runs do not wait
            claim.bind((host, port))
        yield


def is_claimed(host: str, port: int) -> bool:
    """Return whether a process has claimed a port. Several processes may ask at the same time
    (SO_REUSEADDR)."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
