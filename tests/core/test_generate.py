"""The generator against the real engine, with faults injected between them."""

import asyncio
import doctest
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import generate, prompts
from core.base.errors import UserError
from core.client import continued
from core.client.completed import NEW_TURN
from core.client.failures import Overtime, Stalled
from core.client.journal import Journal, content_key
from core.engines.protocol import Server, named
from core.generate import Generator
from core.types import FORCED_ANSWER, Completion, Sampling
from tests.fakes.http import Answer, Proxy, answer, silence
from tests.fakes.moody import Moody, chat, good, replied
from tests.helpers.asking import MESSAGES, SHORT, SUM, ask, ask_each

pytestmark = pytest.mark.usefixtures("hurried")


def test_a_completion_has_thinking_and_answer_apart(engine: Server, tmp_path: Path) -> None:
    (got,) = ask(engine, tmp_path, [(5, SHORT)])
    assert got.error is None and got.finish_reason == "stop" and got.forced is None
    assert "9*15" in got.thinking and "\\boxed" not in got.thinking
    assert "\\boxed{" in got.answer and "think>" not in got.answer
    assert got.prompt_tokens > 20 and got.completion_tokens > 20 and got.seconds > 0
    assert got.seed == 5 and got.text == got.answer


def test_equal_seeds_give_equal_completions_whatever_else_is_in_the_batch(
    engine: Server, tmp_path: Path
) -> None:
    (alone,) = ask(engine, tmp_path / "a", [(7, SHORT)])
    crowd = ask(engine, tmp_path / "b", [(seed, SHORT) for seed in range(7, 31)], limit=16)
    assert (crowd[0].thinking, crowd[0].answer) == (alone.thinking, alone.answer)
    assert len({c.thinking + c.answer for c in crowd}) > 2


def test_what_is_in_the_journal_is_not_asked_again(
    engine: Server, proxy: Proxy, tmp_path: Path
) -> None:
    through = replace(engine, base_url=proxy.url)
    first = ask(through, tmp_path, [(1, SHORT), (2, SHORT)])
    again = ask(through, tmp_path, [(1, SHORT), (2, SHORT), (3, SHORT)])
    assert again[:2] == first and len(proxy.bodies) == 3
    elsewhere = ask(engine, tmp_path, [(1, SHORT)])  # the server's address is no part of the key
    assert elsewhere == first[:1]
    ask(through, tmp_path, [(1, replace(SHORT, temperature=0.6))])
    assert len(proxy.bodies) == 4


# Keys leave out these defaults. Raise KEY_VERSION if you change one.
LEFT_OUT: dict[str, Any] = {
    "temperature": 0.7,
    "top_p": 1.0,
    "top_k": 0,
    "min_p": 0.0,
    "max_tokens": 16384,
}
LEFT_OUT |= {
    "answer_tokens": 0,
    "elicit": "",
    "sum_logprobs": False,
    "confidences": False,
    "least_confidence": 0.0,
    "group": 0,
    "reward": "",
    "waits": 0,
    "wait_word": "Wait",
    "stop": "",
}
LEFT_OUT |= {
    "answer_opening": "Time is up. The final answer is \\boxed{",
    "opening": "",
    "top_logprobs": 0,
}


def test_keys_hold_the_sampling_that_differs_from_the_defaults(
    engine: Server, tmp_path: Path
) -> None:
    assert generate.DEFAULTS == LEFT_OUT and generate.KEY_VERSION == 3
    fields = [engine.key_fields] if engine.key_fields else []
    with Journal(tmp_path / "a.jsonl") as journal:
        got = Generator(engine, journal, 1, 60)
        expected = content_key([3, engine.identity, MESSAGES, {"max_tokens": 300}, 5, *fields])
        assert got.key(MESSAGES, 5, SHORT) == expected
        assert got.key(MESSAGES, 5, Sampling()) == content_key(
            [3, engine.identity, MESSAGES, {}, 5, *fields]
        )


