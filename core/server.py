"""Find a running server for a run, or start the best one that this machine supports.

`serving` uses BASE_URL or the address in MODEL's card, if there is one, else a server on PORT
(30000). It waits for a server that is loading. If nothing listens on PORT, it starts SGLang with
QED-Nano on an NVIDIA GPU. Without a GPU, it starts llama.cpp (xllamacpp) with the embedded model.
ENGINE or MODEL may select another engine or model. A .gguf file in MODEL selects llama.cpp. A model
of the hub (owner/name) is fetched first."""

import shlex
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from core.base import files, signals
from core.base.errors import UserError, command
from core.base.files import ROOT, results_dir
from core.base.terminal import say
from core.engines import cards, dialect, environment, gguf_server, gpus, holding, process, weights
from core.engines import queries as client
from core.engines.attach import NO_MODELS, is_empty, probe
from core.engines.cards import Card
from core.engines.dialect import OnGpu
from core.engines.dialects import llamacpp
from core.engines.dialects.llamacpp import EMBEDDED_GGUF
from core.engines.holding import Ready, nothing
from core.engines.need import Need, Settings, settings
from core.engines.protocol import WAITING, Key, Server
from core.engines.queries import Loading

LOADING_SECONDS = 1800  # for a running server to load its model
# after which a loading server that nothing listens for has ended (a server may restart itself)
GONE_SECONDS = 10
POLL = 1.0  # seconds between checks of a loading server


def graders_server() -> Server | None:
    """Return the server at GRADER_URL or in GRADER_MODEL's card, or None if both are unset. Raises
    UserError."""
    url, model, key, card = environment.grader()
    why = "GRADER_URL or GRADER_MODEL is set"
    return _at(url, why, model, key, card, "GRADER_URL and GRADER_MODEL") if url else None


@contextmanager
def grading_server(named: str, need: Need) -> Iterator[Server]:
    """Yield the server that grades outside of runs: the one that GRADER=`named` selects
    (environment.choosing), else graders_server, else a run's server."""
    with environment.choosing(named):
        if environment.has_own_grader(named) and (found := graders_server()):
            yield found
            return
        with serving(need) as server:
            yield server


@contextmanager
def serving(need: Need | None = None) -> Iterator[Server]:
    """Yield this run's server. A server that is started for its `need` ends with the block. Raises
    UserError."""
    environment.check()
    wanted = environment.engine()
    if environment.base_url():
        yield at_base_url()
    # the embedded engine uses any free port
    elif wanted != environment.EMBEDDED and (found := _on_port(wanted)):
        yield found
    else:
        with asked_for(need or Need(), is_for_run=True) as server:
            yield server


def asked_for(
    need: Need,
    extra: Sequence[str] = (),
    port: int = 0,
    is_for_run: bool = False,
    ready: Ready = nothing,
) -> AbstractContextManager[Server]:
    """Start the server that ENGINE and MODEL select, else the best one here, on `port` (0: PORT on
    a GPU, else a free port). `extra` are flags for SGLang or vLLM. If it `is_for_run`, its output
    goes to a log. llama.cpp calls `ready` once it answers on `port`. Raises UserError."""
    card, wanted, model = environment.card(), environment.engine(), environment.model()
    why = f"{environment.asked_by()} is set" if wanted else ""
    if engine := _engine_here(wanted):
        log = results_dir() / f"{engine.kind}.log" if is_for_run else None
        set_up(engine)
        return launched(engine, need, why or "this machine has an NVIDIA GPU", log, extra, port)
    check_starts(wanted)
    if extra:
        raise UserError(
            f"llama.cpp takes no flags here. Omit {' '.join(extra)}. Only SGLang and vLLM accept "
            "flags"
        )
    why = (
        why or f"no server answers on port {environment.hosting().PORT} and there is no NVIDIA GPU"
    )
    if wanted == environment.LLAMACPP or (
        not wanted and model != weights.REPO and environment.hub_model(model)
    ):
        return on_llamacpp(llamacpp.gguf_file(model), need, port, why, ready)
    if model and not wanted:
        if model.endswith(".gguf"):
            raise UserError(
                f"there is no file {model}. Check the path, or unset MODEL for the embedded model"
            )
        raise UserError(
            f"MODEL={model} can't be served, because {why}. Set BASE_URL for a model on a server, "
            "set MODEL to an existing .gguf file, or unset MODEL for the embedded model. "
            f"{cards.listing()}"
        )
    its = card if card.engine == environment.EMBEDDED else None
    return embedded(port, why, llamacpp.EMBEDDED_ENGINES if is_for_run else 1, its, ready=ready)


