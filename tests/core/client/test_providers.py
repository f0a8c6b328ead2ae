"""Providers and their cards: servers that answer, refuse and fail like them."""

import json
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core import server as start
from core.base import files
from core.base.errors import UserError
from core.client import retry
from core.constants import Constants
from core.engines import cards
from core.engines.attach import probe, probe_again
from core.engines.cards import Card
from core.engines.protocol import CANNOT, Key, Server
from core.types import Completion, Sampling
from harness.scaffolds.rsa_verified import RSA_VERIFIED
from harness.session.checks import check_context
from tests.fakes.http import Answer, HttpFake, Request, answer
from tests.fakes.moody import USAGE, chat, events
from tests.helpers import asking

pytestmark = pytest.mark.usefixtures("hurried")
KEY = "sk-the-key-of-this-provider"


def delta(finish: str | None = None, **text: str) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": text, "finish_reason": finish}]}


def good(finish: str = "stop", **text: str) -> bytes:
    parts = text or {"content": "\\boxed{42}"}
    return events([delta(**parts), delta(finish), {"model": "m", "choices": [], "usage": USAGE}])


class Provider(HttpFake):
    """A server that answers chats at `path` alone, in turn from `script`, and keeps all
    requests."""

    def __init__(
        self, path: str = "/v1", header: str = "authorization", listed: tuple[str, ...] = ("m",)
    ) -> None:
        self.path, self.header, self.listed = path, header, listed
        self.bodies: list[dict[str, Any]] = []
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.script: list[Answer] = []
        self.refuse: Callable[[dict[str, Any]], Answer | None] = lambda body: None
        super().__init__()
        self.base = self.root + path

    def get(self, request: Request) -> None:
        self._keep(request)
        is_list = urllib.parse.urlsplit(request.path).path == f"{self.path}/models"
        listed = {
            "object": "list",
            "data": [{"id": name, "object": "model"} for name in self.listed],
        }
        answer(200 if is_list and self.listed else 404, listed)(request)

    def post(self, request: Request, body: bytes) -> None:
        self._keep(request)
        if urllib.parse.urlsplit(request.path).path != f"{self.path}/chat/completions":
            return answer(404, {"error": {"message": f"no such page {request.path}"}})(request)
        if self.header and KEY not in request.headers.get(self.header, ""):
            return answer(
                401, {"error": {"message": f"bad key {request.headers.get(self.header)}"}}
            )(request)
        self.bodies.append(json.loads(body))
        if refused := self.refuse(self.bodies[-1]):
            return refused(request)
        (self.script.pop(0) if self.script else answer(200, good(), "text/event-stream"))(request)

    def _keep(self, request: Request) -> None:
        self.asked.append(request.path)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})

    def attached(self, card: Card, key: str = KEY) -> Server:
        got = probe(
            card.base_url,
            "x",
            card.model,
            Key(key, "".join(card.key_variables[:1]), card.key_header),
            card,
        )
        assert got is not None
        return got


@pytest.fixture
def provider() -> Iterator[Callable[..., Provider]]:
    with ExitStack() as stack:
        yield lambda *args, **more: stack.enter_context(closing(Provider(*args, **more)))


@pytest.fixture(autouse=True)
def no_server_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(files, "HOME", tmp_path)
    for name in ("BASE_URL", "MODEL", "API_KEY", "ENGINE"):
        monkeypatch.delenv(name, raising=False)


def ask(server: Server, folder: Path, seeds: int = 1, **changes: Any) -> list[Completion]:
    requests = [(seed, Sampling(max_tokens=9, **changes)) for seed in range(seeds)]
    return asking.ask(server, folder, requests, server.limit)


def unsupported(name: str, words: str) -> Answer:
    return answer(
        400, {"error": {"message": words, "param": name, "code": "unsupported_parameter"}}
    )


def openais(body: dict[str, Any]) -> Answer | None:
    if "max_tokens" in body:
        return unsupported(
            "max_tokens",
            "'max_tokens' is not supported with this model. Use 'max_completion_tokens'.",
        )
    if name := next(
        (name for name in ("temperature", "top_p", "logprobs", "top_k") if name in body), None
    ):
        return unsupported(
            name, f"Unsupported value: '{name}' does not support it with this model."
        )
    return None


