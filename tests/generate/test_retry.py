"""Servers that send nothing usable: said soon, ended soon, and never what a run that worked is overwritten with."""

import asyncio
import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import RunFailed
from core.engines.server import Server
from core.generate import generator, retry
from core.generate.generator import Generator
from core.generate.journal import Journal
from core.generate.retry import Retry
from core.types import Completion, Sampling
from tests.conftest import ROOT, ended, python
from tests.fakes.http import HttpFake, Request, answer, reset
from tests.helpers.runs import load

Answer = Callable[[BaseHTTPRequestHandler], None]
MODELS = {"object": "list", "data": [{"id": "m", "object": "model", "owned_by": "somebody"}]}


def chat(text: str, **more: Any) -> dict[str, Any]:
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"} | more
    return {"model": "m", "choices": [choice], "usage": {"prompt_tokens": 5, "completion_tokens": 7}}


def good(prompt: str) -> Answer:
    return answer(200, chat(f"\\boxed{{{hashlib.sha256(prompt.encode()).digest()[0]}}}"))


class Moody(HttpFake):
    """A server whose answer to the request number `n` (from 0) with this `prompt` is `choose(n, prompt)`."""

    def __init__(self) -> None:
        self.prompts: list[str] = []
        self.choose: Callable[[int, str], Answer] = lambda n, prompt: good(prompt)
        super().__init__()

    def get(self, request: Request) -> None:
        answer(200 if request.path == "/v1/models" else 404, MODELS)(request)

    def post(self, request: Request, body: bytes) -> None:
        prompt = json.loads(body)["messages"][-1]["content"]
        with self.lock:
            self.prompts.append(prompt)
            n = len(self.prompts) - 1
        self.choose(n, prompt)(request)


@pytest.fixture
def moody() -> Iterator[Moody]:
    made = Moody()
    yield made
    made.close()


QUOTA = {"error": {"message": "You exceeded your current quota", "type": "insufficient_quota", "code": None}}
USELESS: dict[str, tuple[Answer, str]] = {
    "HTML": (answer(200, b"<html>log in first</html>", "text/html"), "log in first"),
    "no choices": (answer(200, {"object": "chat.completion", "choices": []}), "no message in"),
    "no end": (answer(200, chat("half", finish_reason=None)), "the reply has no end"),
    "500": (answer(500, {"error": {"message": "CUDA error"}}), "CUDA error"),
    "503, no words": (answer(503, b""), "status 503"),
    "429": (answer(429, {"detail": "slow down"}, retry_after="0"), "slow down"),
    "error within 200": (answer(200, {"error": {"message": "out of memory"}}), "out of memory"),
    "torn stream": (answer(200, b'data: {"choices": [{"delta": {"content": "1"}}]}\n\n', "text/event-stream"), "ended"),
}


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generator, "_backoff", lambda attempt: 0.001)


def ask(
    moody: Moody, folder: Path, prompts: Sequence[str], limit: int = 4, is_told: threading.Event | None = None
) -> tuple[list[Completion], list[str]]:
    """A completion of each prompt, and what was said meanwhile; `is_told` is set when something is."""
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        if is_told:
            is_told.set()

    async def all_of_them() -> list[Completion]:
        server = Server("other", moody.url, "m", "x")
        with Journal(folder / "a.jsonl") as journal:
            async with Generator(server, journal, limit, 60.0, stall=30.0, say=say) as generator:
                asked = [
                    generator([{"role": "user", "content": prompt}], n, Sampling()) for n, prompt in enumerate(prompts)
                ]
                return list(await asyncio.gather(*asked))

    return asyncio.run(all_of_them()), lines


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("kind", USELESS)
@pytest.mark.parametrize("limit", [1, 16])
def test_a_server_that_never_sends_anything_usable_is_given_up(
    moody: Moody, tmp_path: Path, kind: str, limit: int, capsys: pytest.CaptureFixture[str]
) -> None:
    fault, words = USELESS[kind]
    moody.choose = lambda n, prompt: fault
    with pytest.raises(RunFailed, match="has sent nothing usable") as raised:
        ask(moody, tmp_path, [f"prompt {n // 8}" for n in range(400)], limit)
    assert words in str(raised.value) and "\n" not in str(raised.value)
    tries = generator.RETRIES + 1
    assert len(moody.prompts) <= 2 * tries * limit + 8 * retry.PROMPTS_NEVER
    assert not (tmp_path / "a.jsonl").read_bytes()


