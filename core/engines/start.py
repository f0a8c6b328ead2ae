"""The server of a run: one that runs already, or the best one this machine can start.

The order (`serving`): BASE_URL if set, or the address of the card that MODEL names; a server on port 30000; with an
NVIDIA GPU, SGLang with QED-Nano; else the embedded engine (llama.cpp through xllamacpp, in this process) with the
embedded model. ENGINE, or a card, asks for one of them, or for llama.cpp with the GGUF file that MODEL names.
"""

import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from core.base import files, signals
from core.base.errors import UserError, command
from core.base.files import ROOT, results_dir
from core.engines import cards, client, dialect, environment, gpus, process, weights
from core.engines.attach import probe
from core.engines.cards import Card
from core.engines.dialect import OnGpu
from core.engines.dialects import llamacpp
from core.engines.embedded_model import (
    EMBEDDED_CONTEXT,
    EMBEDDED_ENGINES,
    EMBEDDED_GGUF,
    EMBEDDED_SLOTS,
    embedded_card,
    embedded_name,
)
from core.engines.need import Need, settings
from core.engines.server import WAITING, Server


def graders_server() -> Server | None:
    """The server that a grader asks instead of the run's own: at GRADER_URL, with GRADER_MODEL and GRADER_KEY, or that
    of the card which GRADER_MODEL names. None where none is named. Raises UserError where it does not answer."""
    url, model, key, card = environment.grader()
    if not url:
        return None
    found = probe(url, "it grades", model, key, card)
    if found is None:
        raise UserError(
            f"no server answers at {url}, where the grader's model is ({client.why_not(url)}). Set GRADER_URL, or "
            "unset it and GRADER_MODEL"
        )
    return found


@contextmanager
def grading_server(named: str, need: Need) -> Iterator[Server]:
    """The server of a grader that works apart from any run: of the card `named` (a name, or a .toml file), else the one
    that GRADER_URL or GRADER_MODEL name, else that of any run. Raises UserError where there is none."""
    if not named and (found := graders_server()):
        yield found
        return
    with environment.choosing(named), serving(need) as server:
        yield server


@contextmanager
def serving(need: Need | None = None) -> Iterator[Server]:
    """The server of this run, ready for requests; one that the run started, for what it will `need`, is stopped at the
    end. Raises UserError where there is none."""
    environment.check()
    wanted = environment.engine()
    if environment.base_url():
        yield _at_base_url()
    elif wanted != llamacpp.EMBEDDED and (found := _on_port(wanted)):  # the embedded engine runs beside whatever runs
        yield found
    else:
        with asked_for(need or Need(), is_for_run=True) as server:
            yield server


def asked_for(
    need: Need, extra: Sequence[str] = (), port: int = 0, is_for_run: bool = False
) -> AbstractContextManager[Server]:
    """The server that ENGINE and MODEL ask for, else the best one that this machine can start, on `port` or a free one,
    with `extra` flags. `is_for_run`: it is set up if it is missing, and its output goes into a log. Raises
    UserError."""
    card, wanted, model = environment.card(), environment.engine(), environment.model()
    environment.check_is_served(card, wanted)
    why = f"{environment.asked_by()} asks for it" if wanted else ""
    if (engine := dialect.on_gpu(wanted)) and (wanted or gpus.has_gpu()):
        log = results_dir() / f"{engine.kind}.log" if is_for_run else None
        if is_for_run:
            set_up(engine)
        why = f"{why or 'an NVIDIA GPU is here'}; it was started for this run"
        return launched(engine, need, why, log, extra, port)
    if extra:
        raise UserError(f"llama.cpp is given no flags here: {' '.join(extra)}. They are for a GPU's engines")
    if wanted == llamacpp.ENGINE:
        return on_llamacpp(llamacpp.gguf_file(model), need, port, f"{why}; it was started for this run")
    if model and not wanted:
        raise UserError(
            f"MODEL={model}: nothing here serves it; no server answers on port {environment.port()} and there is no "
            "NVIDIA GPU. Give BASE_URL for a model on a server, ENGINE=llamacpp for a .gguf file, or unset MODEL for "
            f"the embedded model. {cards.listing()}"
        )
    its = card if card.engine == llamacpp.EMBEDDED else None
    return embedded(port, why, EMBEDDED_ENGINES if is_for_run else 1, its)


def _at_base_url() -> Server:
    base_url, card = environment.base_url(), environment.card()
    why, named, unset = "BASE_URL is set", f"BASE_URL={base_url}", "BASE_URL"
    if environment.is_cards_address():
        why, named, unset = f"the card {card.name} says so", f"{base_url}, as the card {card.name} says", "MODEL"
    server = probe(base_url, why, environment.served_model(), environment.key(), card)
    if server is None:
        raise UserError(f"no server answers at {named} ({client.why_not(base_url)}). Or unset {unset}")
    return server


