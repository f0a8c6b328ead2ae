"""Check a session's constants, problems and server before the first request."""

from core.base.errors import UserError
from core.constants import Asking, Paid
from core.engines.cards import Card
from core.engines.server import Server
from core.problems.sets import ProblemSet
from core.scaffolds import framing
from core.types import ANSWERS, PROOFS

ROOM = 1024  # tokens of the context that are reserved for the prompt


def check_kind(name: str, chosen: ProblemSet, wanted: str, instead: str = "") -> None:
    """Raise UserError if the experiment `name` can't use the `chosen` problems. Its grader accepts the kind `wanted`.
    Its scaffold accepts proofs if `instead` is "". Otherwise `instead` names a scaffold that does."""
    if wanted == (ANSWERS if chosen.asks_for_proofs else PROOFS):
        other, kind = ("18_proofs", "proofs") if wanted == ANSWERS else ("19_answers", "answers")
        raise UserError(
            f"{name} takes {wanted}, but {chosen.name} has {kind}. Run bash scripts/run.sh {other} PROBLEMS=…"
        )
    if chosen.asks_for_proofs and instead:
        raise UserError(
            f"this scaffold counts equal answers, but {chosen.name} asks for proofs, which have no answers. "
            f"Use the scaffold {instead} (SCAFFOLD={instead})"
        )


def check_prices(card: Card, model: str, config: Paid) -> None:
    """Raise UserError if MAX_DOLLARS is set but the price of the `model` is unknown."""
    if not config.MAX_DOLLARS or card.price:
        return
    where = f"the card {card.name} of {model} has no table [price]" if card.name else f"{model} has no card"
    raise UserError(
        f"MAX_DOLLARS={config.MAX_DOLLARS:g} needs the price of tokens, but {where}. Add the price to a card of this "
        "model (see data/models/template.toml), or set MAX_DOLLARS=0"
    )


def check_context(server: Server, config: Asking) -> None:
    """Raise UserError if the constants `config` do not fit the server, its card or its context."""
    card = server.card
    card.sampled(config)
    if isinstance(config, Paid):
        check_prices(server.card, server.model, config)
    given = {name: getattr(config, name, 0) for name in ("WAITS", "ELICIT", "VERIFY_MODE")}
    needs = [f"{name}={value}" for name, value in given.items() if value and value not in ("verdict", "points")]
    if needs and card.continues is False:
        raise UserError(
            f"{needs[0]} needs a server that continues messages, but the card {card.name} says that its server can't "
            "(continues = false). Leave it out, or choose another server"
        )
    if given["VERIFY_MODE"] == "p_true" and "logprobs" in card.never:
        raise UserError(f"VERIFY_MODE=p_true needs logprobs, which the card {card.name} never asks for (never)")
    shots, context = framing.of(config, card).tokens, server.context
    ends, room = server.dialect.ends_at_context, (context or 0) - ROOM - shots
    if context and (shots or not ends) and room < (1 if ends else config.MAX_TOKENS):
        of_shots = f", of which SHOTS, SYSTEM and PROMPT take about {shots:,}" if shots else ""
        fewer = f", or set MAX_TOKENS={min(room, context // 2)}" if room > 0 else ", or use fewer shots" * bool(shots)
        raise UserError(
            f"MAX_TOKENS={config.MAX_TOKENS} does not fit the server's context of {context} tokens{of_shots}. Serve a "
            f"longer context{fewer}"
        )