@pytest.mark.usefixtures("hurried")
def test_it_is_said_once_with_the_servers_own_words(moody: Moody, tmp_path: Path) -> None:
    moody.choose = lambda n, prompt: answer(500, {"detail": "CUDA error."}) if n < 40 else good(prompt)
    made, lines = ask(moody, tmp_path, ["a", "b"] * 8, 8)
    assert all(one.error is None for one in made), "it came back in time"
    told, back = lines
    assert "sends nothing usable so far (status 500: CUDA error). It is asked for about 2 minutes more" in told
    assert back == f"note: the server at {moody.url} answers again"


@pytest.mark.usefixtures("hurried")
def test_a_server_away_as_long_as_a_request_is_asked_again_costs_nothing(moody: Moody, tmp_path: Path) -> None:
    """Two minutes, with the real waits: every request comes to its last try."""
    seen: dict[str, int] = {}

    def choose(n: int, prompt: str) -> Answer:
        seen[prompt] = seen.get(prompt, 0) + 1
        return reset if seen[prompt] < 4 else answer(503, b"") if seen[prompt] <= generator.RETRIES else good(prompt)

    moody.choose = choose
    made, _ = ask(moody, tmp_path, [f"prompt {n}" for n in range(12)], 4)
    assert all(one.error is None for one in made)


def test_who_waits_for_a_server_that_is_away_goes_on_when_it_answers_another(
    moody: Moody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "LONGEST_WAIT", 3600.0)
    monkeypatch.setattr(generator, "LEAST_WAIT", 0.01)
    monkeypatch.setattr(generator, "_backoff", lambda attempt: 3600.0)
    others = [f"prompt {n}" for n in range(100)]

    def choose(n: int, prompt: str) -> Answer:
        if prompt == "lost" and moody.prompts.count("lost") == 1:
            return reset
        time.sleep(0.05)
        return good(prompt)

    moody.choose = choose
    made, _ = ask(moody, tmp_path, ["lost", *others], 2)
    assert all(one.error is None for one in made) and moody.prompts.count("lost") == 2
    assert moody.prompts.index("lost", moody.prompts.index("lost") + 1) < len(moody.prompts) - 1, (
        "before the others end"
    )


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("limit", [1, 4])
def test_prompts_that_a_server_chokes_on_end_no_run(moody: Moody, tmp_path: Path, limit: int) -> None:
    """The first problem's and many later ones, but not all: a request each, failed and owed again."""
    moody.choose = lambda n, prompt: answer(500, b"") if "bad" in prompt else good(prompt)
    prompts = ["bad 0"] * 8 + [f"{'bad' if n % 3 else 'fine'} {n}" for n in range(60)]
    made, _ = ask(moody, tmp_path, prompts, limit)
    assert [one.error is not None for one in made] == ["bad" in prompt for prompt in prompts]
    moody.choose = lambda n, prompt: good(prompt)
    assert all(one.error is None for one in ask(moody, tmp_path, prompts)[0])


