"""Attach to the grader's own server, or start it: the model that GRADER_MODEL names.

The server is at GRADER_URL or in a card's address. Otherwise a model of the hub, a path or a card
that names an engine is served here, on the port after PORT (30001)."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from core.base.errors import UserError
from core.engines import environment, gpus, our_port
from core.engines.need import Need
from core.engines.protocol import Server
from core.engines.wanted import EMBEDDED, Wanted
from core.server import server_at, serving, start

WHY = "GRADER_URL or GRADER_MODEL is set"


@contextmanager
def grading_server(named: str, need: Need) -> Iterator[Server]:
    """Yield the server that grades outside of runs: the one that GRADER=`named` selects
    (environment.choosing), else the grader's own server, else a run's server."""
    with environment.choosing(named):
        if environment.has_own_grader(named):
            with graders_server(need, is_alone=True) as server:
                assert server is not None, "it is set"
                yield server
            return
        with serving(need) as server:
            yield server


@contextmanager
def graders_server(
    need: Need, starts: bool = True, is_alone: bool = False
) -> Iterator[Server | None]:
    """Yield the server at GRADER_URL or in GRADER_MODEL's card, or the server of another model in
    GRADER_MODEL, which is started for `need` if it `starts`. Yield None if both are unset. If it
    `is_alone`, there is no run's server. Raises UserError."""
    grader = environment.grader()
    wanted = environment.served_grader()
    if grader.url:
        yield server_at(grader, WHY, "GRADER_URL and GRADER_MODEL")
    elif wanted is None or not starts:
        yield None
    else:
        with _served(wanted, need, is_alone) as server:
            yield replace(server, why="GRADER_MODEL is set")


@contextmanager
def _served(wanted: Wanted, need: Need, is_alone: bool) -> Iterator[Server]:
    """Yield the server of the grader's model on its port, and start it if nothing listens there.
    Raises UserError, also if the run's server fills the GPU."""
    wanted.check()
    # the embedded engine uses any free port
    if wanted.engine != EMBEDDED:
        server = our_port.running_server(wanted)
        if server:
            yield server
            return
        if gpus.count() and not is_alone:
            named = wanted.value("MODEL")
            raise UserError(
                f"GRADER_MODEL={named} needs a server of its own, because the run's server fills "
                f"the GPU. Start it first: MODEL={named} PORT={wanted.hosting.PORT} bash "
                "scripts/start_server.sh (CUDA_VISIBLE_DEVICES selects a GPU), or set GRADER_URL"
            )
    with start(need, is_for_run=True, wanted=wanted) as server:
        yield server
