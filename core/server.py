"""Attach to a running server for a run, or start the best one that this machine supports.

`serving` uses BASE_URL or the address in MODEL's card, if there is one, else a server on PORT
(30000). It waits for a server that is loading. If nothing listens on PORT, it starts SGLang with
QED-Nano on an NVIDIA GPU. Without a GPU, it starts llama.cpp (xllamacpp) with the embedded model.
ENGINE or MODEL may select another engine or model. A .gguf file in MODEL selects llama.cpp. A model
of the hub (owner/name) is fetched first."""

import shlex
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path

from core.base import files, signals
from core.base.errors import UserError, command
from core.base.files import ROOT, results_dir
from core.base.terminal import heartbeat
from core.engines import (
    cards,
    environment,
    gguf_server,
    gpus,
    holding,
    our_port,
    process,
    queries,
    weights,
)
from core.engines.attach import probe, sized
from core.engines.cards import Card
from core.engines.dialects import llamacpp
from core.engines.dialects.llamacpp import EMBEDDED_CONTEXT, EMBEDDED_GGUF, EMBEDDED_SLOTS
from core.engines.holding import Ready, nothing
from core.engines.in_process import Launch
from core.engines.need import Need, ServerSize, check_fits, server_size
from core.engines.on_gpu import OnGpu, on_gpu
from core.engines.protocol import WAITING, Server
from core.engines.queries import Loading
from core.engines.waiting import awaited
from core.engines.wanted import EMBEDDED, LLAMACPP, Remote, Wanted, hub_model


@contextmanager
def serving(need: Need | None = None) -> Iterator[Server]:
    """Yield this run's server. A server that is started for its `need` ends with the block. Raises
    UserError."""
    wanted = environment.wanted()
    wanted.check()
    need = need or Need()
    if wanted.base_url:
        yield sized(_attached(wanted), need)
        return
    # the embedded engine uses any free port
    if wanted.engine != EMBEDDED:
        server = our_port.running_server(wanted)
        if server:
            yield sized(server, need)
            return
    with start(need, is_for_run=True, wanted=wanted) as server:
        yield server


# Attach to a server


def at_base_url() -> Server:
    """Return the server at BASE_URL or at the address in MODEL's card. Raises UserError if no
    server answers there."""
    return _attached(environment.wanted())


def _attached(wanted: Wanted) -> Server:
    if wanted.base_url == wanted.card.base_url:
        return server_at(wanted.remote, f"the card {wanted.card.name} names it", "MODEL")
    if environment.is_set("BASE_URL"):
        return server_at(wanted.remote, "BASE_URL is set", "BASE_URL")
    why = "OPENAI_BASE_URL is set (BASE_URL= ignores it)"  # it may be for other programs
    return server_at(wanted.remote, why, "OPENAI_BASE_URL")


def server_at(remote: Remote, why: str, names: str) -> Server:
    """Return the server at the address of `remote`. Raises UserError if no server answers. `names`
    are the variables that select it."""
    url = remote.url
    proxy = environment.proxy_of(url)
    through = f", through the proxy {cards.origin(proxy)}" if proxy else ""
    server = awaited(
        lambda: probe(url, why, remote.model, remote.key, remote.card), f"at {url}{through}"
    )
    if server:
        return server
    raise UserError(
        f"no server answers at {url} ({queries.why_not(url)}{through}). Start that server, check "
        f"the network, or correct or unset {names}"
    )


# Start a server


def start(
    need: Need,
    extra: Sequence[str] = (),
    port: int = 0,
    is_for_run: bool = False,
    ready: Ready = nothing,
    wanted: Wanted | None = None,
) -> AbstractContextManager[Server]:
    """Start the server that ENGINE and MODEL select (`wanted`), else the best one here, on `port`
    (0: PORT on a GPU, else a free port). `extra` are flags for SGLang or vLLM. If it `is_for_run`,
    its output goes to a log. llama.cpp calls `ready` once it answers on `port`. Raises
    UserError."""
    wanted = wanted or environment.wanted()
    why = f"{wanted.asked_by} is set" if wanted.engine else ""
    if engine := _gpu_engine_for(wanted):
        log = results_dir() / f"{engine.kind}.log" if is_for_run else None
        set_up(engine)
        why = why or "this machine has an NVIDIA GPU"
        return start_on_gpu(engine, need, why, log, extra, port, wanted)
    check_starts(wanted)
    if extra:
        raise UserError(
            f"llama.cpp takes no flags here. Omit {' '.join(extra)}. Only SGLang and vLLM accept "
            "flags"
        )
    if not why:
        why = f"no server answers on port {wanted.hosting.PORT} and there is no NVIDIA GPU"
    if _is_for_llamacpp(wanted):
        gguf = llamacpp.gguf_file(wanted.model, wanted.card)
        return on_llamacpp(gguf, need, port, why, ready, wanted)
    if wanted.model and not wanted.engine:
        raise _not_servable(wanted, why)
    card = wanted.card if wanted.card.engine == EMBEDDED else None
    engines = llamacpp.EMBEDDED_ENGINES if is_for_run else 1
    return embedded(port, why, engines, card, ready=ready, wanted=wanted)


