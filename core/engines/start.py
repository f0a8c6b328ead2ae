"""Find a running server for a run, or start the best one that this machine supports.

`serving` uses BASE_URL or the address in MODEL's card, if there is one, else a server on PORT (30000). If no server
answers on PORT, it starts SGLang with QED-Nano on an NVIDIA GPU. Without a GPU, it starts llama.cpp (xllamacpp) with
the embedded model. ENGINE or MODEL may select another engine or model. A .gguf file in MODEL selects llama.cpp. A
model of the hub (owner/name) is fetched first."""

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
from core.base.terminal import say
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
    """Return the server at GRADER_URL or in GRADER_MODEL's card, or None if both are unset. Raises UserError."""
    url, model, key, card = environment.grader()
    if not url:
        return None
    if found := probe(url, "GRADER_URL or GRADER_MODEL is set", model, key, card):
        return found
    raise UserError(f"no grader answers at {url} ({client.why_not(url)}). Correct or unset GRADER_URL and GRADER_MODEL")


@contextmanager
def grading_server(named: str, need: Need) -> Iterator[Server]:
    """Yield the server that grades outside of runs: the card's (`named`), else graders_server, else a run's server."""
    if not named and (found := graders_server()):
        yield found
        return
    with environment.choosing(named), serving(need) as server:
        yield server


@contextmanager
def serving(need: Need | None = None) -> Iterator[Server]:
    """Yield this run's server. A server that is started for its `need` ends with the block. Raises UserError."""
    environment.check()
    wanted = environment.engine()
    if environment.base_url():
        yield _at_base_url()
    elif wanted != llamacpp.EMBEDDED and (found := _on_port(wanted)):  # the embedded engine uses any free port
        yield found
    else:
        with asked_for(need or Need(), is_for_run=True) as server:
            yield server


def asked_for(
    need: Need, extra: Sequence[str] = (), port: int = 0, is_for_run: bool = False
) -> AbstractContextManager[Server]:
    """Start the server that ENGINE and MODEL select, else the best one here, on `port` (0: PORT on a GPU, else a free
    port). `extra` are flags for SGLang or vLLM. If it `is_for_run`, its output goes to a log. Raises UserError."""
    card, wanted, model = environment.card(), environment.engine(), environment.model()
    environment.check_is_served(card, wanted)
    why = f"{environment.asked_by()} is set" if wanted else ""
    if (engine := dialect.on_gpu(wanted)) and (wanted or gpus.has_gpu()):
        log = results_dir() / f"{engine.kind}.log" if is_for_run else None
        set_up(engine)
        return launched(engine, need, why or "this machine has an NVIDIA GPU", log, extra, port)
    if extra:
        raise UserError(f"llama.cpp takes no flags here. Omit {' '.join(extra)}. Only SGLang and vLLM accept flags")
    if wanted == llamacpp.ENGINE:
        return on_llamacpp(llamacpp.gguf_file(model), need, port, why)
    if not wanted and model != weights.REPO and environment.hub_model(model):
        why = f"no server answers on port {environment.port()} and there is no NVIDIA GPU"
        say(f"{why}, so llama.cpp serves a GGUF file of {model}", sys.stderr)
        return on_llamacpp(llamacpp.gguf_file(model), need, port, why)
    if model and not wanted:
        if model.endswith(".gguf"):
            raise UserError(f"there is no file {model}. Check the path, or unset MODEL for the embedded model")
        raise UserError(
            f"MODEL={model} can't be served. No server answers on port {environment.port()}, and there is no NVIDIA "
            "GPU. Set BASE_URL for a model on a server, set MODEL to an existing .gguf file, or unset MODEL for the "
            f"embedded model. {cards.listing()}"
        )
    its = card if card.engine == llamacpp.EMBEDDED else None
    return embedded(port, why, EMBEDDED_ENGINES if is_for_run else 1, its)


def _at_base_url() -> Server:
    base_url, card = environment.base_url(), environment.card()
    name = "MODEL" if environment.is_cards_address() else "BASE_URL"
    why = f"the card {card.name} names it" if environment.is_cards_address() else "BASE_URL is set"
    if server := probe(base_url, why, environment.served_model(), environment.key(), card):
        return server
    raise UserError(f"no server answers at {base_url} ({client.why_not(base_url)}). Correct or unset {name}")


