"""The plan of a run on llama.cpp in this machine: tokens, and time at the speed that results of the model measured.
How fast a CPU reads its memory is not known, and so no time is computed without them."""

from dataclasses import replace
from pathlib import Path

from core.constants import Constants
from core.engines import environment
from core.engines.dialects import llamacpp
from core.engines.need import Need
from core.plan.estimate import aligned_rows, hours, money, token_rows
from core.plan.lengths import Lengths
from core.plan.loads import OTHERS, at_cap, loads
from core.types import Planned


def text(
    place: Path | str,
    name: str,
    config: Constants,
    count: int,
    lengths: Lengths,
    planned: Planned,
    price: float | None,
) -> str:
    """The plan of the experiment `name` for people. `place`: the model's GGUF file, or "embedded". Raises UserError if
    the file does not fit this machine."""
    engine, room = "embedded", list[tuple[str, str]]()
    if isinstance(place, Path):
        from core.engines.gguf_header import Gguf  # takes a while to load

        model = Gguf.read(place)
        need = Need(planned.texts_shown(config), config.MAX_TOKENS, config.ANSWER_TOKENS)
        size = llamacpp.size(model, need, llamacpp.memory(), llamacpp.physical_cores())
        config = replace(config, MAX_TOKENS=min(config.MAX_TOKENS, size.context))  # where llama.cpp ends a completion
        engine = (
            f"llama.cpp with {place.name} ({model.bytes / 1e6:,.0f} MB, {model.layers} layers): {size.slots} requests "
            f"at a time, contexts of {size.context:,} tokens, {size.threads} threads"
            + ("" if environment.engine() else "; a run needs ENGINE=llamacpp")
        )
        if need.context > size.context:
            words = f"a request may need {need.context:,} tokens: those that do not fit fail. Lower MAX_TOKENS or K"
            room = [("context", words)]
    made = loads(config, count, lengths, planned)
    rows = [("engine", engine), *room, *token_rows(config, count, made, lengths, planned)]
    if any(load.kind == OTHERS for load in made):
        return aligned_rows(
            [*rows, ("time", "not planned: without a GPU only RSA's time is. Start a run and see its bar")]
        )
    if lengths.speed is None:
        why = "no results of this model and scaffold say how fast this machine is"
        return aligned_rows([*rows, ("time", f"not planned: {why}. Run {name} once with LIMIT=1 and see its bar")])
    seconds, most = (
        [config.RUNS * sum(load.tokens for load in each) * speed for speed in lengths.speed]
        for each in (made, loads(config, count, at_cap(config, lengths), planned))
    )
    rows += [("time", f"{hours(seconds)}, at the speed of those results")]
    rows += [("at the cap", f"{hours(most)}, if every completion runs into it"), *money(seconds, price)]
    return aligned_rows(rows)
