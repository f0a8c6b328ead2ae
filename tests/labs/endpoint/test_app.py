"""RSA as a model: the real openai client, and a chat UI's raw requests, against the endpoint over the real engine."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.base import seeds
from core.engines.server import Server
from core.generate import retry
from core.generate.generator import Generator
from core.generate.journal import Journal
from core.grading.answers import groups
from core.scaffolds.rsa import RsaConstants, rsa
from core.types import Completion, Population, Sampling
from labs.endpoint import app, chat
from labs.endpoint.guard import Refusal
from tests.conftest import python
from tests.fakes.http import Proxy, answer, reset
from tests.fakes.moody import Moody
from tests.fakes.moody import chat as chat_reply

STATEMENT = "Find the remainder when 9*15 + 8*67 + 2*69 + 6*41 is divided by 1000."
ASKED = [{"role": "user", "content": STATEMENT}]
DEFAULTS = RsaConstants(N=4, K=2, T=1, MAX_TOKENS=300, ANSWER_TOKENS=0)
Start = Callable[..., "Running"]


class Running:
    """The endpoint in a thread of its own, in front of `server`, with its journal in `folder`."""

    def __init__(self, server: Server, folder: Path, **changes: Any) -> None:
        self.model, self.journal = f"rsa/{server.model}", folder / "serve_rsa.jsonl"
        self._server, self._defaults = server, replace(DEFAULTS, **changes)
        self._place = app.bound("127.0.0.1", 0)
        self._place.listen()
        self.url = f"http://127.0.0.1:{self._place.getsockname()[1]}/v1"
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()))
        self._thread.start()
        self._ready.wait()

    async def _main(self) -> None:
        self._loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        self._task = task
        self._ready.set()
        with self._place, Journal(self.journal) as journal, suppress(asyncio.CancelledError):
            await app.serve(self._place, self._server, self._defaults, journal)

    def close(self) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join()

    def client(self, api_key: str = "none") -> Any:
        return openai.OpenAI(base_url=self.url, api_key=api_key)

    def ask(self, **fields: Any) -> Any:
        """A chat completion through the openai client, with seed 1 unless `fields` say otherwise; of a
        stream, its chunks."""
        with self.client() as client:
            body = {"model": self.model, "messages": ASKED, "seed": 1} | fields
            made = client.chat.completions.create(**body)
            return list(made) if fields.get("stream") else made

    def post(self, body: Any, **headers: str) -> httpx2.Response:
        """A raw request; `body` is sent as it is where it is bytes."""
        content = body if isinstance(body, bytes) else json.dumps({"model": self.model, "messages": ASKED} | body)
        shown = {"content-type": "application/json"} | {
            name.replace("_", "-"): value for name, value in headers.items()
        }
        return httpx2.post(f"{self.url}/chat/completions", content=content, headers=shown, timeout=120)

    def completions(self) -> list[dict[str, Any]]:
        return [json.loads(line)["completion"] for line in self.journal.read_text().splitlines()]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as running:

        def begin(server: Server, **changes: Any) -> Running:
            made = Running(server, tmp_path, **changes)
            running.callback(made.close)
            return made

        yield begin


@pytest.fixture(scope="module")
def shared(engine: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    made = Running(engine, tmp_path_factory.mktemp("shared"))
    yield made
    made.close()


def directly(server: Server, folder: Path, body: dict[str, Any]) -> list[Population]:
    """The populations of core.scaffolds.rsa itself, with a journal of its own, for what `body` asks."""
    asked = chat.read(body, body["model"], DEFAULTS)
    sampling = Sampling(max_tokens=asked.config.MAX_TOKENS)

    async def run() -> list[Population]:
        with Journal(folder / "direct.jsonl") as journal:
            async with Generator(server, journal, 8, 60) as generator:

                async def ask(messages: Any, *names: Any, **changes: Any) -> Completion:
                    return await generator(
                        messages, seeds.derive(asked.config.SEED, asked.problem.id, *names), sampling
                    )

                return [population async for population in rsa(asked.problem, ask, asked.config)]

    return asyncio.run(run())


def test_the_answer_is_a_member_of_what_rsa_gives_with_the_same_seeds(
    engine: Server, start: Start, tmp_path: Path
) -> None:
    running = start(engine)
    made = running.ask(extra_body={"rsa": {"N": 5, "T": 2}})
    body = {"model": running.model, "messages": ASKED, "seed": 1, "rsa": {"N": 5, "T": 2}}
    steps = directly(engine, tmp_path / "apart", body)
    told = made.model_extra["rsa"]
    assert [member["key"] for member in told["population"]] == [m.completion.key for m in steps[-1]]
    assert [member["parents"] for member in told["population"]] == [m.parents for m in steps[-1]]
    boxes = [m.completion.text.split("\\boxed{")[1].split("}")[0] for m in steps[-1]]
    voted = max(boxes, key=boxes.count)
    assert told["vote"]["votes"] == boxes.count(voted) == boxes.count(told["vote"]["answer"])
    first = boxes.index(told["vote"]["answer"])
    assert made.choices[0].message.content == steps[-1][first].completion.text
    assert made.choices[0].finish_reason == "stop" and told["members"][0] == first
    assert told["config"] | {"SEED": 1, "N": 5, "K": 2, "T": 2} == told["config"]


def test_members_vote_for_what_they_say_however_they_spell_it(engine: Server, proxy: Proxy, start: Start) -> None:
    running = start(replace(engine, base_url=proxy.url), N=5, K=1, T=0, CONCURRENCY=1)
    boxes = ["3", r"2\sqrt{2}", "3", r"\sqrt{8}", r"2^{3/2}"]
    proxy.script = [answer(200, reply(f"so \\boxed{{{box}}}")) for box in boxes]
    told = running.ask(extra_body={"rsa": {"N": 5}})
    found = told.model_extra["rsa"]
    assert found["vote"] == {"answer": "2^{3/2}", "votes": 3, "tied": False}  # the shortest of three
    assert found["steps"][0]["answers"] == {"2^{3/2}": 3, "3": 2}
    assert sorted(m["answer"] for m in found["population"]) == ["2^{3/2}"] * 3 + ["3"] * 2
    assert "{3}" not in told.choices[0].message.content


def test_others_are_answered_while_answers_are_compared(
    engine: Server, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, others = start(engine), threading.Event()

    def slow(*args: Any) -> Any:
        assert others.wait(120), "the loop stands still"
        return groups(*args)

    monkeypatch.setattr(app, "groups", slow)
    with ThreadPoolExecutor() as pool:
        asked = [pool.submit(running.ask, seed=seed) for seed in range(app.VOTING._max_workers + 4)]
        with running.client() as client:
            assert client.models.list().data
        assert httpx2.get(running.url.replace("/v1", "/health"), timeout=120).status_code == 200
        others.set()
        assert all(each.result().choices[0].message.content for each in asked)


def test_usage_is_the_sum_over_the_journal_and_progress_is_reasoning(engine: Server, start: Start) -> None:
    running = start(engine)
    made = running.ask()
    kept = running.completions()
    assert len(kept) == made.model_extra["rsa"]["generations"] == 4 * 2
    usage = made.usage
    assert usage.prompt_tokens == sum(c["prompt_tokens"] for c in kept) > 0
    assert usage.completion_tokens == sum(c["completion_tokens"] for c in kept) > 0
    assert usage.prompt_tokens_details.cached_tokens == sum(c["cached_tokens"] for c in kept)
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    lines = made.choices[0].message.reasoning_content.splitlines()
    assert [line.split(",")[0] for line in lines] == ["step 0 of 1: 4 solutions", "step 1 of 1: 4 solutions"]
    answers = made.model_extra["rsa"]["steps"][1]["answers"]
    assert all(f"{voted} ×{count}" in lines[1] for voted, count in answers.items()) and sum(answers.values()) == 4


def test_an_equal_request_comes_from_the_journal_and_another_seed_does_not(
    engine: Server, proxy: Proxy, start: Start
) -> None:
    running = start(replace(engine, base_url=proxy.url))
    first, again = running.ask(), running.ask()
    assert len(proxy.bodies) == 8 and again.model_extra["rsa"]["reused"] == 8
    assert again.choices[0].message == first.choices[0].message and again.usage == first.usage
    assert first.id != again.id and first.model_extra["rsa"]["reused"] == 0
    running.ask(seed=2)
    assert len(proxy.bodies) == 16
    drawn = [running.ask(seed=None, extra_body={"rsa": {"T": 0}}).model_extra["rsa"]["config"]["SEED"] for _ in "ab"]
    assert drawn[0] != drawn[1], "without a seed, a random one that is told"


def test_a_stream_holds_progress_then_the_answer_then_usage(engine: Server, start: Start) -> None:
    running = start(engine)
    whole = running.ask(n=2)
    with running.client() as client:
        chunks = list(
            client.chat.completions.create(
                model=running.model,
                messages=ASKED,
                seed=1,
                n=2,
                stream=True,
                stream_options={"include_usage": True},
            )
        )
    *deltas, last = chunks
    assert last.choices == [] and last.usage == whole.usage and all(chunk.usage is None for chunk in deltas)
    assert len({chunk.id for chunk in chunks}) == 1 and chunks[0].object == "chat.completion.chunk"
    choices = [chunk.choices[0] for chunk in deltas]

    def kind(choice: Any) -> str:
        shown = (name for name in ("role", "reasoning_content", "content") if getattr(choice.delta, name, None))
        return next(shown, "end")

    per_choice = [[kind(c) for c in choices if c.index == index] for index in (0, 1)]
    assert per_choice[0] == ["role", "reasoning_content", "reasoning_content", "content", "end"]
    assert per_choice[1] == ["role", "content", "end"]
    for index in (0, 1):
        mine = [c for c in choices if c.index == index]
        assert "".join(c.delta.content or "" for c in mine) == whole.choices[index].message.content
        assert [c.finish_reason for c in mine if c.finish_reason] == [whole.choices[index].finish_reason]
    reasoning = "".join(getattr(c.delta, "reasoning_content", None) or "" for c in choices)
    assert reasoning == whole.choices[0].message.reasoning_content
    told = [chunk.model_extra["rsa"] for chunk in deltas if chunk.model_extra and "rsa" in chunk.model_extra]
    assert len(told) == 1 and told[0]["population"] == whole.model_extra["rsa"]["population"]


def test_a_chat_uis_request_is_answered(shared: Running) -> None:
    body = {
        "stream": True,
        "model": shared.model,
        "messages": [
            {"role": "system", "content": "You are a careful mathematician."},
            {"role": "user", "content": [{"type": "text", "text": STATEMENT}]},
        ],
        "stream_options": {"include_usage": True},
        "n": 1,
        "stop": ["<|im_end|>", "\n\n\n"],
        "max_tokens": 300,
        "temperature": 0.7,
        "frequency_penalty": 0,
        "logit_bias": {},
        "tools": [],
        "user": "ada",
        "metadata": {"chat_id": "1", "features": {"web_search": False}},
        "chat_id": "1",
        "session_id": "2",
        "id": "3",
        "background_tasks": {"title_generation": True},
        "custom": None,
    }
    with httpx2.stream("POST", f"{shared.url}/chat/completions", json=body, timeout=120) as reply:
        assert reply.status_code == 200 and reply.headers["content-type"].startswith("text/event-stream")
        events = "".join(reply.iter_text()).split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""] and all(event.startswith("data: ") for event in events[:-1])
    decoded = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    assert decoded[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    text = "".join(c["delta"].get("content", "") for event in decoded for c in event["choices"])
    assert "\\boxed{" in text and decoded[-1]["usage"]["completion_tokens"] > 0


def test_the_async_client_gets_two_answers_at_once(shared: Running) -> None:
    async def both() -> tuple[str, str, str]:
        client: Any
        async with openai.AsyncOpenAI(base_url=shared.url, api_key="none") as client:

            async def whole(seed: int) -> str:
                made = await client.chat.completions.create(model=shared.model, messages=ASKED, seed=seed)
                return made.choices[0].message.content or ""

            async def streamed(seed: int) -> str:
                stream = await client.chat.completions.create(
                    model=shared.model,
                    messages=ASKED,
                    seed=seed,
                    stream=True,
                )
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            return await asyncio.gather(whole(11), streamed(12), streamed(11))

    whole, other, streamed = asyncio.run(both())
    assert whole == streamed == shared.ask(seed=11).choices[0].message.content
    assert other == shared.ask(seed=12).choices[0].message.content


def test_the_conversation_goes_ahead_of_every_prompt(engine: Server, proxy: Proxy, start: Start) -> None:
    running = start(replace(engine, base_url=proxy.url))
    before = [
        {"role": "developer", "content": "Be exact."},
        {"role": "user", "content": "Hello."},
        {"role": "assistant", "content": "What shall I solve?"},
    ]
    running.ask(messages=[*before, *ASKED])
    shown = [body["messages"] for body in proxy.bodies]
    assert len(shown) == 8 and all(m[:3] == [{"role": "system", "content": "Be exact."}, *before[1:]] for m in shown)
    assert all(len(m) == 4 and STATEMENT in m[3]["content"] for m in shown)
    assert sum("Candidate 2:" in m[3]["content"] for m in shown) == 4


def test_the_requests_sampling_reaches_the_server(engine: Server, proxy: Proxy, start: Start) -> None:
    running = start(replace(engine, base_url=proxy.url))
    running.ask(max_tokens=200, temperature=0.5, top_p=0.9, extra_body={"top_k": 40, "N": 2, "rsa": {"t": 0}})
    running.ask(max_completion_tokens=150, extra_body={"top_k": -1, "rsa": {"T": 0, "TEMPERATURE": 0.3}})
    first, second = proxy.bodies[0], proxy.bodies[-1]
    names = ("max_tokens", "temperature", "top_p", "top_k", "min_p")
    assert [first[name] for name in names] == [200, 0.5, 0.9, 40, 0.0]
    assert [second[name] for name in names] == [150, 0.3, 1.0, -1, 0.0]
    assert len(proxy.bodies) == 2 + 4 and len({body["seed"] for body in proxy.bodies[2:]}) == 4


def reply(text: str, reason: str = "stop") -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": text}}
    return {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}


@pytest.mark.parametrize(
    ("texts", "order", "vote"),
    [
        (["is \\boxed{1}", "\\boxed{2} it is", "so \\boxed{2}", "none"], [1, 2, 0, 3], ("2", 2, False)),
        (["\\boxed{3}", "\\boxed{\\frac12}", "\\boxed{0.5}", ""], [1, 2, 0, 3], ("1/2", 2, False)),
        (["", "\\boxed{7}", "\\boxed{5}", "\\boxed{7} or \\boxed{5}"], [2, 3, 1, 0], ("5", 2, False)),
        (["\\boxed{9}", "\\boxed{8}", "\\boxed{8}", "\\boxed{9}"], [0, 1, 2, 3], ("9", 2, True)),
        (["", "a proof", "another", "third"], [1, 2, 3, 0], (None, 0, False)),
    ],
    ids=["majority", "equal answers written otherwise", "last box counts", "tie", "no box"],
)
def test_the_majority_is_answered_with_or_a_member_where_nobody_votes(
    engine: Server, proxy: Proxy, start: Start, texts: list[str], order: list[int], vote: tuple[Any, ...]
) -> None:
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=1, T=0)  # one at a time: member i gets text i
    proxy.script = [answer(200, reply(text)) for text in texts]
    made = running.ask(n=4)
    assert [choice.message.content for choice in made.choices] == [texts[i] for i in order]
    told = made.model_extra["rsa"]
    assert (told["vote"]["answer"], told["vote"]["votes"], told["vote"]["tied"]) == vote
    assert told["members"] == order


def test_failed_and_cut_off_members_are_told_and_the_others_answer(engine: Server, proxy: Proxy, start: Start) -> None:
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=1, T=0)
    refused = answer(400, {"error": {"message": "too long for the context"}})
    proxy.script = [
        refused,
        answer(200, reply("<think>so</think>half a", "length")),
        answer(200, reply("\\boxed{4}")),
        refused,
    ]
    made = running.ask(n=2)
    assert made.choices[0].message.content == "\\boxed{4}" and made.choices[1].message.content == "half a"
    assert [choice.finish_reason for choice in made.choices] == ["stop", "length"]
    said = made.choices[0].message.reasoning_content
    assert said == "step 0 of 0: 4 solutions, answers 4 ×1; 1 without an answer; 2 failed; 1 cut off\n"


@pytest.mark.parametrize(("stop", "kept"), [("=", "9*15"), (["6*41", ", "], None), (["<never>"], None)])
def test_stop_ends_the_answer_and_not_the_thinking(shared: Running, stop: Any, kept: str | None) -> None:
    whole = shared.ask().choices[0].message.content
    made = shared.ask(stop=stop).choices[0]
    stops = [stop] if isinstance(stop, str) else stop
    cut = min((whole.find(s) for s in stops if s in whole), default=len(whole))
    assert made.message.content == whole[:cut] and made.finish_reason == "stop"
    assert kept is None or made.message.content == kept


ERRORS: list[tuple[Any, int, str | None, str]] = [
    (b"{", 400, None, "not valid JSON"),
    (b"[" * 100_000, 400, None, "not valid JSON"),
    (b"\xff\xfe{", 400, None, "not valid JSON"),
    (b"[]", 400, None, "must be a JSON object"),
    (b"x" * (app.MAX_BODY + 1), 413, None, "larger than"),
    ({"model": None}, 400, "model", "model must be a text"),
    ({"model": "gpt-5\ud800"}, 404, "model", "there is rsa/"),
    ({"messages": None}, 400, "messages", "list of at least one"),
    ({"messages": []}, 400, "messages", "list of at least one"),
    ({"messages": "hello"}, 400, "messages", "list of at least one"),
    ({"messages": ["hello"]}, 400, "messages[0].role", "role is one of"),
    ({"messages": [{"role": "tool", "content": "x"}]}, 400, "messages[0].role", "role is one of"),
    ({"messages": [{"role": "user"}]}, 400, "messages[0].content", "must be a text"),
    ({"messages": [{"role": "user", "content": 5}]}, 400, "messages[0].content", "must be a text"),
    ({"messages": [{"role": "user", "content": " \n"}]}, 400, "messages", "hold text"),
    ({"messages": [{"role": "user", "content": "\ud800"}]}, 400, "messages[0].content", "surrogate"),
    ({"messages": [*ASKED, {"role": "assistant", "content": "The"}]}, 400, "messages", "must be the user's"),
    ({"messages": [{"role": "assistant", "tool_calls": [{}]}]}, 400, "messages[0].tool_calls", "not supported"),
    (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        400,
        "messages[0].content",
        "not text ('image_url')",
    ),
    ({"max_tokens": 0}, 400, "max_tokens", "max_tokens=0 is out of range: a whole number from 1"),
    ({"max_tokens": "300"}, 400, "max_tokens", "is not a whole number"),
    ({"max_tokens": 1.5}, 400, "max_tokens", "is not a whole number"),
    ({"temperature": True}, 400, "temperature", "is not a number"),
    ({"temperature": -1}, 400, "temperature", "out of range"),
    (b'{"temperature": NaN, "model": "%s", "messages": [{"role": "user", "content": "x"}]}', 400, "temperature", "nan"),
    ({"top_p": [1]}, 400, "top_p", "is not a number"),
    ({"seed": -1}, 400, "seed", "out of range"),
    ({"rsa": [1]}, 400, "rsa", "must be an object"),
    ({"rsa": {"K": 5}}, 400, "rsa", "K=5 is larger than N=4"),
    ({"rsa": {"N": 1.5}}, 400, "rsa.N", "is not a whole number"),
    ({"rsa": {"M": 1}}, 400, "rsa.M", "not a constant of a request"),
    ({"rsa": {"TIMEOUT": 1}}, 400, "rsa.TIMEOUT", "not a constant of a request"),
    ({"rsa": {"CARRY": "all"}}, 400, "rsa.CARRY", "one of answer, tail, full"),
    ({"rsa": {"ORDER": "most used"}}, 400, "rsa.ORDER", "one of random, shared"),
    ({"M": 1}, 400, "M", "not a constant of a request"),
    ({"n": 0}, 400, "n", "from 1 to N=4"),
    ({"n": 5}, 400, "n", "from 1 to N=4"),
    ({"n": True}, 400, "n", "from 1 to N=4"),
    ({"stop": 5}, 400, "stop", "stop must be"),
    ({"stop": [""]}, 400, "stop", "stop must be"),
    ({"stream": "yes"}, 400, "stream", "true or false"),
    ({"stream": 1}, 400, "stream", "true or false"),
    ({"stream": True, "stream_options": 5}, 400, "stream_options", "must be an object"),
    ({"logprobs": True}, 400, "logprobs", "not supported"),
    ({"tools": [{"type": "function"}]}, 400, "tools", "not supported"),
    ({"response_format": {"type": "json_object"}}, 400, "response_format", "not supported"),
    ({"presence_penalty": 0.5}, 400, "presence_penalty", "not supported"),
]


@pytest.mark.parametrize(("body", "status", "param", "words"), ERRORS)
def test_what_cannot_be_answered_is_refused_in_openais_words(
    shared: Running, body: Any, status: int, param: str | None, words: str
) -> None:
    if isinstance(body, bytes) and b"%s" in body:
        body = body % shared.model.encode()
    before = shared.journal.read_bytes()
    refused = shared.post(body)
    assert refused.status_code == status
    error = refused.json()["error"]
    assert set(error) == {"message", "type", "param", "code"} and error["type"] == "invalid_request_error"
    assert error["param"] == param and words in error["message"] and "\n" not in error["message"]
    assert shared.journal.read_bytes() == before, "nothing was asked for it"


def test_the_openai_client_raises_its_own_errors(shared: Running) -> None:
    with pytest.raises(openai.NotFoundError, match="there is rsa/"):
        shared.ask(model="gpt-5")
    with pytest.raises(openai.BadRequestError, match="K=9 is larger than N=4") as raised:
        shared.ask(extra_body={"rsa": {"K": 9}})
    assert raised.value.type == "invalid_request_error"


def test_other_paths_methods_and_content_types_are_refused_in_the_same_words(shared: Running) -> None:
    root = shared.url.removesuffix("/v1")
    for refused, status in (
        (httpx2.get(f"{root}/v1/chat/completions", timeout=120), 405),
        (httpx2.post(f"{root}/v1/embeddings", json={}, timeout=120), 404),
        (shared.post({}, content_type="text/plain"), 415),
    ):
        assert refused.status_code == status and refused.json()["error"]["type"] == "invalid_request_error"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
some_fields = st.dictionaries(
    st.sampled_from([*chat.FIELDS, *chat.UNSUPPORTED, "n", "stop", "stream", "stream_options", "rsa", "messages", "N"]),
    json_values,
)


@given(some_fields | json_values)
def test_any_body_is_read_or_refused(body: Any) -> None:
    if isinstance(body, dict):
        body = {"model": "rsa/m", "messages": ASKED} | body
    with suppress(Refusal):
        assert chat.read(body, "rsa/m", DEFAULTS).problem.statement


def test_models_and_health(engine: Server, proxy: Proxy, start: Start) -> None:
    running = start(replace(engine, base_url=proxy.url))
    with running.client() as client:
        assert [model.id for model in client.models.list()] == [running.model]
    health = running.url.replace("/v1", "/health")
    assert httpx2.get(health, timeout=120).status_code == 200
    proxy.close()
    assert httpx2.get(health, timeout=120).status_code == 503


def test_a_conversation_too_long_for_the_model_is_refused_at_once(engine: Server, proxy: Proxy, start: Start) -> None:
    running = start(replace(engine, base_url=proxy.url), T=5)
    with pytest.raises(openai.BadRequestError, match="too long for the model") as raised:
        running.ask(messages=[{"role": "user", "content": "1 + " * 3000}])
    assert raised.value.code == "context_length_exceeded"
    assert len(proxy.bodies) < 6 * 4, "not all steps were tried: the next may have begun before the first was looked at"


def test_a_cap_that_does_not_fit_the_servers_context_is_refused(engine: Server, start: Start) -> None:
    running = start(replace(engine, kind="vllm"))
    with pytest.raises(openai.BadRequestError, match="MAX_TOKENS=4000 does not fit") as raised:
        running.ask(max_tokens=4000)
    assert raised.value.param == "max_tokens"


def test_a_lost_server_is_told_with_503_and_in_a_stream_as_an_error(
    engine: Server, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "_backoff", lambda attempt: 0.01)
    before = start(engine)
    made = before.ask().choices
    before.close()
    running = start(replace(engine, base_url="http://127.0.0.1:9/v1"))
    assert running.ask().choices == made, "what is in the journal is still answered"
    with pytest.raises(openai.InternalServerError, match="does not answer any more") as raised:
        running.ask(seed=2)
    assert raised.value.status_code == 503 and raised.value.type == "server_error"
    assert raised.value.response.headers["x-should-retry"] == "false"
    with pytest.raises(openai.APIError, match="does not answer any more"):
        running.ask(seed=2, stream=True)


def test_a_server_lost_in_the_middle_leaves_nothing_running(
    engine: Server, proxy: Proxy, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "_backoff", lambda attempt: 0.01)
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=1, N=8)
    proxy.script = [reset] * 1000
    with pytest.raises(openai.InternalServerError, match="does not answer any more"):
        running.ask()
    assert len(proxy.bodies) <= retry.RETRIES + 2, "the others are not asked for once one is lost"


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_takes_its_work_with_it(engine: Server, proxy: Proxy, start: Start, stream: bool) -> None:
    running = start(replace(engine, base_url=proxy.url), CONCURRENCY=2)
    body = {"model": running.model, "messages": ASKED, "stream": stream, "rsa": {"T": 1000}}
    with httpx2.Client(timeout=httpx2.Timeout(60, read=60 if stream else 2)) as client:
        if stream:
            with client.stream("POST", f"{running.url}/chat/completions", json=body) as streaming:
                assert any("reasoning_content" in line for line in streaming.iter_lines())
        else:
            with pytest.raises(httpx2.ReadTimeout):
                client.post(f"{running.url}/chat/completions", json=body)
    seen = -1
    while seen != len(proxy.bodies) or proxy.in_flight:
        seen = len(proxy.bodies)
        time.sleep(0.5)
    assert 0 < seen < 4 * 1001 / 2
    assert running.ask().choices[0].message.content, "the slots are free again"


def test_silence_is_filled_with_comments_that_clients_pass_over(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "KEEP_ALIVE", 0.02)
    raw = shared.post({"stream": True, "seed": 31}).text
    assert ": still at work\n\n" in raw
    said = "".join(chunk.choices[0].delta.content or "" for chunk in shared.ask(seed=32, stream=True))
    assert said == shared.ask(seed=32).choices[0].message.content


def test_a_long_answer_comes_in_pieces(engine: Server, proxy: Proxy, start: Start) -> None:
    running = start(replace(engine, base_url=proxy.url), N=1, K=1, T=0)
    long = "é\n" * 5000
    proxy.script = [answer(200, reply(long + "end"))]
    pieces = [chunk.choices[0].delta.content or "" for chunk in running.ask(stream=True)]
    assert "".join(pieces) == long + "end" and max(map(len, pieces)) == app.PIECE


def test_where_there_is_a_key_requests_need_it(engine: Server, start: Start) -> None:
    running = start(replace(engine, api_key="sk-secret"))
    for wrong in ({}, {"authorization": "Bearer sk-secre"}, {"authorization": "sk-secret"}):
        refused = running.post({}, **wrong)
        assert refused.status_code == 401 and refused.json()["error"]["code"] == "invalid_api_key"
        assert "sk-secret" not in refused.text and refused.headers["www-authenticate"] == "Bearer"
    with pytest.raises(openai.AuthenticationError), running.client() as client:
        client.models.list()
    with running.client(api_key="sk-secret") as client:
        assert client.models.list().data
    assert httpx2.get(running.url.replace("/v1", "/health"), timeout=120).status_code == 200


def test_a_bug_of_ours_is_a_500_and_its_traceback_is_logged(
    engine: Server, start: Start, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    running = start(engine)
    monkeypatch.setattr(app, "rsa", lambda *_: 1 / 0)
    failed = running.post({})
    assert failed.status_code == 500 and failed.json()["error"]["code"] == "internal_error"
    running.close()
    assert "ZeroDivisionError" in capfd.readouterr().err


def command(*args: str, **changes: str) -> "subprocess.Popen[str]":
    return python("-m", "labs.endpoint.app", *args, **changes)


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_command_serves_until_it_is_stopped_also_while_it_answers(results: Path, sign: int) -> None:
    process = command("N=4", "--port", "0", "K=2", "MAX_TOKENS=300", "T=500", API_KEY="sk-secret")
    assert process.stdout is not None
    line = process.stdout.readline()
    try:
        assert "N=4 K=2 T=500" in line and "no NVIDIA GPU" in line
        url = line.split(" on ")[1].split(": N=")[0]
        assert url.startswith("http://127.0.0.1:")
        client: Any
        with openai.OpenAI(base_url=url, api_key="sk-secret") as client:
            model = client.models.list().data[0].id
            made = client.chat.completions.create(model=model, messages=ASKED, extra_body={"rsa": {"T": 1}})
            assert "\\boxed{" in (made.choices[0].message.content or "")
            stream = client.chat.completions.create(model=model, messages=ASKED, stream=True)
            said = (getattr(chunk.choices[0].delta, "reasoning_content", "") for chunk in stream)
            assert "step 0 of 500" in next(filter(None, said))
            process.send_signal(sign)
            with pytest.raises(openai.APIError, match="the endpoint was stopped"):
                list(said)
            out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 0 and "stopped" in err and "Traceback" not in err, err
    journal = results / "journal" / "serve_rsa.jsonl"
    kept = journal.read_text()
    assert journal.stat().st_mode & 0o077 == 0, "it holds what clients ask"
    assert kept.count("\n") >= 8 and "sk-secret" not in line + out + err + kept


@pytest.mark.parametrize(
    ("args", "changes", "words"),
    [
        (["K=9"], {}, "K=9 is larger than N=8"),
        (["SEED=1"], {}, "unknown constant 'SEED'"),
        (["--port", "70000"], {}, "--port 70000 is not a port"),
        (["--port", "http"], {}, "--port http is not a port"),
        (["--port", "29871"], {}, "where the server behind is looked for"),
        (["--host", "nowhere.invalid"], {}, "can't serve on nowhere.invalid"),
        ([], {"BASE_URL": "http://127.0.0.1:9/v1"}, "no server answers at BASE_URL"),
        ([], {"RESULTS_DIR": "/dev/null/results"}, "Set RESULTS_DIR"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    results: Path, args: list[str], changes: dict[str, str], words: str
) -> None:
    process = command("--port", "0", *args, **changes)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 2 and err.startswith("error: ") and err.count("\n") == 1 and words in err
    assert out == ""


def test_a_port_in_use_is_told_before_an_engine_starts(results: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = command("--port", str(taken.getsockname()[1]))
        out, err = process.communicate(timeout=120)
    assert process.returncode == 2 and err.count("\n") == 1 and "Address already in use" in err and "--port" in err
    assert not (results / "journal").exists() and out == ""


def test_each_request_is_a_line_without_its_text(shared: Running, capsys: pytest.CaptureFixture[str]) -> None:
    secret = "a secret of the client's: 3*45?"
    model = shared.model.partition("@")[0]
    with shared.client() as client:
        made = client.chat.completions.create(
            model=model, messages=[{"role": "user", "content": secret}], extra_body={"rsa": {"N": 2, "K": 1, "T": 1}}
        )
        assert made.model == shared.model, "the model's name without its hash will do"
        with pytest.raises(openai.BadRequestError):
            client.chat.completions.create(model=model, messages=[])
    out = capsys.readouterr().out
    first, last, refused = out.splitlines()
    assert re.fullmatch(r"request \d+: N=2 K=1 T=1, 4 completions, 31 characters", first)
    assert re.fullmatch(r"request \d+: answered after [\d.]+ s, [\d,]+ completion tokens", last)
    assert refused.startswith("refused: 400 ") and "secret" not in out


@pytest.fixture
def moody() -> Iterator[Moody]:
    made = Moody()
    yield made
    made.close()


def test_rsa_as_a_model_tells_no_usage_that_it_does_not_know(moody: Moody, tmp_path: Path) -> None:
    moody.choose = lambda n, prompt: answer(200, chat_reply("\\boxed{42}") | {"usage": None})
    running = Running(Server("other", moody.url, "m", "x"), tmp_path)
    try:
        with running.client() as client:
            asked: Any = [{"role": "user", "content": "?"}]
            made = client.chat.completions.create(model=running.model, messages=asked)
            assert made.usage is None and "42" in (made.choices[0].message.content or "")
            options: Any = {"stream": True, "stream_options": {"include_usage": True}}
            chunks = list(client.chat.completions.create(model=running.model, messages=asked, **options))
            assert chunks[-1].usage is None and not chunks[-1].choices
    finally:
        running.close()