def test_openais_reasoning_models_are_asked_for_what_they_take(
    provider: Any, tmp_path: Path
) -> None:
    place = provider()
    place.refuse = openais
    server = place.attached(replace(cards.named("openai"), base_url=place.base))
    assert (server.kind, server.limit, server.seeds) == ("other", 16, False)
    assert server.identity == f"gpt-5-mini at {place.base}"
    place.script = [answer(200, good("length", content=""), "text/event-stream")]
    (got,) = ask(server, tmp_path, answer_tokens=5, top_k=20)
    assert sorted(place.bodies[0]) == [
        "max_completion_tokens",
        "messages",
        "model",
        "stream",
        "stream_options",
    ]
    assert got.not_forced == CANNOT and got.forced is None and len(place.bodies) == 1, (
        "nothing is begun for it"
    )
    assert server.model_info()["card"]["never"] and server.key_fields["never"]
    ask(server, tmp_path, answer_tokens=5, top_k=7, temperature=0.1)
    assert len(place.bodies) == 1, "what is never sent changes nothing, and is not paid for twice"


def test_a_server_without_a_card_that_refuses_a_field_names_the_cards_field(
    provider: Any, tmp_path: Path
) -> None:
    place = provider()
    plain = probe(place.base, "x", key=Key(KEY))
    assert plain is not None and not plain.card.name
    for refuse in (
        openais,
        lambda body: unsupported("stream_options", "no such field") if "stream" in body else None,
    ):
        place.refuse = refuse
        with pytest.raises(UserError) as raised:
            ask(plain, tmp_path)
        assert str(raised.value).endswith(cards.REFUSED)
    place.script = [answer(200, chat("\\boxed{42}"))]
    assert (
        ask(replace(plain, card=Card("mine", streams=False)), tmp_path)[0].answer == "\\boxed{42}"
    )