@pytest.mark.usefixtures("hurried")
def test_a_server_that_has_answered_is_waited_for_longer(
    moody: Moody, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moody.choose = lambda n, prompt: good(prompt) if n < 4 else answer(500, {"error": "broken"})
    prompts = [f"prompt {n}" for n in range(40)]
    made, lines = ask(moody, tmp_path / "longer", prompts)
    assert sum(one.error is None for one in made) == 4, "its ten minutes are not over, so that all are tried"
    assert len(lines) == 1 and "(status 500: broken). It is asked for about 10 minutes more" in lines[0]
    monkeypatch.setattr(retry, "SECONDS_SINCE", 0.0)
    before = len(moody.prompts)
    moody.choose = lambda n, prompt: good(prompt) if n < before + 4 else answer(500, {"error": "broken"})
    with pytest.raises(RunFailed, match="nothing usable for .* seconds .*broken"):
        ask(moody, tmp_path / "over", prompts)
    assert (tmp_path / "over" / "a.jsonl").read_text().count("\n") == 4, "what is finished is kept"


@pytest.mark.usefixtures("hurried")
def test_a_server_at_work_on_other_requests_is_not_given_up(moody: Moody, tmp_path: Path) -> None:
    """It refuses what it has no room for, and streams the reply of a long one meanwhile."""
    refused = threading.Event()

    def long(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.send_header("connection", "close")
        handler.end_headers()
        handler.wfile.write(b'data: {"choices": [{"delta": {"content": "\\\\boxed{4"}}]}\n\n')
        handler.wfile.flush()
        refused.wait(60)
        end = {"choices": [{"delta": {"content": "2}"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}
        handler.wfile.write(b"data: " + json.dumps(end).encode() + b"\n\ndata: [DONE]\n\n")
        handler.close_connection = True

    def choose(n: int, prompt: str) -> Answer:
        if prompt == "long":
            return long
        if len(set(moody.prompts)) == 21:
            refused.set()
        return answer(429, {"error": {"message": "no room"}})

    moody.choose = choose
    made, _ = ask(moody, tmp_path, ["long", *(f"prompt {n}" for n in range(20))])
    assert made[0].text == "\\boxed{42}" and all(one.error for one in made[1:])


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("answered", [0, 5])
def test_quota_that_is_used_up_ends_the_run_at_once(moody: Moody, tmp_path: Path, answered: int) -> None:
    moody.choose = lambda n, prompt: good(prompt) if n < answered else answer(429, QUOTA)
    with pytest.raises(RunFailed, match="no quota or credit left for us: You exceeded your current quota"):
        ask(moody, tmp_path, [f"prompt {n}" for n in range(100)], 2)
    assert len(moody.prompts) <= answered + 4
    assert (tmp_path / "a.jsonl").read_text().count("\n") == answered


def test_retry_counts_in_monotonic_time_and_begins_anew_with_every_usable_reply() -> None:
    lines: list[str] = []
    waiting = Retry("http://here", lines.append)
    now = time.monotonic()
    waiting.unusable("oops", now, 1, 120.0)
    waiting.unusable("oops", now, 2, 120.0)
    assert not lines
    waiting.usable()
    waiting.unusable("oops", now, 3, 120.0)
    assert not lines, "something usable came since it was sent"
    for tries in (1, 2, 3, 4):
        waiting.unusable("oops", time.monotonic() + 1, tries, 20.0)
    assert len(lines) == 1 and "sends nothing usable (oops)" in lines[0]
    waiting.usable()
    waiting.unusable("no connection", time.monotonic() + 1, 3, 120.0, is_away=True)
    assert "for about 2 minutes more; if nothing comes, the run ends" in lines.pop(), "no ten minutes: nobody is there"
    lines.pop()
    for n in range(100):
        waiting.used_up(f"prompt {n}", "oops", False)
    waiting.usable()
    assert len(lines) == 2 and not waiting.is_hopeless("prompt 1")


def test_a_server_that_goes_away_is_said_anew_with_its_own_deadline() -> None:
    lines: list[str] = []
    waiting = Retry("http://here", lines.append)
    waiting.usable()
    sent = time.monotonic()
    waiting.unusable("silent for 300 s", sent, 3, 1800.0)
    for left in (120.0, 60.0):
        waiting.unusable("no connection", sent, 3, left, is_away=True)
    assert [line.partition("asked for ")[2].partition(" more")[0] for line in lines] == [
        "about 30 minutes",
        "about 2 minutes",
    ]


class Frozen(Moody):
    """A server that is "busy" for 1.5 s with each request, or does one thing "at a time", pages included, or "hung": it
    answers one page while it works, and then nothing until it thaws."""

    def __init__(self, how: str) -> None:
        self.thawed, self.how, self.pages, self.work = threading.Event(), how, 0, threading.Lock()
        super().__init__()

    def get(self, request: Request) -> None:
        self.pages += 1
        if self.how == "hung" and self.pages > 1:
            self.thawed.wait(30)
        with self.work if self.how == "at a time" else nullcontext():
            super().get(request)

    def post(self, request: Request, body: bytes) -> None:
        if self.how == "hung":
            self.thawed.wait(30)
        with self.work if self.how == "at a time" else nullcontext():
            if self.how != "hung":
                time.sleep(1.5)
            super().post(request, body)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("how", ["busy", "at a time", "hung"])
def test_a_server_that_hangs_is_told_from_one_that_is_busy(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All requests are on their way, and no byte comes: long before patience ends, a page that answers decides."""
    monkeypatch.setattr("core.generate.pulse.SILENCE", 0.2)
    monkeypatch.setattr("core.generate.pulse.ANSWER", 20.0 if how == "busy" else 0.5)
    frozen = Frozen(how)
    try:
        made, lines = ask(frozen, tmp_path, ["a", "b", "c"], 3, frozen.thawed)
    finally:
        frozen.thawed.set()
        frozen.close()
    assert all(one.error is None for one in made)
    if how != "hung":
        assert lines == [] and sorted(frozen.prompts) == ["a", "b", "c"]
    else:
        assert "it sends nothing, and answers no new connection). It is asked for about 2 minutes" in lines[0]
        assert lines[1:] == [f"note: the server at {frozen.url} answers again"]


# Runs as a user starts them, without the waits between tries

PROGRAM = f"""
import runpy, sys
from core.generate import generator
generator._backoff = lambda attempt: 0.001
sys.argv = ["02_rsa_basic.py", *sys.argv[1:]]
runpy.run_path({str(ROOT / "experiments" / "02_rsa_basic.py")!r}, run_name="__main__")
"""
SMALL = ("PROBLEMS=sums", "LIMIT=30", "N=8", "K=3", "T=5", "MAX_TOKENS=300")


def ran(moody: Moody, folder: Path, *constants: str) -> tuple[int, str, str]:
    return ended(python("-c", PROGRAM, *SMALL, *constants, BASE_URL=moody.url, RESULTS_DIR=str(folder)))


def error_of(err: str) -> str:
    """The one line with which a run ends; the bar stands before it."""
    assert "Traceback" not in err and err.count("error: ") == 1, err
    return err.replace("\r", "\n").splitlines()[-1]


def test_a_run_without_a_usable_reply_ends_soon_with_status_1(moody: Moody, results: Path) -> None:
    moody.choose = lambda n, prompt: answer(200, b"<html>log in first</html>", "text/html")
    status, _, err = ran(moody, results)
    assert status == 1 and "log in first" in error_of(err) and "partial.json" in error_of(err)
    assert err.count("note: the server at") == 1 and "if nothing comes, the run ends" in err
    assert len(moody.prompts) < 500, "of 1,440 requests with nine tries each"
    assert not (results / "02_rsa_basic.json").exists() and not load(results, "02_rsa_basic.partial")["complete"]


def test_a_run_that_failed_whole_ends_with_status_1_and_replaces_nothing(moody: Moody, results: Path) -> None:
    """Refused for ever, one by one: none of it passes, and a run of it has no figures."""
    status, _, err = ran(moody, results, "LIMIT=2", "T=1")
    assert status == 0, err
    before = (results / "02_rsa_basic.json").read_bytes()
    moody.choose = lambda n, prompt: answer(400, {"error": {"message": "exceeds the context length"}})
    for _ in range(2):  # the second takes them from the journal
        status, out, err = ran(moody, results, "LIMIT=2", "T=1", "SEED=9")
        assert status == 1 and "every completion failed; most often: context overflow" in error_of(err)
        assert "results " not in out and (results / "02_rsa_basic.json").read_bytes() == before
        assert [path.name for path in results.glob("02_rsa_basic.*.json")] == ["02_rsa_basic.partial.json"]
        document = load(results, "02_rsa_basic.partial")
        assert not document["complete"] and any("100.0% of 32 completions failed" in w for w in document["warnings"])


def test_a_run_of_which_something_is_usable_is_a_run(moody: Moody, results: Path) -> None:
    moody.choose = lambda n, prompt: good(prompt) if n == 0 else answer(400, {"error": {"message": "too long"}})
    status, out, err = ran(moody, results, "LIMIT=1", "T=0", "N=4", "CONCURRENCY=1")
    assert status == 0 and load(results, "02_rsa_basic")["complete"], err
    assert "75.0% of 4 completions failed" in out


def test_quota_used_up_in_mid_run_keeps_what_is_finished(moody: Moody, results: Path) -> None:
    moody.choose = lambda n, prompt: good(prompt) if n < 20 else answer(429, QUOTA)
    status, _, err = ran(moody, results, "LIMIT=5", "T=1")
    assert status == 1 and "no quota or credit left" in error_of(err)
    kept = (results / "journal" / "02_rsa_basic.jsonl").read_text().count("\n")
    assert kept == 20  # those in flight when it was used up are paid for, and waited for
    moody.choose = lambda n, prompt: good(prompt)
    before = len(moody.prompts)
    status, out, err = ran(moody, results, "LIMIT=5", "T=1")
    assert status == 0 and len(moody.prompts) - before == 80 - kept, err
    assert f"{kept} completions came from the journal" in out


def test_what_is_in_flight_when_quota_is_used_up_is_waited_for(moody: Moody, tmp_path: Path) -> None:
    is_told = threading.Event()

    def slow(request: Request) -> None:
        is_told.wait(300)  # until the other request's refusal was read
        good("slow")(request)

    moody.choose = lambda n, prompt: slow if prompt == "slow" else answer(429, QUOTA)
    with pytest.raises(RunFailed, match="no quota or credit left"):
        ask(moody, tmp_path, ["slow", *map(str, range(40))], 2, is_told)
    assert len(moody.prompts) == 2  # nothing was sent after it
    assert (tmp_path / "a.jsonl").read_text().count("\n") == 1
