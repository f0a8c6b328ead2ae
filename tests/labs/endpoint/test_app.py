"""The endpoint over the real engine, by the openai client and raw requests."""

import asyncio
import json
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from core.base import signals
from core.client import retry
from core.constants import rules
from core.engines.protocol import Server
from core.eval import groups
from core.types import Completion
from labs.endpoint import answer as answering
from labs.endpoint import app, chat, cli
from tests.conftest import python
from tests.fakes.http import Proxy, answer, reset
from tests.labs.endpoint.conftest import ASKED, OFFERS, STATEMENT, Running, Start, reply


def test_the_answer_has_the_most_votes_and_usage_is_that_of_all_completions(
    engine: Server, start: Start
) -> None:
    """The golden file of serve_rsa pins the members, their parents and keys."""
    running = start(engine)
    made = running.ask(extra_body={"rsa": {"N": 3, "T": 2}})
    details, usage, kept = made.model_extra["rsa"], made.usage, running.completions()
    answers = [member["answer"] for member in details["population"]]
    voted = details["vote"]["answer"]
    assert details["vote"]["votes"] == answers.count(voted) == max(map(answers.count, answers))
    assert (
        details["members"][0] == answers.index(voted)
        and f"\\boxed{{{voted}}}" in made.choices[0].message.content
    )
    assert details["config"] | {"SEED": 1, "N": 3, "K": 2, "T": 2} == details["config"]
    assert len(kept) == details["generations"] == 3 * 3
    assert usage.prompt_tokens == sum(c["prompt_tokens"] for c in kept) > 0
    assert usage.completion_tokens == sum(c["completion_tokens"] for c in kept) > 0
    assert usage.prompt_tokens_details.cached_tokens == sum(c["cached_tokens"] for c in kept)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens


@pytest.mark.parametrize(
    ("texts", "order", "vote"),
    [
        (
            ["is \\boxed{1}", "\\boxed{2} it is", "so \\boxed{2}", "none"],
            [1, 2, 0, 3],
            ("2", 2, False),
        ),
        (["\\boxed{3}", "\\boxed{\\frac12}", "\\boxed{0.5}", ""], [1, 2, 0, 3], ("1/2", 2, False)),
        (
            ["", "\\boxed{7}", "\\boxed{5}", "\\boxed{7}. No, \\boxed{5}"],
            [2, 3, 1, 0],
            ("5", 2, False),
        ),
        (["\\boxed{9}", "\\boxed{8}", "\\boxed{8}", "\\boxed{9}"], [0, 1, 2, 3], ("9", 2, True)),
        (["", "a proof", "another", "third"], [1, 2, 3, 0], (None, 0, False)),
        (
            ["\\boxed{3}", r"\boxed{\sqrt{8}}", r"\boxed{2\sqrt{2}}", "\\boxed{3}"],
            [0, 1, 2, 3],
            ("3", 2, True),
        ),
    ],
    ids=[
        "majority",
        "equal answers written otherwise",
        "last box counts",
        "tie",
        "no box",
        "equal roots",
    ],
)
def test_the_majority_is_answered_with_or_a_member_if_nobody_votes(
    engine: Server,
    proxy: Proxy,
    start: Start,
    texts: list[str],
    order: list[int],
    vote: tuple[Any, ...],
) -> None:
    # one at a time: member i gets text i
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=1, T=0)
    proxy.script = [answer(200, reply(text)) for text in texts]
    made = running.ask()
    assert made.choices[0].message.content == texts[order[0]] and len(made.choices) == 1
    details = made.model_extra["rsa"]
    assert (details["vote"]["answer"], details["vote"]["votes"], details["vote"]["tied"]) == vote
    assert details["members"] == order and made.usage is None, "these replies have no usage"


