"""Find the model to plan and the machine that runs it. MODEL, ENGINE, BASE_URL and --gpu choose
both."""

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from core import server as start
from core.base.errors import UserError
from core.engines import cards, dialect, environment, gpus, weights
from core.engines.cards import Card
from core.engines.dialects import llamacpp
from core.engines.gpus import Gpu
from core.engines.need import kv_type
from core.engines.shape import QED_NANO, Shape


@dataclass(frozen=True)
class OnGpu:
    """A model on a GPU with a KV cache of type `kv`. `why` is the source of its `shape`, and
    `why_gpu` the reason for the GPU. `longest` is the model's largest context in tokens, if
    known."""

    engine: dialect.OnGpu
    gpu: Gpu
    why_gpu: str
    kv: str
    shape: Shape
    why: str
    longest: int | None = None


@dataclass(frozen=True)
class Subject:
    """A model to plan. `model` is its name in results, and `shown` its name in messages. `place` is
    a GPU, a GGUF file for llama.cpp on this machine, or None for another server."""

    model: str
    shown: str
    card: Card
    place: OnGpu | Path | None

    @property
    def on(self) -> str:
        """The machine as text, with a space before it, or "" for another server."""
        if isinstance(self.place, OnGpu):
            return f" on one {self.place.gpu.name}"
        return " on this machine" if self.place else ""


def subject(args: Namespace) -> Subject:
    """Return the model that the settings select, or QED-Nano. A run without settings may use a
    server on PORT or the embedded model instead. Raises UserError if the model is unknown,
    unreachable or can't be planned."""
    card, url, engine = environment.card(), environment.base_url(), environment.engine()
    named = environment.model()
    if engine == environment.EMBEDDED and not url:
        raise UserError(
            "the embedded model has no plan, because its runs take minutes. Unset ENGINE to plan "
            "QED-Nano"
        )
    is_gguf = engine == environment.LLAMACPP or (
        not engine and (Path(named).is_file() or named.endswith(".gguf"))
    )
    found = None
    if card.name and (url or not card.engine):
        found = Subject(card.model, f"{card.model} (card {card.name})", card, None)
    elif url:
        server = start.at_base_url()
        found = Subject(server.model, f"{server.model} at {server.base_url}", server.card, None)
    elif is_gguf:
        path = llamacpp.gguf_file(named)
        name = llamacpp.name_of(path)
        found = Subject(
            name, path.name, card if card.name else cards.of_model(name, environment.LLAMACPP), path
        )
    if found and (args.gpu or args.gpu_file):
        raise UserError(
            f"{found.shown} has no plan on a GPU: it runs with llama.cpp or on another server. "
            "Leave out --gpu and --gpu-file, or unset MODEL, ENGINE and BASE_URL to plan QED-Nano"
        )
    return found or _on_gpu(named, card, args)


def _on_gpu(named: str, card: Card, args: Namespace) -> Subject:
    """Return the model `named` (default: QED-Nano) on the GPU that `args` choose, or else on this
    machine's GPU."""
    engine, longest, why = start.gpu_engine(), None, "from its config.json"
    if named in ("", weights.REPO):
        name, shown = weights.REPO, "QED-Nano"
        if weights.fetched() and (path := weights.folder() / "config.json").exists():
            shape = Shape.from_config(path)
        else:
            shape, why = (
                QED_NANO,
                "built-in values of its config.json, because the weights are not downloaded",
            )
    elif environment.hub_model(named):
        name = shown = named
        shape, longest = weights.shape_on_hub(named)
    elif Path(named).is_dir():
        model = weights.Model.at(named)
        name = shown = model.name
        shape, longest = model.shape, model.longest
    else:
        raise UserError(
            f"MODEL={named} is not a card, a GGUF file, a folder or a hub model. {cards.listing()}"
        )
    return Subject(name, shown, card, OnGpu(engine, *_gpu(args), shape, why, longest))


def _gpu(args: Namespace) -> tuple[Gpu, str, str]:
    """Return the GPU, the reason for choosing it, and the type of its KV cache. Raises UserError if
    the GPU is unknown or its file is invalid, or if the GPU lacks arithmetic for KV=fp8."""
    if args.gpu:
        gpu, why = gpus.named(args.gpu), "chosen by --gpu"
    elif args.gpu_file:
        gpu, why = gpus.from_file(Path(args.gpu_file)), "from --gpu-file"
    elif here := gpus.detect():
        gpu, why = here, "in this machine"
    else:
        gpu, why = (
            gpus.DEFAULT,
            "assumed, because this machine has no NVIDIA GPU. Choose another with --gpu",
        )
    return gpu, why, kv_type(environment.hosting().KV, gpu)
