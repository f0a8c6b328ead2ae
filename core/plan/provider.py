"""The plan of a run at a provider's: tokens, and dollars at the prices of the model's card. How fast a provider's model
writes is not known."""

from collections.abc import Sequence
from dataclasses import replace

from core.base.prices import shown
from core.constants import Constants
from core.engines.cards import Card
from core.plan.estimate import aligned_rows, token_rows
from core.plan.lengths import Lengths
from core.plan.loads import at_most, loads
from core.plan.roofline import Load
from core.types import Bounded


def text(card: Card, model: str, config: Constants, count: int, lengths: Lengths, planned: Bounded) -> str:
    """The plan for people; `card`: of the `model`, NONE if it has none."""
    if card.continues is False:  # no answer is forced there
        config = replace(config, ANSWER_TOKENS=0)
    made = loads(config, count, lengths, planned)
    rows = [
        *token_rows(config, count, made, lengths, planned),
        ("cost", cost(card, model, config, count, made, lengths, planned)),
    ]
    rows.append(("time", "not planned: how fast the server writes is not known"))
    return aligned_rows(rows)


def cost(
    card: Card, model: str, config: Constants, count: int, made: Sequence[Load], lengths: Lengths, planned: Bounded
) -> str:
    """Dollars, as expected and at most, before any cache of the provider's; what is asked again is not in it."""
    if card.price is None:
        which = f"the card {card.name} has no table [price] of this model" if card.name else f"no card of {model}"
        return f"not known: {which}; write one into {'it' if card.name else 'a card'}"
    prompts, completions = (config.RUNS * tokens for tokens in at_most(config, count, lengths.prompt, planned))
    written = config.RUNS * sum(load.tokens for load in made)
    expected = card.price.dollars((round(_prompts(config, made)), 0, round(written)))
    most = card.price.dollars((prompts, 0, completions))
    assert expected is not None and most is not None
    said = f"{shown(expected)} expected, {shown(most)} at most, at the prices of {card.price.on}, before any cache"
    if config.MAX_DOLLARS and most > config.MAX_DOLLARS:
        enough = (
            "may end before it is done" if expected <= config.MAX_DOLLARS else "ends before it is done, as expected"
        )
        said += f"; with MAX_DOLLARS={config.MAX_DOLLARS:g} the run {enough}"
    return said


def _prompts(config: Constants, made: Sequence[Load]) -> float:
    return config.RUNS * sum(load.prompts for load in made)