@pytest.mark.parametrize("name", OFFERS)
def test_every_scaffold_is_a_model_with_its_own_constants(shared: Running, name: str) -> None:
    server_model = shared.model.removeprefix("rsa/")
    with shared.client() as client:
        assert f"{name}/{server_model}" in [model.id for model in client.models.list()]
    offer = OFFERS[name]
    small = {
        "N": 2,
        "K": 2,
        "T": 1,
        "ROUNDS": 1,
        "CALLS": 2,
        "VERIFY_SAMPLES": 1,
        "STAGE": 1,
        "MAX_TOKENS": 60,
    }
    small |= {"PERFECT": 1, "REVIEWS": 1, "KEEP": 1, "STEPS": 4}
    constants = {
        each: value for each, value in small.items() if each in rules(offer.scaffold.constants)
    }
    asked = chat.read(
        json.dumps({"model": f"{name}/m", "messages": ASKED, name: constants}).encode(), "m", OFFERS
    )
    made = shared.ask(model=f"{name}/{server_model}", extra_body={name: constants})
    details = made.model_extra[name]
    assert (
        made.model == f"{name}/{server_model}"
        and details["config"] | constants == details["config"]
    )
    assert 0 < details["generations"] <= offer.scaffold.max_completions(asked.config)
    assert made.choices[0].message.content and len(details["population"]) <= 2
    stages = [step["stage"] for step in details["steps"]]
    lines = made.choices[0].message.reasoning_content.splitlines()
    assert [line.partition(":")[0] for line in lines] == stages


def test_the_command_lines_constants_apply_to_the_scaffolds_that_have_them() -> None:
    offers = cli.offered(["N=4", "ROUNDS=2"])
    assert next(iter(offers)) == "rsa" and OFFERS.keys() - offers.keys() == {"nomos"}, (
        "its K is larger than 4"
    )
    own = {name: chat.own(offer.defaults).split() for name, offer in offers.items()}
    assert own["rsa"][:3] == ["N=4", "K=3", "T=5"] and own["refinement"] == ["N=4", "ROUNDS=2"]
    assert own["majority"] == ["N=4", "STAGE=0"] and own["selfcheck"][1] == "ROUNDS=2"
    assert [*cli.offered(["SCAFFOLD=13_best_of", "N=2"])] == ["best_of"], "RSA's K does not count"


def test_a_scaffold_that_selects_answers_with_its_choice_and_not_with_the_majority(
    engine: Server, proxy: Proxy, start: Start
) -> None:
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=1)
    texts = [
        "\\boxed{1}",
        "so \\boxed{1}",
        "\\boxed{2}",
        *(f"Verdict: {each}" for each in (False, False, True)),
    ]
    proxy.script = [answer(200, reply(text)) for text in texts]
    name = running.model.replace("rsa", "best_of", 1)
    made = running.ask(model=name, extra_body={"best_of": {"N": 3, "VERIFY_SAMPLES": 1}})
    [choice] = made.choices
    assert (
        choice.message.content == "\\boxed{2}" and made.model_extra["best_of"]["generations"] == 6
    )
    assert (
        choice.message.reasoning_content.splitlines()[-1] == "best score: 1 candidate, answers 2 ×1"
    )


def test_answers_are_read_in_the_way_of_the_models_card(
    engine: Server, proxy: Proxy, start: Start
) -> None:
    card = replace(engine.card, answer="text")
    running = start(replace(engine, base_url=proxy.url, card=card), CONCURRENCY=1, T=0, ELICIT=1)
    texts = [
        "She has 4 cats. The answer is 5.",
        "The answer is 6.",
        "The answer is 6.",
        "The answer is 7.",
    ]
    proxy.script = [answer(200, reply(text)) for text in texts]
    made = running.ask()
    assert made.model_extra["rsa"]["vote"] == {"answer": "6", "votes": 2, "tied": False}
    assert len(proxy.bodies) == 4, "none lacks an answer, so none is continued"
    assert "boxed" not in proxy.bodies[0]["messages"][-1]["content"]


def test_failed_and_cut_off_members_are_counted_and_the_others_answer(
    engine: Server, proxy: Proxy, start: Start
) -> None:
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=1, T=0)
    refused = answer(400, {"error": {"message": "too long for the context"}})
    replies = [reply("<think>so</think>half a", "length"), reply("\\boxed{4}")]
    proxy.script = [refused, *(answer(200, each) for each in replies), refused]
    [choice] = running.ask().choices
    assert (choice.message.content, choice.finish_reason) == ("\\boxed{4}", "stop")
    line = "step 0 of 0: 4 candidates, answers 4 ×1; 1 without an answer; 2 failed; 1 cut off\n"
    assert choice.message.reasoning_content == line


