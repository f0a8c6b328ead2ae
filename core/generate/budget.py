"""Money: what requests can cost at most, what they have cost, and a limit (MAX_DOLLARS) that is never passed.

Before a request is sent, the most that it can cost is held back: all tokens that its prompt can have, and all that its
cap allows. Its true cost takes that place when its usage is known. One that came to nothing and may have been charged
all the same (it fell silent, its connection was lost) counts with the most. A request for which there is no room waits
for others to cost less than they might have; where none is left to wait for, the run ends.

Each hold is written to a ledger before its first request is sent, and again when it is closed, so that what was in
flight when a run was killed counts with the most that it can have cost. A ledger's lines reach the operating system at
once (they survive kill -9). It lies beside the journal, and one process may write it at a time, which sees to that.
"""

import asyncio
import json
import math
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from core.base.errors import RunFailed, UserError
from core.base.files import read_lines, trouble, write_atomically
from core.base.prices import PICO, Prices, picodollars, shown
from core.generate.reply import Failure, Reply
from core.types import Message

# Tokens that a chat template puts around the messages, and around each of them. Those of a message are a few; some
# templates begin with instructions of their own.
OF_A_REQUEST, OF_A_MESSAGE = 256, 16


@dataclass(frozen=True)
class Most:
    """The most tokens that a request can take."""

    read: int
    written: int

    @property
    def tokens(self) -> int:
        return self.read + self.written

    def followed(self, text: str, written: int, context: int | None) -> "Most":
        """That of a request which reads all of this one, and `text`."""
        return Most(_within(context, self.tokens + OF_A_MESSAGE + _bytes(text)), written)


def most(messages: Sequence[Message], written: int, context: int | None) -> Most:
    """Of these messages, with a cap. No tokenizer of bytes (the usual ones, with few exceptions) makes more tokens of a
    text than it has bytes in UTF-8; nor does a prompt have more than the server's `context`."""
    read = sum(OF_A_MESSAGE + _bytes(text) for message in messages for text in message.values())
    return Most(_within(context, OF_A_REQUEST + read), written)


def _within(context: int | None, tokens: int) -> int:
    return min(tokens, context) if context else tokens


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class Spent(RunFailed):
    """There is no room for a request under the limit."""


class Budget:
    """What the `run` of this name may spend: `limit` dollars (0: as many as it takes), over all of its resumptions. Its
    ledger lies in `path`; use it as a context manager. `say(line)` where the user should know of a trouble.

    A reply that costs more than was held back for it shows that its provider counts otherwise than we do: from then on,
    every request is taken to cost as much more.
    """

    def __init__(self, path: Path, run: str, limit: float) -> None:
        self._path, self._run = path, run
        self.say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True)
        self.limit, self._most = limit, picodollars(limit) if limit else math.inf
        self._spent = self._held = 0  # picodollars; for what is in flight, the rest of what it may cost
        self._factor = 1.0  # by which replies have cost more than they could, at most
        self._unsure = [0, 0]  # requests of this process that may have been charged, and what for at most
        self._open = self._waiting = self._number = 0  # holds: that are open; those of them that wait; made so far
        self._changed = asyncio.Event()
        self._is_over = self._is_billed = False

    def __enter__(self) -> "Budget":
        """Raises UserError where the ledger can't be read or written."""
        runs = _read(self._path)
        self._spent = runs.get(self._run, 0)
        try:
            if self._path.exists():  # summed up: it would grow without end
                write_atomically(self._path, (_line(run, 0, amount) for run, amount in runs.items()))
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise trouble(self._path, error, "nothing was sent") from None
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    @property
    def spent(self) -> float:
        """Dollars, those of earlier processes included."""
        return self._spent / PICO

    @property
    def waiting(self) -> int:
        """Requests that wait for others to cost less than they might have."""
        return self._waiting

    @contextmanager
    def hold(self, prices: Prices, may_wait: bool = True) -> Iterator["Hold"]:
        """For the requests of one completion, at these prices; not `may_wait`: Spent is raised where others might."""
        self._open += 1
        self._number += 1
        made = Hold(self, self._number, prices, may_wait)
        try:
            yield made
        finally:
            self._open -= 1
            if made.most:
                self._held -= made.most - made.spent
                with suppress(UserError):  # what stands there is more than it cost
                    self.write(made.number, made.spent)
            self._wake()

    async def take(self, amount: int, needed: int, may_wait: bool) -> None:
        """Hold back so much more, for a request that needs so much in all. Raises Spent. Until the first bill shows how
        the provider counts, one request is in flight alone."""
        while self.limit and may_wait and not self._is_billed and self._held:
            await self._until_changed()
        while self._spent + math.ceil((self._held + amount) * self._factor) > self._most:
            if self._is_over or not may_wait or self._open - self._waiting <= 1:  # none is left to wait for
                self._is_over = True
                self._wake()
                raise Spent(self._told(math.ceil(needed * self._factor)))
            await self._until_changed()
        self._held += amount

    async def _until_changed(self) -> None:
        self._waiting += 1
        try:
            await self._changed.wait()
        finally:
            self._waiting -= 1

    def paid(self, amount: int, held: int) -> None:
        """So much was paid, and so much less is held."""
        self._spent += amount
        self._held -= held
        if not self._is_billed:
            self._is_billed = True
            self._wake()

    def doubt(self, amount: int) -> None:
        """A request may have been charged, for so much at most."""
        self._unsure[0] += 1
        self._unsure[1] += amount

    def surprised(self, cost: int, most: int) -> None:
        """A reply has cost more than it could."""
        if self._factor == 1 and self.limit:
            self.say(
                f"note: a reply cost {shown(cost / PICO)}, and {shown(most / PICO)} is the most that it could by our "
                "count: the provider counts other tokens. From now on that much more is held back for each request; "
                "what was in flight may pass MAX_DOLLARS"
            )
        self._factor = max(self._factor, cost / max(1, most))

    def write(self, number: int, amount: int) -> None:
        """That this hold comes to so much at most, or came to. Raises UserError."""
        try:
            os.write(self._fd, _line(self._run, number, amount))  # short: whole or not at all
        except OSError as error:
            raise trouble(self._path, error, "what is finished is kept") from None

    def _wake(self) -> None:
        if self._waiting:
            self._changed.set()
            self._changed = asyncio.Event()

    def _told(self, needed: int) -> str:
        number, amount = self._unsure
        unsure = f", of which {shown(amount / PICO)} at most for {number} that failed" if number else ""
        return (
            f"MAX_DOLLARS={self.limit:g} has no room for another request: {shown(self.spent)} is spent{unsure}, and "
            f"the next may cost {shown(needed / PICO)}. Run the same command with a higher MAX_DOLLARS: what is "
            "finished is kept"
        )


