"""Servers that send nothing usable end the run soon, and overwrite no earlier results."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import RunFailed, UserError
from core.client import refusals, retry
from core.client.budget import RunExhausted
from core.client.failures import Denied
from tests.conftest import run
from tests.fakes.http import Answer, Request, answer, reset
from tests.fakes.moody import Moody, chat, good
from tests.helpers.asking import ask_each
from tests.helpers.runs import load

QUOTA = {
    "error": {
        "message": "You exceeded your current quota",
        "type": "insufficient_quota",
        "code": None,
    }
}
USELESS: dict[str, tuple[Answer, str]] = {
    "HTML": (answer(200, b"<html>log in first</html>", "text/html"), "log in first"),
    "no choices": (answer(200, {"object": "chat.completion", "choices": []}), "no message in"),
    "no end": (answer(200, chat("half", finish_reason=None)), "the reply is incomplete"),
    "500": (answer(500, {"error": {"message": "CUDA error"}}), "CUDA error"),
    "503, no words": (answer(503, b""), "status 503"),
    "error within 200": (answer(200, {"error": {"message": "out of memory"}}), "out of memory"),
    "torn stream": (
        answer(200, b'data: {"choices": [{"delta": {"content": "1"}}]}\n\n', "text/event-stream"),
        "ended",
    ),
}


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(("kind", "limit"), [("500", 1), *((kind, 16) for kind in USELESS)])
def test_a_server_that_sends_nothing_usable_is_given_up(
    moody: Moody, tmp_path: Path, kind: str, limit: int
) -> None:
    fault, words = USELESS[kind]
    moody.choose = lambda n, prompt: fault
    with pytest.raises(RunFailed, match=words) as raised:
        ask_each(moody.url, tmp_path, [f"prompt {n // 8}" for n in range(400)], limit)
    assert "\n" not in str(raised.value)
    # others may just be answered, as if the server worked
    most = 8 + (1 if limit == 1 else 2 * limit)
    assert len(moody.prompts) <= most * (retry.RETRIES + 1) + limit
    assert not (tmp_path / "a.jsonl").read_bytes()


@pytest.mark.usefixtures("hurried")
def test_a_server_away_as_long_as_a_request_is_asked_again_costs_nothing(
    moody: Moody, tmp_path: Path
) -> None:
    """Each request needs its last try, about two minutes with the real waits."""
    seen: dict[str, int] = {}

    def choose(n: int, prompt: str) -> Answer:
        seen[prompt] = seen.get(prompt, 0) + 1
        return (
            reset
            if seen[prompt] < 4
            else answer(503, b"")
            if seen[prompt] <= retry.RETRIES
            else good(prompt)
        )

    moody.choose = choose
    got = ask_each(moody.url, tmp_path, [f"prompt {n}" for n in range(12)])
    assert all(one.error is None for one in got)


@pytest.mark.usefixtures("hurried")
def test_connections_that_are_lost_while_others_are_answered_fail_one_request(
    moody: Moody, tmp_path: Path
) -> None:
    moody.choose = lambda n, prompt: reset if prompt == "lost" else good(prompt)
    got = ask_each(moody.url, tmp_path, [*(["a"] * 30), "lost", *(["b"] * 60)], 2)
    assert [n for n, one in enumerate(got) if one.error is not None] == [30]


def test_a_server_that_is_away_for_too_long_ends_the_run(
    moody: Moody, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(retry, "AWAY_SECONDS", 1.0)
    moody.choose = lambda n, prompt: good(prompt) if n < 4 else reset
    with pytest.raises(UserError, match=moody.url):
        ask_each(moody.url, tmp_path, [f"prompt {n}" for n in range(40)])
    assert (tmp_path / "a.jsonl").read_text().count("\n") == 4, "what is finished is kept"


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("limit", [1, 4])
def test_prompts_that_a_server_chokes_on_end_no_run(
    moody: Moody, tmp_path: Path, limit: int
) -> None:
    """The first problem and many later ones fail, but not all: each is sent again in the next
    run."""
    moody.choose = lambda n, prompt: answer(500, b"") if "bad" in prompt else good(prompt)
    prompts = ["bad 0"] * 8 + [f"{'bad' if n % 3 else 'fine'} {n}" for n in range(60)]
    got = ask_each(moody.url, tmp_path, prompts, limit)
    assert [one.error is not None for one in got] == ["bad" in prompt for prompt in prompts]
    moody.choose = lambda n, prompt: good(prompt)
    assert all(one.error is None for one in ask_each(moody.url, tmp_path, prompts))


@pytest.mark.usefixtures("hurried")
def test_a_server_that_has_answered_is_waited_for_longer(
    moody: Moody, tmp_path: Path, monkeypatch: Any
) -> None:
    moody.choose = lambda n, prompt: good(prompt) if n < 4 else answer(500, {"error": "broken"})
    prompts = [f"prompt {n}" for n in range(40)]
    got = ask_each(moody.url, tmp_path / "longer", prompts)
    assert sum(one.error is None for one in got) == 4, (
        "its ten minutes are not over, so that all are tried"
    )
    monkeypatch.setattr(retry, "SECONDS_SINCE", 0.0)
    before = len(moody.prompts)
    moody.choose = lambda n, prompt: (
        good(prompt) if n < before + 4 else answer(500, {"error": "broken"})
    )
    with pytest.raises(RunFailed, match="broken"):
        ask_each(moody.url, tmp_path / "over", prompts)
    assert (tmp_path / "over" / "a.jsonl").read_text().count("\n") == 4, "what is finished is kept"


@pytest.mark.usefixtures("hurried")
def test_a_server_at_work_on_other_requests_is_not_given_up(moody: Moody, tmp_path: Path) -> None:
    """It refuses what it has no room for, and works on a long reply meanwhile."""
    refused = threading.Event()

    def long(request: Request) -> None:
        refused.wait(60)
        good("long")(request)

    def choose(n: int, prompt: str) -> Answer:
        if prompt == "long":
            return long
        if len(set(moody.prompts)) == 21:
            refused.set()
        return answer(503, {"error": {"message": "no room"}})

    moody.choose = choose
    got = ask_each(moody.url, tmp_path, ["long", *(f"prompt {n}" for n in range(20))])
    assert got[0].text and all(one.error for one in got[1:])


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("answered", [0, 5])
def test_quota_that_is_used_up_ends_the_run_at_once(
    moody: Moody, tmp_path: Path, answered: int
) -> None:
    moody.choose = lambda n, prompt: good(prompt) if n < answered else answer(429, QUOTA)
    with pytest.raises(RunExhausted):
        ask_each(moody.url, tmp_path, [f"prompt {n}" for n in range(100)], 2)
    assert len(moody.prompts) <= answered + 4
    assert (tmp_path / "a.jsonl").read_text().count("\n") == answered


def test_what_is_in_flight_when_quota_is_used_up_is_waited_for(
    moody: Moody, tmp_path: Path
) -> None:
    is_refused = threading.Event()

    def slow(request: Request) -> None:
        is_refused.wait(300)  # until the other request's refusal was read
        good("slow")(request)

    def refuse(request: Request) -> None:
        answer(429, QUOTA)(request)
        threading.Timer(2, is_refused.set).start()

    moody.choose = lambda n, prompt: slow if prompt == "slow" else refuse
    with pytest.raises(RunExhausted):
        ask_each(moody.url, tmp_path, ["slow", *map(str, range(40))], 2)
    assert len(moody.prompts) == 2  # nothing was sent after it
    assert (tmp_path / "a.jsonl").read_text().count("\n") == 1


UNKNOWN_FIELD = answer(400, {"error": {"message": "unknown field min_p"}})


@pytest.mark.parametrize("limit", [1, 4])
def test_a_first_prompt_that_is_refused_ends_no_run_if_others_succeed(
    moody: Moody, tmp_path: Path, limit: int
) -> None:
    def late(request: Request) -> None:
        time.sleep(0.5)
        good("late")(request)

    moody.choose = lambda n, prompt: UNKNOWN_FIELD if prompt == "bad" else late
    got = ask_each(moody.url, tmp_path, ["bad", "bad", "a", "b", "bad", "c"], limit)
    assert [one.error is not None for one in got] == [True, True, False, False, True, False]


@pytest.mark.parametrize("limit", [1, 4])
def test_two_prompts_that_are_refused_first_end_the_run(
    moody: Moody, tmp_path: Path, limit: int
) -> None:
    moody.choose = lambda n, prompt: UNKNOWN_FIELD
    with pytest.raises(UserError, match="unknown field"):
        ask_each(moody.url, tmp_path, [f"prompt {n // 2}" for n in range(40)], limit)
    assert len(moody.prompts) <= 4 + limit
    with pytest.raises(UserError, match="unknown field"):
        ask_each(moody.url, tmp_path, ["alone"] * 3, limit)


DENIALS = {status: answer(status, {"error": {"message": "denied"}}) for status in (401, 403, 404)}


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("status", DENIALS)
@pytest.mark.parametrize("limit", [1, 4])
def test_an_odd_denial_among_replies_is_retried(
    moody: Moody, tmp_path: Path, status: int, limit: int
) -> None:
    odd = {f"prompt {n}" for n in range(9, 24, 5)}

    def choose(n: int, prompt: str) -> Answer:
        return (
            DENIALS[status]
            if prompt in odd and moody.prompts.count(prompt) < Denied.tries
            else good(prompt)
        )

    moody.choose = choose
    got = ask_each(moody.url, tmp_path, [f"prompt {n}" for n in range(24)], limit)
    assert all(one.error is None for one in got)


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("status", DENIALS)
@pytest.mark.parametrize("odd", [{0}, {3}, {0, 1}])
def test_a_denial_before_the_first_reply_waits_for_the_others(
    moody: Moody, tmp_path: Path, status: int, odd: set[int]
) -> None:
    """Deny a request while the other requests are in progress."""

    def choose(n: int, prompt: str) -> Answer:
        if n in odd:
            return DENIALS[status]
        time.sleep(0.3)
        return good(prompt)

    moody.choose = choose
    got = ask_each(moody.url, tmp_path, [f"prompt {n}" for n in range(6)], 6)
    assert all(one.error is None for one in got) and len(moody.prompts) == 6 + len(odd)


@pytest.mark.parametrize("status", DENIALS)
@pytest.mark.parametrize("limit", [1, 4, 16])
@pytest.mark.parametrize("prompts", [[f"prompt {n}" for n in range(40)], ["alone"] * 40])
def test_a_server_that_denies_all_requests_gets_few_of_them(
    moody: Moody, tmp_path: Path, status: int, limit: int, prompts: list[str]
) -> None:
    moody.choose = lambda n, prompt: DENIALS[status]
    with pytest.raises(UserError, match=moody.url):
        ask_each(moody.url, tmp_path, prompts, limit)
    assert len(moody.prompts) <= limit + Denied.tries


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("status", DENIALS)
def test_a_prompt_that_is_always_denied_is_one_failure(
    moody: Moody, tmp_path: Path, status: int
) -> None:
    moody.choose = lambda n, prompt: DENIALS[status] if prompt == "bad" else good(prompt)
    got = ask_each(moody.url, tmp_path, ["a", "bad", "bad", *"bcde"], 1)
    assert [one.error for one in got] == [
        None,
        *[f"status {status}: denied"] * 2,
        None,
        None,
        None,
        None,
    ]
    assert moody.prompts.count("bad") == Denied.tries + 1, "its second member is not retried"


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize("status", DENIALS)
@pytest.mark.parametrize("limit", [1, 4])
def test_a_run_ends_if_several_prompts_are_denied(
    moody: Moody, tmp_path: Path, status: int, limit: int
) -> None:
    moody.choose = lambda n, prompt: good(prompt) if n < 4 else DENIALS[status]
    with pytest.raises(UserError, match=moody.url):
        ask_each(moody.url, tmp_path, [f"prompt {n}" for n in range(40)], limit)
    assert len(moody.prompts) <= 4 + Denied.tries * (refusals.PROMPTS_DENIED + limit)
    assert (tmp_path / "a.jsonl").read_text().count("\n") == 4, "what is finished is kept"


# A run as a user starts it


def test_a_run_that_failed_whole_ends_with_status_1_and_replaces_nothing(
    moody: Moody, results: Path
) -> None:
    """Each request is refused for good, so the run has no figures."""
    small = ("02_rsa_basic", "PROBLEMS=sums", "LIMIT=2", "N=8", "K=3", "T=1", "MAX_TOKENS=300")
    status, _, err = run(*small, BASE_URL=moody.url)
    assert status == 0, err
    before = (results / "02_rsa_basic.json").read_bytes()
    moody.choose = lambda n, prompt: answer(
        400, {"error": {"message": "exceeds the context length"}}
    )
    for _ in range(2):
        before_run = len(moody.prompts)
        status, out, err = run(*small, "SEED=9", BASE_URL=moody.url)
        assert status == 1 and "context overflow" in err.splitlines()[-1] and "Traceback" not in err
        assert "results " not in out and (results / "02_rsa_basic.json").read_bytes() == before
        assert [path.name for path in results.glob("02_rsa_basic.*.json")] == [
            "02_rsa_basic.partial.json"
        ]
        partial = load(results, "02_rsa_basic.partial")
        assert not partial["complete"] and any(
            "100.0% of 32" in warning for warning in partial["warnings"]
        )
        assert len(moody.prompts) == before_run + 32, "each request is sent again, and once a run"
    moody.choose = lambda n, prompt: good(prompt)
    status, out, err = run(*small, "SEED=9", BASE_URL=moody.url)
    assert status == 0 and len(moody.prompts) == before_run + 64, (
        "the same command works once the error is fixed"
    )


def test_a_run_without_any_reply_fails_even_if_its_scaffold_makes_members(
    moody: Moody, results: Path
) -> None:
    moody.choose = lambda n, prompt: answer(
        400, {"error": {"message": "exceeds the context length"}}
    )
    status, _, err = run(
        "28_stepwise", "PROBLEMS=sums", "LIMIT=2", "N=2", "STEPS=2", BASE_URL=moody.url
    )
    assert status == 1 and "context overflow" in err.splitlines()[-1]
    assert not (results / "28_stepwise.json").exists()