def _listed() -> dict[str, object] | None:
    """The list of models on our port; {} where another program answers, None where nothing does."""
    return client.find(f"http://{environment.host()}:{environment.port()}/v1/models", environment.api_key())


def _on_port(wanted: str) -> Server | None:
    """The server of models on our port; None where nothing answers, or another program. Raises UserError if it is not
    the `wanted` engine with the GGUF file that MODEL names."""
    if not (_listed() or {}).get("data"):
        return None
    port = environment.port()
    address, why = f"http://{environment.host()}:{port}", f"a server answers on port {port}"
    server = probe(address, why, environment.served_model(), environment.api_key(), environment.card())
    if server is None or not wanted:
        return server
    gguf = llamacpp.gguf_file(environment.model()) if wanted == llamacpp.ENGINE else None
    if (gguf and server.model != llamacpp.name_of(gguf)) or wanted not in server.dialect.engines[:1]:
        raise UserError(
            f"{environment.asked_by()} asks for {gguf.name if gguf else wanted}, but port {port} serves {server.model} "
            f"({server.kind}). Stop that server, unset {environment.asked_by().partition('=')[0]} to use it, or choose "
            "another PORT"
        )
    return replace(server, sha256=weights.sha256(gguf)) if gguf else server


# llama.cpp in this process


