"""The generator against the real engine, with faults injected between them."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base.errors import UserError
from core.engines.server import Server, named
from core.generate import generator
from core.generate.generator import Generator, split_thinking
from core.generate.journal import Journal, content_key
from core.generate.reply import Overtime, Stalled
from core.scaffolds import prompts
from core.types import FORCED_ANSWER, Sampling
from tests.fakes.http import HttpFake, Proxy, Request, answer, silence
from tests.fakes.moody import chat
from tests.helpers.asking import MESSAGES, SHORT, SUM, ask

Fault = Callable[[Any], None]
pytestmark = pytest.mark.usefixtures("hurried")


def test_a_completion_has_thinking_and_answer_apart(engine: Server, tmp_path: Path) -> None:
    (made,) = ask(engine, tmp_path, [(5, SHORT)])
    assert made.error is None and made.finish_reason == "stop" and made.forced is None
    assert "9*15" in made.thinking and "\\boxed" not in made.thinking
    assert "\\boxed{" in made.answer and "think>" not in made.answer
    assert made.prompt_tokens > 20 and made.completion_tokens > 20 and made.seconds > 0
    assert made.seed == 5 and made.text == made.answer


def test_equal_seeds_give_equal_completions_whatever_else_is_in_the_batch(engine: Server, tmp_path: Path) -> None:
    (alone,) = ask(engine, tmp_path / "a", [(7, SHORT)])
    crowd = ask(engine, tmp_path / "b", [(seed, SHORT) for seed in range(7, 31)], limit=16)
    assert (crowd[0].thinking, crowd[0].answer) == (alone.thinking, alone.answer)
    assert len({c.thinking + c.answer for c in crowd}) > 2


def test_what_is_in_the_journal_is_not_asked_again(engine: Server, proxy: Proxy, tmp_path: Path) -> None:
    through = replace(engine, base_url=proxy.url)
    first = ask(through, tmp_path, [(1, SHORT), (2, SHORT)])
    again = ask(through, tmp_path, [(1, SHORT), (2, SHORT), (3, SHORT)])
    assert again[:2] == first and len(proxy.bodies) == 3
    elsewhere = ask(engine, tmp_path, [(1, SHORT)])  # the server's address is no part of the key
    assert elsewhere == first[:1]
    ask(through, tmp_path, [(1, replace(SHORT, temperature=0.6))])
    assert len(proxy.bodies) == 4


# What keys leave out. Who changes a default changes the meaning of keys: raise KEY_VERSION.
LEFT_OUT = {
    "temperature": 0.7,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "max_tokens": 16384,
    "answer_tokens": 0,
    "answer_opening": "Time is up. The final answer is \\boxed{",
    "opening": "",
    "top_logprobs": 0,
    "waits": 0,
    "wait_word": "Wait",
    "stop": "",
    "sum_logprobs": False,
}


def test_keys_hold_the_sampling_that_differs_from_the_defaults(engine: Server, tmp_path: Path) -> None:
    assert generator.DEFAULTS == LEFT_OUT and generator.KEY_VERSION == 3
    fields = [engine.key_fields] if engine.key_fields else []
    with Journal(tmp_path / "a.jsonl") as journal:
        made = Generator(engine, journal, 1, 60)
        expected = content_key([3, engine.identity, MESSAGES, {"max_tokens": 300}, 5, *fields])
        assert made.key(MESSAGES, 5, SHORT) == expected
        assert made.key(MESSAGES, 5, Sampling()) == content_key([3, engine.identity, MESSAGES, {}, 5, *fields])


def test_all_sampling_settings_are_sent_even_when_off(engine: Server, proxy: Proxy, tmp_path: Path) -> None:
    ask(replace(engine, base_url=proxy.url), tmp_path, [(11, SHORT)])
    sent = proxy.bodies[0]
    assert {name: sent[name] for name in ("seed", "temperature", "top_p", "top_k", "min_p", "max_tokens")} == {
        "seed": 11,
        "temperature": 0.7,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "max_tokens": 300,
    }


def test_a_streamed_reply_is_the_same_completion(engine: Server, proxy: Proxy, tmp_path: Path) -> None:
    opened = Sampling(max_tokens=1, opening=prompts.VERDICT, top_logprobs=10)
    asked = [(5, SHORT), (6, SHORT), (5, Sampling(max_tokens=12, answer_tokens=16)), (5, opened)]
    whole = ask(engine, tmp_path / "whole", asked)
    card = replace(engine.card, streams=True)
    streamed = ask(replace(engine, base_url=proxy.url, card=card), tmp_path / "streamed", asked)
    assert all(body["stream"] and body["stream_options"] == {"include_usage": True} for body in proxy.bodies)
    for one, other in zip(whole, streamed, strict=True):
        assert one.logprobs == pytest.approx(other.logprobs, abs=1e-3)
        alike = [replace(c, seconds=0.0, cached_tokens=0, logprobs={}) for c in (one, other)]
        assert alike[0] == alike[1]


def test_no_more_requests_in_flight_than_the_limit(engine: Server, proxy: Proxy, tmp_path: Path) -> None:
    ask(replace(engine, base_url=proxy.url), tmp_path, [(seed, SHORT) for seed in range(12)], limit=3)
    assert proxy.most_in_flight == 3


def test_replies_with_fields_missing_or_broken_are_read_as_far_as_they_go(
    engine: Server, proxy: Proxy, tmp_path: Path
) -> None:
    half = chat({"role": "assistant", "content": "half \ud800 a pair", "reasoning": "thoughts"})
    bare = chat({"role": "assistant", "content": None}) | {"usage": {"total_tokens": 5}}
    proxy.script = [answer(200, half), answer(200, bare)]
    through = replace(engine, base_url=proxy.url)
    first, second = ask(through, tmp_path, [(1, SHORT), (2, SHORT)], limit=1)
    assert first.answer == "half \ufffd a pair" and first.thinking == "thoughts" and first.error is None
    assert (second.text, second.prompt_tokens, second.completion_tokens) == ("", 0, 0)
    assert ask(through, tmp_path, [(1, SHORT), (2, SHORT)]) == [first, second]


def test_logprobs_that_lack_the_alternatives_are_none_at_all(engine: Server, proxy: Proxy, tmp_path: Path) -> None:
    shown = {"content": [{"token": " True", "logprob": -0.1, "bytes": None}]}
    proxy.script = [answer(200, chat({"role": "assistant", "content": " True"}, logprobs=shown))]
    opened = Sampling(max_tokens=1, opening=prompts.VERDICT, top_logprobs=10)
    (made,) = ask(replace(engine, base_url=proxy.url), tmp_path, [(5, opened)])
    assert made.answer == "Verdict: True" and made.logprobs == {}


def test_a_context_overflow_is_recorded_at_once_and_never_asked_again(
    engine: Server, proxy: Proxy, tmp_path: Path
) -> None:
    through = replace(engine, base_url=proxy.url)
    long = prompts.solve(replace(SUM, statement="1 + " * 3000))
    for _ in range(2):
        (made,) = ask(through, tmp_path, [(5, SHORT)], messages=long)
        assert made.error is not None and made.error.startswith("context overflow")
        assert made.finish_reason is None and made.text == ""
    assert len(proxy.bodies) == 1


def test_a_request_without_an_answer_ends_at_its_timeout(engine: Server, proxy: Proxy, tmp_path: Path) -> None:
    proxy.script = [silence(10)] * Overtime.tries
    made, beside = ask(replace(engine, base_url=proxy.url), tmp_path, [(5, SHORT), (6, SHORT)], limit=1, timeout=4)
    assert made.error == "no answer within 4 s" and beside.error is None and not proxy.script


def test_a_silent_request_is_asked_again_with_more_patience(engine: Server, proxy: Proxy, tmp_path: Path) -> None:
    through = replace(engine, base_url=proxy.url)
    proxy.script = [silence(120)]
    began = time.monotonic()
    (made,) = ask(through, tmp_path / "a", [(5, SHORT)], stall=2)
    assert made.error is None and 2 <= time.monotonic() - began < 100
    proxy.script = [silence(20)] * Stalled.tries
    (failed,) = ask(through, tmp_path / "b", [(5, SHORT)], stall=0.5)
    assert failed.error == "silent for 2 s" and not proxy.script


class OneByOne(HttpFake):
    """A server of one slot, a fifth of a second each: the others stand in its queue, without a byte."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._slot = threading.Lock()
        super().__init__()

    def post(self, request: Request, body: bytes) -> None:
        self.bodies.append(body)
        with self._slot:
            time.sleep(0.2)
        choice = {"message": {"role": "assistant", "content": "42"}, "finish_reason": "stop"}
        answer(200, {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 7}})(request)


