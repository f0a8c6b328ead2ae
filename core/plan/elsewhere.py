"""The plan of a run on llama.cpp in this machine, or at a provider: neither has a data sheet to compute time from."""

from dataclasses import replace
from pathlib import Path

from core.base.prices import shown
from core.constants import Constants
from core.engines import environment
from core.engines.cards import Card
from core.engines.dialects import llamacpp
from core.engines.need import Need
from core.plan.estimate import aligned_rows, hours, money, token_rows
from core.plan.lengths import Lengths
from core.plan.loads import OTHERS, at_cap, at_most, loads
from core.types import Bounded


def on_this_machine(
    file: Path, name: str, config: Constants, count: int, lengths: Lengths, planned: Bounded, price: float | None
) -> str:
    """Return the plan of the experiment `name` for people, with time at the speed that results of the model measured.
    Raises UserError if the GGUF `file` does not fit this machine."""
    from core.engines.gguf_header import Gguf  # takes a while to load

    model = Gguf.read(file)
    need = Need(planned.texts_shown(config), config.MAX_TOKENS, config.ANSWER_TOKENS)
    size = llamacpp.size(model, need, llamacpp.memory(), llamacpp.physical_cores())
    config = replace(config, MAX_TOKENS=min(config.MAX_TOKENS, size.context))  # where llama.cpp ends a completion
    engine = (
        f"llama.cpp with {file.name} ({model.bytes / 1e6:,.0f} MB, {model.shape.layers} layers): {size.slots} requests "
        f"at a time, contexts of {size.context:,} tokens, {size.threads} threads"
        + ("" if environment.engine() else "; a run needs ENGINE=llamacpp")
    )
    rows = [("engine", engine)]
    if need.context > size.context:
        words = f"a request may need {need.context:,} tokens: those that do not fit fail. Lower MAX_TOKENS or K"
        rows.append(("context", words))
    made = loads(config, count, lengths, planned)
    rows += token_rows(config, count, made, lengths)
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


def at_a_provider(card: Card, model: str, config: Constants, count: int, lengths: Lengths, planned: Bounded) -> str:
    """Return the plan for people: tokens, and dollars at the prices of the `card` of the `model` (NONE: no card)."""
    if card.continues is False:  # no answer is forced there
        config = replace(config, ANSWER_TOKENS=0)
    made = loads(config, count, lengths, planned)
    read, written = (
        config.RUNS * sum(tokens) for tokens in zip(*((load.prompts, load.tokens) for load in made), strict=True)
    )
    rows = token_rows(config, count, made, lengths)
    if card.price:
        expected = card.price.dollars((round(read), 0, round(written)))
        prompts, completions = (config.RUNS * tokens for tokens in at_most(config, made, count, lengths.prompt))
        most = card.price.dollars((prompts, 0, completions))
        assert expected is not None and most is not None
        cost = f"{shown(expected)} expected, {shown(most)} at most, at the prices of {card.price.on}, before any cache"
        if config.MAX_DOLLARS and most > config.MAX_DOLLARS:
            is_enough = expected <= config.MAX_DOLLARS
            how = "may end before it is done" if is_enough else "ends before it is done, as expected"
            cost += f"; with MAX_DOLLARS={config.MAX_DOLLARS:g} the run {how}"
    else:
        which = f"the card {card.name} has no table [price] of this model" if card.name else f"no card of {model}"
        cost = f"not known: {which}; write one into {'it' if card.name else 'a card'}"
    time = "not planned: how fast the server writes is not known"
    return aligned_rows([*rows, ("cost", cost), ("time", time)])
