"""ELICIT: a reply that ended without an answer is continued once, by scripted servers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import prompts
from core.client.continued import lacks_answer
from core.engines.cards import Card
from core.engines.protocol import CANNOT, Server
from core.grading.kinds import kind_of
from core.grading.kinds.math import Math
from core.rsa import SampleConstants
from core.types import (
    BOX,
    ELICITED_ANSWER,
    ELICITED_TOKENS,
    FORCED_ANSWER,
    Completion,
    Problem,
    Sampling,
)
from tests.conftest import run
from tests.fakes.http import Proxy, answer
from tests.fakes.moody import Moody, chat, replied
from tests.helpers.asking import ask
from tests.helpers.runs import load

pytestmark = pytest.mark.usefixtures("hurried")
PLAIN = Sampling(max_tokens=50)
ELICITED = replace(PLAIN, elicit="math")
PROSE = "So it is 35000 dollars, more or less."
THOUGHT: dict[str, Any] = {"role": "assistant", "content": PROSE, "reasoning_content": "so far"}


def through(engine: Server, proxy: Proxy, kind: str = "vllm", **changes: Any) -> Server:
    return replace(engine, base_url=proxy.url, kind=kind, **changes)


def test_a_reply_without_an_answer_is_continued_once(
    engine: Server, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.script = [replied(THOUGHT), replied({"content": "35000}."}, 50)]
    server = through(engine, proxy)
    (plain,) = ask(server, tmp_path, [(5, PLAIN)])
    (got,) = ask(server, tmp_path, [(5, ELICITED)])
    assert plain.forced is None and plain.answer == got.answer == PROSE and got.thinking == "so far"
    assert (
        got.forced == got.text == f"{PROSE}\n\n{ELICITED_ANSWER}35000}}."
        and got.finish_reason == "stop"
    )
    assert (
        (got.prompt_tokens, got.completion_tokens) == (80, 24)
        and got.key != plain.key
        and not got.reused
    )
    assert len(proxy.bodies) == 2, "the completion of the run without ELICIT is continued"
    assert proxy.bodies[1]["max_tokens"] == ELICITED_TOKENS and proxy.bodies[1]["seed"] == 5
    assert proxy.bodies[1]["messages"][-1]["content"].endswith(
        f"so far\n</think>\n\n{PROSE}\n\n{ELICITED_ANSWER}"
    )
    assert (
        ask(server, tmp_path, [(5, ELICITED), (5, PLAIN)]) == [got, plain]
        and len(proxy.bodies) == 2
    )


def test_a_run_that_reads_words_opens_no_box(engine: Server, proxy: Proxy, tmp_path: Path) -> None:
    prose = "So that is more or less clear."
    proxy.script = [replied(prose), replied(" 35000 dollars.")]
    config = SampleConstants(MAX_TOKENS=50, ANSWER_TOKENS=9, ELICIT=1)
    server = through(engine, proxy, tail="<|assistant|>\n", closes=False)
    problem = Problem("p", "?", "1", answer_form="text")
    sampling = prompts.sampling_for(problem, config)
    (got,) = ask(server, tmp_path, [(5, sampling)])
    assert got.forced == f"{prose}\n\n{ELICITED_ANSWER.removesuffix(BOX)} 35000 dollars."
    assert Math().read(got.text, "text").answer == Math().read("35000 dollars", "text").answer
    assert sampling.answer_opening == FORCED_ANSWER.removesuffix(
        BOX
    ) and not sampling.answer_opening.endswith("{")
    boxed = Problem("p", "?", "1")
    assert prompts.sampling_for(boxed, config).answer_opening == FORCED_ANSWER
    # Without forcing, journal keys stay the same.
    unforced = prompts.sampling_for(problem, replace(config, ANSWER_TOKENS=0))
    assert unforced.answer_opening == FORCED_ANSWER


@pytest.mark.parametrize(
    ("answer_type", "answer_form", "opening", "tail", "answer"),
    [
        ("choice", "boxed", BOX, "B) 42}.", "B"),
        ("choice", "text", "", " B.", "B"),
        ("choice", "number", "", " option B.", "B"),
        ("task", "boxed", " <answer>", "1 2</answer>", "1 2"),
        ("task", "text", " <answer>", "1 2</answer>", "1 2"),
    ],
)
def test_the_kind_decides_how_an_answer_opens(
    engine: Server,
    proxy: Proxy,
    tmp_path: Path,
    answer_type: str,
    answer_form: str,
    opening: str,
    tail: str,
    answer: str,
) -> None:
    proxy.script = [replied("So that is clear."), replied(tail)]
    config = SampleConstants(MAX_TOKENS=50, ANSWER_TOKENS=9, ELICIT=1)
    server = through(engine, proxy, tail="<|assistant|>\n", closes=False)
    problem = Problem("p", "?", "B", answer_type, answer_form=answer_form)
    sampling = prompts.sampling_for(problem, config)
    assert sampling.answer_opening == FORCED_ANSWER.removesuffix(BOX) + opening
    (got,) = ask(server, tmp_path, [(5, sampling)])
    assert (got.forced or "").endswith(ELICITED_ANSWER.removesuffix(BOX) + opening + tail)
    for text in (got.text, sampling.answer_opening + tail):
        assert kind_of(problem).read(text, answer_form).answer == answer


def test_a_model_without_thinking_receives_no_tags(
    engine: Server, proxy: Proxy, tmp_path: Path
) -> None:
    for kind in ("vllm", "sglang", "llama.cpp"):
        proxy.script = [replied(PROSE), replied("7}")]
        server = through(engine, proxy, kind, tail="<|assistant|>\n", closes=False)
        (got,) = ask(server, tmp_path / kind, [(5, replace(ELICITED, answer_tokens=9))])
        assert got.forced == f"{PROSE}\n\n{ELICITED_ANSWER}7}}"
        assert proxy.bodies[-1]["messages"][-1] == {
            "role": "assistant",
            "content": f"{PROSE}\n\n{ELICITED_ANSWER}",
        }
        assert proxy.bodies[-1]["max_tokens"] == 9


@pytest.mark.parametrize(
    ("message", "more"),
    [
        ("It is \\boxed{7}", {}),
        ("The answer is 7.", {}),  # the grading reads it, with a doubt
        (PROSE, {"finish_reason": "length"}),
        (PROSE, {"finish_reason": "content_filter"}),
        ("", {}),
    ],
)
def test_other_replies_are_left_alone(
    engine: Server, proxy: Proxy, tmp_path: Path, message: str, more: dict[str, Any]
) -> None:
    proxy.script = [replied(message, **more)]
    server = through(engine, proxy)
    plain, got = ask(server, tmp_path, [(5, PLAIN), (5, ELICITED)], limit=1)
    assert got == plain and got.key == plain.key and len(proxy.bodies) == 1


def test_requests_for_other_texts_elicit_nothing() -> None:
    config = SampleConstants(ELICIT=1)
    problem = Problem("p", "?", "1")
    sampling = prompts.sampling_for(problem, config)
    assert sampling.elicit == "math" and sampling.with_changes() == sampling
    assert sampling.with_changes(max_tokens=9, answer_opening=prompts.VERDICT).elicit == ""
    assert prompts.sampling_for(replace(problem, answer_type="proof"), config).elicit == ""
    unelicited = prompts.sampling_for(problem, SampleConstants())
    assert unelicited == Sampling.from_config(SampleConstants())


def test_a_forced_answer_is_not_elicited() -> None:
    reply = Completion(
        "0" * 32,
        5,
        "so far",
        finish_reason="length",
        forced=f"{FORCED_ANSWER}oh",
        completion_tokens=9,
    )
    assert not lacks_answer(reply, "math")
    assert lacks_answer(replace(reply, forced=None, answer=PROSE, finish_reason="stop"), "math")
    assert lacks_answer(replace(reply, forced=None, answer="", finish_reason="stop"), "math"), (
        "it only thought"
    )
    assert not lacks_answer(
        replace(reply, forced=None, answer="", finish_reason="tool_calls"), "math"
    )


def test_a_failure_is_noted_and_asked_again_by_the_next_run(
    engine: Server, proxy: Proxy, tmp_path: Path
) -> None:
    proxy.script = [replied(THOUGHT), *[answer(503, {"error": {"message": "busy"}})] * 9]
    server = through(engine, proxy)
    (got,) = ask(server, tmp_path, [(5, ELICITED)])
    assert got.not_forced == "refused busy" and got.text == PROSE and got.error is None
    proxy.script = [answer(400, {"error": {"message": "it does not appear"}})]
    (got,) = ask(server, tmp_path, [(5, ELICITED)])
    assert got.not_forced == "refused it does not appear" and got.forced is None
    proxy.script = [replied("7}", 60)]
    (got,) = ask(server, tmp_path, [(5, ELICITED)])
    assert (
        got.forced == f"{PROSE}\n\n{ELICITED_ANSWER}7}}"
        and got.not_forced is None
        and not proxy.script
    )


def test_waits_come_first(engine: Server, proxy: Proxy, tmp_path: Path) -> None:
    proxy.script = [
        replied(THOUGHT),
        replied({"content": PROSE, "reasoning_content": "!"}, 50),
        replied("7}", 60),
    ]
    server = through(engine, proxy)
    (got,) = ask(server, tmp_path, [(5, replace(ELICITED, waits=1))])
    assert (
        got.before_waits == [PROSE]
        and got.forced == f"{PROSE}\n\n{ELICITED_ANSWER}7}}"
        and not proxy.script
    )


def test_a_card_that_forbids_it_is_noted(engine: Server, proxy: Proxy, tmp_path: Path) -> None:
    proxy.script = [replied(THOUGHT)]
    (got,) = ask(
        through(engine, proxy, card=Card("mine", continues=False)), tmp_path, [(5, ELICITED)]
    )
    assert got.not_forced == CANNOT and got.text == PROSE


def test_a_run_continues_the_replies_of_a_run_without_it(moody: Moody, results: Path) -> None:
    moody.choose = lambda n, prompt: answer(200, chat("35000}" if prompt.endswith("{") else PROSE))
    small = ("01_baseline", "PROBLEMS=sums", "LIMIT=2", "N=3", "TEMPERATURE=0")
    assert run(*small, BASE_URL=moody.url)[0] == 0 and len(moody.bodies) == 6
    assert "elicited" not in load(results, "01_baseline")["metrics"]["steps"][0]
    status, out, err = run(*small, "ELICIT=1", BASE_URL=moody.url)
    assert status == 0 and len(moody.bodies) == 12 and "elicited" in out, err
    document = load(results, "01_baseline")
    (step,), (member, *_) = (
        document["metrics"]["steps"],
        document["problems"][0]["steps"][0]["members"],
    )
    assert (step["elicited"], step["forced"], step["unread"], step["completion_tokens"]) == (
        6,
        0,
        0,
        6 * 14,
    )
    assert (member["answer"], member["unforced"]["answer"], member["finish_reason"]) == (
        "35000",
        None,
        "stop",
    )
    assert run(*small, "ELICIT=1", BASE_URL=moody.url)[0] == 0 and len(moody.bodies) == 12