def check_starts(wanted: str) -> None:
    """Raise UserError if the engine `wanted` can't be started here, because runs only attach to
    it."""
    if dialect.on_gpu(wanted) or wanted in ("", environment.LLAMACPP, environment.EMBEDDED):
        return
    raise UserError(
        f"{environment.asked_by()} can't be started here, and nothing listens on port "
        f"{environment.hosting().PORT}. Start its server yourself, and set BASE_URL or PORT"
    )


def _engine_here(wanted: str) -> OnGpu | None:
    """Return the GPU engine that ENGINE or MODEL selects (`wanted`), else the default one if there
    is a GPU, or None for llama.cpp."""
    engine = dialect.on_gpu(wanted)
    return engine if wanted or gpus.count() else None


def at_base_url() -> Server:
    """Return the server at BASE_URL or at the address in MODEL's card. Raises UserError if no
    server answers there."""
    card, url = environment.card(), environment.base_url()
    name, why = (
        ("MODEL", f"the card {card.name} names it")
        if url == card.base_url
        else ("BASE_URL", "BASE_URL is set")
    )
    return _at(url, why, environment.served_model(), environment.key(), card, name)


def _at(url: str, why: str, model: str, key: Key, card: Card, names: str) -> Server:
    proxy = environment.proxy_of(url)
    through = f", through the proxy {cards.origin(proxy)}" if proxy else ""
    if server := awaited(lambda: probe(url, why, model, key, card), f"at {url}{through}"):
        return server
    remedy = f"Start that server, check the network, or correct or unset {names}"
    raise UserError(f"no server answers at {url} ({client.why_not(url)}{through}). {remedy}")


def awaited(ask: Callable[[], Server | None], where: str) -> Server | None:
    """Return the first server that `ask` returns, or None if nothing listens. While a server loads,
    wait up to LOADING_SECONDS. Raises UserError if it takes longer, or if the loading server
    ends."""
    deadline = time.monotonic() + LOADING_SECONDS
    heard: float | None = None  # when it last showed that it is loading
    while True:
        try:
            found = ask()
            if found or heard is None:
                return found
            if time.monotonic() > heard + GONE_SECONDS:
                raise UserError(
                    f"the server {where} ended while it was loading. See its output, and start it "
                    "again"
                )
        except Loading as loading:
            if heard is None:
                most = f"for up to {LOADING_SECONDS / 60:.0f} minutes"
                say(
                    f"waiting {most} for the server {where}, which is loading ({loading.words}) …",
                    sys.stderr,
                )
            heard = time.monotonic()
            if heard > deadline:
                raise UserError(
                    f"the server {where} is not ready after {LOADING_SECONDS / 60:.0f} minutes "
                    f"({loading.words}). See its output. If another program listens there, give "
                    "another address or PORT"
                ) from None
        time.sleep(POLL)


def is_taken() -> bool:
    """Return whether a program listens on our port, or is starting a server for it."""
    ours = environment.hosting()
    if holding.is_claimed(ours.BIND, ours.PORT):
        return True
    try:
        with socket.create_connection((ours.BIND, ours.PORT), client.SECONDS):
            return True
    except TimeoutError:  # its queue of connections is full
        return True
    except OSError:
        return False


def _on_port(wanted: str) -> Server | None:
    """Return the model server on our port, or None if nothing listens there. Waits while the server
    loads. Raises UserError if its engine or GGUF file is not `wanted`, or if another program
    listens on the port."""
    return awaited(lambda: _ready_on_port(wanted), f"on port {environment.hosting().PORT}")


def _check_revision(server: Server) -> None:
    """Raise UserError if REVISION names other weights than the server on our port loaded. If a run
    has fetched them, their record on this machine decides."""
    asked, port = environment.revision(), environment.hosting().PORT
    kept = weights.Fetched.read(weights.folder(server.model) / weights.RECORD) if asked else None
    if kept and environment.hub_model(server.model) and not kept.is_asked_for(server.model):
        raise UserError(
            f"REVISION={asked}, but port {port} serves {server.model}, whose weights here are "
            f"commit {kept.commit}. Stop that server, choose another PORT, or unset REVISION to "
            "use it"
        )


