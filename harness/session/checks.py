"""Check before the first request that the constants of a run fit its problems, prices and servers.

All checks raise UserError."""

from core.base.errors import UserError
from core.constants import Asking, Paid, Shuffled
from core.engines import environment, wanted
from core.engines.cards import Card
from core.engines.protocol import Server
from core.eval import by_answer
from core.grading.ungraded import ungraded
from core.types import (
    ANSWERS,
    CONFIDENCE,
    EITHER,
    P_TRUE,
    PROOFS,
    REWARD,
    SCORER,
    TOP_LOGPROBS,
    Grader,
)
from harness import framing
from harness.framing import Framing
from harness.problems.sets import ProblemSet

ROOM = 1024  # tokens of the context that are reserved for the prompt
# values of constants for which a server need not continue messages
NOT_CONTINUED = (0, "verdict", "points", CONFIDENCE, REWARD)


def taken_by(grader: Grader | None) -> str:
    """Return the kind of problems that a grader accepts: ANSWERS, PROOFS, or EITHER for another
    grader or None."""
    if grader is by_answer:
        return ANSWERS
    return PROOFS if grader is ungraded else EITHER


def check_kind(name: str, chosen: ProblemSet, wanted: str, instead: str = "") -> None:
    """Raise UserError if the experiment `name` can't use the `chosen` problems. Its grader accepts
    the kind `wanted`. Its scaffold accepts proofs if `instead` is "". Otherwise `instead` names a
    scaffold that does."""
    if wanted == ANSWERS and chosen.asks_for_proofs:
        raise _wrong_kind(name, chosen, wanted, "proofs", "18_proofs")
    if wanted == PROOFS and not chosen.asks_for_proofs:
        raise _wrong_kind(name, chosen, wanted, "answers", "19_answers")
    if chosen.asks_for_proofs and instead:
        raise UserError(
            f"this scaffold counts equal answers, but {chosen.name} asks for proofs, which have no "
            f"answers. Use the scaffold {instead} (SCAFFOLD={instead})"
        )


def check_options(chosen: ProblemSet, config: Shuffled) -> None:
    """Raise UserError if options are to be shuffled, but no problem has any."""
    if config.SHUFFLE and not any("options" in problem.details for problem in chosen.problems):
        raise UserError(f"SHUFFLE=1 needs options, but {chosen.name} lacks them. Set SHUFFLE=0")


def _wrong_kind(
    name: str, chosen: ProblemSet, wanted: str, kind: str, experiment: str
) -> UserError:
    return UserError(
        f"{name} takes {wanted}, but {chosen.name} has {kind}. Run bash scripts/run.sh "
        f"{experiment} PROBLEMS=…"
    )


def check_prices(card: Card, model: str, config: Paid) -> None:
    """Raise UserError if MAX_DOLLARS is set but the price of the `model` is unknown."""
    if not config.MAX_DOLLARS or card.price:
        return
    lack = f"{model} has no card"
    if card.name:
        lack = f"the card {card.name} of {model} has no table [price]"
    raise UserError(
        f"MAX_DOLLARS={config.MAX_DOLLARS:g} needs the price of tokens, but {lack}. Add the price "
        "to a card of this model (see data/models/template.toml), or set MAX_DOLLARS=0"
    )


def check_context(server: Server, config: Asking, framed: Framing | None = None) -> None:
    """Raise UserError if the constants `config` do not fit the server, its card or its context.
    `framed` is the framing of the run, if it has been read already."""
    card = server.card
    card.sampled(config)
    if isinstance(config, Paid):
        check_prices(card, server.model, config)
    # the scorer verifies on its own server (check_scorer)
    names = ("WAITS", "ELICIT") if asks_scorer(config) else ("WAITS", "ELICIT", "SCORE")
    _check_continues(card, config, names)
    if framed is None:
        framed = framing.from_config(config, card)
    _check_room(server, config, framed.tokens)


def asks_scorer(config: Asking) -> bool:
    """Return whether the constants select the second model, the scorer."""
    return getattr(config, "VERIFIER", "") == SCORER or asks_for_rewards(config)


def asks_for_rewards(config: Asking) -> bool:
    """Return whether the scorer is a reward model."""
    return getattr(config, "SCORE", "") == REWARD