def test_others_are_answered_while_answers_are_compared(
    engine: Server, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, others = start(engine, N=2, T=0), threading.Event()

    def slow(*args: Any) -> Any:
        assert others.wait(120), "the loop stands still"
        return groups(*args)

    monkeypatch.setattr(answering, "groups", slow)
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(running.ask, seed=seed) for seed in range(2)]
        with running.client() as client:
            assert client.models.list().data
        others.set()
        assert all(each.result().choices[0].message.content for each in asked)


def test_a_large_population_leaves_room_for_others_and_keeps_no_texts() -> None:
    body = json.dumps({"model": "rsa/m", "messages": ASKED, "rsa": {"N": 64, "K": 2, "T": 2}})
    at_work = most = 0

    async def server(*_: Any) -> Completion:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.001)
        at_work -= 1
        return Completion("0" * 32, 1, answer="\\boxed{1}", finish_reason="stop")

    fake: Any = server
    solved = asyncio.run(
        answering.solve(chat.read(body.encode(), "m", OFFERS), fake, 5, lambda line: None)
    )
    assert (
        most == 5
        and len(solved.spent) == 64 * 3
        and not any(completion.text for completion in solved.spent)
    )


def test_an_equal_request_comes_from_the_journal_and_another_seed_does_not(
    engine: Server, proxy: Proxy, start: Start
) -> None:
    running = start(replace(engine, base_url=proxy.url), N=2)
    first, again = running.ask(), running.ask()
    assert len(proxy.bodies) == 4 and again.model_extra["rsa"]["reused"] == 4
    assert again.choices[0].message == first.choices[0].message and again.usage == first.usage
    assert first.id != again.id and first.model_extra["rsa"]["reused"] == 0
    running.ask(seed=2)
    assert len(proxy.bodies) == 8


def test_a_stream_holds_progress_then_the_answer_then_usage(shared: Running) -> None:
    whole, options = shared.ask(seed=5), {"include_usage": True}
    *deltas, last = shared.ask(seed=5, stream=True, stream_options=options)
    assert (
        last.choices == []
        and last.usage == whole.usage
        and all(chunk.usage is None for chunk in deltas)
    )
    assert len({chunk.id for chunk in deltas}) == 1 and last.object == "chat.completion.chunk"
    choices = [chunk.choices[0] for chunk in deltas]

    def kind(choice: Any) -> str:
        shown = (
            name
            for name in ("role", "reasoning_content", "content")
            if getattr(choice.delta, name, None)
        )
        return next(shown, "end")

    assert [kind(c) for c in choices] == [
        "role",
        "reasoning_content",
        "reasoning_content",
        "content",
        "end",
    ]
    message = whole.choices[0].message
    assert "".join(c.delta.content or "" for c in choices) == message.content
    assert choices[-1].finish_reason == whole.choices[0].finish_reason
    reasoning = "".join(getattr(c.delta, "reasoning_content", None) or "" for c in choices)
    assert reasoning == message.reasoning_content
    assert deltas[-1].model_extra["rsa"]["population"] == whole.model_extra["rsa"]["population"]
    events = shared.post({"seed": 5, "stream": True}).text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""] and all(
        event.startswith("data: ") for event in events[:-1]
    )


