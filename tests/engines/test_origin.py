"""Test redirects: they are followed within a server, and neither key nor prompt is sent to another."""

import urllib.request
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import pytest

from core.base.errors import Elsewhere
from core.engines.attach import probe
from core.engines.client import SameOrigin
from core.engines.server import Key, Server, is_local
from core.generate.wire import REDIRECTS
from tests.fakes.http import Answer, HttpFake, Request, answer
from tests.fakes.moody import MODELS, chat
from tests.helpers.asking import SHORT, SUM, ask

KEY = Key("sk-very-secret")
CHAT = chat("\\boxed{42}")


class Place(HttpFake):
    """A server that answers by path and records each request: method, path, headers, body."""

    def __init__(self, pages: dict[str, Answer]) -> None:
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.pages = pages
        super().__init__()

    def get(self, request: Request) -> None:
        self.post(request, b"")

    def post(self, request: Request, body: bytes) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append((request.command, request.path, headers, body))
        self.pages.get(request.path, answer(404, {"error": {"message": "no such page"}}))(request)


def redirect(status: int, location: str) -> Answer:
    return answer(status, b"", Location=location)


def place() -> Iterator[Place]:
    with closing(Place({"/v1/models": answer(200, MODELS), "/v1/chat/completions": answer(200, CHAT)})) as place:
        yield place


here, there = pytest.fixture(name="here")(place), pytest.fixture(name="there")(place)  # another port, another origin


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "place",
    ["http://127.0.0.1", "http://localhost", "//127.0.0.1", "http://user:password@127.0.0.1", "https://127.0.0.1"],
)
def test_the_list_of_models_is_asked_of_no_other_server(here: Place, there: Place, status: int, place: str) -> None:
    here.pages["/v1/models"] = redirect(status, f"{place}:{there.port}/v1/models")
    with pytest.raises(Elsewhere) as raised:
        probe(here.root, "x", key=KEY)
    assert there.asked == [] and here.asked[0][2]["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(raised.value) and "password" not in str(raised.value)
    assert here.root in str(raised.value)


def test_another_scheme_is_another_origin(here: Place) -> None:
    """By itself, urllib would follow from https to http on the same host and port."""
    handler = SameOrigin()
    asked = urllib.request.Request("https://a.example/v1/models", headers={"Authorization": "x"})
    with pytest.raises(Elsewhere, match="http://a.example"):
        handler.redirect_request(asked, None, 302, "", {}, "http://a.example/v1/models")
    for same in ("https://a.example/other", "https://A.example:443/other"):
        followed = handler.redirect_request(asked, None, 302, "", {}, same)
        assert followed is not None and followed.get_header("Authorization") == "x"


@pytest.mark.parametrize(
    "location", ["/v2/models", "//127.0.0.1:{port}/v2/models", "http://127.0.0.1:{port}/v2/models"]
)
def test_redirects_within_a_server_are_followed(here: Place, location: str) -> None:
    here.pages |= {"/v1/models": redirect(307, location.format(port=here.port)), "/v2/models": answer(200, MODELS)}
    found = probe(here.root, "x", key=KEY)
    assert found is not None and found.model == "m"


def test_redirects_of_optional_pages_to_another_server_are_ignored(here: Place, there: Place) -> None:
    here.pages |= {path: redirect(302, f"{there.root}/manual") for path in ("/props", "/version", "/workers")}
    found = probe(here.root, "x", key=KEY)
    assert found is not None and found.kind == "other" and there.asked == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_chat_request_is_sent_to_no_other_server(here: Place, there: Place, tmp_path: Path, status: int) -> None:
    server = probe(here.root, "x", key=KEY)
    assert server is not None
    here.pages["/v1/chat/completions"] = redirect(status, f"{there.root}/v1/chat/completions")
    with pytest.raises(Elsewhere, match=there.root) as raised:
        ask(server, tmp_path, [(1, SHORT)])
    assert there.asked == [] and KEY not in str(raised.value)


def test_a_chat_request_follows_as_many_redirects_as_the_constant_says(here: Place, tmp_path: Path) -> None:
    paths = ["/v1/chat/completions", *(f"/{number}" for number in range(REDIRECTS))]
    here.pages |= {path: redirect(308, onward) for path, onward in pairwise(paths)} | {paths[-1]: answer(200, CHAT)}
    assert ask(Server("other", f"{here.root}/v1", "m", "x", key=KEY), tmp_path, [(1, SHORT)])[0].answer == "\\boxed{42}"
    assert [SUM.statement.encode() in body for *_, body in here.asked] == [True] * (1 + REDIRECTS)


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("localhost", True), ("127.0.0.9", True), ("[::1]", True), ("127.example.org", False), ("10.0.0.1", False)],
)
def test_a_name_that_begins_like_a_loopback_address_is_another_machine(host: str, is_here: bool) -> None:
    assert is_local(f"http://{host}:30000/v1") is is_here
