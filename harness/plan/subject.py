"""Find the model to plan and the machine that runs it. MODEL, ENGINE, BASE_URL and --gpu choose
both."""

from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path

from core import server
from core.base.errors import UserError
from core.engines import cards, environment, gpus, on_gpu, weights
from core.engines.cards import Card
from core.engines.config_file import Config
from core.engines.dialects import llamacpp
from core.engines.gpus import Gpu
from core.engines.need import check_fits, kv_type
from core.engines.shape import QED_NANO, Mixture, Shape
from core.engines.wanted import EMBEDDED, LLAMACPP, hub_model
from harness.plan.roofline import in_words

BUILT_IN = "built-in values of its config.json, because the weights are not downloaded"


@dataclass(frozen=True)
class OnGpu:
    """A model on a GPU with a KV cache of type `kv`. `gpu_reason` is the reason for the GPU.
    `longest` is the model's largest context in tokens, if known. The server uses so many `gpus`
    together. `weight_bytes` is the size of the weights (0: in bf16)."""

    engine: on_gpu.OnGpu
    gpu: Gpu
    gpu_reason: str
    kv: str
    shape: Shape
    shape_source: str
    longest: int | None = None
    gpus: int = 1
    weight_bytes: int = 0

    @property
    def name(self) -> str:
        """The name of the GPU, and their number if there are several."""
        return in_words(self.gpu.name, self.gpus)


@dataclass(frozen=True)
class Unplanned:
    """A model on a GPU whose time can't be computed, because of its `difference` from a dense model
    (Config). `gpu` is the GPU's name with the reason for it."""

    engine: on_gpu.OnGpu
    gpu: str
    difference: str
    weight_bytes: int


@dataclass(frozen=True)
class Subject:
    """A model to plan. `model` is its name in results, and `label` its name in messages. It runs on
    a GPU, with llama.cpp on this machine (the path of its GGUF file), or on another server
    (None). The time on a GPU may be Unplanned."""

    model: str
    label: str
    card: Card
    runs_on: OnGpu | Unplanned | Path | None

    @property
    def on(self) -> str:
        """The machine as text, with a space before it, or "" for another server."""
        if isinstance(self.runs_on, OnGpu):
            number = "one " if self.runs_on.gpus == 1 else ""
            return f" on {number}{self.runs_on.name}"
        if isinstance(self.runs_on, Unplanned):
            return f" on {self.runs_on.engine.label}"
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
    """Return the model `named` (default: QED-Nano) on the GPUs that `args` choose, or else on this
    machine's GPUs. Raises UserError if the GPU lacks arithmetic for KV=fp8, or if the weights do
    not fit."""
    engine = server.gpu_engine()
    gpu, gpu_reason = _gpu(args)
    count = _gpus_together(args)
    name, label, config, weight_bytes = _described(named)
    check_fits(weight_bytes, gpu, count)
    # QED-Nano's built-in values describe a dense model
    is_dense = config is None or config.shape is not None
    sizes = config.sizes if config else QED_NANO
    if sizes is None or not (is_dense or weight_bytes or isinstance(sizes, Mixture)):
        gpu_text = f"{in_words(gpu.name, count)} ({gpu_reason})"
        difference = config.difference if config else ""
        unplanned = Unplanned(engine, gpu_text, difference, weight_bytes)
        return Subject(name, label, card, unplanned)
    runs_on = OnGpu(
        engine,
        gpu,
        gpu_reason,
        kv_type(environment.hosting().KV, gpu, is_full=not is_dense),
        sizes,
        "from its config.json" if config else BUILT_IN,
        config.longest if config and name != weights.REPO else None,
        count,
        0 if is_dense else weight_bytes,
    )
    return Subject(name, label, card, runs_on)


def _described(named: str) -> tuple[str, str, Config | None, int]:
    """Return a model's name, its label, its config (None: built-in values of QED-Nano), and the
    bytes of its weights. Raises UserError for an unknown model."""
    if named in ("", weights.REPO):
        config = weights.folder() / "config.json"
        is_here = weights.fetched() and config.exists()
        return weights.REPO, "QED-Nano", Config.read(config) if is_here else None, 0
    if hub_model(named):
        return named, named, *weights.config_on_hub(named)
    if Path(named).is_dir():
        model = weights.Model.at(named)
        return model.name, model.name, Config.read(model.folder / "config.json"), model.bytes
    raise UserError(
        f"MODEL={named} is not a card, a GGUF file, a folder or a hub model. {cards.listing(named)}"
    )


def _gpu(args: Namespace) -> tuple[Gpu, str]:
    """Return the GPU, and the reason for choosing it. Raises UserError if the GPU is unknown or its
    file is invalid."""
    if args.gpu:
        return gpus.several(args.gpu)[1], "chosen by --gpu"
    if args.gpu_file:
        return gpus.from_file(Path(args.gpu_file)), "from --gpu-file"
    if detected := gpus.detect():
        return detected, "in this machine"
    reason = "assumed, because this machine has no NVIDIA GPU. Choose another with --gpu"
    return gpus.DEFAULT, reason


def _gpus_together(args: Namespace) -> int:
    """Return the number of GPUs that the server uses, from --gpu or else TP. Raises UserError if
    they differ."""
    tp = environment.hosting().TP
    count = gpus.several(args.gpu)[0] if args.gpu else 1
    if count > 1 and tp > 1 and count != tp:
        raise UserError(f"--gpu {args.gpu} names {count} GPUs, but TP={tp}. Unset TP")
    return max(count, tp)