def test_all_sampling_settings_are_sent_even_when_off(
    through: Server, proxy: Proxy, tmp_path: Path
) -> None:
    ask(through, tmp_path, [(11, SHORT)])
    sent = {
        "seed": 11,
        "temperature": 0.7,
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "max_tokens": 300,
    }
    assert sent.items() <= proxy.bodies[0].items()


def test_a_context_overflow_is_recorded_and_asked_again_by_the_next_run(
    through: Server, proxy: Proxy, tmp_path: Path
) -> None:
    long = prompts.solve(replace(SUM, statement="1 + " * 3000))
    for run in range(2):
        (got,) = ask(through, tmp_path, [(5, SHORT)], messages=long)
        assert got.error is not None and got.error.startswith("context overflow")
        assert got.finish_reason is None and got.text == ""
        assert len(proxy.bodies) == run + 1
    proxy.script = [replied("\\boxed{42}")]
    (got,) = ask(through, tmp_path, [(5, SHORT)], messages=long)
    assert got.error is None and got.text == "\\boxed{42}", "the server has a longer context now"


@pytest.mark.parametrize("status", [400, 413, 422])
@pytest.mark.parametrize(
    "words", ["Provider returned error", "exceeds the context length", "moderation"]
)
def test_a_refusal_of_any_kind_is_asked_again_by_the_next_run(
    moody: Moody, tmp_path: Path, status: int, words: str
) -> None:
    moody.choose = lambda n, prompt: (
        answer(status, {"error": {"message": words}}) if prompt == "bad" else good(prompt)
    )
    first = ask_each(moody.url, tmp_path, ["good", "bad", "good"], 1)
    assert [one.error is not None for one in first] == [False, True, False] and len(
        moody.prompts
    ) == 3
    moody.choose = lambda n, prompt: good(prompt)
    again = ask_each(moody.url, tmp_path, ["good", "bad", "good"], 1)
    assert all(one.error is None for one in again) and moody.prompts[3:] == ["bad"]
    ask_each(moody.url, tmp_path, ["good", "bad", "good"], 1)
    assert len(moody.prompts) == 4, "now it is finished"


def test_a_failure_in_a_journal_of_an_earlier_version_is_asked_again(
    moody: Moody, tmp_path: Path
) -> None:
    (got,) = ask_each(moody.url, tmp_path, ["a"])
    (tmp_path / "a.jsonl").unlink()
    with Journal(tmp_path / "a.jsonl") as journal:
        journal.put(
            Completion(got.key, got.seed, error="status 400: no"),
            [{"role": "user", "content": "a"}],
        )
    (again,) = ask_each(moody.url, tmp_path, ["a"])
    assert again.text == got.text and again.error is None and len(moody.prompts) == 2


def test_a_request_without_an_answer_ends_at_its_timeout(
    through: Server, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.script = [silence(10)] * Overtime.tries
    got, beside = ask(through, tmp_path, [(5, SHORT), (6, SHORT)], limit=1, timeout=4)
    assert got.error == "no answer within 4 s" and beside.error is None and not proxy.script


def test_a_silent_request_is_asked_again_with_more_patience(
    through: Server, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.script = [silence(120)]
    began = time.monotonic()
    (got,) = ask(through, tmp_path / "a", [(5, SHORT)], stall=2)
    assert got.error is None and 2 <= time.monotonic() - began < 100
    proxy.script = [silence(20)] * Stalled.tries
    (failed,) = ask(through, tmp_path / "b", [(5, SHORT)], stall=0.5)
    assert failed.error == "silent for 2 s" and not proxy.script


def test_waiting_in_the_queue_of_a_busy_server_is_no_stall(moody: Moody, tmp_path: Path) -> None:
    """50 requests for a fifth of a second each, one at a time, with patience for thirty of them."""
    slot = threading.Lock()

    def choose(n: int, prompt: str) -> Answer:
        with slot:
            time.sleep(0.2)
        return good(prompt)

    moody.choose = choose
    asked = [(seed, SHORT) for seed in range(50)]
    completions = ask(Server("other", moody.url, "m", "x"), tmp_path, asked, 50, stall=6)
    assert all(c.error is None for c in completions) and len(moody.bodies) == 50


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (answer(401, {"error": {"message": "bad key sk-secret"}}), "API_KEY"),
        (answer(404, {"error": {"message": "no such model"}}), "no such model"),
        (answer(404, {"detail": "Not Found"}), "404.*Check the address"),
        (answer(400, {"error": {"message": "unknown parameter min_p"}}), "min_p.*never"),
        (answer(402, {"error": {"message": "insufficient credits"}}), "insufficient credits"),
    ],
)
def test_a_server_that_refuses_all_requests_ends_the_run(
    through: Server, proxy: Proxy, tmp_path: Path, fault: Any, words: str
) -> None:
    proxy.script = [fault]
    with pytest.raises(UserError, match=words) as raised:
        ask(through, tmp_path, [(5, SHORT)])
    assert "sk-secret" not in str(raised.value)
    assert not (tmp_path / "test.jsonl").read_bytes()


