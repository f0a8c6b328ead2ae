"""The limit on the dollars that an experiment spends (MAX_DOLLARS), which its journal adds up.

The journal notes the highest possible cost of a request before it is sent: one token for each byte of its prompt, and
its whole cap. The record of the completion gives back the rest. So requests in flight are paid for, and if the run is
killed they count at their highest cost. So does a failed request that may have been charged, and a reply without usage.
A request that the limit has no room for waits until others give money back.
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

# Tokens that a chat template adds to a request (some add instructions) and to each message (a few).
OF_A_REQUEST, OF_A_MESSAGE = 256, 16
ROUNDING = 1e-9  # dollars


def most_read(messages: Sequence[Message], context: int | None, more: int = 0) -> int:
    """Return the most tokens of `messages` and `more`: one per byte (few tokenizers make more), up to the `context`."""
    texts = [text for message in messages for text in message.values()]
    tokens = OF_A_REQUEST + sum(OF_A_MESSAGE + len(text.encode("utf-8", "surrogatepass")) for text in texts) + more
    return min(tokens, context) if context else tokens


class Spent(RunFailed):
    """The limit has no room for another request."""


class Budget:
    """A limit in dollars (0: none) on the payments in a `journal`."""

    def __init__(self, journal: Journal, limit: float) -> None:
        self._journal, self._limit = journal, limit
        self.open = 0  # completions that hold money, or wait for it
        self.waiting = 0  # requests that wait for others to give money back
        self._changed = asyncio.Event()
        self._is_over = False

    @property
    def spent(self) -> float:
        """The dollars spent. Requests in flight count at their highest cost."""
        return self._journal.paid

    async def take(self, amount: float, may_wait: bool) -> None:
        """Pay in advance, once there is room. Raises Spent if there never will be."""
        while self._limit and self.spent + amount > self._limit + ROUNDING:
            if self._is_over or not may_wait or self.open - self.waiting <= 1:  # nothing to wait for
                self._is_over = True
                self.wake()
                raise Spent(
                    f"MAX_DOLLARS={self._limit:g} has no room for another request: {shown(self.spent)} is spent, and "
                    f"the next may cost {shown(amount)}. Run the same command with a higher MAX_DOLLARS: finished "
                    "work is kept"
                )
            self.waiting += 1
            try:
                await self._changed.wait()
            finally:
                self.waiting -= 1
        self._journal.pay(amount)

    def wake(self) -> None:
        """Let the waiting requests check for room again."""
        self._changed.set()
        self._changed = asyncio.Event()

    def leave(self, left: float) -> None:
        self.open -= 1
        if left:
            with suppress(UserError):  # if the journal can't be written, it errs on the safe side
                self._journal.pay(-left)
        self.wake()


class Hold:
    """The money of one completion: `left` is paid in advance and not used yet. Use it as a context manager.
    Requests are free without a `budget` or `prices`. If not `may_wait`, a lack of room raises Spent at once."""

    def __init__(self, budget: Budget | None, prices: Prices | None, may_wait: bool = True) -> None:
        self._budget, self._prices, self._may_wait = budget, prices, may_wait
        self.left = 0.0

    def __enter__(self) -> "Hold":
        if self._budget:
            self._budget.open += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._budget:
            self._budget.leave(self.settled())

    def settled(self) -> float:
        """Take what is left. The caller gives it back."""
        left, self.left = self.left, 0.0
        if left and self._budget:
            self._budget.wake()
        return left

    def most(self, read: int, written: int) -> float:
        """Return the highest cost of a request with so many tokens, in dollars."""
        return self._prices.most(read, written) if self._prices else 0.0

    async def pay(self, send: Callable[[], Awaitable[Reply]], most: float, later: float = 0.0) -> Reply:
        """Return the reply to a request that costs `most` dollars at most, with money reserved for a `later` one.
        Raises Spent if there is no room."""
        if self._budget is None or self._prices is None:
            return await send()
        if (lacking := most + later - self.left) > ROUNDING:
            await self._budget.take(lacking, self._may_wait)
            self.left += lacking
        try:
            reply = await send()
        except UserError:  # such as a redirect to another server: nothing was asked there
            raise
        except BaseException as error:  # also if the run is stopped
            if not (isinstance(error, Failure) and error.is_free):
                self.left -= most
            raise
        cost = self._prices.dollars(reply.counted)
        self.left -= most if cost is None else cost
        return reply