def test_waiting_in_the_queue_of_a_busy_server_is_no_stall(tmp_path: Path) -> None:
    """Far more requests than slots, asked for with far less patience than all take together: they wait their turn.
    Patience is thirty times what one takes, so that a busy machine does not use it up."""
    server = OneByOne()
    try:
        made = ask(Server("other", server.url, "m", "x"), tmp_path, [(seed, SHORT) for seed in range(50)], 50, stall=6)
    finally:
        server.close()
    assert all(c.error is None for c in made) and len(server.bodies) == 50


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (answer(401, {"error": {"message": "bad key sk-secret"}}), "API_KEY"),
        (answer(404, {"error": {"message": "no such model"}}), "no such model"),
        (answer(400, {"error": {"message": "unknown parameter min_p"}}), r'never = \["min_p"\]'),
        (answer(402, {"error": {"message": "insufficient credits"}}), "insufficient credits"),
    ],
)
def test_a_server_that_refuses_us_altogether_ends_the_run(
    engine: Server, proxy: Proxy, tmp_path: Path, fault: Fault, words: str
) -> None:
    proxy.script = [fault]
    with pytest.raises(UserError, match=words) as raised:
        ask(replace(engine, base_url=proxy.url), tmp_path, [(5, SHORT)])
    assert "sk-secret" not in str(raised.value)
    assert not (tmp_path / "test.jsonl").read_bytes()


