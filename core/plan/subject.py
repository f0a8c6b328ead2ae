"""Find the model to plan and the machine that runs it. MODEL, ENGINE and BASE_URL choose both."""

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
    """A model on a GPU. `why` is the source of its `shape`. `longest` is its largest context in tokens, if known."""

    engine: dialect.OnGpu
    shape: Shape
    why: str
    longest: int | None = None


@dataclass(frozen=True)
class Subject:
    """A model to plan. `model` is its name in results, and `shown` its name in messages. `place` is a GPU, a GGUF file
    for llama.cpp on this machine, or None for another server. `is_chosen` is False if no setting chose the model."""

    model: str
    shown: str
    card: Card
    place: OnGpu | Path | None
    is_chosen: bool = True


def subject() -> Subject:
    """Return the model that the settings select, or QED-Nano. A run without settings may use a server on PORT or the
    embedded model instead. Raises UserError if the model is unknown, unreachable or can't be planned."""
    card, url, engine = environment.card(), environment.base_url(), environment.engine()
    if engine == llamacpp.EMBEDDED and not url:
        raise UserError("the embedded model has no plan, because its runs take minutes. Unset ENGINE to plan QED-Nano")
    if card.name and (url or not card.engine):
        return Subject(card.model, f"{card.model} (card {card.name})", card, None)
    if url:
        found = probe(url, "BASE_URL is set", environment.served_model(), environment.key())
        if found is None:
            raise UserError(f"no server answers at BASE_URL={url} ({client.why_not(url)}). Start one or unset BASE_URL")
        return Subject(found.model, f"{found.model} at {found.base_url}", found.card, None)
    named = environment.model()
    if engine == llamacpp.ENGINE or (not engine and (Path(named).is_file() or named.endswith(".gguf"))):
        path = llamacpp.gguf_file(named)
        name = llamacpp.name_of(path)
        return Subject(name, path.name, card if card.name else cards.of_model(name, llamacpp.ENGINE), path)
    server = gpu_engine()
    if named in ("", weights.REPO):
        shape, why = QED_NANO, "built-in values of its config.json, because the weights are not downloaded"
        if weights.fetched() and (path := weights.folder() / "config.json").exists():
            shape, why = Shape.from_config(path), "from its config.json"
        return Subject(weights.REPO, "QED-Nano", card, OnGpu(server, shape, why), is_chosen=bool(named))
    if environment.hub_model(named):
        shape, longest = weights.shape_on_hub(named)
        return Subject(named, named, card, OnGpu(server, shape, "from its config.json", longest))
    if not Path(named).is_dir():
        raise UserError(f"MODEL={named} is not a card, a GGUF file, a folder or a hub model. {cards.listing()}")
    model = weights.Model.at(named)
    return Subject(model.name, model.name, card, OnGpu(server, model.shape, "from its config.json", model.longest))