def test_the_conversation_and_the_sampling_reach_the_server(
    engine: Server, proxy: Proxy, start: Start
) -> None:
    running = start(replace(engine, base_url=proxy.url), N=2)
    before = [
        {"role": "developer", "content": "Be exact."},
        {"role": "assistant", "content": "What shall I solve?"},
    ]
    sampling: dict[str, Any] = {"max_tokens": 200, "temperature": 0.5, "top_p": 0.9}
    running.ask(messages=[*before, *ASKED], **sampling, extra_body={"top_k": 40})
    shown = [body["messages"] for body in proxy.bodies]
    assert len(shown) == 4 and all(
        m[:2] == [{"role": "system", "content": "Be exact."}, before[1]] for m in shown
    )
    assert all(len(m) == 3 and STATEMENT in m[2]["content"] for m in shown)
    assert sum("Candidate 2:" in m[2]["content"] for m in shown) == 2
    expected = sampling | {"top_k": 40, "min_p": 0.0}
    assert (
        all(body | expected == body for body in proxy.bodies)
        and len({body["seed"] for body in proxy.bodies}) == 4
    )


@pytest.mark.parametrize(
    ("stop", "kept"), [("=", "9*15"), (["6*41", ", "], None), (["<never>"], None)]
)
def test_stop_ends_the_answer_and_not_the_thinking(
    shared: Running, stop: Any, kept: str | None
) -> None:
    whole = shared.ask().choices[0].message.content
    made = shared.ask(stop=stop).choices[0]
    stops = [stop] if isinstance(stop, str) else stop
    cut = min((whole.find(s) for s in stops if s in whole), default=len(whole))
    assert made.message.content == whole[:cut] and made.finish_reason == "stop"
    assert kept is None or made.message.content == kept


def test_a_conversation_too_long_for_the_model_is_refused_at_once(
    openai: Any, engine: Server, proxy: Proxy, start: Start
) -> None:
    running = start(replace(engine, base_url=proxy.url), T=5)
    with pytest.raises(openai.BadRequestError) as raised:
        running.ask(messages=[{"role": "user", "content": "1 + " * 3000}])
    assert (raised.value.code, raised.value.param) == ("context_length_exceeded", "messages")
    assert len(proxy.bodies) < 6 * 4, (
        "not all steps were tried: the next may have begun before the first was looked at"
    )
    running.close()
    with pytest.raises(openai.BadRequestError) as raised:
        start(replace(engine, kind="vllm")).ask(max_tokens=4000)
    assert (raised.value.code, raised.value.param) == ("context_length_exceeded", "max_tokens")


def test_a_lost_server_is_a_503_and_an_error_in_a_stream_and_leaves_nothing_running(
    openai: Any, engine: Server, proxy: Proxy, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "_backoff", lambda attempt: 0.01)
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=1, N=3, T=0)
    made = running.ask().choices
    sent = len(proxy.bodies)
    proxy.script = [reset] * 1000
    assert running.ask().choices == made, "the journal is still answered from"
    with pytest.raises(openai.InternalServerError) as raised:
        running.ask(seed=2)
    assert raised.value.status_code == 503 and raised.value.code == "upstream_unavailable"
    assert raised.value.response.headers["x-should-retry"] == "false"
    assert len(proxy.bodies) <= sent + retry.RETRIES + 2, (
        "the others are not asked for once one is lost"
    )
    with pytest.raises(openai.InternalServerError):  # its gather would go on without the request
        running.ask(seed=2, model=running.model.replace("rsa", "best_of", 1))
    assert not running.work()
    with pytest.raises(openai.APIError) as raised_in_stream:
        running.ask(seed=2, stream=True)
    assert raised_in_stream.value.code == "upstream_unavailable" and not running.work()


@pytest.mark.parametrize("limit", [1, 8])
def test_requests_after_used_up_credit_are_sent(
    openai: Any, engine: Server, proxy: Proxy, start: Start, limit: int
) -> None:
    """Quota may be there again, and every request must get an answer."""
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=limit, N=3, T=0)
    unpaid = answer(402, {"error": {"message": "Payment required"}})
    proxy.script = [unpaid] * 3
    with pytest.raises(openai.InternalServerError, match="Payment required"):
        running.ask()
    proxy.script = []
    with running.client() as client:
        made = client.chat.completions.create(
            model=running.model, messages=ASKED, seed=2, timeout=60
        )
    assert len(made.model_extra["rsa"]["population"]) == 3 and not running.work()