def test_budget_forcing_closes_thinking_at_the_cap_and_keeps_both_readings(
    engine: Server, tmp_path: Path
) -> None:
    (got,) = ask(engine, tmp_path, [(5, FORCED)])
    assert got.finish_reason == "length" and got.thinking and got.answer == ""
    assert (
        got.forced is not None and got.forced.startswith(FORCED_ANSWER) and got.text == got.forced
    )
    assert 12 < got.completion_tokens <= 28
    (unforced,) = ask(engine, tmp_path, [(5, Sampling(max_tokens=12))])
    assert unforced.forced is None and unforced.text == "" and unforced.thinking == got.thinking


def test_an_opening_closes_thinking_and_reports_the_next_token(
    engine: Server, tmp_path: Path
) -> None:
    opened = Sampling(max_tokens=1, opening=prompts.VERDICT, top_logprobs=10)
    (got,) = ask(
        engine,
        tmp_path,
        [(5, opened)],
        messages=prompts.verify(replace(SUM, statement="Find 1 + 1."), "\\boxed{2}"),
    )
    assert got.thinking == "" and got.answer.startswith(prompts.VERDICT)
    assert {token.strip() for token in got.logprobs} >= {"True", "False"}


@pytest.mark.parametrize("kind", ["vllm", "sglang", "other", "llama.cpp"])
@pytest.mark.parametrize("tail", ["<|im_start|>assistant\n", None])
def test_an_opening_has_no_tags_if_the_template_opens_no_thinking(
    engine: Server, moody: Moody, tmp_path: Path, kind: str, tail: str | None
) -> None:
    server = replace(engine, base_url=moody.url, kind=kind, tail=tail)
    opened = Sampling(max_tokens=9, opening=prompts.VERDICT)
    ask(server, tmp_path, [(5, opened)])
    assert moody.bodies[-1]["messages"][-1] == {"role": "assistant", "content": prompts.VERDICT}
    ask(replace(server, tail="<think>\n"), tmp_path / "thinks", [(5, opened)])
    last = moody.bodies[-1]["messages"][-1]
    assert "reasoning_content" in last or "</think>" in last["content"]


def closed(server: Server, thinking: str, opening: str) -> dict[str, Any]:
    return server.dialect.closed(server, MESSAGES, thinking, opening)


def test_sglangs_template_closes_thinking_itself_if_there_is_none() -> None:
    empty = closed(Server("sglang", "u", "m", "w", closes=True), "", "Verdict:")
    # the template closes thinking, in its own tokens
    assert empty.pop("messages")[-1]["content"] == "Verdict:"
    assert empty == {
        "continue_final_message": True,
        "chat_template_kwargs": {"enable_thinking": False},
    }