def _gpu_engine_for(wanted: Wanted) -> OnGpu | None:
    """Return the GPU engine that ENGINE or MODEL selects, else the default one if there is a GPU,
    or None for llama.cpp."""
    if wanted.engine or gpus.count():
        return on_gpu(wanted.engine)
    return None


def _is_for_llamacpp(wanted: Wanted) -> bool:
    """Return whether MODEL is a GGUF file for llama.cpp. Without ENGINE, a model of the hub is one,
    because this machine has no GPU."""
    if wanted.engine:
        return wanted.engine == LLAMACPP
    return wanted.model != weights.REPO and hub_model(wanted.model) is not None


def _not_servable(wanted: Wanted, why: str) -> UserError:
    model = wanted.model
    if wanted.is_gguf():
        return UserError(
            f"there is no file {model}. Check the path, or unset MODEL for the embedded model"
        )
    return UserError(
        f"MODEL={model} can't be served, because {why}. {cards.meant(model)}Set BASE_URL for a "
        "model on a server, set MODEL to an existing .gguf file, or unset MODEL for the embedded "
        f"model. {cards.listing()}"
    )


def check_starts(wanted: Wanted) -> None:
    """Raise UserError if the engine that ENGINE or MODEL selects can't be started here, because
    runs only attach to it."""
    if on_gpu(wanted.engine) or wanted.engine in ("", LLAMACPP, EMBEDDED):
        return
    raise UserError(
        f"{wanted.asked_by} can't be started here, and nothing listens on port "
        f"{wanted.hosting.PORT}. Start its server yourself, and set BASE_URL or PORT"
    )


# SGLang and vLLM, on a GPU


@contextmanager
def start_on_gpu(
    engine: OnGpu,
    need: Need,
    why: str = "",
    log: Path | None = None,
    extra: Sequence[str] = (),
    port: int = 0,
    wanted: Wanted | None = None,
) -> Iterator[Server]:
    """Start an `engine` with the model in MODEL, and stop all its processes after the block. Raises
    UserError. The output is written to `log`, or to standard error. `extra` flags come last, so
    that they override others."""
    wanted = wanted or environment.wanted()
    model = weights.Model.at(wanted.model)
    engine.check_model(model.folder)
    size = server_size_for(model, need, wanted, extra)
    ours = replace(wanted.hosting, PORT=port or wanted.hosting.PORT)
    venv_python = ROOT / f".venv-{engine.kind}" / "bin" / "python"
    python = environment.python(engine.kind) or str(venv_python)
    cpu_flags = () if gpus.count() else engine.flags_on_cpu(model)
    args = [python, *engine.arguments(model, size, ours), *cpu_flags, *extra]
    print(f"{shlex.join(args)}\n", file=sys.stderr)
    step: AbstractContextManager[None] = nullcontext()
    if log:
        step = heartbeat(f"starting {engine.label} (log: {log})", "some minutes", is_long=True)

    def answering() -> Server | None:
        try:
            if queries.find(f"{ours.address}/health", wanted.api_key) is None:
                return None
            return probe(ours.address, why, model.name, wanted.api_key, wanted.card)
        except Loading:
            return None

    key = wanted.api_key
    folder = tempfile.TemporaryDirectory()
    with folder:
        key_flags, key_variables = engine.secrets(key, Path(folder.name))
        args += key_flags
        with process.running(engine.label, args, ours.PORT, log, key_variables, key) as running:
            with step:
                server = running.wait_until(answering, process.START_SECONDS)
            # the server has read the key, so no copy is left if this process is killed
            folder.cleanup()
            server = sized(server, need)
            # vLLM does not report how many requests it decodes together
            if size.running and not (extra or wanted.card.concurrency):
                server = replace(server, limit=min(server.limit, size.running + WAITING))
            yield replace(server, failure=running.failure)


def server_size_for(
    model: weights.Model, need: Need, wanted: Wanted | None = None, extra: Sequence[str] = ()
) -> ServerSize:
    """Return the size of the server with which this machine's GPUs serve `model`, or else its CPU.
    Raises UserError if they can't serve it. `extra` flags are added to the server's."""
    ours = (wanted or environment.wanted()).hosting
    here = max(1, gpus.count())
    if here < ours.TP:
        raise UserError(
            f"TP={ours.TP} needs {ours.TP} GPUs, but nvidia-smi lists {here}. Lower or unset TP"
        )
    gpu = gpus.here() if gpus.count() else gpus.in_place(llamacpp.memory())
    if not extra:  # other flags may use more GPUs or the machine's memory
        check_fits(model.bytes, gpu, ours.TP)
    return server_size(model.shape, model.longest, gpu, need, ours.KV, ours.TP)


def gpu_engine(embeds: bool = False) -> OnGpu:
    """Return the GPU engine that ENGINE or MODEL selects, else the default one. Raises UserError
    for other engines. If it `embeds`, it must return a text's embedding while it generates."""
    wanted = environment.wanted()
    engine = on_gpu(wanted.engine)
    if engine is None:
        raise UserError(
            f"{wanted.asked_by} can't serve a folder of weights on a GPU. Unset this setting"
        )
    if embeds and not engine.embeds:
        raise UserError(
            f"{engine.label} does not embed here. Set ENGINE=sglang, or ENERGY=0 if the experiment "
            "has it"
        )
    return engine


