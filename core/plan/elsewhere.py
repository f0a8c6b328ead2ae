"""Plan a run with llama.cpp on this machine, or on a running server. No data sheet shows the speed of either."""

from dataclasses import replace
from pathlib import Path

from core.base.prices import shown
from core.base.terminal import labelled
from core.constants import Constants
from core.engines import environment
from core.engines.cards import Card
from core.engines.dialects import llamacpp
from core.engines.need import Need
from core.plan.estimate import hours, money, token_rows
from core.plan.lengths import Lengths
from core.plan.loads import OTHERS, at_cap, at_most, loads
from core.types import Bounded


def on_this_machine(
    file: Path, config: Constants, count: int, lengths: Lengths, planned: Bounded, price: float | None
) -> str:
    """Format the plan of an experiment with llama.cpp. The time needs the speed in the model's earlier results. Raises
    UserError if the GGUF `file` is unreadable, or its model does not fit this machine."""
    from core.engines.gguf_header import Gguf  # slow to import

    model = Gguf.read(file)
    need = Need(planned.texts_shown(config), config.MAX_TOKENS, config.ANSWER_TOKENS)
    size = llamacpp.size(model, need, llamacpp.memory(), llamacpp.physical_cores(), bool(environment.exact()))
    config = replace(config, MAX_TOKENS=min(config.MAX_TOKENS, size.context))  # llama.cpp truncates there
    engine = (
        f"llama.cpp with {file.name} ({model.bytes / 1e6:,.0f} MB, {model.shape.layers} layers): at most {size.slots} "
        f"requests at a time, contexts of {size.context:,} tokens, {size.threads} threads"
        + ("" if environment.engine() else ". Set ENGINE=llamacpp for the run")
    )
    rows = [("engine", engine)]
    if need.context > size.context:
        text = f"too short: a request may need {need.context:,} tokens, and then fails. Lower MAX_TOKENS, or K in RSA"
        rows.append(("context", text))
    expected = loads(config, count, lengths, planned)
    rows += token_rows(config, count, expected, lengths)
    if any(load.kind == OTHERS for load in expected):
        text = "not planned: this scaffold's time can be planned only on a GPU. Start a run and watch its progress"
        return labelled([*rows, ("time", text)])
    if lengths.speed is None:
        text = "not planned: no earlier results show this model's speed. Run 02_rsa_basic LIMIT=1"
        return labelled([*rows, ("time", text)])
    seconds, most = (
        [config.RUNS * sum(load.tokens for load in each) * speed for speed in lengths.speed]
        for each in (expected, loads(config, count, at_cap(config, lengths), planned))
    )
    rows += [("time", f"{hours(seconds)}, at the measured speed")]
    return labelled([*rows, ("at the cap", f"{hours(most)}, if every completion is truncated"), *money(seconds, price)])


def at_a_provider(card: Card, model: str, config: Constants, count: int, lengths: Lengths, planned: Bounded) -> str:
    """Format the plan of a run on a running server, such as a provider's: its tokens, and their cost if known."""
    if card.continues is False:  # such a server can't force answers
        config = replace(config, ANSWER_TOKENS=0)
    usual = loads(config, count, lengths, planned)
    read, written = (
        config.RUNS * sum(tokens) for tokens in zip(*((load.prompts, load.tokens) for load in usual), strict=True)
    )
    rows = token_rows(config, count, usual, lengths)
    if card.price:
        expected = card.price.dollars((round(read), 0, round(written)))
        prompts, completions = (config.RUNS * tokens for tokens in at_most(config, usual, count, lengths.prompt))
        most = card.price.dollars((prompts, 0, completions))
        assert expected is not None and most is not None
        cost = f"{shown(expected)} expected, {shown(most)} at most, at prices of {card.price.on}, without cache hits"
        if config.MAX_DOLLARS and most > config.MAX_DOLLARS:
            is_enough = expected <= config.MAX_DOLLARS
            how = "may end" if is_enough else "is expected to end"
            cost += f". With MAX_DOLLARS={config.MAX_DOLLARS:g}, the run {how} before it is complete"
    else:
        where = f"the card {card.name} has no table [price]" if card.name else f"{model} has no card"
        cost = f"unknown: {where}. See data/models/template.toml"
    return labelled([*rows, ("cost", cost), ("time", "not planned: the speed of the server is unknown")])