def test_silence_is_filled_with_comments_and_long_answers_come_in_pieces(
    engine: Server, proxy: Proxy, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "KEEP_ALIVE", 0.02)
    running = start(replace(engine, base_url=proxy.url), N=1, K=1, T=1)
    assert ": still at work\n\n" in running.post({"stream": True, "seed": 31}).text
    long = "é\n" * 5000
    proxy.script = [answer(200, reply(long + "end"))]
    chunks = running.ask(stream=True, extra_body={"rsa": {"T": 0}})
    pieces = [chunk.choices[0].delta.content or "" for chunk in chunks]
    assert "".join(pieces) == long + "end" and max(map(len, pieces)) == app.PIECE


def test_each_request_is_a_line_without_its_text(
    openai: Any, shared: Running, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = [{"role": "user", "content": "a secret of the client's: 3*45?"}]
    short = shared.model.partition("@")[0]
    made = shared.ask(model=short, messages=secret, extra_body={"rsa": {"N": 2, "K": 1, "T": 1}})
    assert made.model == shared.model, "the model's name without its hash will do"
    with pytest.raises(openai.BadRequestError):
        shared.ask(messages=[*secret, {"role": "assistant", "content": "x"}])
    first, last, refused = (out := capsys.readouterr().out).splitlines()
    assert first.startswith("request") and "answered after" in last
    assert refused.startswith("refused: 400 ") and "secret" not in out


def test_the_command_serves_until_it_is_stopped_also_while_it_answers(
    openai: Any, results: Path
) -> None:
    allowed = ("--host", "localhost", "--allow-host", "rsa.example.org")
    process = python(
        "-m", "labs.endpoint.cli", "N=4", "--port", "0", "K=2", "MAX_TOKENS=300", "T=500", *allowed
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        assert "N=4 K=2 T=500" in line
        url = line.split(" on ")[1].split(": N=")[0]
        assert url.startswith("http://127.0.0.1:")
        for host, status in (("rsa.example.org", 200), ("localhost:1", 200), ("evil.example", 403)):
            assert (
                httpx2.get(
                    f"{url}/models", headers={"host": host}, timeout=None, verify=False
                ).status_code
                == status
            )
        client: Any
        plain = openai.DefaultHttpxClient(verify=False)
        with openai.OpenAI(base_url=url, api_key="none", http_client=plain) as client:
            model = client.models.list().data[0].id
            made = client.chat.completions.create(
                model=model, messages=ASKED, extra_body={"rsa": {"T": 0}}
            )
            assert "\\boxed{" in (made.choices[0].message.content or "")
            stream = client.chat.completions.create(model=model, messages=ASKED, stream=True)
            progress = (
                getattr(chunk.choices[0].delta, "reasoning_content", "") for chunk in stream
            )
            assert "step 0 of 500" in next(filter(None, progress))
            process.send_signal(signal.SIGINT)
            with pytest.raises(openai.APIError) as raised:
                list(progress)
            assert raised.value.code == "stopped"
            _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0 and "Traceback" not in err, err
    journal = results / "journal" / "serve_rsa.jsonl"
    assert journal.stat().st_mode & 0o077 == 0, "it holds what clients ask"
    assert journal.read_text().count("\n") >= 8


@pytest.mark.parametrize(
    ("args", "named"),
    [
        (["K=9"], "K=9"),
        (["SEED=1"], "'SEED'"),
        (["SCAFFOLD=vote"], "vote"),
        *(([word], word) for word in ("ROUNDS=-1", "ROUNDS")),
        (["SCAFFOLD=nomos", "N=4"], "K=12"),
        *((["--port", port], port) for port in ("70000", "29871", "29872")),
        (["--host", "nowhere.invalid"], "nowhere.invalid"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    args: list[str], named: str, results: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(signals, "catch", lambda: None)  # which takes this process's signals
    monkeypatch.setenv("PORT", "29871")
    # a port in use
    with socket.create_server(("127.0.0.1", 29872)), pytest.raises(SystemExit, match="2"):
        cli.main(["--port", "0", *args])
    assert not (results / "journal").exists()
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("error: ") and err.count("\n") == 1 and named in err