class Hold:
    """What one completion has cost so far (`spent`), and will at `most`, in picodollars."""

    def __init__(self, budget: Budget, number: int, prices: Prices, may_wait: bool) -> None:
        self._budget, self.number, self._prices, self._may_wait = budget, number, prices, may_wait
        self.spent = self.most = 0

    async def pay(self, send: Callable[[], Awaitable[Reply]], can: Most, later: Most | None = None) -> Reply:
        """The reply to a request that takes as much as it `can` at most; there is room for a `later` one behind it.
        Raises Spent, UserError where the ledger can't be written, and as `send` does."""
        most = self._prices.most(can.read, can.written)
        await self._room(most + (self._prices.most(later.read, later.written) if later else 0))
        try:
            reply = await send()
        except UserError:  # of a server that sends us on, say: nothing was asked there
            raise
        except BaseException as error:  # also of a run that is stopped
            if not (isinstance(error, Failure) and error.is_free):
                self._paid(self._prices.cost(error.counted) if isinstance(error, Failure) else None, most)
            raise
        self._paid(self._prices.cost(reply.counted), most)
        return reply

    async def _room(self, needed: int) -> None:
        if (lacking := self.spent + needed - self.most) > 0:
            await self._budget.take(lacking, needed, self._may_wait)
            self.most += lacking
            self._budget.write(self.number, self.most)

    def _paid(self, cost: int | None, most: int) -> None:
        if cost is None:
            self._budget.doubt(most)
            cost = most
        left = self.most - self.spent
        self.spent += cost
        if self.spent > self.most:
            self.most = self.spent
            self._budget.write(self.number, self.most)
        self._budget.paid(cost, left - (self.most - self.spent))
        if cost > most:
            self._budget.surprised(cost, most)


# The ledger: a line for each hold when it is made, grows or is closed. The last one counts.


def _line(run: str, number: int, amount: int) -> bytes:
    return json.dumps({"run": run, "hold": number, "picodollars": amount}).encode() + b"\n"


def _read(path: Path) -> dict[str, int]:
    """What each run has spent, in picodollars. Raises UserError where that can't be told."""
    if not path.exists():
        return {}
    remedy = "Move it away, and give as MAX_DOLLARS what is left of it"
    last: dict[tuple[str, int], int] = {}
    for count, line in enumerate(read_lines(path, "the ledger", remedy), 1):
        if not line.endswith("\n"):
            break  # torn: what it was for was not sent
        try:
            found = json.loads(line)
            _check(found)
        except ValueError:
            raise UserError(f"line {count} of the ledger {path} is damaged. {remedy}") from None
        last[found["run"], found["hold"]] = found["picodollars"]
    runs: dict[str, int] = {}
    for (run, _), amount in last.items():
        runs[run] = runs.get(run, 0) + amount
    return runs


def _check(found: Mapping[str, object]) -> None:
    kinds = {"run": str, "hold": int, "picodollars": int}
    if not isinstance(found, dict) or any(type(found.get(name)) is not kind for name, kind in kinds.items()):
        raise ValueError
