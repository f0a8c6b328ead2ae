"""The summed log probability of a completion: of all its tokens, or none."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import prompts
from core.engines.protocol import Server
from core.types import Sampling
from tests.fakes.http import Proxy
from tests.fakes.moody import chat, events
from tests.helpers.asking import MESSAGES, SHORT, ask, post, read_bytes

SUMMED = replace(SHORT, sum_logprobs=True)
LINE, CUT = replace(SUMMED, stop="\n"), replace(SUMMED, max_tokens=7)
OPENED = replace(LINE, opening="9*15")


def teacher_forced(server: Server, prompt: str, tokens: Sequence[int]) -> float:
    """Return the sum of the log probability of each token after the prompt and the tokens before
    it."""
    begin = post(
        server, "/tokenize", {"content": prompt, "add_special": True, "parse_special": True}
    )["tokens"]
    total = 0.0
    for place, token in enumerate(tokens):
        body = {
            "prompt": [*begin, *tokens[:place]],
            "max_tokens": 1,
            "logprobs": 1000,
            "temperature": 1,
        }
        (choice,) = post(server, "/v1/completions", body)["choices"]
        total += next(
            t["logprob"]
            for t in choice["logprobs"]["content"][0]["top_logprobs"]
            if t["id"] == token
        )
    return total


@pytest.mark.parametrize(
    ("sampling", "temperature"), [(SUMMED, 3.0), (CUT, 0.7), (CUT, 3.0), (LINE, 0.7), (LINE, 3.0)]
)
def test_the_sum_is_the_teacher_forced_log_probability(
    engine: Server,
    proxy: Proxy,
    through: Server,
    tmp_path: Path,
    sampling: Sampling,
    temperature: float,
) -> None:
    sampling = replace(sampling, temperature=temperature)
    (got,) = ask(through, tmp_path, [(5, sampling)])
    (again,) = post(engine, "/v1/chat/completions", proxy.bodies[0])["choices"]
    tokens = [token["id"] for token in again["logprobs"]["content"]]
    prompt = post(engine, "/apply-template", {"messages": MESSAGES})["prompt"]
    assert got.logprob is not None and got.logprob < 0 and len(tokens) > 3
    assert got.logprob == pytest.approx(teacher_forced(engine, prompt, tokens), abs=2e-3)


def test_it_is_given_where_it_is_asked_for_alone_and_kept(
    through: Server, proxy: Proxy, tmp_path: Path
) -> None:
    plain, summed = ask(through, tmp_path, [(5, SHORT), (5, SUMMED)], limit=1)
    assert plain.logprob is None and summed.logprob is not None
    assert (plain.thinking, plain.answer) == (summed.thinking, summed.answer)
    assert "logprobs" not in proxy.bodies[0] and "stop" not in proxy.bodies[0]
    again = ask(through, tmp_path, [(5, SHORT), (5, SUMMED)])
    assert again == [plain, summed] and all(one.reused for one in again) and len(proxy.bodies) == 2


def test_a_streamed_reply_is_the_same(
    engine: Server, proxy: Proxy, through: Server, tmp_path: Path
) -> None:
    """Except for the sum of thinking that llama.cpp separates: its end is in no event of the
    stream."""
    verdict = Sampling(max_tokens=1, opening=prompts.VERDICT, top_logprobs=10)
    asked = [(5, SUMMED), (6, LINE), (7, OPENED), (5, CUT), (5, verdict), (6, SHORT)]
    asked.append((5, Sampling(max_tokens=12, answer_tokens=16)))
    whole = ask(engine, tmp_path / "whole", asked)
    streamed = ask(
        replace(through, card=replace(engine.card, streams=True)), tmp_path / "streamed", asked
    )
    assert all(
        body["stream"] and body["stream_options"] == {"include_usage": True}
        for body in proxy.bodies
    )
    assert whole[0].logprob is not None and streamed[0].logprob is None
    for one, other in zip(whole, streamed, strict=True):
        assert one is whole[0] or other.logprob == (
            one.logprob and pytest.approx(one.logprob, abs=1e-3)
        )
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)
        alike = [
            replace(c, seconds=0.0, cached_tokens=0, logprobs={}, logprob=None)
            for c in (one, other)
        ]
        assert alike[0] == alike[1]


def test_a_stop_ends_an_answer_before_its_line_does(engine: Server, tmp_path: Path) -> None:
    whole, line = ask(engine, tmp_path, [(5, replace(OPENED, stop="")), (5, OPENED)])
    assert "\n" in whole.text and line.text == whole.text.partition("\n")[0]
    assert line.finish_reason == "stop" and whole.logprob < line.logprob < 0  # type: ignore[operator]


def test_a_continued_completion_has_no_sum(engine: Server, tmp_path: Path) -> None:
    cut = Sampling(max_tokens=12, answer_tokens=16, sum_logprobs=True)
    forced, waited = ask(engine, tmp_path, [(5, cut), (5, replace(SUMMED, waits=1))])
    assert forced.forced is not None and forced.logprob is None
    assert waited.before_waits and waited.logprob is None


def listed(*tokens: tuple[str, float]) -> dict[str, Any]:
    return {
        "content": [
            {"token": token, "logprob": logprob, "bytes": None} for token, logprob in tokens
        ]
    }


END = ("", -0.5)
SUMS: dict[str, tuple[Any, int, str, float | None]] = {
    "all": (listed(("int", -1.0), ("ro", -2.0), END), 3, "stop", -3.5),
    "not counted": (listed(("int", -1.0), ("ro", -2.0)), 0, "stop", -3.0),
    "no end": (listed(("int", -1.0), ("ro", -2.0)), 3, "stop", -3.0),
    "cut off, one missing": (listed(("int", -1.0), ("ro", -2.0)), 3, "length", None),
    "an end, and one missing": (listed(("int", -1.0), ("ro", -2.0), END), 4, "stop", None),
    "two missing": (listed(("int", -1.0), ("ro", -2.0)), 4, "stop", None),
    "the last is not whole": (listed(("int", -1.0), ("r", -2.0)), 3, "stop", None),
    "old form": ({"tokens": ["a"], "token_logprobs": [-1.0]}, 3, "stop", None),
    "no number": (listed(("int", -1.0), ("ro", None)), 2, "stop", None),  # type: ignore[arg-type]
    "no text": ({"content": [{"token": 5, "logprob": -1.0}]}, 1, "stop", None),
    "no list": ({"content": {"0": 1}}, 1, "stop", None),
    "huge": ({"content": [{"token": "intro", "logprob": -(10**400)}]}, 1, "stop", None),
}


@pytest.mark.parametrize("kind", SUMS)
def test_a_sum_is_that_of_all_tokens_or_none(kind: str) -> None:
    """The same holds for a stream with a token in each event."""
    given, counted, finish, expected = SUMS[kind]
    usage = {"prompt_tokens": 5, "completion_tokens": counted}
    found = chat(
        {"role": "assistant", "content": "intro"}, logprobs=given, finish_reason=finish
    ) | {"usage": usage}
    assert read_bytes(json.dumps(found).encode()).logprob == expected
    content = given.get("content") if isinstance(given, dict) else None
    parts = [{"content": [token]} for token in content] if isinstance(content, list) else [given]
    choices: list[dict[str, Any]] = [{"delta": {}, "logprobs": part} for part in parts]
    choices.append({"delta": {"content": "intro"}, "finish_reason": finish})
    chunks: list[dict[str, Any]] = [{"choices": [choice]} for choice in choices]
    chunks.append({"choices": [], "usage": usage})
    assert read_bytes(events(chunks)).logprob == expected


def test_alternatives_are_those_of_the_first_listed_token() -> None:
    first, second = (
        {"token": name, "logprob": -1.0, "top_logprobs": [{"token": name, "logprob": -1.0}]}
        for name in "ab"
    )
    choices: list[dict[str, Any]] = [
        {"delta": {"role": "assistant"}, "logprobs": {"content": []}},
        {"delta": {"content": "a"}, "logprobs": {"content": [first]}},
        {"delta": {"content": "b"}, "logprobs": {"content": [second]}, "finish_reason": "stop"},
    ]
    reply = read_bytes(events([{"choices": [choice]} for choice in choices]))
    assert reply.logprobs == {"a": -1.0} and reply.logprob == -2.0
    assert (
        read_bytes(json.dumps(chat(" True", logprobs=listed((" True", -0.1)))).encode()).logprobs
        == {}
    )