def _listed() -> dict[str, object] | None:
    """Return the list of models on our port, {} if another program answers, or None if no server is ready there."""
    return client.find(f"http://{environment.host()}:{environment.port()}/v1/models", environment.api_key())


def _on_port(wanted: str) -> Server | None:
    """Return the model server on our port, or None. Raises UserError if its engine or GGUF file is not `wanted`."""
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
    if gguf and environment.exact() not in (None, server.exact):
        raise UserError(
            f"EXACT={environment.exact():d}, but port {port} serves {server.model} otherwise. Stop that server, unset "
            "EXACT to use it, or choose another PORT"
        )
    return replace(server, sha256=weights.sha256(gguf)) if gguf else server


# llama.cpp in this process


@contextmanager
def embedded(
    port: int = 0, why: str = "", engines: int = 1, card: Card | None = None, gguf: Path = EMBEDDED_GGUF
) -> Iterator[Server]:
    """Serve the embedded model, or a `gguf` file trained from it, on llama.cpp in this process. Raises UserError.
    Each of several `engines` has its own port. Requests must carry API_KEY, if it is set."""
    why = why or f"no server answers on port {environment.port()} and there is no NVIDIA GPU"
    known = card or embedded_card()
    name = embedded_name() if gguf == EMBEDDED_GGUF else f"{known.model}-trained@{weights.sha256(gguf)[:12]}"
    key = environment.api_key()
    size = llamacpp.Size(EMBEDDED_SLOTS // engines, EMBEDDED_CONTEXT, threads=1)
    exact, tags = llamacpp.exactness(True)
    with ExitStack() as running:
        first, *others = [
            running.enter_context(llamacpp.serving(gguf, name, environment.host(), port, size, key, exact, tags=tags))
            for _ in range(engines)
        ]
        yield replace(
            reached(first, why, name, known),
            limit=engines * size.slots + WAITING,
            replicas=tuple(f"{address}/v1" for address in others),
            sha256=weights.sha256(gguf),
        )


@contextmanager
def on_llamacpp(gguf: Path, need: Need, port: int = 0, why: str = "", exact: bool = False) -> Iterator[Server]:
    """Serve a `gguf` file on llama.cpp in this process, sized for `need`, on `port` or a free one. Raises UserError.
    `exact` decides for EXACT=auto."""
    from core.engines.gguf_header import Gguf  # slow to load, and rarely needed

    model = Gguf.read(gguf)
    exact, tags = llamacpp.exactness(exact)
    size = llamacpp.size(model, need, llamacpp.memory(), llamacpp.physical_cores(), exact)
    if size.context < need.context:
        limit = "the model's own limit" if size.context == model.longest else "the memory's limit"
        say(
            f"note: requests can have {size.context:,} tokens ({limit}), but the longest may need {need.context:,}. "
            "Aggregations that do not fit fail or are truncated. If this happens, lower MAX_TOKENS or K",
            sys.stderr,
        )
    name, key = llamacpp.name_of(gguf), environment.api_key()

    def served(size: llamacpp.Size) -> AbstractContextManager[str]:
        return llamacpp.serving(gguf, name, environment.host(), port, size, key, exact, tags=tags)

    with ExitStack() as running:
        address = running.enter_context(served(size))
        if (slots := llamacpp.slots_in_time(address, key, size, need)) < size.slots:
            running.close()
            address = running.enter_context(served(replace(size, slots=slots)))
        yield replace(reached(address, why, name, environment.card()), sha256=weights.sha256(gguf))


def reached(address: str, why: str, name: str, card: Card = cards.NONE) -> Server:
    """Return the record of a server that llamacpp.serving has started at this address."""
    found = probe(address, why, name, environment.api_key(), card)
    assert found is not None, "it answered when it was started"
    return found


# Engines on a GPU


@contextmanager
def launched(
    engine: OnGpu, need: Need, why: str = "", log: Path | None = None, extra: Sequence[str] = (), port: int = 0
) -> Iterator[Server]:
    """Start an `engine` with the model in MODEL, and stop all its processes after the block. Raises UserError.
    The output is written to `log`, or to standard error. `extra` flags come last, so that they override others."""
    card, model = environment.card(), model_for(engine, environment.model())
    kv, is_deterministic = environment.kv_cache(), environment.is_deterministic()
    chosen = settings(model.shape, model.longest, gpus.here(), need, kv, is_deterministic, together())
    host, port, key = environment.host(), port or environment.port(), environment.api_key()
    args = [python_of(engine), *engine.arguments(model, chosen, host, port), *extra]
    print(f"{shlex.join(args)}\n", file=sys.stderr)
    if log:
        say(f"Starting {engine.label} may take some minutes. Its log is {log}", sys.stderr)

    def answering() -> Server | None:
        root = f"http://{host}:{port}"
        return probe(root, why, model.name, key, card) if client.is_healthy(root) else None

    folder = tempfile.TemporaryDirectory()
    with folder:
        hidden, secrets = engine.secrets(key, Path(folder.name))
        with process.running(engine.label, [*args, *hidden], port, log, secrets, key) as running:
            server = running.wait_until(answering, process.START_SECONDS)
            folder.cleanup()  # the server has read the key, so no copy is left if this process is killed
            if not (extra or card.concurrency):  # vLLM does not report how many requests it decodes together
                server = replace(server, limit=min(server.limit, chosen.running + WAITING))
            yield replace(server, failure=running.failure)


def together() -> int:
    """Return the number of GPUs in TP. Raises UserError if this machine has fewer."""
    if (wanted := environment.tensor_parallel()) > (found := max(1, gpus.count())):
        raise UserError(f"TP={wanted} needs {wanted} GPUs, but nvidia-smi lists {found}. Lower or unset TP")
    return wanted


def gpu_engine(embeds: bool = False) -> OnGpu:
    """Return the GPU engine that ENGINE or MODEL selects, else the default one. Raises UserError for other engines.
    If it `embeds`, it must return a text's embedding while it generates."""
    if (engine := dialect.on_gpu(environment.engine())) and embeds and not engine.embeds:
        raise UserError(f"{engine.label} does not embed here. Set ENGINE=sglang, or ENERGY=0 if the experiment has it")
    if engine:
        return engine
    raise UserError(f"{environment.asked_by()} can't serve a folder of weights on a GPU. Unset this setting")


def model_for(engine: OnGpu, named: str) -> weights.Model:
    """Return the model `named`. Raises UserError if the model is missing or would be misread."""
    model = weights.Model.at(named)
    engine.check_model(model.folder)
    return model


def set_up(engine: OnGpu) -> None:
    """Install an `engine` if it is missing, and end the process if that fails. Raises UserError without a GPU."""
    if not gpus.has_gpu():
        name = environment.asked_by().partition("=")[0]
        raise UserError(f"{engine.label} needs an NVIDIA GPU, but nvidia-smi lists none. Unset {name} to use the CPU")
    files.set_up(engine.kind)


def python_of(engine: OnGpu) -> str:
    """Return an interpreter that can import the engine. Raises UserError if no candidate can.
    The candidates are SGLANG_PYTHON or VLLM_PYTHON if set, else the venv of setup.sh and then python3."""
    package = engine.kind
    named = environment.python(package)
    candidates = [named] if named else [str(ROOT / f".venv-{package}" / "bin" / "python"), shutil.which("python3")]
    for python in candidates:
        if python and _imports(python, package):
            return python
    if named:
        raise UserError(f"{package.upper()}_PYTHON={named} can't import {package}. Correct or unset the variable")
    setup = "bash setup.sh" if engine.is_default else f"bash setup.sh {package}"
    raise UserError(f"no Python here can import {package}. Run '{setup}' to install it")


def _imports(python: str, module: str) -> bool:
    try:
        return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def main(argv: list[str]) -> None:
    """Start a run's server in the foreground until Ctrl-C: `bash scripts/start_server.sh [NAME=value …] [flags]`.
    K, MAX_TOKENS and ANSWER_TOKENS determine the server's size. The flags are passed to SGLang or vLLM."""
    environment.check()
    if _listed() is not None:
        raise UserError(f"a program answers on port {environment.port()} already. Stop it, or choose another PORT")
    need, extra = Need.read(argv)
    signals.Stop()
    with suppress(KeyboardInterrupt), asked_for(need, extra, environment.port()) as server:
        print(
            f"{server.model} on {server.base_url} ({server.version}, contexts of {server.context} tokens, about "
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