@contextmanager
def embedded(
    port: int = 0, why: str = "", engines: int = 1, card: Card | None = None, gguf: Path = EMBEDDED_GGUF
) -> Iterator[Server]:
    """The embedded model on llama.cpp in this process, on a free port (or on `port`), or on so many `engines` beside
    each other, each on a port of its own, with its own `card` or another; or what it was trained to, in a `gguf` file.
    It asks for API_KEY if set. Raises UserError where it does not start."""
    why = why or f"no server of models answers on port {environment.port()} and there is no NVIDIA GPU"
    known = card or embedded_card()
    name = embedded_name() if gguf == EMBEDDED_GGUF else f"{known.model}-trained@{weights.sha256(gguf)[:12]}"
    key = environment.api_key()
    size = llamacpp.Size(EMBEDDED_SLOTS // engines, EMBEDDED_CONTEXT, threads=1)
    with ExitStack() as running:
        first, *others = [
            running.enter_context(llamacpp.serving(gguf, name, environment.host(), port, size, key, exact=True))
            for _ in range(engines)
        ]
        yield replace(
            reached(first, why, name, known),
            limit=engines * size.slots + WAITING,
            replicas=tuple(f"{address}/v1" for address in others),
            sha256=weights.sha256(gguf),
        )


@contextmanager
def on_llamacpp(
    gguf: Path, need: Need, port: int = 0, why: str = "it was asked for", exact: bool = False
) -> Iterator[Server]:
    """The model in a `gguf` file on llama.cpp in this process, sized for what a run will `need`, on a free port (or on
    `port`); `exact` as in llamacpp.serving. Raises UserError where it does not fit or start."""
    from core.engines.gguf_header import Gguf  # takes a while to load, and few need it

    model = Gguf.read(gguf)
    size = llamacpp.size(model, need, llamacpp.memory(), llamacpp.physical_cores(), exact)
    if size.context < need.context:
        why_less = "the model was trained for no more" if size.context == model.longest else "the memory holds no more"
        print(
            f"note: a request may hold {size.context:,} tokens ({why_less}) and the longest may need {need.context:,}: "
            "aggregations that do not fit fail or are cut short. Lower MAX_TOKENS or K if they are",
            file=sys.stderr,
        )
    name, key = llamacpp.name_of(gguf), environment.api_key()
    with llamacpp.serving(gguf, name, environment.host(), port, size, key, exact) as address:
        yield replace(reached(address, why, name, environment.card()), sha256=weights.sha256(gguf))


def reached(address: str, why: str, name: str, card: Card = cards.NONE) -> Server:
    """The server of the model called `name` that llamacpp.serving has started at this address."""
    found = probe(address, why, name, environment.api_key(), card)
    assert found is not None, "it answered when it was started"
    return found


# Engines on a GPU


@contextmanager
def launched(
    engine: OnGpu,
    need: Need,
    why: str = "it was asked for",
    log: Path | None = None,
    extra: Sequence[str] = (),
    port: int = 0,
) -> Iterator[Server]:
    """An `engine` with the model that MODEL names, started here and stopped with all its processes at the end. Its
    output goes to `log`, or to standard error. `extra` flags are the last, where they win. Raises UserError where it
    does not start."""
    card, model = environment.card(), model_for(engine, environment.model())
    kv, is_deterministic = environment.kv_cache(), environment.is_deterministic()
    chosen = settings(model.shape, model.longest, gpus.here(), need, kv, is_deterministic)
    port = port or environment.port()
    args = [*engine.arguments(model, chosen, environment.host(), port), *extra]
    with started(engine, args, port, model.name, why, log, card) as server:
        if not (extra or card.concurrency):  # vLLM does not tell how many requests it decodes together
            server = replace(server, limit=min(server.limit, chosen.running + WAITING))
        yield server


@contextmanager
def started(
    engine: OnGpu,
    args: Sequence[str],
    port: int,
    model: str,
    why: str,
    log: Path | None = None,
    card: Card = cards.NONE,
) -> Iterator[Server]:
    """An engine on a GPU with these arguments for its interpreter, which serve a `model` of that name on `port`; else
    as launched."""
    root, key = f"http://{environment.host()}:{port}", environment.api_key()
    args = [python_of(engine), *args]
    print(f"{shlex.join(args)}\n", file=sys.stderr)
    if log:
        print(f"starting {engine.label} (a few minutes; its log: {log})", file=sys.stderr)

    def answering() -> Server | None:
        return probe(root, why, model, key, card) if client.is_healthy(root) else None

    folder = tempfile.TemporaryDirectory()
    with folder:
        hidden, secrets = engine.secrets(key, Path(folder.name))
        with process.running(engine.label, [*args, *hidden], port, log, secrets, key) as running:
            server = running.wait_until(answering, process.START_SECONDS)
            folder.cleanup()  # the key is read: if we are killed now, it is left nowhere
            yield replace(server, failure=running.failure)


def gpu_engine() -> OnGpu:
    """Return the engine for a GPU that ENGINE names, else the default one. Raises UserError if ENGINE names another."""
    wanted = environment.engine()
    if engine := dialect.on_gpu(wanted):
        return engine
    raise UserError(f"ENGINE={wanted} serves no folder of weights on a GPU. Unset ENGINE")


def model_for(engine: OnGpu, named: str) -> weights.Model:
    """The model that MODEL names as `named`, for an engine of a GPU. Raises UserError where there is no GPU, or the
    engine would read it wrongly."""
    _check_gpu(engine)
    model = weights.Model.at(named)
    engine.check_model(model.folder)
    return model


def set_up(engine: OnGpu) -> None:
    """Install an `engine` of a GPU where it is missing. Raises UserError where there is no GPU; ends the process where
    that fails."""
    _check_gpu(engine)
    files.set_up(engine.kind)


def _check_gpu(engine: OnGpu) -> None:
    """Raises UserError where there is none."""
    if not gpus.has_gpu():
        which = environment.asked_by().partition("=")[0]
        raise UserError(
            f"{engine.label} needs an NVIDIA GPU and nvidia-smi lists none. Unset {which} to run on what is here"
        )


def python_of(engine: OnGpu) -> str:
    """Return the interpreter that imports the engine: that of SGLANG_PYTHON (or VLLM_PYTHON), of the venv that setup.sh
    makes, or the image's own python3. Raises UserError if there is none."""
    package = engine.kind
    named = environment.python(package)
    candidates = [named] if named else [str(ROOT / f".venv-{package}" / "bin" / "python"), shutil.which("python3")]
    for python in candidates:
        if python and _imports(python, package):
            return python
    if named:
        raise UserError(
            f"{package.upper()}_PYTHON={named} does not import {package}. Name an interpreter that does, or unset it"
        )
    setup = "bash setup.sh" if engine.is_default else f"bash setup.sh {package}"
    raise UserError(f"no python here imports {package}. Run '{setup}', which makes an environment for it")


def _imports(python: str, module: str) -> bool:
    try:
        return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def main(argv: list[str]) -> None:
    """`bash scripts/start_server.sh [NAME=value …] [flags]`: the server a run would start, in the foreground until
    Ctrl-C. K, MAX_TOKENS and ANSWER_TOKENS say what it has to hold; flags are passed on to SGLang or vLLM."""
    environment.check()
    if _listed() is not None:
        raise UserError(f"a server answers on port {environment.port()} already. Stop it, or choose another PORT")
    need, extra = Need.read(argv)
    signals.Stop()
    with suppress(KeyboardInterrupt), asked_for(need, extra, environment.port()) as server:
        print(
            f"{server.model} on {server.base_url} ({server.version}; contexts of {server.context} tokens, about "
            f"{server.limit} requests at a time). Ctrl-C stops it.",
            flush=True,
        )
        while not (why := server.failure()):
            time.sleep(1)
        raise UserError(why)
    print("stopped", file=sys.stderr)


if __name__ == "__main__":
    with command():
        main(sys.argv[1:])
