"""Find out by short requests what a server can do, if a run needs it: continue a message that has
begun, return log probabilities, and repeat a reply.

Each trial is sent once per run, before the first request that needs its result. All but the last
ask how much 6 times 7 is. A server that begins a new message after the opened box is recognised by
the box that stays open (Dialect.continuation). The last asks twice for random letters, with one
seed. The journal stores its replies, so no later run with this journal repeats it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from core.base.errors import UserError
from core.client.completed import completion_of
from core.client.failures import Failure, Refused
from core.client.journal import Journal, content_key
from core.client.reply import Reply
from core.client.request import Request, chat_body
from core.engines.protocol import MARK, Server
from core.types import Message, Messages, Sampling

if TYPE_CHECKING:
    from core.client.retry import RetryingClient

Key = Callable[[Messages, int, Sampling], str]  # returns the journal key of a request

QUESTION: list[Message] = [{"role": "user", "content": MARK}]
OPENED = "6 times 7 is \\boxed{"
CAP = 32  # tokens of a trial's reply
NEEDS = "P(True) (SCORE=p_true) needs log probabilities of a begun answer"
CONFIDENCE_NEEDS = "confidence (SCORE=confidence) needs log probabilities"
# Two replies that ignore the seed are hardly equal.
LETTERS: list[Message] = [{"role": "user", "content": "Write 12 random letters."}]
LETTERS_SEED = 1234  # not 0, which some servers take for no seed
LETTERS_SAMPLING = Sampling(temperature=1.0, max_tokens=24)


class Trials:
    """The trials of the server of a `client`. `say` shows a line to the user. `key` returns journal
    keys. Requests for P(True) ask for `top_logprobs` alternatives (0: the run sends none). If
    `compares_seeds`, the run records whether equal seeds give equal replies."""

    def __init__(
        self, client: "RetryingClient", journal: Journal, key: Key, say: Callable[[str], None]
    ) -> None:
        self.top_logprobs = 0
        self.compares_seeds = False
        self._client = client
        self._journal = journal
        self._key = key
        self._say = say
        self._lock = asyncio.Lock()
        self._has_probabilities = False
        self._has_confidences = False
        self._has_compared = False

    @property
    def _server(self) -> Server:
        return self._client.server

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Wait until no other trial runs, and let no other run in the block."""
        refusals = self._client.refusals
        refusals.awaiting_trial += 1
        try:
            await self._lock.acquire()
        finally:
            refusals.awaiting_trial -= 1
        try:
            yield
        finally:
            self._lock.release()

    async def continues(self, request: Request) -> bool:
        """Return whether the server continues a message. Its engine or its card tells it, or else a
        trial, which `request` pays for. Raises Failure if the trial fails for another reason."""
        async with self._alone():
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
            raise self._unable(NEEDS, "begins a new message instead of continuing one")
        async with self._alone():
            if not self._has_probabilities:
                await self._try_probabilities(request)
            self._has_probabilities = True

    async def _try_probabilities(self, request: Request) -> None:
        sampling = Sampling(
            temperature=1.0, max_tokens=1, opening=OPENED, top_logprobs=self.top_logprobs
        )
        reply = await self._send_for_probabilities(request, sampling, NEEDS)
        if not reply.logprobs:
            raise self._unable(NEEDS, "returns none")

    async def check_confidences(self, request: Request) -> None:
        """Raise UserError if `request` needs the confidences of its tokens, but the server lists no
        log probabilities. The trial is paid for by `request`. Raises Failure if it fails for
        another reason."""
        if not request.sampling.confidences or self._has_confidences:
            return
        async with self._alone():
            if not self._has_confidences:
                await self._try_confidences(request)
            self._has_confidences = True

    async def _try_confidences(self, request: Request) -> None:
        sampling = Sampling(temperature=1.0, max_tokens=CAP, confidences=True)
        reply = await self._send_for_probabilities(request, sampling, CONFIDENCE_NEEDS)
        if not reply.confidences:
            raise self._unable(CONFIDENCE_NEEDS, "returns none")

    async def _send_for_probabilities(
        self, request: Request, sampling: Sampling, needs: str
    ) -> Reply:
        try:
            return await self._send(request, sampling)
        except Refused as refusal:
            if not refusal.is_of_a_field:
                raise
            raise self._unable(needs, f"refuses the request for them: {refusal}") from None

    def _unable(self, needs: str, finding: str) -> UserError:
        return UserError(
            f"{needs}, but the server at {self._server.base_url} {finding}. Set SCORE=verdict, or "
            "choose another server"
        )

    def recall_seeds(self) -> None:
        """Note what the replies of an earlier trial of seeds in the journal show, if the run
        compares seeds."""
        if not self.compares_seeds or self._server.seeds is not None:
            return
        first, second = map(self._journal.get, self._letters_keys())
        if first is None or second is None:
            return
        self._has_compared = True
        if (first.thinking, first.answer) != (second.thinking, second.answer):
            self._client.server = replace(self._server, seeds=False)

    async def compare_seeds(self, request: Request) -> None:
        """Find out whether two requests with one seed get equal replies, if the run compares seeds,
        `request` is sampled and the server is unknown. No other request of the run is in flight
        meanwhile. `request` pays. If the trial fails, nothing is noted: `request` shows the
        fault."""
        if not (self.compares_seeds and request.sampling.temperature):
            return
        async with self._alone():
            if self._has_compared or self._server.seeds is not None:
                return
            self._has_compared = True
            with suppress(Failure):
                await self._try_seeds(request)

    async def _try_seeds(self, request: Request) -> None:
        for key in self._letters_keys():
            reply = await self._send(request, LETTERS_SAMPLING, LETTERS, LETTERS_SEED)
            server = self._server
            if server.seeds is not None:  # it refuses the field, which the client has reported
                return
            completion = completion_of(reply, server, LETTERS_SEED, LETTERS_SAMPLING)
            completion = replace(completion, key=key, origin=server.origin)
            self._journal.put(completion, LETTERS, paid=-request.reservation.settled())
        self.recall_seeds()
        if self._server.seeds is False:
            self._say(
                f"note: the server at {self._server.base_url} gave two different replies to one "
                "request with one seed (asked once), so another run may give other answers. SEED "
                "still decides random choices (candidates, ties and so on)"
            )

    def _letters_keys(self) -> tuple[str, str]:
        """Return the journal keys of the trial's two requests, which are equal."""
        key = self._key(LETTERS, LETTERS_SEED, LETTERS_SAMPLING)
        return key, content_key([key, "again"])

    async def _send(
        self,
        request: Request,
        sampling: Sampling,
        messages: Messages = QUESTION,
        seed: int = 0,
    ) -> Reply:
        reservation = request.reservation
        body = chat_body(self._server, Request(messages, seed, sampling, reservation))
        max_cost = reservation.max_cost(messages, sampling.max_tokens, sampling.opening)
        refusals = self._client.refusals
        has_reply = refusals.has_reply
        reply = await self._client.send(body, reservation, max_cost)
        refusals.has_reply = has_reply  # the server may still refuse all longer requests
        return reply
