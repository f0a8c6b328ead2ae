"""Checks of a session's constants, problems and server: what the server would refuse is refused before it is asked."""

from core.base.errors import UserError
from core.constants import Asking, Paid, Waiting
from core.engines.cards import Card
from core.engines.server import Server
from core.problems.sets import ProblemSet
from core.types import ANSWERS, PROOFS

ROOM = 1024  # tokens a prompt may take before a cap is called too large for the server's context


def check_kind(name: str, chosen: ProblemSet, wanted: str, instead: str = "") -> None:
    """Raises UserError for problems that the experiment `name` does not take."""
    if chosen.asks_for_proofs and wanted == ANSWERS:
        raise UserError(
            f"{name} compares answers, and {chosen.name} asks for proofs. Have them written by "
            "bash scripts/run.sh 18_proofs PROBLEMS=…, with any SCAFFOLD=…"
        )
    if wanted == PROOFS and not chosen.asks_for_proofs:
        raise UserError(
            f"{name} asks for proofs, and {chosen.name} has answers to compare: bash scripts/run.sh 19_answers "
            'PROBLEMS=…; or say of each problem "answer_type": "proof"'
        )
    if chosen.asks_for_proofs and instead:
        raise UserError(
            f"this scaffold goes by answers that say the same, and the proofs that {chosen.name} asks for have none. "
            f"Take SCAFFOLD={instead}"
        )


def check_prices(card: Card, model: str, config: Paid) -> None:
    """Raises UserError for a limit that can't be kept: nobody knows what the tokens of `model` cost."""
    if not config.MAX_DOLLARS or card.price:
        return
    which = f"the card {card.name} of" if card.name else "no card of"
    has = "has no table [price]" if card.name else "says it"
    raise UserError(
        f"MAX_DOLLARS={config.MAX_DOLLARS:g} can't be kept, for what tokens cost is not known: {which} {model} "
        f"{has}. Write one into a card of this model (data/models/template.toml shows how), or leave out MAX_DOLLARS"
    )


def check_context(server: Server, config: Asking) -> None:
    """Raises UserError for what the server would refuse every time. (llama.cpp ends a completion at its context; other
    servers refuse a cap that does not fit it.)"""
    card = server.card
    card.sampled(config)
    if isinstance(config, Paid):
        check_prices(server.card, server.model, config)
    if isinstance(config, Waiting) and config.WAITS and card.continues is False:
        raise UserError(
            f"WAITS={config.WAITS} has the server go on with thinking that has ended, and the card {card.name} says of "
            "its server that it can't go on with a message (continues = false). Give WAITS=0, or take another server"
        )
    if getattr(config, "VERIFY_MODE", "") == "p_true" and (card.continues is False or "logprobs" in card.never):
        why = (
            "it can't go on with one (continues = false)" if card.continues is False else "it gives no logprobs (never)"
        )
        raise UserError(
            f"VERIFY_MODE=p_true opens a verdict for the model and reads the next token's probabilities, and the card "
            f"{card.name} says of its server that {why}. Give VERIFY_MODE=verdict"
        )
    if why := server.dialect.refusal(server, config):
        raise UserError(why)
    if server.context and not server.dialect.ends_at_context and server.context < config.MAX_TOKENS + ROOM:
        raise UserError(
            f"MAX_TOKENS={config.MAX_TOKENS} does not fit the server's context of {server.context} tokens. Give "
            f"MAX_TOKENS={max(1, server.context // 2)}, or serve the model with a longer context"
        )
