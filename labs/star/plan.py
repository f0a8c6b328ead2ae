"""Plan the work of STaR for plan.sh: the requests of every round, at most, and the tokens that it trains on."""

from core.engines.cards import Card
from core.plan.lengths import PROMPT_TOKENS
from core.plan.work import Requests, Work
from core.problems import sets
from labs.star.constants import StarConstants
from labs.training import served

AUTO = "auto"
HINT = 50  # tokens, roughly, that the form and the shown answer add to a prompt


def work(config: StarConstants, card: Card) -> Work:
    """Return the work of one run if no round ends early. Raises UserError if it can't be run."""
    served.check_is_here()
    held_out, name = _held_out(config, card)
    each = min(config.TRAIN_PROBLEMS, config.LIMIT or config.TRAIN_PROBLEMS)
    rounds = 1 if config.REPEAT else config.ROUNDS
    seeds = len(config.seeds) if config.TEMPERATURE else 0
    evaluated = (config.ROUNDS + 1) * held_out
    prompt = float(PROMPT_TOKENS + HINT)
    requests = (
        Requests("samples to collect", rounds * each * config.TRIES, prompt, config.MAX_TOKENS),
        Requests("with a hint", rounds * each * config.RATIONALISE, prompt, config.MAX_TOKENS),
        Requests("evaluated at temperature 0", evaluated, prompt, config.MAX_TOKENS),
        Requests("evaluated with SEEDS", evaluated * seeds * config.VOTES, prompt, config.MAX_TOKENS),
    )
    rounds_text = "1 round" if config.ROUNDS == 1 else f"{config.ROUNDS} rounds"
    about = f"{rounds_text} of {each:,} problems, evaluated on {held_out:,} of {name}"
    # A round trains on one trace a problem of all rounds so far, EPOCHS times.
    rows = sum(each * (1 if config.REPEAT else number) for number in range(1, config.ROUNDS + 1))
    starts = ("servers", f"{config.ROUNDS + 1} starts of a server, whose time is not planned")
    return Work(about, requests, rows * config.EPOCHS * (prompt + config.MAX_TOKENS), (starts,))


def _held_out(config: StarConstants, card: Card) -> tuple[int, str]:
    """Return the number of problems that each round is evaluated on, and their set's name, without fetching it."""
    name = config.EVAL if config.EVAL != AUTO else card.star_eval_set if config.DATA == AUTO else ""
    if not name:
        return min(config.HELD_OUT, config.LIMIT or config.HELD_OUT), "DATA"
    known = sets.PUBLISHED.get(name)
    have = known.rows if known else len(sets.load(name).problems)
    return min(have, config.LIMIT or have), name
