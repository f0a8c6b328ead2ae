"""The subject of a plan: the model that MODEL, ENGINE and BASE_URL name, and where it runs."""

from dataclasses import dataclass
from pathlib import Path

from core.base.errors import UserError
from core.engines import cards, client, dialect, environment, weights
from core.engines.attach import probe
from core.engines.cards import Card
from core.engines.dialects import llamacpp
from core.engines.shape import QED_NANO, Shape
from core.engines.start import gpu_engine


@dataclass(frozen=True)
class OnGpu:
    """A model that an engine for a GPU serves. `why`: the source of its `shape`; `longest`: tokens of context that it
    was made for, None if that is not known."""

    engine: dialect.OnGpu
    shape: Shape
    why: str
    longest: int | None = None


@dataclass(frozen=True)
class Subject:
    """A model to plan. `model`: its name in results; `shown`: its name for people. `place`: a GPU, the GGUF file that
    llama.cpp serves on this machine, or None for a server elsewhere. `is_chosen`: whether a setting names it."""

    model: str
    shown: str
    card: Card
    place: OnGpu | Path | None
    is_chosen: bool = True


def shape_of_model() -> tuple[Shape, str]:
    """Return QED-Nano's shape and its source: the config.json beside its weights if they are fetched."""
    if weights.fetched() and (path := weights.folder() / "config.json").exists():
        return Shape.from_config(path), "its config.json"
    return QED_NANO, "figures of its config.json; the weights are not fetched"


def subject() -> Subject:
    """Return the model that a run would ask. Raises UserError if it can't be planned."""
    card, url, engine = environment.card(), environment.base_url(), environment.engine()
    if engine == llamacpp.EMBEDDED and not url:
        raise UserError("the embedded model is not planned: its run takes minutes. Unset ENGINE to plan QED-Nano")
    if card.name and (url or not card.engine):
        return Subject(card.model, f"{card.model} (card {card.name})", card, None)
    if url:
        found = probe(url, "BASE_URL is set", environment.served_model(), environment.key())
        if found is None:
            raise UserError(
                f"BASE_URL={url} is not planned: no server answers there ({client.why_not(url)}). Or unset BASE_URL"
            )
        return Subject(found.model, f"{found.model} at {found.base_url}", found.card, None)
    named = environment.model()
    if engine == llamacpp.ENGINE or (not engine and (Path(named).is_file() or named.endswith(".gguf"))):
        path = llamacpp.gguf_file(named)
        name = llamacpp.name_of(path)
        return Subject(name, path.name, card if card.name else cards.of_model(name, llamacpp.ENGINE), path)
    server = gpu_engine()
    if named in ("", weights.REPO):
        shape, why = shape_of_model()
        return Subject(weights.REPO, "QED-Nano", card, OnGpu(server, shape, why), is_chosen=bool(named))
    if not Path(named).is_dir():
        remedy = weights.how_to_fetch(named) or cards.listing()
        raise UserError(f"MODEL={named} is not planned: no card, GGUF file or folder has that name. {remedy}")
    model = weights.Model.at(named)
    return Subject(model.name, model.name, card, OnGpu(server, model.shape, "its config.json", model.longest))
