"""Serve weights that are trained, until the next training. Both can't share a GPU's memory, so a run that trains starts
its own servers: llama.cpp for a GGUF file and without a GPU, else SGLang or vLLM."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from core.base.errors import UserError
from core.engines import client, environment, gpus, start, weights
from core.engines.embedded_model import EMBEDDED_ENGINES, EMBEDDED_GGUF, embedded_card
from core.engines.need import Need
from core.engines.server import Server
from labs.training.architectures import architecture_of, read_object


@dataclass(frozen=True)
class Weights:
    """A .gguf file, or a folder in Hugging Face's layout. `name` and `about`: of a GGUF file unlike the embedded
    one."""

    path: Path
    name: str = ""
    about: str = ""

    @property
    def is_gguf(self) -> bool:
        return self.path.suffix == ".gguf"

    @cached_property
    def digest(self) -> str:
        """The sha256 of the weights."""
        return weights.sha256(self.path) if self.is_gguf else weights.digest(self.path)


def check_is_here() -> None:
    """Raise UserError if the model is served elsewhere, so its weights can't be changed."""
    if url := environment.base_url():
        raise UserError(
            f"this run trains the weights that it serves, and can't change the server at {url}. Unset "
            f"{'MODEL' if environment.is_cards_address() else 'BASE_URL'}, and name a model here: MODEL=FOLDER"
        )


def first() -> Weights:
    """Return the weights to start from: MODEL, else the embedded model, or QED-Nano on a GPU. Raises UserError if the
    weights are not on this machine, or another server is in the way."""
    environment.check()
    named, engine = environment.model(), environment.engine()
    check_is_here()
    if engine == "embedded" or not (named or engine or gpus.has_gpu()):
        return Weights(EMBEDDED_GGUF)
    environment.check_is_served(environment.card(), engine)
    if named.endswith(".gguf"):
        if not Path(named).is_file():
            raise UserError(f"MODEL={named} is not there. Give the path of a .gguf file, or a model's folder")
        return Weights(Path(named).resolve())
    if named and not Path(named).is_dir() and named != weights.REPO:
        raise UserError(
            f"MODEL={named} is neither a model's folder nor a .gguf file here. "
            f"{weights.how_to_fetch(named) or 'Only models on this machine can be trained'}"
        )
    return Weights(weights.Model.at(named).folder)


def is_on_gpu(model: Weights) -> bool:
    """Return whether a GPU's engine serves the weights."""
    return not model.is_gguf and gpus.has_gpu()


def check(model: Weights) -> None:
    """Raise UserError if the weights can't be served here: not convertible without a GPU, or the GPU's port is
    taken."""
    if model.is_gguf:
        return  # ours takes any free port
    if not gpus.has_gpu():
        from labs.training import to_gguf  # takes a while to load

        config = read_object(model.path / "config.json")
        architecture_of(config, model.path, "Others are not trained here")
        if why := to_gguf.why_not(model.path, config):
            raise UserError(
                f"{model.path} is a {config['architectures'][0]}, which can be trained here but not served. Without a "
                f"GPU, llama.cpp serves a converted folder, and {why}. Run this on a GPU, or name another model"
            )
        return
    start.gpu_engine().check_model(model.path)
    address = f"http://{environment.host()}:{environment.port()}"
    if client.find(f"{address}/v1/models", environment.api_key()) is not None:
        raise UserError(
            f"a server answers on port {environment.port()}, whose weights can't be changed from here, and which fills "
            "the GPU. Stop it: a run that trains starts its own"
        )


@contextmanager
def served(model: Weights, need: Need, folder: Path) -> Iterator[Server]:
    """Serve `model` for the `need` of requests until the block ends; log and converted file are written to `folder`.
    Raises UserError if the server does not start."""
    why = "a run that trains serves its own weights"
    if model.is_gguf:
        card = replace(embedded_card(), model=model.name, about=model.about, note=model.about) if model.name else None
        with start.embedded(why=why, engines=EMBEDDED_ENGINES, card=card, gguf=model.path) as server:
            yield server
    elif is_on_gpu(model):
        engine = start.gpu_engine()
        start.set_up(engine)
        log = folder / f"{engine.kind}.log"
        with environment.choosing_weights(model.path), start.launched(engine, need, why, log) as server:
            yield server
    else:
        with start.on_llamacpp(converted(model, folder), need, why=why, exact=True) as server:
            yield server


def converted(model: Weights, folder: Path) -> Path:
    """Return the GGUF file of a folder's weights, in 16 bits; files of other weights are deleted."""
    from labs.training import to_gguf  # takes a while to load

    path = folder / f"served-{model.digest[:12]}.gguf"
    if not path.is_file():
        for other in folder.glob("served-*.gguf"):
            other.unlink()
        to_gguf.convert(model.path, path, "f16")
    return path
