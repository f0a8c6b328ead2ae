"""A session: what is asked of each of many things."""

import asyncio
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from core.base.errors import RunFailed
from core.constants import Constants
from core.engines.protocol import Server
from core.generate import Generator
from core.types import Sampling
from harness.session import session
from harness.session.bar import Bar
from harness.session.round import Round
from harness.session.session import Session
from tests.fakes.server import ScriptedServer


@pytest.fixture
def opened(server: ScriptedServer, tmp_path: Path) -> Iterator[Session[Constants]]:
    asked = Server("other", f"{server.url}/v1", "m", "it is there")
    with session.open_session("asking", Constants(), tmp_path, asked) as opened:
        yield opened


def all_of(
    opened: Session[Constants], items: list[int], one: Any, places: int = 8
) -> tuple[list[Any], Bar]:
    with Bar("asking", len(items)) as bar:
        asking = Round[Any](opened, bar, places, lambda _: "")
        work = asking.run(items, one, nullcontext("own"))
        return opened.run_until_stopped(work, "all of it is kept"), bar


def test_results_keep_the_order_of_the_items(
    opened: Session[Constants], server: ScriptedServer
) -> None:
    async def one(item: int, generator: Generator, own: str) -> tuple[int, str, str]:
        reply = await generator([{"role": "user", "content": f"What is {item}?"}], item, Sampling())
        return item, reply.text, own

    found, bar = all_of(opened, [3, 1, 2], one)
    assert [item for item, _, _ in found] == [3, 1, 2] and {own for _, _, own in found} == {"own"}
    assert len(server.asked) == opened.new == bar.done == 3
    assert all_of(opened, [2, 1], one)[0] == [found[2], found[1]], "the journal answers"
    assert len(server.asked) == 3 and opened.spent is None


@pytest.mark.parametrize("places", [1, 3])
def test_no_more_items_are_begun_than_there_are_places(
    opened: Session[Constants], places: int
) -> None:
    begun, most = 0, 0

    async def one(item: int, generator: Generator, own: str) -> None:
        nonlocal begun, most
        begun += 1
        most = max(most, begun)
        await asyncio.sleep(0.001)
        begun -= 1

    all_of(opened, list(range(10)), one, places)
    assert most == places


def test_a_bug_counts_before_a_users_error(opened: Session[Constants]) -> None:
    async def one(item: int, generator: Generator, own: str) -> None:
        raise RunFailed("nothing came of it") if item else ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        all_of(opened, [1, 0], one)