def _ready_on_port(wanted: str) -> Server | None:
    """Return the model server on our port, as `_on_port` does. Raises Loading if it is not
    ready."""
    ours, model, key = environment.hosting(), environment.served_model(), environment.api_key()
    listed = client.find(f"{ours.address}/v1/models", key)
    if listed is None and holding.is_claimed(ours.BIND, ours.PORT):
        raise Loading(ours.address, "start_server.sh is starting it, and it does not listen yet")
    if listed is None:
        return None
    if is_empty(listed):
        raise Loading(ours.address, NO_MODELS)
    if "data" not in listed:
        if wanted == environment.LLAMACPP:
            return None  # llama.cpp serves MODEL's file on any free port
        raise UserError(
            f"a program that lists no models at {ours.address}/v1/models uses port {ours.PORT}. "
            "Stop it, or choose another PORT. If it is a model server, set "
            f"BASE_URL={ours.address}/v1 and MODEL to its model's name. ENGINE=embedded ignores "
            "the port"
        )
    server = probe(
        ours.address, f"a server answers on port {ours.PORT}", model, key, environment.card()
    )
    if server:
        _check_revision(server)
    if server is None or not wanted:
        return server
    gguf = llamacpp.gguf_file(environment.model()) if wanted == environment.LLAMACPP else None
    if (gguf and server.model != llamacpp.name_of(gguf)) or wanted not in server.dialect.names[:1]:
        asked = environment.asked_by()
        raise UserError(
            f"{asked} asks for {gguf.name if gguf else wanted}, but port {ours.PORT} serves "
            f"{server.model} ({server.kind}). Stop that server, unset {asked.partition('=')[0]} to "
            "use it, or choose another PORT"
        )
    if gguf and ours.EXACT != "auto" and ours.exact(False) != server.exact:
        why = f"EXACT={ours.EXACT}, but port {ours.PORT} serves {server.model} otherwise"
        raise UserError(f"{why}. Stop that server, unset EXACT to use it, or choose another PORT")
    return replace(server, sha256=weights.sha256(gguf)) if gguf else server


# llama.cpp in this process


