"""Limit the dollars that an experiment spends (MAX_DOLLARS). The journal adds up the payments.

Before a request is sent, the journal stores its highest possible cost: one token per byte of the
prompt, some for the chat template, and the whole token cap. When the reply arrives, the rest is
given back. So the payments include requests in flight, even if the run is killed. A reply without
usage counts at its highest cost, and so does a failed request that may be charged. A request that
exceeds the budget waits for money from other requests, or ends the run.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from core.base.errors import RunFailed, UserError
from core.base.prices import Prices, format_dollars
from core.client.failures import Failure
from core.client.journal import Journal
from core.client.reply import Reply
from core.types import Messages

# Tokens allowed for the chat template: for a request (some templates add instructions), and for
# each role or content.
OF_A_REQUEST = 256
OF_A_MESSAGE = 16
ROUNDING = 1e-9  # dollars


class RunExhausted(RunFailed):
    """An error that stops all requests. Budget, quota or credit is used up, or a rate limit has
    lasted for too long."""


class Budget:
    """A limit in dollars on the payments in a `journal`. A `limit` of 0 means no limit."""

    def __init__(self, journal: Journal, limit: float) -> None:
        self.journal = journal
        self._limit = limit
        self.open = 0  # completions in progress, which may pay in advance and give money back
        self.waiting = 0  # requests that wait until other requests give money back
        self._changed = asyncio.Event()
        self._is_over = False

    async def take(self, amount: float) -> None:
        """Pay `amount` dollars in advance. If the budget is too small now, wait until other
        requests give money back. Raises RunExhausted if no other request can give money back, or
        if one has raised it."""
        while self._limit and self.journal.paid + amount > self._limit + ROUNDING:
            if self._is_over or self.open - self.waiting <= 1:  # nothing to wait for
                self._is_over = True
                self.wake()
                raise RunExhausted(
                    f"MAX_DOLLARS={self._limit:g} does not suffice for another request. "
                    f"{format_dollars(self.journal.paid)} is spent, and the next request may cost "
                    f"{format_dollars(amount)} more. Run the same command with a higher "
                    "MAX_DOLLARS: finished work is kept"
                )
            self.waiting += 1
            try:
                await self._changed.wait()
            finally:
                self.waiting -= 1
        self.journal.pay(amount)

    def wake(self) -> None:
        """Let the waiting requests check the budget again."""
        self._changed.set()
        self._changed = asyncio.Event()


class Reservation:
    """The payments of one completion, as a context manager. `unspent` dollars are paid in advance
    and not used yet. Requests are free without a `budget` or `prices`. A prompt has at most
    `context` tokens."""

    def __init__(
        self, budget: Budget | None, prices: Prices | None, context: int | None = None
    ) -> None:
        self._budget = budget
        self._prices = prices
        self._context = context
        self.unspent = 0.0

    def __enter__(self) -> "Reservation":
        if self._budget:
            self._budget.open += 1
        return self

    def __exit__(self, *_: object) -> None:
        if self._budget:
            self._budget.open -= 1
            if unspent := self.settled():
                # if the journal can't be written, the budget counts too much, which is safe
                with suppress(UserError):
                    self._budget.journal.pay(-unspent)
            self._budget.wake()

    def settled(self) -> float:
        """Return `unspent`, and set it to 0. The caller must give this amount back in the
        journal."""
        unspent = self.unspent
        self.unspent = 0.0
        if unspent and self._budget:
            self._budget.wake()
        return unspent

    def max_cost(
        self, messages: Messages, max_tokens: int, opening: str = "", more_tokens: int = 0
    ) -> float:
        """Return the highest cost in dollars of a request for `max_tokens` tokens after an answer's
        `opening`. Its prompt has at most one token per byte, the template's tokens and
        `more_tokens`, but no more than the context."""
        if not self._prices:
            return 0.0
        prompt_tokens = OF_A_REQUEST + more_tokens
        texts = ["assistant", opening]
        for message in messages:
            texts += message.values()
        for text in texts:
            prompt_tokens += OF_A_MESSAGE + len(text.encode("utf-8", "surrogatepass"))
        if self._context:
            prompt_tokens = min(prompt_tokens, self._context)
        return self._prices.max_dollars(prompt_tokens, max_tokens)

    async def pay(
        self, send: Callable[[], Awaitable[Reply]], max_cost: float, max_followup_cost: float = 0.0
    ) -> Reply:
        """Call `send` and return its reply. The request may cost up to `max_cost` dollars.
        `max_followup_cost` dollars are reserved for a second request. Raises RunExhausted as
        Budget.take does, and the errors of `send`."""
        if self._budget is None or self._prices is None:
            return await send()
        lacking = max_cost + max_followup_cost - self.unspent
        if lacking > ROUNDING:
            await self._budget.take(lacking)
            self.unspent += lacking
        try:
            reply = await send()
        except UserError:  # for example a redirect to another server, which received no request
            raise
        except BaseException as error:  # including the cancellation of a stopped run
            if not (isinstance(error, Failure) and error.is_free):
                self.unspent -= max_cost
            raise
        cost = self._prices.dollars(reply.counted)
        self.unspent -= max_cost if cost is None else cost
        return reply
