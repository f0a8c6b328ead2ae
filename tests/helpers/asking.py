"""Ask a server through a Generator, with a journal in a folder, for five minutes at most."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from core import prompts
from core.client import reply
from core.client.journal import Journal
from core.client.logprobs import Ends
from core.client.reply import Reply
from core.engines import queries as client
from core.engines.attach import probe_again
from core.engines.protocol import Server
from core.generate import Generator
from core.types import Completion, Message, Problem, Sampling

SUM = Problem("sum", "Find the remainder when 9*15 + 8*67 + 2*69 + 6*41 is divided by 1000.", "55")
MESSAGES = prompts.solve(SUM)
SHORT = Sampling(max_tokens=300)


def ask(
    server: Server,
    folder: Path,
    requests: Sequence[tuple[int, Sampling]],
    limit: int = 8,
    timeout: float = 60,
    messages: list[Message] = MESSAGES,
    stall: float = 30,
) -> list[Completion]:
    """Return the completions of one generator, for `requests` of seeds and samplings."""

    async def all_of_them() -> list[Completion]:
        with Journal(folder / "test.jsonl") as journal:
            async with (
                asyncio.timeout(300),
                Generator(server, journal, limit, timeout, stall=stall) as generator,
            ):
                return await asyncio.gather(
                    *(generator(messages, *request) for request in requests)
                )

    return asyncio.run(all_of_them())


def post(server: Server, path: str, body: dict[str, Any]) -> Any:
    return json.loads(client.send(server.root + path, body=body, seconds=60))


def read_bytes(body: bytes, cuts: Iterable[int] = (), ends: Ends | None = None) -> Reply:
    """Read a response in pieces that end at `cuts`. `ends` may end it early."""

    async def pieces() -> AsyncIterator[bytes]:
        for start, end in pairwise([0, *cuts, len(body)]):
            yield body[start:end]

    return asyncio.run(reply.read(pieces(), ends))


def ask_each(url: str, folder: Path, prompts: Sequence[str], limit: int = 4) -> list[Completion]:
    """Return a completion of each prompt by an unknown server."""

    async def all_of_them() -> list[Completion]:
        with Journal(folder / "a.jsonl") as journal:
            server = Server("other", url, "m", "x", probe_again=probe_again)
            async with Generator(server, journal, limit, 60.0, stall=30.0) as generator:
                asked: list[list[Message]] = [
                    [{"role": "user", "content": prompt}] for prompt in prompts
                ]
                return await asyncio.gather(
                    *(generator(each, n, Sampling()) for n, each in enumerate(asked))
                )

    return asyncio.run(all_of_them())