def test_budget_forcing_closes_thinking_at_the_cap_and_keeps_both_readings(engine: Server, tmp_path: Path) -> None:
    (made,) = ask(engine, tmp_path, [(5, Sampling(max_tokens=12, answer_tokens=16))])
    assert made.finish_reason == "length" and made.thinking and made.answer == ""
    assert made.forced is not None and made.forced.startswith(FORCED_ANSWER) and made.text == made.forced
    assert 12 < made.completion_tokens <= 28
    (unforced,) = ask(engine, tmp_path, [(5, Sampling(max_tokens=12))])
    assert unforced.forced is None and unforced.text == "" and unforced.thinking == made.thinking


def test_an_opening_closes_thinking_and_reports_the_next_token(engine: Server, tmp_path: Path) -> None:
    opened = Sampling(max_tokens=1, opening=prompts.VERDICT, top_logprobs=10)
    (made,) = ask(
        engine, tmp_path, [(5, opened)], messages=prompts.verify(replace(SUM, statement="Find 1 + 1."), "\\boxed{2}")
    )
    assert made.thinking == "" and made.answer.startswith(prompts.VERDICT)
    assert {token.strip() for token in made.logprobs} >= {"True", "False"}


def closed(server: Server, thinking: str, opening: str) -> dict[str, Any]:
    return server.dialect.closed(server, MESSAGES, thinking, opening)


