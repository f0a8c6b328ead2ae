"""Attach to the server of a second model, or start it: a grader (GRADER_MODEL) or a scorer
(SCORER_MODEL).

The server is at GRADER_URL or SCORER_URL, or in a card's address. Otherwise a model of the hub, a
path or a card that names an engine is served here. A grader's port is PORT + 1 (30001), and a
scorer's PORT + 2."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from core.base.errors import UserError
from core.engines import environment, gpus, our_port
from core.engines.need import Need
from core.engines.protocol import Server
from core.engines.wanted import EMBEDDED, GRADER, Wanted
from core.server import server_at, serving, start


@contextmanager
def grading_server(named: str, need: Need) -> Iterator[Server]:
    """Yield the server that grades outside of runs: the one that GRADER=`named` selects
    (environment.choosing), else the grader's own server, else a run's server."""
    with environment.choosing(named):
        if environment.has_own_grader(named):
            with second_server(GRADER, need, is_alone=True) as server:
                assert server is not None, "it is set"
                yield server
            return
        with serving(need) as server:
            yield server


@contextmanager
def second_server(
    role: str, need: Need, starts: bool = True, is_alone: bool = False
) -> Iterator[Server | None]:
    """Yield the server of the second model with this `role` (GRADER or SCORER of
    core/engines/wanted.py). A server here is started for `need` if it `starts`. Yield None if the
    variables are unset. If it `is_alone`, there is no run's server. Raises UserError."""
    remote = environment.second(role)
    wanted = environment.served_second(role)
    if remote.url:
        names = f"{role}_URL and {role}_MODEL"
        yield server_at(remote, f"{role}_URL or {role}_MODEL is set", names)
    elif wanted is None or not starts:
        yield None
    else:
        with _served(role, wanted, need, is_alone) as server:
            yield replace(server, why=f"{role}_MODEL is set")


@contextmanager
def _served(role: str, wanted: Wanted, need: Need, is_alone: bool) -> Iterator[Server]:
    """Yield the server of the second model on its port, and start it if nothing listens there.
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
                f"{role}_MODEL={named} needs a server of its own, because the run's server fills "
                f"the GPU. Start it first: MODEL={named} PORT={wanted.hosting.PORT} bash "
                f"scripts/start_server.sh (CUDA_VISIBLE_DEVICES selects a GPU), or set {role}_URL"
            )
    with start(need, is_for_run=True, wanted=wanted) as server:
        yield server
