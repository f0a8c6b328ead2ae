"""Serve trained weights until the next training. A server and a training may not fit into one GPU,
so a run that trains starts its own servers. Without a GPU, or for a GGUF file, the server is
llama.cpp. Otherwise it is SGLang or vLLM."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from core import server as start
from core.base.errors import UserError
from core.engines import environment, gpus, our_port, weights
from core.engines.dialects import llamacpp
from core.engines.dialects.llamacpp import EMBEDDED_ENGINES, EMBEDDED_GGUF, embedded_card
from core.engines.need import Need
from core.engines.on_gpu import on_gpu
from core.engines.protocol import Server


@dataclass(frozen=True)
class Weights:
    """The weights of a model: a .gguf file, or a folder in Hugging Face's layout."""

    path: Path
    # for a GGUF file: the model's name, or "" for a name from the embedded model's card
    name: str = ""
    about: str = ""  # a note about a model with a `name`

    @property
    def is_gguf(self) -> bool:
        return self.path.suffix == ".gguf"

    @cached_property
    def digest(self) -> str:
        """The sha256 of the weights, in hex."""
        return weights.sha256(self.path)

    @property
    def label(self) -> str:
        """The model's name with a digest, as servers list it."""
        if self.path == EMBEDDED_GGUF:
            return llamacpp.embedded_name()
        if self.is_gguf:
            return llamacpp.name_of(self.path)
        return f"{self.path.name}@{self.digest[:12]}"


def check_is_here() -> None:
    """Raise UserError if BASE_URL or MODEL's card names a server, because a server's weights can't
    be read or changed."""
    if url := environment.base_url():
        raise UserError(
            f"the weights of the server at {url} can't be read or trained here. Unset BASE_URL (or "
            "OPENAI_BASE_URL), and set MODEL to a folder or a .gguf file on this machine"
        )


def first() -> Weights:
    """Return the weights to start from: MODEL, or else QED-Nano (with a GPU or another ENGINE), or
    else the embedded model, which ENGINE=embedded selects. Raises UserError if a server is named,
    or MODEL is not on this machine."""
    environment.check()
    named, engine = environment.model(), environment.engine()
    check_is_here()
    start.check_starts(environment.wanted())
    if engine == "embedded" or not (named or engine or gpus.count()):
        return Weights(EMBEDDED_GGUF)
    if environment.card().file:
        return Weights(_converted(llamacpp.gguf_file(named)))
    if named.endswith(".gguf"):
        if not Path(named).is_file():
            raise UserError(
                f"MODEL={named} does not exist. Set MODEL to a .gguf file or to a model's folder"
            )
        return Weights(Path(named).resolve())
    return Weights(weights.Model.at(named).folder)


def to_read() -> Weights:
    """Return the weights that MODEL selects, for a command that trains none of them. So a card's
    GGUF file is not converted. Raises UserError as `first` does."""
    environment.check()
    if environment.card().file:
        return Weights(llamacpp.gguf_file(environment.model()))
    return first()


def _converted(gguf: Path) -> Path:
    """Convert a card's GGUF file to Hugging Face's layout, in a folder next to the file. Raises
    UserError."""
    from labs.training import to_hf  # slow to import

    folder = gguf.with_suffix("")
    if not folder.exists():
        to_hf.convert(gguf, folder)
    return folder


def is_on_gpu(model: Weights) -> bool:
    """Return whether SGLang or vLLM serves `model`, on a GPU or with a build for the CPU. Otherwise
    llama.cpp serves `model`."""
    if model.is_gguf:
        return False
    engine = on_gpu(environment.wanted().engine)
    return gpus.count() > 0 or (engine is not None and start.runs_on_cpu(engine))


def check(model: Weights) -> None:
    """Raise UserError if `model` can't be served here. Without a GPU, a folder must be convertible
    to GGUF. With a GPU, the engine must support the folder, and the port must be free."""
    if model.is_gguf:
        return  # llama.cpp uses any free port
    if not is_on_gpu(model):
        from labs.training import to_gguf  # slow to import

        remedy = (
            "Without a GPU, a run converts its model to GGUF for llama.cpp. Use a GPU, or another "
            "model"
        )
        to_gguf.check(model.path, remedy)
        return
    start.gpu_engine().check_model(model.path)
    if our_port.is_taken(environment.hosting()):
        raise UserError(
            f"a program already uses port {environment.hosting().PORT}, and perhaps the GPU. Stop "
            "it, because a run that trains starts its own server"
        )


@contextmanager
def served(model: Weights, need: Need, folder: Path) -> Iterator[Server]:
    """Serve `model` until the block ends. `need` describes the requests. The log and the converted
    GGUF file are written to `folder`. Raises UserError if the server does not start."""
    why = "a run that trains serves its own weights"
    if model.is_gguf:
        card = (
            replace(embedded_card(), model=model.name, about=model.about, note=model.about)
            if model.name
            else None
        )
        with start.embedded(
            why=why, engines=EMBEDDED_ENGINES, card=card, gguf=model.path
        ) as server:
            yield server
    elif is_on_gpu(model):
        engine = start.gpu_engine(need.embeds)
        start.set_up(engine)
        log = folder / f"{engine.kind}.log"
        with (
            environment.setting(MODEL=str(model.path)),
            start.start_on_gpu(engine, need, why, log) as server,
        ):
            yield server
    else:
        with start.on_llamacpp(converted(model, folder), need, why=why) as server:
            yield server


def converted(model: Weights, folder: Path) -> Path:
    """Return the path of `model` as a 16-bit GGUF file in `folder`. Converts a new model and
    deletes earlier files."""
    from labs.training import to_gguf  # slow to import

    path = folder / f"served-{model.digest[:12]}.gguf"
    if not path.is_file():
        for other in folder.glob("served-*.gguf"):
            other.unlink()
        to_gguf.convert(model.path, path, "f16")
    return path


def embedding(model: Weights, folder: Path) -> AbstractContextManager[Server]:
    """Serve a model's embeddings, by SGLang on the GPU or by llama.cpp on the CPU. Raises
    UserError. The log and converted weights are written to `folder`. A text on llama.cpp may have
    up to 2,048 tokens."""
    need = Need(k=0, max_tokens=0, answer_tokens=0, embeds=True)
    if is_on_gpu(model) and gpus.count():
        return served(model, need, folder)
    return start.on_llamacpp(
        model.path if model.is_gguf else converted(model, folder), need, why="it embeds"
    )
