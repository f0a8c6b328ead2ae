"""Money: a limit on what an experiment spends (MAX_DOLLARS). What is spent is the sum of what its journal has as paid.

Before a request is sent, the most that it can cost is paid: a token for each byte of its prompt, and all that its cap
allows. The record of its completion gives back what it did not take. So the journal's sum holds what is in flight, and
a run that is killed counts that with the most. A request that failed and may have been charged counts with the most,
and so does a reply without usage. A request without room waits until others give something back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from types import TracebackType

from core.base.errors import RunFailed, UserError
from core.base.prices import Prices, shown
from core.generate.journal import Journal
from core.generate.reply import Failure, Reply
from core.types import Message

# Tokens that a chat template puts around the messages, and around each of them. Those of a message are a few; some
# templates begin with instructions of their own.
OF_A_REQUEST, OF_A_MESSAGE = 256, 16
ROUNDING = 1e-9  # dollars


def most_read(messages: Sequence[Message], context: int | None, more: int = 0) -> int:
    """Count the most tokens of a prompt: these messages and `more` tokens. No tokenizer of bytes (the usual ones, with
    few exceptions) makes more tokens of a text than it has bytes in UTF-8. No prompt exceeds the server's `context`."""
    texts = [text for message in messages for text in message.values()]
    tokens = OF_A_REQUEST + sum(OF_A_MESSAGE + len(text.encode("utf-8", "surrogatepass")) for text in texts) + more
    return min(tokens, context) if context else tokens


class Spent(RunFailed):
    """There is no room for a request under the limit."""


class Budget:
    """A limit in dollars (0: none) on all that a `journal` has as paid."""

    def __init__(self, journal: Journal, limit: float) -> None:
        self._journal, self._limit = journal, limit
        self._open = 0  # completions that hold money, or wait for it
        self.waiting = 0  # requests that wait for others to give something back
        self._changed = asyncio.Event()
        self._is_over = False

    @property
    def spent(self) -> float:
        """Return the dollars spent, with the most that is in flight."""
        return self._journal.paid

    async def take(self, amount: float, may_wait: bool) -> None:
        """Pay ahead, if necessary when others have given something back. Raises Spent, and UserError if the journal
        can't be written."""
        while self._limit and self.spent + amount > self._limit + ROUNDING:
            if self._is_over or not may_wait or self._open - self.waiting <= 1:  # none is left to wait for
                self._is_over = True
                self.wake()
                raise Spent(
                    f"MAX_DOLLARS={self._limit:g} has no room for another request: {shown(self.spent)} is spent, and "
                    f"the next may cost {shown(amount)}. Run the same command with a higher MAX_DOLLARS: what is "
                    "finished is kept"
                )
            self.waiting += 1
            try:
                await self._changed.wait()
            finally:
                self.waiting -= 1
        self._journal.pay(amount)

    def wake(self) -> None:
        """Let those that wait look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def enter(self) -> None:
        self._open += 1

    def leave(self, left: float) -> None:
        self._open -= 1
        if left:
            with suppress(UserError):  # what the journal has is more than it cost
                self._journal.pay(-left)
        self.wake()


class Hold:
    """The money of one completion: `left` is paid ahead and not taken yet. Use it as a context manager. Without a
    `budget` or `prices` requests are free. Not `may_wait`: Spent is raised at once if there is no room."""

    def __init__(self, budget: Budget | None, prices: Prices | None, may_wait: bool = True) -> None:
        self._budget, self._prices, self._may_wait = budget, prices, may_wait
        self.left = 0.0

    def __enter__(self) -> "Hold":
        if self._budget:
            self._budget.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._budget:
            self._budget.leave(self.settled())

    def settled(self) -> float:
        """Return what is left, which the caller gives back."""
        left, self.left = self.left, 0.0
        if left and self._budget:
            self._budget.wake()
        return left

    def most(self, read: int, written: int) -> float:
        """Return the most dollars that a request can cost with these tokens."""
        return self._prices.most(read, written) if self._prices else 0.0

    async def pay(self, send: Callable[[], Awaitable[Reply]], most: float, later: float = 0.0) -> Reply:
        """Return the reply to a request that costs `most` dollars at most. There is room for a `later` one behind it.
        Raises Spent, UserError if the journal can't be written, and the errors of `send`."""
        if self._budget is None or self._prices is None:
            return await send()
        if (lacking := most + later - self.left) > ROUNDING:
            await self._budget.take(lacking, self._may_wait)
            self.left += lacking
        try:
            reply = await send()
        except UserError:  # a server that sends us on, say: nothing was asked there
            raise
        except BaseException as error:  # also of a run that is stopped
            if not (isinstance(error, Failure) and error.is_free):
                self.left -= most
            raise
        cost = self._prices.dollars(reply.counted)
        self.left -= most if cost is None else cost
        return reply
