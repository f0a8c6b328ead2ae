"""Test redirects: models are read within a server, and neither key nor prompt is sent to
another."""

import asyncio
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from core.base.errors import RedirectRefused
from core.client.failures import Malformed
from core.client.http_client import HttpClient
from core.engines.attach import probe
from core.engines.protocol import Key, Server
from core.engines.queries import SameOrigin
from tests.fakes.http import Answer, HttpFake, Request, answer
from tests.fakes.moody import MODELS, chat
from tests.helpers.asking import SHORT, ask

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
    with closing(
        Place({"/v1/models": answer(200, MODELS), "/v1/chat/completions": answer(200, CHAT)})
    ) as place:
        yield place


# another port, another origin
here = pytest.fixture(name="here")(place)
there = pytest.fixture(name="there")(place)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "prefix",
    [
        "http://127.0.0.1",
        "http://localhost",
        "//127.0.0.1",
        "http://user:password@127.0.0.1",
        "https://127.0.0.1",
    ],
)
def test_the_list_of_models_is_asked_of_no_other_server(
    here: Place, there: Place, status: int, prefix: str
) -> None:
    here.pages["/v1/models"] = redirect(status, f"{prefix}:{there.port}/v1/models")
    with pytest.raises(RedirectRefused) as raised:
        probe(here.root, "x", key=KEY)
    assert there.asked == [] and here.asked[0][2]["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(raised.value) and "password" not in str(raised.value)
    assert here.root in str(raised.value)


def test_another_scheme_is_another_origin(here: Place) -> None:
    """By itself, urllib would follow from https to http on the same host and port."""
    handler = SameOrigin()
    asked = urllib.request.Request("https://a.example/v1/models", headers={"Authorization": "x"})
    with pytest.raises(RedirectRefused, match="http://a.example"):
        handler.redirect_request(asked, None, 302, "", {}, "http://a.example/v1/models")
    for same in ("https://a.example/other", "https://A.example:443/other"):
        followed = handler.redirect_request(asked, None, 302, "", {}, same)
        assert followed is not None and followed.get_header("Authorization") == "x"


@pytest.mark.parametrize(
    "location", ["/v2/models", "//127.0.0.1:{port}/v2/models", "http://127.0.0.1:{port}/v2/models"]
)
def test_redirects_within_a_server_are_followed(here: Place, location: str) -> None:
    here.pages |= {
        "/v1/models": redirect(307, location.format(port=here.port)),
        "/v2/models": answer(200, MODELS),
    }
    server = probe(here.root, "x", key=KEY)
    assert server is not None and server.model == "m"


def test_redirects_of_optional_pages_to_another_server_are_ignored(
    here: Place, there: Place
) -> None:
    here.pages |= {
        path: redirect(302, f"{there.root}/manual") for path in ("/props", "/version", "/workers")
    }
    server = probe(here.root, "x", key=KEY)
    assert server is not None and server.kind == "other" and there.asked == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_chat_request_is_sent_to_no_other_server(
    here: Place, there: Place, tmp_path: Path, status: int
) -> None:
    server = probe(here.root, "x", key=KEY)
    assert server is not None
    here.pages["/v1/chat/completions"] = redirect(status, f"{there.root}/v1/chat/completions")
    with pytest.raises(RedirectRefused, match=there.root) as raised:
        ask(server, tmp_path, [(1, SHORT)])
    assert there.asked == [] and KEY not in str(raised.value)


def test_a_chat_request_that_is_redirected_within_a_server_names_the_remedy(here: Place) -> None:
    here.pages["/v1/chat/completions"] = redirect(308, "/v2/chat/completions")

    async def sent() -> None:
        async with HttpClient(Server("other", f"{here.root}/v1", "m", "x"), 1) as client:
            await client.send({"messages": []}, 30, 30)

    with pytest.raises(Malformed, match="BASE_URL"):
        asyncio.run(sent())
