"""Plan and run learning to aggregate, with its controls."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from core.engines.cards import Card
from harness.plan.lengths import ANSWER_TOKENS
from harness.plan.work import Requests, Work
from labs.star.aggregation.constants import LearnConstants, LearnControlConstants
from labs.star.aggregation.loop import LearnLoop
from labs.star.controls import Controls
from labs.star.experiment import work as work_of_star


def work(config: LearnConstants, card: Card) -> Work:
    """Estimate a run that uses all its ROUNDS. Raises UserError as STaR's estimate does."""
    star = work_of_star(config, card)
    collected, _, greedy, _ = star.requests
    prompt = greedy.prompt
    shown = config.K * min(ANSWER_TOKENS, config.MAX_TOKENS)
    cap = config.MAX_TOKENS
    problems = collected.count  # of all rounds
    evaluated = greedy.count * len(config.seeds)
    of_rsa = config.N * config.T  # aggregations of a problem
    requests = (
        Requests("samples to collect", problems * config.N, collected.prompt, cap),
        Requests("aggregations to collect", problems * of_rsa, collected.prompt + shown, cap),
        replace(greedy, kind="evaluation at temperature 0"),
        Requests("evaluation: RSA's samples", evaluated * config.N, prompt, cap),
        Requests("evaluation: RSA's aggregations", evaluated * of_rsa, prompt + shown, cap),
        Requests("evaluation: more samples of the vote", evaluated * of_rsa, prompt, cap),
    )
    # At most, each problem gives a plain solution and an aggregation for 0 to K right parents.
    trained = star.trained * (config.K + 2) * (prompt + shown + cap) / (prompt + cap)
    return Work(star.title, requests, trained, star.rows)


def learning(arms: Mapping[str, Mapping[str, Any]]) -> Controls:
    """Return the experiment with these `arms`."""
    return Controls(arms, LearnControlConstants, LearnConstants, LearnLoop, work)