def runs_on_cpu(engine: OnGpu) -> bool:
    """Return whether the user has a build of `engine` for this machine's CPU."""
    return not gpus.count() and bool(engine.cpu_flags and environment.python(engine.kind))


def set_up(engine: OnGpu) -> None:
    """Install an `engine` if it is missing, and end the process if that fails. Raises UserError
    without a GPU, unless the user has a build for the CPU."""
    if runs_on_cpu(engine):
        return
    if not gpus.count():
        name = environment.wanted().asked_by.partition("=")[0]
        build = engine.cpu_flags and (
            f", or set {engine.kind.upper()}_PYTHON to an interpreter with its build for CPUs"
        )
        raise UserError(
            f"{engine.label} needs an NVIDIA GPU, but nvidia-smi lists none. Unset {name} to use "
            f"the CPU{build or ''}"
        )
    files.set_up(engine.kind)


# llama.cpp


@contextmanager
def on_llamacpp(
    gguf: Path,
    need: Need,
    port: int = 0,
    why: str = "",
    ready: Ready = nothing,
    wanted: Wanted | None = None,
) -> Iterator[Server]:
    """Serve a `gguf` file on llama.cpp, sized for `need`, on `port` or a free one. Raises
    UserError. If `need` embeds, the server only embeds. `ready` is called once the file is
    loaded."""
    wanted = wanted or environment.wanted()
    with gguf_server.serving_for(need, gguf, wanted, port, ready) as (address, failure):
        name = llamacpp.name_of(gguf)
        server = _started(address, why, name, gguf, wanted.card, wanted)
        yield replace(server, failure=failure)


@contextmanager
def embedded(
    port: int = 0,
    why: str = "",
    engines: int = 1,
    card: Card | None = None,
    gguf: Path = EMBEDDED_GGUF,
    ready: Ready = nothing,
    wanted: Wanted | None = None,
) -> Iterator[Server]:
    """Serve the embedded model, or a `gguf` file trained from it, on llama.cpp. Raises UserError.
    Each of several `engines` has its own port. Requests must carry API_KEY, if it is set. `ready`
    is called once the file is loaded."""
    wanted = wanted or environment.wanted()
    card = card or llamacpp.embedded_card()
    name = llamacpp.embedded_name()
    if gguf != EMBEDDED_GGUF:
        name = f"{card.model}-trained@{weights.sha256(gguf)[:12]}"
    size = llamacpp.Size(EMBEDDED_SLOTS // engines, EMBEDDED_CONTEXT, threads=1)
    launch = Launch(gguf, name, size, exact=True, port=port)
    with ExitStack() as running:
        addresses = []
        with gguf_server.step(gguf, gguf_server.loading(gguf)):
            for _ in range(engines):
                server_here = gguf_server.serving(launch, wanted, ready)
                addresses.append(running.enter_context(server_here).address)
        server = _started(addresses[0], why, name, gguf, card, wanted)
        replicas = tuple(f"{address}/v1" for address in addresses[1:])
        yield replace(server, limit=engines * size.slots + WAITING, replicas=replicas)


def _started(address: str, why: str, name: str, gguf: Path, card: Card, wanted: Wanted) -> Server:
    """Return the record of a server of `gguf` that was started here."""
    server = probe(address, why, name, wanted.api_key, card)
    assert server is not None, "it answered when it was started"
    return replace(server, sha256=weights.sha256(gguf))


# scripts/start_server.sh


def main(argv: list[str]) -> None:
    """Start a run's server in the foreground until Ctrl-C. K, MAX_TOKENS and ANSWER_TOKENS in
    `argv` determine the server's size. Flags are passed to SGLang or vLLM."""
    wanted = environment.wanted_here()
    wanted.check()
    host = wanted.hosting.BIND
    port = wanted.hosting.PORT
    if our_port.is_taken(wanted.hosting):
        raise UserError(f"a program uses port {port} already. Stop it, or choose another PORT")
    need, extra = Need.read(argv)
    signals.catch()
    with suppress(KeyboardInterrupt), ExitStack() as running:
        ready = nothing
        if _gpu_engine_for(wanted):
            running.enter_context(holding.claimed(host, port))
        else:
            ready = running.enter_context(holding.held(host, port))
        server = running.enter_context(start(need, extra, port, ready=ready, wanted=wanted))
        print(
            f"{server.model} on {server.base_url} ({server.version}, contexts of {server.context} "
            f"tokens, about {server.limit} requests at a time). Ctrl-C stops it.",
            flush=True,
        )
        if url := environment.base_url():
            print(f"Runs use {url}, unless BASE_URL={server.base_url}", flush=True)
        while not (failure := server.failure()):
            time.sleep(1)
        raise UserError(failure)
    print("stopped", file=sys.stderr)


if __name__ == "__main__":
    with command():
        main(sys.argv[1:])
