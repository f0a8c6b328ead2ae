"""Samples that are stopped while they are written, and the bar that decides it."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from core.base.errors import UserError
from core.client.logprobs import ending
from core.engines.protocol import Server
from core.types import CONFIDENCE, UNSURE, Completion, Sampling
from harness.scaffolds.best_of import BEST_OF, best_of
from harness.scaffolds.online import STOPPED
from tests.fakes.http import Proxy
from tests.fakes.model import Model, Names, constants_with, run
from tests.fakes.moody import events
from tests.helpers.asking import SHORT, ask, read_bytes

ONLINE: dict[str, Any] = {"SCORE": CONFIDENCE, "CHOOSE": "weighted_vote", "GROUP": 2}


def chunks(confidences: Sequence[float]) -> bytes:
    """Return a stream with a token of each confidence, which counts its tokens at the end."""
    sent: list[dict[str, Any]] = []
    for value in confidences:
        alternatives = [{"token": "a", "logprob": -value}]
        token = {"token": "a", "logprob": -1.0, "top_logprobs": alternatives}
        sent.append({"delta": {"content": "a"}, "logprobs": {"content": [token]}})
    sent.append({"delta": {}, "finish_reason": "stop"})
    parts: list[dict[str, Any]] = [{"choices": [choice]} for choice in sent]
    usage = {"prompt_tokens": 9, "completion_tokens": len(confidences)}
    return events([*parts, {"choices": [], "usage": usage}])


def first_unsure(confidences: Sequence[float], least: float, group: int) -> int | None:
    """Return the number of tokens after which a group is below `least` for the first time."""
    for end in range(group, len(confidences) + 1):
        if sum(confidences[end - group : end]) / group < least:
            return end
    return None


def test_a_stream_ends_after_the_first_unsure_group() -> None:
    rng = random.Random(4)
    for _ in range(50):
        confidences = [round(rng.uniform(0, 10), 4) for _ in range(12)]
        least = rng.uniform(2, 6)
        sampling = Sampling(confidences=True, least_confidence=least, group=3)
        reply = read_bytes(chunks(confidences), ends=ending(sampling))
        end = first_unsure(confidences, least, 3)
        if end is None:
            assert (reply.finish_reason, reply.prompt_tokens) == ("stop", 9)
            assert reply.confidences == confidences
        else:
            assert (reply.finish_reason, reply.completion_tokens) == (UNSURE, end)
            assert reply.confidences == confidences[:end] and reply.content == "a" * end


def test_no_bar_ends_nothing() -> None:
    assert ending(Sampling(confidences=True)) is None
    assert ending(Sampling(confidences=True, least_confidence=1.0)) is None


def test_a_stopped_reply_is_the_beginning_of_the_whole_one_and_is_journaled(
    engine: Server, through: Server, proxy: Proxy, tmp_path: Path
) -> None:
    sure = replace(SHORT, confidences=True)
    (whole,) = ask(engine, tmp_path, [(5, sure)])
    bar = float(np.median(whole.confidences))
    stopping = replace(sure, least_confidence=bar, group=4, elicit="math", answer_tokens=9)
    server = replace(through, card=replace(engine.card, streams=True))
    (stopped,) = ask(server, tmp_path, [(5, stopping)])
    end = len(stopped.confidences)
    assert first_unsure(stopped.confidences, bar, 4) == end < len(whole.confidences)
    assert stopped.finish_reason == UNSURE and stopped.text == ""
    assert stopped.completion_tokens == end
    assert stopped.confidences == pytest.approx(whole.confidences[:end], abs=2e-3)
    asked = len(proxy.bodies)
    assert ask(server, tmp_path, [(5, stopping)]) == [stopped]
    assert len(proxy.bodies) == asked, "it is not continued, and comes from the journal"


def model_of(confidences: Sequence[Sequence[float]], answers: Sequence[str]) -> Model:
    """Return a model that streams samples with these confidences."""

    class Streaming(Model):
        async def __call__(self, *positional: Any, **changes: Any) -> Completion:
            reply = await super().__call__(*positional, **changes)
            own = reply.confidences
            group = changes.get("group", 1)
            end = first_unsure(own, changes.get("least_confidence", 0.0), group)
            if end is None:
                return reply
            return replace(
                reply,
                thinking=reply.answer,
                answer="",
                finish_reason=UNSURE,
                prompt_tokens=0,
                confidences=own[:end],
            )

    def reply(names: Names, prompt: str) -> Completion:
        i = int(names[1])
        return Completion(
            "", 0, answer=answers[i], prompt_tokens=7, confidences=list(confidences[i])
        )

    return Streaming(reply)


def test_warm_up_samples_set_the_bar_and_hopeless_ones_are_stopped() -> None:
    """The bar is the 90th percentile of the lowest groups 4, 6 and 8, as in DeepConf-low."""
    confidences = [[4, 4, 9], [6, 6, 9], [8, 8, 9], [9, 7, 7, 9], [9, 9], [9]]
    answers = [f"\\boxed{{{number}}}" for number in (1, 1, 2, 1, 3, 3)]
    model = model_of(confidences, answers)
    populations = run(best_of, model, N=6, WARM_UP=3, DROP=0.9, **ONLINE)
    solutions, _, (winner,) = populations
    changes = [changes for *_, changes in model.asked]
    warm = {"confidences": True}
    assert changes == [warm] * 3 + [warm | {"least_confidence": 7.6, "group": 2}] * 3
    assert [m.completion.finish_reason == UNSURE for m in solutions] == [0, 0, 0, 1, 0, 0]
    assert [m.notes for m in solutions].count([STOPPED]) == 1
    stopped = solutions[3].completion
    assert stopped.confidences == [9, 7, 7] and stopped.prompt_tokens == 7
    assert winner.parents[0] in (4, 5), "the warm-up samples 0 and 1 are below the bar"


def test_a_server_that_does_not_stream_gives_the_same_choice() -> None:
    confidences = [[4, 4, 9], [8, 8, 9], [9, 1, 1, 9], [9, 9]]
    answers = [f"\\boxed{{{number}}}" for number in (1, 2, 1, 3)]

    def reply(names: Names, prompt: str) -> Completion:
        i = int(names[1])
        return Completion("", 0, answer=answers[i], confidences=list(confidences[i]))

    constants = {"N": 4, "WARM_UP": 2, "DROP": 0.5, **ONLINE}
    whole = run(best_of, Model(reply), **constants)
    streamed = run(best_of, model_of(confidences, answers), **constants)
    assert whole[-1][0].parents == streamed[-1][0].parents == [3]


def test_without_log_probabilities_nothing_is_stopped() -> None:
    model = Model(lambda names, prompt: "\\boxed{1}")
    populations = run(best_of, model, N=4, WARM_UP=2, **ONLINE)
    assert model.asked[-1][2]["least_confidence"] == 0.0
    assert len(populations[-1]) == 1


def test_constants_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UserError, match="SCORE=confidence"):
        BEST_OF.constants(WARM_UP=2)
    with pytest.raises(UserError, match="larger than N=4"):
        BEST_OF.constants(WARM_UP=5, N=4, SCORE=CONFIDENCE)
    assert constants_with({}).WARM_UP == 0