@contextmanager
def embedded(
    port: int = 0,
    why: str = "",
    engines: int = 1,
    card: Card | None = None,
    gguf: Path = EMBEDDED_GGUF,
    ready: Ready = nothing,
) -> Iterator[Server]:
    """Serve the embedded model, or a `gguf` file trained from it, on llama.cpp. Raises UserError.
    Each of several `engines` has its own port. Requests must carry API_KEY, if it is set. `ready`
    is called once the file is loaded."""
    _tell_loading(gguf)
    known = card or llamacpp.embedded_card()
    name = (
        llamacpp.embedded_name()
        if gguf == EMBEDDED_GGUF
        else f"{known.model}-trained@{weights.sha256(gguf)[:12]}"
    )
    size = llamacpp.Size(llamacpp.EMBEDDED_SLOTS // engines, llamacpp.EMBEDDED_CONTEXT, threads=1)
    with ExitStack() as running:
        servers = [
            gguf_server.serving(gguf, name, size, True, port, ready=ready) for _ in range(engines)
        ]
        first, *others = [running.enter_context(each)[0] for each in servers]
        server, replicas = (
            reached(first, why, name, gguf, known),
            tuple(f"{address}/v1" for address in others),
        )
        yield replace(server, limit=engines * size.slots + WAITING, replicas=replicas)


@contextmanager
def on_llamacpp(
    gguf: Path, need: Need, port: int = 0, why: str = "", ready: Ready = nothing
) -> Iterator[Server]:
    """Serve a `gguf` file on llama.cpp, sized for `need`, on `port` or a free one. Raises
    UserError. If `need` embeds, the server only embeds. `ready` is called once the file is loaded.
    Slots are timed on another port. A run that found the server meanwhile would disturb the timing,
    and would lose the server if the file is loaded again."""
    from core.engines.gguf_header import Gguf  # slow to load, and rarely needed

    _tell_loading(gguf)
    model, name = Gguf.read(gguf), llamacpp.name_of(gguf)
    is_exact = environment.hosting().exact(False)
    most = 1 if need.embeds else llamacpp.EMBEDDED_SLOTS
    size = llamacpp.size(model, need, llamacpp.memory(), llamacpp.physical_cores(), is_exact, most)
    with ExitStack() as running:
        served: gguf_server.Serving | None = None
        if not need.embeds and size.slots > size.threads:
            served = running.enter_context(gguf_server.serving(gguf, name, size, exact=False))
            _tell(gguf, f"timing up to {size.slots} requests at a time")
            slots = llamacpp.slots_in_time(served[0], size, need)
            if port or slots < size.slots:
                _tell(gguf, f"loading it again with {slots} slots")
                running.close()
                size, served = replace(size, slots=slots), None
        if served is None:
            served = running.enter_context(
                gguf_server.serving(gguf, name, size, False, port, embeds=need.embeds, ready=ready)
            )
        address, failure = served
        yield replace(reached(address, why, name, gguf, environment.card()), failure=failure)


def _tell_loading(gguf: Path) -> None:
    _tell(gguf, f"loading {gguf.name}, {files.in_words(gguf.stat().st_size)}")


def _tell(gguf: Path, step: str) -> None:
    """Print the step of a start that takes longer than a second."""
    if gguf_server.is_large(gguf):
        say(f"{step} …", sys.stderr)


def reached(address: str, why: str, name: str, gguf: Path, card: Card = cards.NONE) -> Server:
    """Return the record of a server of `gguf` that llamacpp.serving has started at this address."""
    found = probe(address, why, name, environment.api_key(), card)
    assert found is not None, "it answered when it was started"
    return replace(found, sha256=weights.sha256(gguf))


# Engines on a GPU


@contextmanager
def launched(
    engine: OnGpu,
    need: Need,
    why: str = "",
    log: Path | None = None,
    extra: Sequence[str] = (),
    port: int = 0,
) -> Iterator[Server]:
    """Start an `engine` with the model in MODEL, and stop all its processes after the block. Raises
    UserError. The output is written to `log`, or to standard error. `extra` flags come last, so
    that they override others."""
    model = weights.Model.at(environment.model())
    engine.check_model(model.folder)
    ours, key, card = environment.hosting(), environment.api_key(), environment.card()
    chosen, port = settings_for(model, need), port or ours.PORT
    python = environment.python(engine.kind) or str(
        ROOT / f".venv-{engine.kind}" / "bin" / "python"
    )
    args = [python, *engine.arguments(model, chosen, ours.BIND, port), *extra]
    print(f"{shlex.join(args)}\n", file=sys.stderr)
    if log:
        say(f"Starting {engine.label} may take some minutes. Its log is {log}", sys.stderr)

    def answering() -> Server | None:
        root = f"http://{ours.BIND}:{port}"
        try:
            is_ready = client.find(f"{root}/health", key) is not None
            return probe(root, why, model.name, key, card) if is_ready else None
        except Loading:
            return None

    folder = tempfile.TemporaryDirectory()
    with folder:
        hidden, secrets = engine.secrets(key, Path(folder.name))
        with process.running(engine.label, [*args, *hidden], port, log, secrets, key) as running:
            server = running.wait_until(answering, process.START_SECONDS)
            # the server has read the key, so no copy is left if this process is killed
            folder.cleanup()
            # vLLM does not report how many requests it decodes together
            if not (extra or card.concurrency):
                server = replace(server, limit=min(server.limit, chosen.running + WAITING))
            yield replace(server, failure=running.failure)


def settings_for(model: weights.Model, need: Need) -> Settings:
    """Return the settings with which this machine's GPUs serve `model`. Raises UserError if they
    can't serve it."""
    ours, found = environment.hosting(), max(1, gpus.count())
    if found < ours.TP:
        raise UserError(
            f"TP={ours.TP} needs {ours.TP} GPUs, but nvidia-smi lists {found}. Lower or unset TP"
        )
    return settings(model.shape, model.longest, gpus.here(), need, ours.KV, ours.TP)


def gpu_engine(embeds: bool = False) -> OnGpu:
    """Return the GPU engine that ENGINE or MODEL selects, else the default one. Raises UserError
    for other engines. If it `embeds`, it must return a text's embedding while it generates."""
    if (engine := dialect.on_gpu(environment.engine())) and embeds and not engine.embeds:
        raise UserError(
            f"{engine.label} does not embed here. Set ENGINE=sglang, or ENERGY=0 if the experiment "
            "has it"
        )
    if engine:
        return engine
    raise UserError(
        f"{environment.asked_by()} can't serve a folder of weights on a GPU. Unset this setting"
    )


def set_up(engine: OnGpu) -> None:
    """Install an `engine` if it is missing, and end the process if that fails. Raises UserError
    without a GPU."""
    if not gpus.count():
        name = environment.asked_by().partition("=")[0]
        raise UserError(
            f"{engine.label} needs an NVIDIA GPU, but nvidia-smi lists none. Unset {name} to use "
            "the CPU"
        )
    files.set_up(engine.kind)


def main(argv: list[str]) -> None:
    """Start a run's server in the foreground until Ctrl-C: `bash scripts/start_server.sh
    [NAME=value …] [flags]`. K, MAX_TOKENS and ANSWER_TOKENS determine the server's size. The flags
    are passed to SGLang or vLLM."""
    environment.check()
    port = environment.hosting().PORT
    if is_taken():
        raise UserError(f"a program uses port {port} already. Stop it, or choose another PORT")
    need, extra = Need.read(argv)
    signals.catch()
    with suppress(KeyboardInterrupt), ExitStack() as running:
        ready = nothing
        host = environment.hosting().BIND
        if _engine_here(environment.engine()):
            running.enter_context(holding.claimed(host, port))
        else:
            ready = running.enter_context(holding.held(host, port))
        server = running.enter_context(asked_for(need, extra, port, ready=ready))
        print(
            f"{server.model} on {server.base_url} ({server.version}, contexts of {server.context} "
            f"tokens, about {server.limit} requests at a time). Ctrl-C stops it.",
            flush=True,
        )
        while not (why := server.failure()):
            time.sleep(1)
        raise UserError(why)
    print("stopped", file=sys.stderr)


if __name__ == "__main__":
    with command():
        main(sys.argv[1:])