def test_sglangs_template_closes_thinking_itself_if_there_is_none() -> None:
    empty = closed(Server("sglang", "u", "m", "w", closes=True), "", "Verdict:")
    assert empty.pop("messages")[-1]["content"] == "Verdict:"  # the template closes thinking, in its own tokens
    assert empty == {"continue_final_message": True, "chat_template_kwargs": {"enable_thinking": False}}
    whole = closed(Server("sglang", "u", "m", "w", closes=True), "so far", "The answer")
    assert whole.pop("messages")[-1]["content"] == "so far\n</think>\n\nThe answer"
    assert whole == {"continue_final_message": True}


@pytest.mark.parametrize(
    "thinking", ["\nso far", " so far\n\n", "<think>so far", "so far</think>", "<think>\n<think>\nso far\n</think>\n"]
)
def test_thinking_is_sent_as_templates_leave_it(thinking: str) -> None:
    """vLLM refuses to go on with a message that its template changes, and templates cut at tags and strip."""
    server = Server("vllm", "u", "m", "w")
    sent = closed(server, thinking, "The answer")["messages"][-1]["content"]
    assert sent == "<think>\nso far\n</think>\n\nThe answer"
    inside = closed(server, "so <thi<think>nk> far", "The answer")["messages"][-1]["content"]
    assert inside.count("<think>") == inside.count("</think>") == 1


NEW_TURNS = {  # what servers of an unknown kind were seen to answer, or may, that begin a new turn
    "reasons in the field": {"content": "", "reasoning_content": "7*43=301\n6*58=348"},
    "reasons, then answers": {"content": "So \\boxed{42}.", "reasoning_content": "7*43=301"},
    "reasons in tags": {"content": "<think>\n7*43=301 {"},
    "reasons in tags, then answers": {"content": "<think>7*43</think>\n\n\\boxed{42}"},
    "the template opens the tag": {"content": "7*43=301\n</think>\n\n\\boxed{42}}"},
    "no tags at all": {"content": "First 7*43=301, and \\boxed{3} is not it. The set \\{1, 2\\} and \\} too"},
    "answers anew": {"content": "The answer is \\boxed{42}."},
    "says nothing": {"content": ""},
}
GOES_ON: dict[str, tuple[dict[str, Any], str]] = {
    "only what is new": ({"content": "42}."}, "42}."),
    "all of the answer": ({"content": FORCED_ANSWER + "42}."}, "42}."),
    "and the thinking it was given": ({"content": FORCED_ANSWER + "42}", "reasoning_content": "7*43"}, "42}"),
    "taken for reasoning": ({"content": "", "reasoning_content": "42}."}, "42}."),
    "with a brace inside": ({"content": "\\frac{1}{2}}. Sure"}, "\\frac{1}{2}}. Sure"),
}


def gone_on(kind: str, message: dict[str, Any], opening: str = FORCED_ANSWER) -> str | None:
    return named(kind).continuation(message["content"], message.get("reasoning_content", ""), opening)


@pytest.mark.parametrize("said", NEW_TURNS)
def test_a_new_turn_of_an_unknown_server_is_no_continuation(said: str) -> None:
    assert gone_on("other", NEW_TURNS[said]) is None


@pytest.mark.parametrize("said", GOES_ON)
@pytest.mark.parametrize("kind", ["other", "vllm", "sglang", "llama.cpp"])
def test_what_goes_on_is_read_without_its_opening(kind: str, said: str) -> None:
    message, rest = GOES_ON[said]
    assert gone_on(kind, message) == rest


def test_what_goes_on_with_a_verdict_needs_no_brace_and_vllm_may_take_a_part_for_reasoning() -> None:
    assert gone_on("other", {"content": " True"}, prompts.VERDICT) == " True"
    assert gone_on("other", {"content": "", "reasoning_content": "True? Let me see"}, prompts.VERDICT) is None
    assert gone_on("vllm", {"content": "\n\nDone.", "reasoning_content": "42}."}) == "42}.\n\nDone."


