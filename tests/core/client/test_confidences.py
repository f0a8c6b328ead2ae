"""The confidences of a completion's tokens: their definition, and how they are requested, read and
stored."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.client.logprobs import confidence
from core.engines.protocol import Server
from core.types import TOP_LOGPROBS, Sampling
from tests.fakes.http import Proxy
from tests.fakes.moody import chat, events
from tests.helpers.asking import SHORT, ask, post, read_bytes

SURE = replace(SHORT, confidences=True)


def by_definition(token: dict[str, Any]) -> float:
    """Compute DeepConf's confidence of a token: minus the mean of its alternatives'
    log-probabilities."""
    logprobs: list[float] = [alternative["logprob"] for alternative in token["top_logprobs"]]
    return -sum(logprobs) / len(logprobs)


def listed(*logprobs: Any) -> dict[str, Any]:
    alternatives = [{"token": str(i), "logprob": value} for i, value in enumerate(logprobs)]
    return {"token": "0", "logprob": -1.0, "top_logprobs": alternatives}


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        (listed(-0.5, -1.5), 1.0),
        (listed(-1 / 3, -1 / 3), 0.3333),
        (listed(*[-2.0] * TOP_LOGPROBS, *[-9.0] * 5), 2.0),
        (listed(-1.0, -9999.0, -3.4e38, float("-inf"), float("nan")), 1.0),
        (listed(0.0), 0.0),
        (listed(1e-9), 0.0),
        (listed(-9999.0), None),
        (listed(), None),
        (listed("x"), None),
        (listed(None), None),
        (listed(-(10**400)), None),
        ({"token": "a", "logprob": -1.0}, None),
        ({"top_logprobs": {"a": -1.0}}, None),
    ],
)
def test_a_tokens_confidence_is_minus_the_mean_of_its_alternatives(
    token: dict[str, Any], expected: float | None
) -> None:
    assert confidence(token) == expected
    assert str(confidence(token)) != "-0.0"


def test_a_stream_has_the_same_confidences_as_a_whole_reply() -> None:
    tokens = [listed(-0.1, -3.0), {"token": "b", "logprob": -1.0}, listed(-1.0, -2.0)]
    whole = chat(
        {"role": "assistant", "content": "abc"},
        logprobs={"content": tokens},
        finish_reason="stop",
    )
    expected = [round(by_definition(tokens[0]), 4), round(by_definition(tokens[2]), 4)]
    assert read_bytes(json.dumps(whole).encode()).confidences == expected
    choices: list[dict[str, Any]] = [
        {"delta": {"content": "a"}, "logprobs": {"content": [token]}} for token in tokens
    ]
    choices.append({"delta": {}, "finish_reason": "stop"})
    reply = read_bytes(events([{"choices": [choice]} for choice in choices]))
    assert reply.confidences == expected


def test_the_journal_has_the_confidences_of_all_tokens(
    engine: Server, proxy: Proxy, through: Server, tmp_path: Path
) -> None:
    plain, sure = ask(through, tmp_path, [(5, SHORT), (5, SURE)], limit=1)
    assert plain.confidences == [] and plain.key != sure.key
    assert (plain.thinking, plain.answer) == (sure.thinking, sure.answer)
    first, _, last = proxy.bodies  # the second is the trial
    assert "logprobs" not in first
    assert last["logprobs"] is True and last["top_logprobs"] == TOP_LOGPROBS
    (choice,) = post(engine, "/v1/chat/completions", last | {"stream": False})["choices"]
    tokens = choice["logprobs"]["content"]
    expected = [by_definition(token) for token in tokens]
    assert sure.confidences == pytest.approx(expected, abs=2e-3)
    assert sure.completion_tokens == len(sure.confidences)
    again = ask(through, tmp_path, [(5, SHORT), (5, SURE)])
    assert again == [plain, sure] and len(proxy.bodies) == 3
    lines = (tmp_path / "test.jsonl").read_text().splitlines()
    stored = [json.loads(line)["completion"] for line in lines]
    assert "confidences" not in stored[0] and stored[1]["confidences"] == sure.confidences


def test_all_pieces_of_a_completion_count(engine: Server, tmp_path: Path) -> None:
    cut = Sampling(max_tokens=12, answer_tokens=16)
    cut_and_sure = replace(cut, confidences=True)
    waiting = replace(SURE, waits=1)
    forced, unforced, waited = ask(
        engine,
        tmp_path,
        [(5, cut_and_sure), (5, replace(cut_and_sure, answer_tokens=0)), (5, waiting)],
        limit=1,
    )
    assert forced.forced is not None
    assert forced.confidences[:12] == pytest.approx(unforced.confidences, abs=2e-3)
    assert len(forced.confidences) > 12
    assert waited.before_waits
    assert len(waited.confidences) > waited.tokens_before_waits[0]


def test_confidences_alone_do_not_make_a_request_a_side_call() -> None:
    solving = Sampling(elicit="math")
    assert solving.with_changes(confidences=True) == replace(solving, confidences=True)
    assert solving.with_changes(confidences=True, max_tokens=5).elicit == ""
