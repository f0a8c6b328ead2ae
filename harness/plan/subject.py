"""Find the model to plan and the machine that runs it. MODEL, ENGINE, BASE_URL and --gpu choose
both."""

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from core import server
from core.base.errors import UserError
from core.engines import cards, environment, gpus, on_gpu, weights
from core.engines.cards import Card
from core.engines.dialects import llamacpp
from core.engines.gpus import Gpu
from core.engines.need import kv_type
from core.engines.shape import QED_NANO, Shape
from core.engines.wanted import EMBEDDED, LLAMACPP, hub_model


@dataclass(frozen=True)
class OnGpu:
    """A model on a GPU with a KV cache of type `kv`. `gpu_reason` is the reason for the GPU.
    `longest` is the model's largest context in tokens, if known."""

    engine: on_gpu.OnGpu
    gpu: Gpu
    gpu_reason: str
    kv: str
    shape: Shape
    shape_source: str
    longest: int | None = None


@dataclass(frozen=True)
class Subject:
    """A model to plan. `model` is its name in results, and `label` its name in messages. It runs on
    a GPU, with llama.cpp on this machine (the path of its GGUF file), or on another server
    (None)."""

    model: str
    label: str
    card: Card
    runs_on: OnGpu | Path | None

    @property
    def on(self) -> str:
        """The machine as text, with a space before it, or "" for another server."""
        if isinstance(self.runs_on, OnGpu):
            return f" on one {self.runs_on.gpu.name}"
        return " on this machine" if self.runs_on else ""


def find_subject(args: Namespace) -> Subject:
    """Return the model that the settings select, or QED-Nano. A run without settings may use a
    server on PORT or the embedded model instead. Raises UserError if the model is unknown,
    unreachable or can't be planned."""
    card = environment.card()
    without_gpu = _without_gpu(environment.model(), card)
    if without_gpu is None:
        return _on_gpu(environment.model(), card, args)
    if args.gpu or args.gpu_file:
        raise UserError(
            f"{without_gpu.label} has no plan on a GPU: it runs with llama.cpp or on another "
            "server. Leave out --gpu and --gpu-file, or unset MODEL, ENGINE and BASE_URL to plan "
            "QED-Nano"
        )
    return without_gpu


def _without_gpu(named: str, card: Card) -> Subject | None:
    """Return the model of another server, or of llama.cpp on this machine. Return None if the
    settings select neither."""
    url = environment.base_url()
    engine = environment.engine()
    if engine == EMBEDDED and not url:
        raise UserError(
            "the embedded model has no plan, because its runs take minutes. Unset ENGINE to plan "
            "QED-Nano"
        )
    if card.name and (url or not card.engine):
        return Subject(card.model, f"{card.model} (card {card.name})", card, None)
    if url:
        attached = server.at_base_url()
        label = f"{attached.model} at {attached.base_url}"
        return Subject(attached.model, label, attached.card, None)
    is_file = Path(named).is_file() or named.endswith(".gguf")
    if engine == LLAMACPP or (is_file and not engine):
        path = llamacpp.gguf_file(named)
        name = llamacpp.name_of(path)
        if not card.name:
            card = cards.of_model(name, LLAMACPP)
        return Subject(name, path.name, card, path)
    return None


def _on_gpu(named: str, card: Card, args: Namespace) -> Subject:
    """Return the model `named` (default: QED-Nano) on the GPU that `args` choose, or else on this
    machine's GPU. Raises UserError if the GPU lacks arithmetic for KV=fp8."""
    engine = server.gpu_engine()
    longest = None
    source = "from its config.json"
    if named in ("", weights.REPO):
        name = weights.REPO
        label = "QED-Nano"
        config = weights.folder() / "config.json"
        if weights.fetched() and config.exists():
            shape = Shape.from_config(config)
        else:
            shape = QED_NANO
            source = "built-in values of its config.json, because the weights are not downloaded"
    elif hub_model(named):
        name = label = named
        shape, longest = weights.shape_on_hub(named)
    elif Path(named).is_dir():
        model = weights.Model.at(named)
        name = label = model.name
        shape = model.shape
        longest = model.longest
    else:
        raise UserError(
            f"MODEL={named} is not a card, a GGUF file, a folder or a hub model. "
            f"{cards.listing(named)}"
        )
    gpu, gpu_reason = _gpu(args)
    kv = kv_type(environment.hosting().KV, gpu)
    runs_on = OnGpu(engine, gpu, gpu_reason, kv, shape, source, longest)
    return Subject(name, label, card, runs_on)


def _gpu(args: Namespace) -> tuple[Gpu, str]:
    """Return the GPU, and the reason for choosing it. Raises UserError if the GPU is unknown or its
    file is invalid."""
    if args.gpu:
        return gpus.named(args.gpu), "chosen by --gpu"
    if args.gpu_file:
        return gpus.from_file(Path(args.gpu_file)), "from --gpu-file"
    if detected := gpus.detect():
        return detected, "in this machine"
    reason = "assumed, because this machine has no NVIDIA GPU. Choose another with --gpu"
    return gpus.DEFAULT, reason
