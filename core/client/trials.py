"""Find out by one request what a server can do, if a run needs it: continue a message that has
begun, and return log probabilities.

Each trial is sent once per run, before the first request that needs its result. It asks how much 6
times 7 is. A server that begins a new message after the opened box is recognised by the box that
stays open (Dialect.continuation)."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from core.base.errors import UserError
from core.client.failures import Refused
from core.client.reply import Reply
from core.client.request import Request, chat_body
from core.engines.protocol import MARK, Server
from core.types import Message, Sampling

if TYPE_CHECKING:
    from core.client.retry import RetryingClient

QUESTION: list[Message] = [{"role": "user", "content": MARK}]
OPENED = "6 times 7 is \\boxed{"
CAP = 32  # tokens of a continued message
NEEDS = "P(True) (VERIFY_MODE=p_true) needs"


class Trials:
    """The trials of the server of a `client`. `say` shows a line to the user. Requests for P(True)
    ask for `top_logprobs` alternatives (0: the run sends none)."""

    def __init__(self, client: "RetryingClient", say: Callable[[str], None]) -> None:
        self.top_logprobs = 0
        self._client = client
        self._say = say
        self._lock = asyncio.Lock()
        self._has_probabilities = False

    @property
    def _server(self) -> Server:
        return self._client.server

    async def continues(self, request: Request) -> bool:
        """Return whether the server continues a message. Its engine or its card tells it, or else a
        trial, which `request` pays for. Raises Failure if the trial fails for another reason."""
        async with self._lock:
            if self._server.continues is None:
                await self._try_to_continue(request)
            return bool(self._server.continues)

    async def _try_to_continue(self, request: Request) -> None:
        sampling = Sampling(temperature=0.0, max_tokens=CAP, opening=OPENED)
        try:
            reply = await self._send(request, sampling)
        except Refused as refusal:
            if not refusal.is_of_a_field:
                raise
            self._note_continues(False, f"refuses to continue a message ({refusal})")
            return
        rest = self._server.dialect.continuation(reply.content, reply.reasoning, OPENED)
        if rest is None:
            self._note_continues(False, "begins a new message instead of continuing one")
        else:
            self._note_continues(True, "continues a message that has begun")

    def _note_continues(self, continues: bool, finding: str) -> None:
        self._client.server = replace(self._server, trial=continues)
        self._say(f"note: the server at {self._server.base_url} {finding} (asked once)")

    async def check_probabilities(self, request: Request) -> None:
        """Raise UserError if the run needs log probabilities of a begun answer, but the server does
        not return them. The trial is paid for by `request`. Raises Failure if it fails for another
        reason."""
        if not self.top_logprobs or self._has_probabilities:
            return
        if not await self.continues(request):
            raise self._unable("begins a new message instead of continuing one")
        async with self._lock:
            if not self._has_probabilities:
                await self._try_probabilities(request)
            self._has_probabilities = True

    async def _try_probabilities(self, request: Request) -> None:
        sampling = Sampling(
            temperature=1.0, max_tokens=1, opening=OPENED, top_logprobs=self.top_logprobs
        )
        try:
            reply = await self._send(request, sampling)
        except Refused as refusal:
            if not refusal.is_of_a_field:
                raise
            raise self._unable(f"refuses the request for them: {refusal}") from None
        if not reply.logprobs:
            raise self._unable("returns none")

    def _unable(self, finding: str) -> UserError:
        return UserError(
            f"{NEEDS} log probabilities of a begun answer, but the server at "
            f"{self._server.base_url} {finding}. Set VERIFY_MODE=verdict, or choose another server"
        )

    async def _send(self, request: Request, sampling: Sampling) -> Reply:
        reservation = request.reservation
        body = chat_body(self._server, Request(QUESTION, 0, sampling, reservation))
        max_cost = reservation.max_cost(QUESTION, sampling.max_tokens, OPENED)
        return await self._client.send(body, reservation, max_cost)
