"""Pulse: tell a server that hangs from one that is busy. Both keep their connections open and send nothing; one that is
busy still answers a small question on a connection of its own, unless it does one thing at a time. So only a server
that has answered such a question while it worked can be found to hang."""

import asyncio
from contextlib import suppress
from typing import Protocol

SILENCE = 20.0  # seconds without a byte of any reply after which the question is asked
ANSWER = 30.0  # seconds to answer it


class Connections(Protocol):
    """The requests in flight to one server. `silence`: seconds since the last byte of any reply, 0 if none is in
    flight; `is_alive`: whether the server answers anything at all; `answers_at_work`: whether it ever did so while it
    worked; `lose`: end all requests as lost."""

    answers_at_work: bool

    @property
    def silence(self) -> float: ...
    async def is_alive(self) -> bool: ...
    def lose(self) -> None: ...


async def watch(connections: Connections) -> None:
    """End the requests in flight whenever their server hangs. Runs until it is cancelled."""
    while not connections.answers_at_work:
        await asyncio.sleep(SILENCE / 20)
        if connections.silence:
            with suppress(TimeoutError):
                async with asyncio.timeout(ANSWER):
                    await connections.is_alive()
    while True:
        await asyncio.sleep(max(SILENCE / 20, SILENCE - connections.silence))
        if connections.silence < SILENCE:
            continue
        try:
            async with asyncio.timeout(ANSWER):
                while True:
                    if await connections.is_alive():
                        break
                    await asyncio.sleep(1)
        except TimeoutError:
            connections.lose()
        else:
            await asyncio.sleep(SILENCE)