@pytest.mark.parametrize(
    "thinking",
    [
        "\nso far",
        " so far\n\n",
        "<think>so far",
        "so far</think>",
        "<think>\n<think>\nso far\n</think>\n",
    ],
)
def test_thinking_is_sent_as_templates_leave_it(thinking: str) -> None:
    """Templates cut at tags and strip, and vLLM refuses a message that its template changes."""
    server = Server("vllm", "u", "m", "w")
    sent = closed(server, thinking, "The answer")["messages"][-1]["content"]
    assert sent == "<think>\nso far\n</think>\n\nThe answer"
    inside = closed(server, "so <thi<think>nk> far", "The answer")["messages"][-1]["content"]
    assert inside.count("<think>") == inside.count("</think>") == 1


NEW_TURNS = {  # what servers of an unknown kind were seen to answer, or may, that begin a new turn
    "reasons in the field": {"content": "", "reasoning_content": "7*43=301\n6*58=348"},
    "reasons in tags": {"content": "<think>\n7*43=301 {"},
    "the template opens the tag": {"content": "7*43=301\n</think>\n\n\\boxed{42}}"},
    "no tags at all": {
        "content": "First 7*43=301, and \\boxed{3} is not it. The set \\{1, 2\\} and \\} too"
    },
    "answers anew": {"content": "The answer is \\boxed{42}."},
}
GOES_ON: dict[str, tuple[dict[str, Any], str]] = {
    "only what is new": ({"content": "42}."}, "42}."),
    "all of the answer": ({"content": FORCED_ANSWER + "42}."}, "42}."),
    "taken for reasoning": ({"content": "", "reasoning_content": "42}."}, "42}."),
    "with a brace inside": ({"content": "\\frac{1}{2}}. Sure"}, "\\frac{1}{2}}. Sure"),
}


def gone_on(kind: str, message: dict[str, Any], opening: str = FORCED_ANSWER) -> str | None:
    return named(kind).continuation(
        message["content"], message.get("reasoning_content", ""), opening
    )


@pytest.mark.parametrize("case", NEW_TURNS)
def test_a_new_turn_of_an_unknown_server_is_no_continuation(case: str) -> None:
    assert gone_on("other", NEW_TURNS[case]) is None


@pytest.mark.parametrize("case", GOES_ON)
@pytest.mark.parametrize("kind", ["other", "vllm", "sglang", "llama.cpp"])
def test_what_goes_on_is_read_without_its_opening(kind: str, case: str) -> None:
    message, rest = GOES_ON[case]
    assert gone_on(kind, message) == rest


def test_what_goes_on_with_a_verdict_needs_no_brace_and_vllm_may_take_a_part_for_reasoning() -> (
    None
):
    assert gone_on("other", {"content": " True"}, prompts.VERDICT) == " True"
    assert (
        gone_on("other", {"content": "", "reasoning_content": "True? Let me see"}, prompts.VERDICT)
        is None
    )
    assert gone_on("vllm", {"content": "\n\nDone.", "reasoning_content": "42}."}) == "42}.\n\nDone."


CUT = replied({"content": "", "reasoning_content": "so far"}, finish_reason="length")
FORCED = Sampling(max_tokens=12, answer_tokens=16)


@pytest.mark.parametrize(
    ("case", "forced"), [("42}.", FORCED_ANSWER + "42}."), ("The answer is 42.", None)]
)
def test_a_forced_answer_is_counted_and_a_new_turn_is_none(
    through: Server, proxy: Proxy, tmp_path: Path, case: str, forced: str | None
) -> None:
    proxy.script = [CUT, replied(case, finish_reason="length")]
    (got,) = ask(replace(through, kind="other"), tmp_path, [(5, FORCED)])
    assert (
        not proxy.script
        and got.thinking == "so far"
        and got.error is None
        and got.completion_tokens == 24
    )
    assert (got.forced, got.text) == (forced, forced or "")
    assert got.not_forced == (None if forced else NEW_TURN)


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>"), ("<think>", "</think>")],
)
def test_thinking_is_closed_by_the_models_own_tag(
    through: Server, proxy: Proxy, tmp_path: Path, opening: str, closing: str
) -> None:
    cut = replied({"content": f"{opening}\nso \\boxed{{25}}"}, finish_reason="length")
    proxy.script = [cut, replied("42}.", finish_reason="length")]
    (got,) = ask(replace(through, kind="vllm"), tmp_path, [(5, FORCED)])
    assert (got.thinking, got.text) == ("so \\boxed{25}", FORCED_ANSWER + "42}.")
    sent = proxy.bodies[1]["messages"][-1]["content"]
    assert sent == f"{opening}\nso \\boxed{{25}}\n{closing}\n\n{FORCED_ANSWER}"