@pytest.mark.parametrize(("said", "forced"), [("42}.", FORCED_ANSWER + "42}."), ("The answer is 42.", None)])
def test_a_forced_answer_is_paid_for_and_a_new_turn_leaves_the_unforced_reading(
    engine: Server, proxy: Proxy, tmp_path: Path, said: str, forced: str | None
) -> None:
    usage = {"usage": {"prompt_tokens": 30, "completion_tokens": 12}}
    cut = chat({"role": "assistant", "content": "", "reasoning_content": "so far"}, finish_reason="length") | usage
    proxy.script = [answer(200, cut), answer(200, chat(said, finish_reason="length") | usage)]
    through = replace(engine, base_url=proxy.url, kind="other")
    (made,) = ask(through, tmp_path, [(5, Sampling(max_tokens=12, answer_tokens=16))])
    assert not proxy.script and made.thinking == "so far" and made.error is None and made.completion_tokens == 24
    assert (made.forced, made.text) == (forced, forced or "")
    assert made.not_forced == (None if forced else generator.NEW_TURN)


def test_no_probability_is_read_from_the_first_token_of_a_new_turn(
    engine: Server, proxy: Proxy, tmp_path: Path
) -> None:
    shown = {"content": [{"token": "9", "logprob": -0.1, "top_logprobs": [{"token": " True", "logprob": -9.0}]}]}
    thinking = {"role": "assistant", "content": "", "reasoning_content": "9"}
    proxy.script = [answer(200, chat(thinking, logprobs=shown, finish_reason="length"))]
    opened = Sampling(max_tokens=1, answer_tokens=16, opening=prompts.VERDICT, top_logprobs=10)
    (made,) = ask(replace(engine, base_url=proxy.url, kind="other"), tmp_path, [(5, opened)])
    assert (made.answer, made.logprobs, made.not_forced) == ("", {}, generator.NEW_TURN)
    assert made.forced is None and len(proxy.bodies) == 1


def test_a_server_that_refuses_to_go_on_leaves_the_unforced_reading_and_says_why(
    engine: Server, proxy: Proxy, tmp_path: Path
) -> None:
    cut = chat({"role": "assistant", "content": "", "reasoning_content": "so far"}, finish_reason="length")
    proxy.script = [answer(200, cut), answer(400, {"error": {"message": "the final message does not appear " * 9}})]
    sampling = Sampling(max_tokens=12, answer_tokens=16)
    through = replace(engine, base_url=proxy.url, kind="vllm")
    (made,) = ask(through, tmp_path, [(5, sampling)])
    assert made.forced is None and made.error is None and made.text == ""
    assert made.not_forced is not None and made.not_forced.startswith("refused the final message")
    assert len(made.not_forced) <= generator.REASON
    assert ask(through, tmp_path, [(5, sampling)]) == [made], "the journal keeps it"


@pytest.mark.parametrize(
    ("content", "reasoning", "cut", "expected"),
    [
        ("the answer", None, False, ("", "the answer")),
        ("the answer", "thoughts", False, ("thoughts", "the answer")),
        ("<think>\nthoughts\n</think>\n\nthe answer", None, False, ("thoughts", "the answer")),
        ("thoughts\n</think>\n\nthe answer", None, False, ("thoughts", "the answer")),
        (" and more</think>the answer", "thoughts", False, ("thoughts and more", "the answer")),
        ("<think>unfinished thou", None, False, ("unfinished thou", "")),
        ("unfinished thou", None, True, ("unfinished thou", "")),
        ("", "unfinished thou", True, ("unfinished thou", "")),
        ("half an ans", "thoughts", True, ("thoughts", "half an ans")),
        ("", None, False, ("", "")),
    ],
)
def test_thinking_is_told_from_the_answer(
    content: str, reasoning: str | None, cut: bool, expected: tuple[str, str]
) -> None:
    assert split_thinking(content, reasoning, cut) == expected


@given(st.text(), st.none() | st.text(), st.booleans())
def test_splitting_never_raises_and_an_answer_holds_no_closing_tag_of_ours(
    content: str, reasoning: str | None, cut: bool
) -> None:
    thinking, said = split_thinking(content, reasoning, cut)
    assert isinstance(thinking, str) and said in content
