"""Test servers that refuse or ignore seeds, log probabilities or a message that has begun."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import UserError
from core.client.trials import LETTERS, OPENED, QUESTION
from core.engines.attach import probe
from core.engines.cards import Card
from core.types import TOP_LOGPROBS, Sampling
from harness.run import solve_sync
from harness.scaffolds.best_of import BEST_OF
from harness.scaffolds.confidence import UNLISTED
from tests.fakes.engines import StandIn, vllm
from tests.fakes.http import HttpFake, Request, answer
from tests.helpers.asking import ask
from tests.helpers.runs import TWO, load

pytestmark = pytest.mark.usefixtures("hurried")
P_TRUE: dict[str, Any] = {"N": 2, "SCORE": "p_true", "CONCURRENCY": 4}
CONFIDENT: dict[str, Any] = {"N": 2, "SCORE": "confidence", "CONCURRENCY": 4}
TOKENS = [{"token": " True", "logprob": -0.1}, {"token": " False", "logprob": -2.5}]


class Particular(HttpFake):
    """A server that refuses the fields `refused`, and continues a message if it `continues`."""

    def __init__(
        self, *refused: str, continues: bool = True, listed: bool = True, repeats: bool = True
    ) -> None:
        self.refused = refused
        self.continues = continues
        self.listed = listed  # whether replies contain log probabilities
        self.repeats = repeats  # whether equal requests get equal replies
        self.lists_once = False  # whether only the first of two samples has log probabilities
        self.fails = False  # whether it refuses requests for letters
        self.is_absent = False  # whether it answers all chat requests with 404
        self.most_tokens = 10**6  # the largest cap that it accepts
        self.bodies: list[dict[str, Any]] = []
        self._sampled: list[Any] = []
        super().__init__()

    def get(self, request: Request) -> None:
        is_list = request.path.endswith("/models")
        answer(200 if is_list else 404, {"data": [{"id": "particular"}]})(request)

    def post(self, request: Request, body: bytes) -> None:
        if self.is_absent or not request.path.endswith("/chat/completions"):
            return answer(404, {})(request)
        asked = read(body)
        self.bodies.append(asked)
        for name in self.refused:
            if name in asked:
                detail = [{"loc": ["body", name], "msg": "Extra inputs are not permitted"}]
                return answer(422, {"detail": detail})(request)
        is_too_long = asked["max_tokens"] > self.most_tokens
        if is_too_long or (self.fails and asked["messages"] == LETTERS):
            return answer(400, {"error": "the value of max_tokens is refused"})(request)
        answer(200, self._reply(asked))(request)

    def _reply(self, asked: dict[str, Any]) -> dict[str, Any]:
        begun = asked["messages"][-1]["role"] == "assistant"
        content = "42}" if begun and self.continues else "It is \\boxed{42}."
        if not self.repeats:
            content = f"Take {len(self.bodies)}. {content}"
        choice: dict[str, Any] = {
            "message": {"role": "assistant", "content": content},
            "finish_reason": "stop",
        }
        is_later = asked["messages"] != QUESTION and asked["messages"] in self._sampled
        self._sampled.append(asked["messages"])
        is_listed = self.listed and not (self.lists_once and is_later)
        if asked.get("logprobs") and is_listed:
            choice["logprobs"] = {"content": [TOKENS[0] | {"top_logprobs": TOKENS}]}
        usage = {"prompt_tokens": 9, "completion_tokens": 3}
        return {"model": "particular", "choices": [choice], "usage": usage}

    @property
    def trials(self) -> list[dict[str, Any]]:
        """The requests that try whether the server continues a message."""
        return [body for body in self.bodies if body["messages"][-1]["content"] == OPENED]

    @property
    def letters(self) -> list[dict[str, Any]]:
        """The requests that try whether equal seeds give equal replies."""
        return [body for body in self.bodies if body["messages"] == LETTERS]


def read(body: bytes) -> dict[str, Any]:
    asked: dict[str, Any] = json.loads(body)
    return asked


@pytest.fixture
def particular(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    started: list[Particular] = []

    def start(*refused: str, **changes: bool) -> Particular:
        server = Particular(*refused, **changes)
        started.append(server)
        monkeypatch.setenv("BASE_URL", server.url)
        return server

    yield start
    for server in started:
        server.close()


def test_a_server_that_refuses_seeds_is_asked_without_them(
    particular: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = particular("seed")
    server = probe(here.url, "x")
    assert server is not None and server.seeds is None
    sampling = Sampling(max_tokens=9)
    replies = ask(server, tmp_path, [(seed, sampling) for seed in range(3)], limit=1)
    assert [reply.error for reply in replies] == [None] * 3
    assert ["seed" in body for body in here.bodies] == [True, False, False, False]
    said = capsys.readouterr().err
    assert said.count("seed:") == 1 and len(said.strip().splitlines()) == 1
    assert ask(server, tmp_path, [(1, sampling)])[0].reused, "its key has the seed"


def test_a_run_without_seeds_says_so_in_its_results(particular: Any, results: Path) -> None:
    particular("seed")
    solve_sync(BEST_OF, TWO, name="best", N=2)
    document = load(results, "best")
    assert document["engine"]["seeds"] is False
    assert any("equal seeds" in warning for warning in document["warnings"])


def test_a_server_that_ignores_seeds_is_recognised_by_two_requests(
    particular: Any, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = particular(repeats=False)
    solve_sync(BEST_OF, TWO, name="best", N=2, RUNS=2)
    first, second = here.letters
    assert first == second and here.letters == here.bodies[:2], "alone, before the others"
    assert first["seed"] and first["temperature"] == 1 and first["max_tokens"] < 32
    assert capsys.readouterr().err.count("with one seed (asked once)") == 1
    for seed in range(2):
        document = load(results / "best", f"best-seed{seed}")
        assert document["engine"]["seeds"] is False
    assert any("equal seeds" in warning for warning in load(results, "best")["warnings"])


@pytest.mark.parametrize("constants", [{"N": 4}, P_TRUE | {"N": 4}])
def test_a_run_ends_if_its_first_trial_is_denied(
    particular: Any, results: Path, constants: dict[str, Any]
) -> None:
    particular().is_absent = True
    with pytest.raises(UserError, match="404"):
        solve_sync(BEST_OF, TWO, name="best", **constants)


def test_a_resumed_run_recalls_the_trial(particular: Any, results: Path) -> None:
    here = particular(repeats=False)
    solve_sync(BEST_OF, TWO, name="best", N=2)
    count = len(here.bodies)
    solve_sync(BEST_OF, TWO, name="best", N=2)
    assert len(here.bodies) == count
    assert load(results, "best")["engine"]["seeds"] is False
    solve_sync(BEST_OF, TWO, name="best", N=3)
    assert len(here.bodies) > count and len(here.letters) == 2
    assert load(results, "best")["engine"]["seeds"] is False


def test_equal_replies_to_one_seed_show_nothing_about_others(
    particular: Any, results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = particular()
    solve_sync(BEST_OF, TWO, name="best", N=2)
    document = load(results, "best")
    assert len(here.letters) == 2 and document["engine"]["seeds"] is None
    assert "seed" not in capsys.readouterr().err
    assert not any("equal seeds" in warning for warning in document["warnings"])


def test_seeds_are_not_compared_if_nothing_depends_on_them(
    particular: Any, results: Path, tmp_path: Path
) -> None:
    here = particular(repeats=False)
    solve_sync(BEST_OF, TWO, name="best", N=2, TEMPERATURE=0)
    server = probe(here.url, "x")
    assert server is not None
    ask(server, tmp_path, [(1, Sampling(max_tokens=9))])  # no run records the result
    assert here.letters == []
    with closing(StandIn(vllm())) as known, pytest.MonkeyPatch.context() as patch:
        patch.setenv("BASE_URL", known.url)
        solve_sync(BEST_OF, TWO, name="known", N=2)
        assert not [body for body in known.asked if body["messages"] == LETTERS]


def test_a_short_trial_does_not_show_that_requests_are_accepted(
    particular: Any, results: Path
) -> None:
    here = particular()
    here.most_tokens = 100
    with pytest.raises(UserError, match=r"refuses every request.*max_tokens"):
        solve_sync(BEST_OF, TWO, name="best", N=2, MAX_TOKENS=101)
    assert len(here.letters) == 2


def test_a_run_goes_on_if_the_trial_of_seeds_fails(particular: Any, results: Path) -> None:
    here = particular()
    here.fails = True
    solve_sync(BEST_OF, TWO, name="best", N=2)
    document = load(results, "best")
    assert len(here.letters) == 1 and document["engine"]["seeds"] is None
    assert document["complete"] and not any(step["failed"] for step in document["metrics"]["steps"])


def test_another_refused_field_is_not_dropped(particular: Any, tmp_path: Path) -> None:
    here = particular("temperature")
    server = probe(here.url, "x")
    assert server is not None
    with pytest.raises(UserError, match="temperature"):
        ask(server, tmp_path, [(1, Sampling(max_tokens=9))])
    assert all("seed" in body for body in here.bodies)


def test_a_seed_that_is_not_the_reason_is_sent_on(particular: Any, tmp_path: Path) -> None:
    here = particular("seed", "temperature")
    server = probe(here.url, "x")
    assert server is not None
    with pytest.raises(UserError, match="temperature"):
        ask(server, tmp_path, [(1, Sampling(max_tokens=9))])


@pytest.mark.parametrize(
    ("refused", "changes", "words"),
    [
        (("logprobs",), {}, "refuses the request for them.*logprobs"),
        ((), {"listed": False}, "returns none"),
        ((), {"continues": False}, "begins a new message"),
    ],
)
def test_p_true_ends_before_the_first_sample_if_it_can_not_work(
    particular: Any, results: Path, refused: tuple[str, ...], changes: dict[str, bool], words: str
) -> None:
    here = particular(*refused, **changes)
    with pytest.raises(UserError, match=f"SCORE=p_true.*{words}") as raised:
        solve_sync(BEST_OF, TWO, name="best", **P_TRUE)
    assert "\n" not in str(raised.value)
    assert here.bodies == here.trials


def test_a_server_that_can_is_asked_once(particular: Any, results: Path) -> None:
    here = particular()
    solve_sync(BEST_OF, TWO, name="best", **P_TRUE)
    assert len(here.trials) == 2, "one for the continuation, and one for the log probabilities"
    assert here.trials[1]["top_logprobs"] == TOP_LOGPROBS
    document = load(results, "best")
    assert document["engine"]["continues"] is True
    scores = [m["self_score"] for p in document["problems"] for m in p["steps"][1]["members"]]
    assert min(scores) > 0.9
    count = len(here.bodies)
    solve_sync(BEST_OF, TWO, name="best", **P_TRUE)
    assert len(here.bodies) == count, "a run without new requests tries nothing"


@pytest.mark.parametrize(
    ("refused", "changes", "words"),
    [
        (("logprobs",), {}, "refuses the request for them.*logprobs"),
        ((), {"listed": False}, "returns none"),
    ],
)
def test_confidence_ends_before_the_first_sample_if_it_can_not_work(
    particular: Any, results: Path, refused: tuple[str, ...], changes: dict[str, bool], words: str
) -> None:
    here = particular(*refused, **changes)
    with pytest.raises(UserError, match=f"SCORE=confidence.*{words}") as raised:
        solve_sync(BEST_OF, TWO, name="best", **CONFIDENT)
    assert "\n" not in str(raised.value)
    asked = [body["messages"] for body in here.bodies]
    assert all(messages in (QUESTION, LETTERS) for messages in asked)


def test_confidence_needs_no_server_that_continues_a_message(
    particular: Any, results: Path
) -> None:
    here = particular(continues=False)
    solve_sync(BEST_OF, TWO, name="best", **CONFIDENT)
    assert [body["messages"] for body in here.bodies].count(QUESTION) == 1
    document = load(results, "best")
    members = [m for p in document["problems"] for m in p["steps"][1]["members"]]
    assert [m["self_score"] for m in members] == [1.3] * 4
    count = len(here.bodies)
    solve_sync(BEST_OF, TWO, name="best", **CONFIDENT)
    assert len(here.bodies) == count, "a run without new requests tries nothing"


def test_a_reply_without_log_probabilities_is_a_note(particular: Any, results: Path) -> None:
    here = particular()
    here.lists_once = True
    solve_sync(BEST_OF, TWO, name="best", **CONFIDENT)
    document = load(results, "best")
    members = [m for p in document["problems"] for m in p["steps"][1]["members"]]
    scores = [m.get("self_score") for m in members]
    assert sorted(scores, key=str) == [1.3, 1.3, None, None]
    assert document["metrics"]["notes"] == {UNLISTED: 2}
    assert any(UNLISTED in warning for warning in document["warnings"])


def test_a_run_that_needs_nothing_tries_nothing(particular: Any, results: Path) -> None:
    here = particular(continues=False, listed=False)
    solve_sync(BEST_OF, TWO, name="best", N=2)
    assert here.trials == [] and "continues" not in load(results, "best")["engine"]


def test_a_card_that_knows_saves_the_trial(particular: Any, tmp_path: Path) -> None:
    server = probe(particular().url, "x")
    assert server is not None and server.continues is None
    assert replace(server, card=Card("mine", continues=True)).continues is True
    assert replace(server, kind="vllm").continues is True
    assert replace(server, trial=False).continues is False