def test_no_probability_is_read_from_a_new_turn(
    through: Server, proxy: Proxy, tmp_path: Path
) -> None:
    shown = {
        "content": [
            {"token": "9", "logprob": -0.1, "top_logprobs": [{"token": " True", "logprob": -9.0}]}
        ]
    }
    proxy.script = [
        replied({"content": "", "reasoning_content": "9"}, logprobs=shown, finish_reason="length")
    ]
    opened = Sampling(max_tokens=1, answer_tokens=16, opening=prompts.VERDICT, top_logprobs=10)
    (got,) = ask(replace(through, kind="other"), tmp_path, [(5, opened)])
    assert (got.answer, got.logprobs, got.not_forced) == ("", {}, NEW_TURN)
    assert got.forced is None and len(proxy.bodies) == 1


def test_a_refused_continuation_leaves_the_unforced_answer(
    through: Server, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.script = [
        CUT,
        answer(400, {"error": {"message": "the final message does not appear " * 9}}),
    ]
    server = replace(through, kind="vllm")
    (got,) = ask(server, tmp_path, [(5, FORCED)])
    assert got.forced is None and got.error is None and got.text == ""
    assert got.not_forced is not None and got.not_forced.startswith("refused the final message")
    assert len(got.not_forced) <= continued.REASON
    proxy.script = [answer(400, {"error": {"message": "still refused"}})]
    (again,) = ask(server, tmp_path, [(5, FORCED)])
    assert again.not_forced == "refused still refused" and len(proxy.bodies) == 3, (
        "the journal keeps the reply alone"
    )
    lines = (tmp_path / "test.jsonl").read_bytes()
    proxy.script = [replied("42}.")]
    (mended,) = ask(server, tmp_path, [(5, FORCED)])
    assert (
        mended.forced == FORCED_ANSWER + "42}."
        and mended.not_forced is None
        and mended.thinking == got.thinking
    )
    assert mended.key == got.key and lines.count(b"\n") == 1 and len(proxy.bodies) == 4
    assert ask(server, tmp_path, [(5, FORCED)]) == [mended] and len(proxy.bodies) == 4


def test_the_example_of_the_generator_works(
    moody: Moody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    moody.choose = lambda n, prompt: answer(200, chat("42"))
    monkeypatch.setenv("BASE_URL", moody.root)
    text = Generator.__doc__ or ""
    example = doctest.DocTestParser().get_doctest(text, {}, "Generator", None, 0)
    assert example.examples and not doctest.DocTestRunner().run(example).failed


def test_the_client_is_imported_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[tuple[str, threading.Thread]] = []
    monkeypatch.setattr(
        "importlib.import_module",
        lambda name: imported.append((name, threading.current_thread())),
    )
    generate.load_client()
    while not imported:
        time.sleep(0.01)
    name, thread = imported[0]
    assert name == "core.client.http_client" and thread is not threading.main_thread()


def test_a_generator_refuses_a_journal_that_is_not_open(through: Server, tmp_path: Path) -> None:
    """A paid reply would be lost."""

    async def enter() -> None:
        async with Generator(through, Journal(tmp_path / "a.jsonl"), 1, 60):
            pass

    with pytest.raises(RuntimeError, match="journal"):
        asyncio.run(enter())
