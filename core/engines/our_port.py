"""Find the model server on our port, and check that it is the one that the settings select."""

import socket
from dataclasses import replace
from pathlib import Path

from core.base.errors import UserError
from core.engines import holding, queries, weights
from core.engines.attach import NO_MODELS, is_empty, probe
from core.engines.chat_template import ChatTemplate
from core.engines.dialects import llamacpp
from core.engines.protocol import Server
from core.engines.queries import Loading
from core.engines.waiting import awaited
from core.engines.wanted import LLAMACPP, Hosting, Wanted, hub_model


def is_taken(ours: Hosting) -> bool:
    """Return whether a program listens on our port, or is starting a server for it."""
    if holding.is_claimed(ours.BIND, ours.PORT):
        return True
    try:
        with socket.create_connection((ours.BIND, ours.PORT), queries.SECONDS):
            return True
    except TimeoutError:  # its queue of connections is full
        return True
    except OSError:
        return False


def running_server(wanted: Wanted) -> Server | None:
    """Return the model server on our port, or None if nothing listens there. Waits while the server
    loads. Raises UserError if its engine, GGUF file or weights are not the `wanted` ones, or if
    another program listens on the port."""
    return awaited(lambda: _ready_server(wanted), f"on port {wanted.hosting.PORT}")


def _ready_server(wanted: Wanted) -> Server | None:
    """Return the server as `running_server` does. Raises Loading if it is not ready."""
    ours = wanted.hosting
    page = queries.find(f"{ours.address}/v1/models", wanted.api_key)
    if page is None:
        if holding.is_claimed(ours.BIND, ours.PORT):
            raise Loading(
                ours.address, "start_server.sh is starting it, and it does not listen yet"
            )
        return None
    if is_empty(page):
        raise Loading(ours.address, NO_MODELS)
    if "data" not in page:
        if wanted.engine == LLAMACPP:
            return None  # llama.cpp serves MODEL's file on any free port
        raise UserError(
            f"a program that lists no models at {ours.address}/v1/models uses port {ours.PORT}. "
            "Stop it, or choose another PORT. If it is a model server, set "
            f"BASE_URL={ours.address}/v1 and MODEL to its model's name. ENGINE=embedded ignores "
            "the port"
        )
    why = f"a server answers on port {ours.PORT}"
    server = probe(ours.address, why, wanted.served_model, wanted.api_key, wanted.card)
    if server is None:
        return None
    _check_revision(server, wanted)
    if wanted.engine == LLAMACPP:
        gguf = llamacpp.gguf_file(wanted.model, wanted.card)
        _check_file(server, gguf, wanted)
        return replace(server, sha256=weights.sha256(gguf))
    if wanted.engine:
        _check_engine(server, wanted.engine, wanted)
    return server


def _check_revision(server: Server, wanted: Wanted) -> None:
    """Raise UserError if REVISION names other weights than the server loaded. If a run has fetched
    them, their record on this machine decides."""
    if not wanted.revision or not hub_model(server.model):
        return
    fetched = weights.Fetched.read(weights.folder(server.model) / weights.RECORD)
    if fetched and not fetched.is_asked_for(server.model):
        raise UserError(
            f"REVISION={wanted.revision}, but port {wanted.hosting.PORT} serves {server.model}, "
            f"whose weights here are commit {fetched.commit}. Stop that server, choose another "
            "PORT, or unset REVISION to use it"
        )


def _check_file(server: Server, gguf: Path, wanted: Wanted) -> None:
    """Raise UserError if the server is not llama.cpp with the file `gguf`, or if it contradicts
    EXACT or CHAT_TEMPLATE."""
    if server.model != llamacpp.name_of(gguf):
        raise _other_server(server, gguf.name, wanted)
    _check_engine(server, gguf.name, wanted)
    ours = wanted.hosting
    if ours.EXACT != "auto" and ours.exact(False) != server.exact:
        raise UserError(
            f"EXACT={ours.EXACT}, but port {ours.PORT} serves {server.model} otherwise. Stop that "
            "server, unset EXACT to use it, or choose another PORT"
        )
    template = ChatTemplate.of(ours.CHAT_TEMPLATE).tag
    if template and template != server.weights.get("chat_template"):
        raise UserError(
            f"port {ours.PORT} serves {server.model} with another chat template than "
            f"CHAT_TEMPLATE={ours.CHAT_TEMPLATE}. Stop that server, unset CHAT_TEMPLATE to use it, "
            "or choose another PORT"
        )


def _check_engine(server: Server, name: str, wanted: Wanted) -> None:
    """Raise UserError if the server runs another engine. `name` describes the wanted server."""
    if wanted.engine not in server.dialect.names[:1]:
        raise _other_server(server, name, wanted)


def _other_server(server: Server, name: str, wanted: Wanted) -> UserError:
    variable = wanted.asked_by.partition("=")[0]
    return UserError(
        f"{wanted.asked_by} asks for {name}, but port {wanted.hosting.PORT} serves {server.model} "
        f"({server.kind}). Stop that server, unset {variable} to use it, or choose another PORT"
    )