def logprobs_of(config: Asking, is_scorer: bool) -> int:
    """Return the number of alternatives that P(True) requests to the run's model ask for, or to the
    scorer, or 0 without such requests."""
    if getattr(config, "SCORE", "") != P_TRUE or asks_scorer(config) != is_scorer:
        return 0
    return TOP_LOGPROBS


def check_scorer_is_set(config: Asking) -> None:
    """Raise UserError if no server is named for the scorer. A run starts chat models, but no reward
    model with an endpoint of its own."""
    remote = environment.second(wanted.SCORER)
    is_chat_model = bool(remote.card.step_verdicts)
    if asks_for_rewards(config) and not (remote.url or is_chat_model):
        raise UserError(
            "SCORE=reward needs the address of a reward model. Serve one (vllm serve MODEL "
            "--runner pooling, or bash scripts/serve_value.sh FILE), and set SCORER_URL to its "
            "address"
        )
    if not environment.has_second(wanted.SCORER):
        raise UserError(
            "VERIFIER=scorer and SCORE=reward need a second model, but SCORER_URL and SCORER_MODEL "
            "are not set. Set SCORER_URL to its server's address or SCORER_MODEL to a model, or "
            "set VERIFIER=model and another SCORE"
        )


def check_scorer(scorer: Server | None, config: Asking) -> None:
    """Raise UserError if the `scorer` can't give the scores that the constants `config` select."""
    if scorer is None or not asks_scorer(config):
        return
    if asks_for_rewards(config):
        _check_reward_model(scorer)
        return
    scorer.card.sampled(config)
    _check_continues(scorer.card, config, ("SCORE",))


def _check_reward_model(scorer: Server) -> None:
    card = scorer.card
    if card.step_mark and card.step_verdicts:
        raise UserError(
            f"the card {card.name} has step_mark and step_verdicts, but each belongs to another "
            "kind of model. Remove one of them"
        )
    if card.step_verdicts:
        if "logprobs" in card.never:
            raise UserError(
                f"step_verdicts needs logprobs, which the card {card.name} never asks for (never)"
            )
        return
    if scorer.dialect.rewards is None:
        raise UserError(
            f"SCORE=reward needs a reward model on vLLM or SGLang, but the scorer at "
            f"{scorer.base_url} has another engine ({scorer.kind}). Serve the reward model with "
            "vLLM, and set SCORER_URL to its address"
        )
    if card.step_mark and scorer.dialect.rewards.takes_tokens:
        raise UserError(
            f"the card {card.name} has step_mark, but {scorer.kind} gives one score for a whole "
            "solution. Serve the process reward model with vLLM"
        )


def _check_continues(card: Card, config: Asking, names: tuple[str, ...]) -> None:
    """Raise UserError if a constant in `names` needs continued messages or logprobs, which the
    card's server does not have."""
    for name in names:
        value = getattr(config, name, 0)
        if value not in NOT_CONTINUED and card.continues is False:
            raise UserError(
                f"{name}={value} needs a server that continues messages, but the card {card.name} "
                "says that its server can't (continues = false). Leave it out, or choose another "
                "server"
            )
        if value in (P_TRUE, CONFIDENCE) and "logprobs" in card.never:
            raise UserError(
                f"{name}={value} needs logprobs, which the card {card.name} never asks for (never)"
            )


def _check_room(server: Server, config: Asking, shots: int) -> None:
    """Raise UserError if the server's context has no room for `shots` tokens of framing and a
    completion."""
    context = server.context
    if not context:
        return
    room = context - ROOM - shots
    if server.dialect.ends_at_context:
        # this server shortens completions, so only shots can leave no room
        if not shots or room >= 1:
            return
    elif room >= config.MAX_TOKENS:
        return
    of_shots = f", of which SHOTS, SYSTEM and PROMPT take about {shots:,}" if shots else ""
    fewer = ""
    if room > 0:
        fewer = f", or set MAX_TOKENS={min(room, context // 2)}"
    elif shots:
        fewer = ", or use fewer shots"
    raise UserError(
        f"MAX_TOKENS={config.MAX_TOKENS} does not fit the server's context of {context} "
        f"tokens{of_shots}. Serve a longer context{fewer}"
    )
