"""Weights that are trained, and a server of them: one that this process starts, and ends before it trains others.

What trains can't share a GPU's memory with what serves, and nobody can change the weights of a server that somebody
else has started. So a run that trains serves its own: a GGUF file, and without a GPU any other model too, on llama.cpp
in this process, where equal seeds give equal samples; a folder in Hugging Face's layout, on a GPU, on SGLang or vLLM.
"""

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
    """A .gguf file, or a folder in Hugging Face's layout. `name` and `about`: what a GGUF file that is no kin of the
    embedded model is called, and is."""

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
    """Raises UserError if the model is served elsewhere, where its weights can't be changed."""
    if url := environment.base_url():
        raise UserError(
            f"this trains the weights that are served, and can't change those of the server at {url}. Unset "
            f"{'MODEL' if environment.is_cards_address() else 'BASE_URL'}, and name a model here: MODEL=FOLDER"
        )


def first() -> Weights:
    """What training starts from: as MODEL says, else the embedded model, or QED-Nano where there is a GPU. Raises
    UserError where the weights are not here, or a server of others is in the way."""
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
            f"{weights.how_to_fetch(named) or 'What is trained lies on this machine'}"
        )
    return Weights(weights.Model.at(named).folder)


def is_on_gpu(made: Weights) -> bool:
    """Whether a GPU's engine serves it."""
    return not made.is_gguf and gpus.has_gpu()


def check(made: Weights) -> None:
    """Raises UserError if it can't be served here: without a GPU a folder that is not converted, with one if another
    server is in the place of ours."""
    if made.is_gguf:
        return  # ours takes any free port
    if not gpus.has_gpu():
        from labs.training import to_gguf  # takes a while to load

        config = read_object(made.path / "config.json")
        architecture_of(config, made.path, "Others are not trained here")
        if why := to_gguf.why_not(made.path, config):
            raise UserError(
                f"{made.path} is a {config['architectures'][0]}, which is trained here but not served: without a GPU a "
                f"folder is converted for llama.cpp, and {why}. Run this where there is a GPU, or name another model"
            )
        return
    start.gpu_engine().check_model(made.path)
    address = f"http://{environment.host()}:{environment.port()}"
    if client.find(f"{address}/v1/models", environment.api_key()) is not None:
        raise UserError(
            f"a server answers on port {environment.port()}, whose weights can't be changed from here, and which fills "
            "the GPU. Stop it: a run that trains starts its own"
        )


@contextmanager
def served(made: Weights, need: Need, folder: Path) -> Iterator[Server]:
    """A server of `made` for what will be asked (`need`), which ends with the block. Its log, and what it is converted
    to, lie in `folder`. Raises UserError where it does not start."""
    why = "a run that trains serves its own weights"
    if made.is_gguf:
        card = replace(embedded_card(), model=made.name, about=made.about, note=made.about) if made.name else None
        with start.embedded(why=why, engines=EMBEDDED_ENGINES, card=card, gguf=made.path) as server:
            yield server
    elif is_on_gpu(made):
        engine = start.gpu_engine()
        start.set_up(engine)
        log = folder / f"{engine.kind}.log"
        with environment.choosing_weights(made.path), start.launched(engine, need, why, log) as server:
            yield server
    else:
        with start.on_llamacpp(converted(made, folder), need, why=why, exact=True) as server:
            yield server


def converted(made: Weights, folder: Path) -> Path:
    """The GGUF file of a folder's weights, in 16 bits; that of other weights goes."""
    from labs.training import to_gguf  # takes a while to load

    path = folder / f"served-{made.digest[:12]}.gguf"
    if not path.is_file():
        for other in folder.glob("served-*.gguf"):
            other.unlink()
        to_gguf.convert(made.path, path, "f16")
    return path