def test_googles_path_is_taken_as_it_is_written(
    provider: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = provider("/v1beta/openai", listed=("models/gemini-2.5-flash", "models/other"))
    server = place.attached(replace(cards.named("google"), base_url=place.base))
    assert server.base_url == place.base and server.model == "gemini-2.5-flash"
    # it is looked whether the server is still the same
    monkeypatch.setattr(retry, "IDLE_SECONDS", -1.0)
    assert ask(server, tmp_path)[0].answer == "\\boxed{42}"
    assert set(place.asked) == {"/v1beta/openai/models", "/v1beta/openai/chat/completions"}
    assert probe_again(server) == server
    monkeypatch.setenv("BASE_URL", f"{place.base}/")  # without a card, too
    monkeypatch.setenv("MODEL", "models/other")
    with start.serving() as plain:
        assert plain.base_url == place.base and plain.model == "models/other"


def test_azures_path_query_and_header(
    provider: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = provider("/openai/deployments/mine", header="api-key", listed=())
    monkeypatch.setenv("BASE_URL", f"{place.base}?api-version=2024-10-21")
    monkeypatch.setenv("MODEL", "azure:mine")
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", KEY)
    with start.serving() as server:
        assert ask(server, tmp_path)[0].answer == "\\boxed{42}"
        assert server.base_url == place.base and server.query == {"api-version": "2024-10-21"}
        assert probe_again(server) == server
    assert all(path.endswith("?api-version=2024-10-21") for path in place.asked), place.asked
    assert all(sent["api-key"] == KEY and "authorization" not in sent for sent in place.headers)


OPENROUTER = b": OPENROUTER PROCESSING\n\n"
FAILED = delta("error", content="") | {"error": {"code": 502, "message": "Provider disconnected"}}
LIMITED = delta("error", content="") | {"error": {"code": 429, "message": "Rate limited upstream"}}


@pytest.mark.parametrize("fault", [FAILED, LIMITED])
def test_openrouters_comments_are_ignored_and_errors_retried(
    provider: Any, tmp_path: Path, fault: Any
) -> None:
    place = provider("/api/v1")
    broken = 2 * OPENROUTER + events([delta(content="forty"), fault])
    whole = OPENROUTER + good(reasoning="6*7 is 42.", content="\\boxed{42}").replace(
        b"data: [D", OPENROUTER + b"data: [D"
    )
    place.script = [answer(200, body, "text/event-stream") for body in (broken, whole)]
    server = place.attached(replace(cards.named("openrouter"), base_url=place.base))
    (got,) = ask(server, tmp_path)
    assert (got.thinking, got.answer, got.completion_tokens) == ("6*7 is 42.", "\\boxed{42}", 7)
    assert len(place.bodies) == 2 and got.error is None


def test_ollama_without_usage_has_uncounted_tokens(provider: Any, tmp_path: Path) -> None:
    place = provider(header="")
    place.script = [answer(200, events([delta(content="42"), delta("stop")]), "text/event-stream")]
    card = replace(cards.named("ollama"), base_url=place.base)
    server = probe(card.base_url, "x", "qwen3:4b", card=card)
    assert server is not None and server.limit == 4 and server.model == "qwen3:4b"
    (got,) = ask(server, tmp_path)
    assert got.answer == "42" and got.counted == (None, None, None)
    assert "authorization" not in place.headers[0]


def test_the_key_is_blotted_out_under_its_variables_name(provider: Any, tmp_path: Path) -> None:
    place = provider()
    card = replace(cards.named("openai"), base_url=place.base, key_env="PLACE_KEY")
    server = place.attached(card)
    for words in (f"no {KEY} here", "x" * (300 - 12) + KEY, json.dumps({"x": KEY})):
        place.refuse = lambda body, words=words: answer(400, {"error": {"message": words}})
        with pytest.raises(UserError, match="PLACE_KEY") as raised:
            ask(server, tmp_path)
        assert KEY not in str(raised.value) and KEY[:8] not in str(raised.value)
    wrong = place.attached(card, key="sk-quite-another")
    with pytest.raises(UserError, match="PLACE_KEY") as raised:
        ask(wrong, tmp_path)
    assert "another" not in str(raised.value)
    assert KEY not in repr(server) and KEY not in json.dumps(server.model_info()) + server.origin


def test_effort_and_further_fields_are_sent_and_distinguish_completions(
    provider: Any, tmp_path: Path
) -> None:
    place = provider()
    card = Card("mine", base_url=place.base, model="m")
    for each in (
        card,
        replace(card, effort="high"),
        replace(card, effort="low"),
        replace(card, send={"tier": "x"}),
    ):
        ask(place.attached(each), tmp_path)
    assert [body.get("reasoning_effort") for body in place.bodies] == [None, "high", "low", None]
    assert place.bodies[-1]["tier"] == "x"


def test_a_card_that_changes_nothing_reuses_what_was_made_without_one(
    provider: Any, tmp_path: Path
) -> None:
    place = provider()
    plain = probe(place.base, "x", key=Key(KEY))
    assert plain is not None
    ask(plain, tmp_path)
    ask(
        place.attached(Card("mine", base_url=place.base, model="m", concurrency=3, context=10**6)),
        tmp_path,
    )
    assert len(place.bodies) == 1


def test_cut_thinking_is_read_as_the_card_says_without_a_trial(
    provider: Any, tmp_path: Path
) -> None:
    place = provider()
    place.script = [answer(200, good("length", content="so far"), "text/event-stream")]
    card = Card("mine", base_url=place.base, model="m", thinking="none")
    (got,) = ask(place.attached(card), tmp_path)
    assert got.answer == "so far" and got.truncated and len(place.bodies) == 1


def test_what_opens_an_answer_is_refused_before_anything_is_sent(
    provider: Any, tmp_path: Path
) -> None:
    place = provider()
    server = place.attached(Card("mine", base_url=place.base, model="m", continues=False))
    config = RSA_VERIFIED.constants(SCORE="p_true")
    for asked, name in (
        (config, "SCORE=p_true"),
        (Constants(WAITS=1), "WAITS=1"),
        (Constants(ELICIT=1), "ELICIT"),
    ):
        with pytest.raises(UserError, match=f"{name}.* card mine .*continues = false"):
            check_context(server, asked)
    silent = replace(server, card=replace(server.card, continues=True, never=("logprobs",)))
    with pytest.raises(UserError, match="logprobs"):
        check_context(silent, config)
    check_context(server, RSA_VERIFIED.constants())
    with pytest.raises(UserError, match="continues = false"):
        ask(server, tmp_path, opening="Verdict:")
    with pytest.raises(UserError, match="SAMPLING=card"):
        check_context(server, Constants(SAMPLING="card"))
    assert place.bodies == []
