"""Retry: one request, asked again until it is answered; and what all requests together say of the server.

A request that fails is asked again for about two minutes. A server that is away ends the run after as long. One that
sends nothing usable ends it too, sooner if nothing of it ever was usable; prompts that it chokes on, where it answers
others, end nothing. A limit of our rate holds all requests back.
"""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from core.base.errors import RunFailed, UserError, one_line
from core.engines.server import Server
from core.generate.budget import Hold
from core.generate.rates import Rates
from core.generate.reply import THROTTLED, Failure, Lost, Overtime, Refused, Reply, Stalled, is_cut

if TYPE_CHECKING:
    from core.generate.wire import Wire

RETRIES = 8  # waits of 0.5, 1, 2 … 64 s
AWAY_SECONDS = 128.0  # that a server may be away
LONGEST_WAIT = 600.0  # seconds; bounds what a server may ask for with Retry-After
THROTTLED_SECONDS = 3600.0  # for which a server may refuse everything for the rate
IDLE_SECONDS = 60.0  # after so long a pause, another server may have taken the place of ours
# A server is given up when a request was asked in vain, and no other was usable for so many seconds; one whose first
# reply is still to come, when so many different prompts were asked in vain.
SECONDS_SINCE, PROMPTS_NEVER = 600.0, 2
REASON = 60  # characters of a failure that the bar shows
KEPT = "what is finished is kept"


class Over(RunFailed):
    """The server has no quota or credit left for us, or refuses us for its limits without end: nothing more is sent."""


class Asker:
    """Ask a server, at most `limit` requests at a time. A request may take `timeout` seconds in all, and be silent for
    `stall` seconds. `say` shows a line to the user. Use it as a context manager."""

    def __init__(self, server: Server, limit: int, timeout: float, stall: float, say: Callable[[str], None]) -> None:
        self.server = server
        self._limit, self._timeout, self._stall, self._say = limit, timeout, stall, say
        self._wire: Wire  # since it was entered
        self._rates = Rates(_pause_for)
        self._again: dict[object, str] = {}  # the requests that have failed and are asked again, and why
        self._away: float | None = None  # since when it has not been reached; monotonic seconds, as all times here
        self._usable_at: float | None = None  # when the last usable reply came
        self._failed: set[str] = set()  # prompts that were asked in vain since
        self._asked = time.monotonic()  # when the last request was sent
        self._names: set[str] = set()  # what its replies call the model
        self._doubted = False  # whether another server may have taken its place
        self._checking = asyncio.Lock()
        self._is_told_of_cuts = False

    async def __aenter__(self) -> "Asker":
        from core.generate.wire import Wire  # takes a while to load

        self._wire = await Wire(self.server, self._limit).__aenter__()
        return self

    async def __aexit__(self, *about: object) -> None:
        await self._wire.__aexit__(*about)

    # For the bar

    @property
    def in_flight(self) -> int:
        """Count the requests that wait for a reply."""
        return self._wire.in_flight

    @property
    def streamed(self) -> int:
        """Estimate the tokens of the replies that are coming; 0 if the server does not stream."""
        return self._wire.streamed

    @property
    def trouble(self) -> str:
        """Return what keeps requests from being answered now, in a few words; "" if nothing does."""
        if self._away is not None:
            return f"server away {time.monotonic() - self._away:.0f} of {AWAY_SECONDS:.0f} s"
        if self._rates.waiting:
            return f"rate limit: {self._rates.waiting} wait, next in {math.ceil(self._rates.seconds_left)} s"
        return f"retrying {len(self._again)}" if self._again else ""

    @property
    def reason(self) -> str:
        """Return why requests are asked again, in the server's words if it has some; "" if none are."""
        return next(reversed(self._again.values())) if self._again else ""

    @property
    def is_answered(self) -> bool:
        """Return whether any reply was usable yet."""
        return self._usable_at is not None

    # Asking

    async def __call__(self, body: dict[str, Any], prompt: str, hold: Hold, most: float, later: float = 0.0) -> Reply:
        """Return the reply to a request of what `prompt` stands for, paid from `hold`. Raises Failure after the last
        try, Over, RunFailed and UserError if all requests would fare the same."""
        mine, tried, began = object(), Counter[type[Failure]](), time.monotonic()
        since = asyncio.get_running_loop().time()
        try:
            while True:
                patience = self._stall * 2 ** tried[Stalled]
                try:
                    await self._check()
                    reply = await hold.pay(partial(self._sent, body, patience), most, later)
                    await self._answered(reply, body)
                    return reply
                except Failure as failure:
                    self._heard(failure)
                    if not failure.may_pass:
                        raise
                    if self._is_throttled(failure) and time.monotonic() - began < THROTTLED_SECONDS:
                        continue  # the rates let it wait with all others; it has not been tried
                    tried[type(failure)] += 1
                    self._again[mine] = one_line(failure.words, REASON)
                    is_silent = (self._usable_at or -math.inf) < began
                    wait = self._wait(failure, tried.total(), is_silent)
                    if tried[type(failure)] == failure.tries or tried.total() > RETRIES:
                        self._give_up(prompt, failure, since)
                        raise
                await asyncio.sleep(wait)
        finally:
            self._again.pop(mine, None)

    async def _sent(self, body: dict[str, Any], patience: float) -> Reply:
        """Send a request when the rates allow."""
        entered = await self._rates.enter()
        try:
            reply = await self._wire.exchange(body, patience, self._timeout)
        except Refused as refusal:
            if refusal.status == THROTTLED and refusal.may_pass and not refusal.is_unpaid:
                self._rates.refused(entered, refusal.wait)
            raise
        finally:
            self._rates.leave()
        self._rates.answered()
        return reply

    async def _answered(self, reply: Reply, body: dict[str, Any]) -> None:
        """Take note of a usable reply. Raises as `_check` does, if it names another model than those before."""
        if reply.model not in self._names:
            if self._names:
                self._doubted = True
                await self._check()
            self._names.add(reply.model)
        self._away, self._usable_at = None, time.monotonic()
        self._failed.clear()
        if not self._is_told_of_cuts and is_cut(reply, body["messages"]):
            self._is_told_of_cuts = True
            self._say(
                f"warning: the server at {self.server.base_url} counts {reply.prompt_tokens} tokens of a prompt that "
                "has more words: it cuts long prompts silently, or leaves out what its cache held. Give it a longer "
                "context (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx)"
            )

    def _heard(self, failure: Failure) -> None:
        """Take note of a failure. Raises Over if quota is used up, and UserError if a server of ours has ended."""
        if isinstance(failure, Lost):
            self._doubted = True
            if why := self.server.failure():
                raise UserError(f"{why}. Run the same command again: {KEPT}") from None
            self._away = self._away or time.monotonic()
        elif not isinstance(failure, Stalled | Overtime):
            self._away = None
        if isinstance(failure, Refused) and failure.is_unpaid:
            raise Over(
                f"the server at {self.server.base_url} has no quota or credit left for us: {failure} "
                f"(run the same command again when it has: {KEPT})"
            ) from None

    def _is_throttled(self, failure: Failure) -> bool:
        """Return whether it is a limit of our rate. Raises Over if that never passes."""
        if not (isinstance(failure, Refused) and failure.status == THROTTLED):
            return False
        since = self._rates.refused_since
        if since is not None and asyncio.get_running_loop().time() - since > THROTTLED_SECONDS:
            raise Over(
                f"the server at {self.server.base_url} has refused every request for {THROTTLED_SECONDS / 60:.0f} "
                f"minutes, for the limits of our rate: {failure}. Run the same command again later: {KEPT}"
            )
        return True

    def _wait(self, failure: Failure, tries: int, is_silent: bool) -> float:
        """Return the seconds before the next try. `is_silent`: nothing usable has come since the first one. Raises
        UserError if the server was away for too long."""
        wait = _backoff(tries - 1) * random.uniform(0.75, 1.25)  # a population should not return in step
        if isinstance(failure, Refused):
            return max(wait, min(LONGEST_WAIT, failure.wait or 0.0))  # asked back at once, we still wait
        if isinstance(failure, Lost) and self._away is not None:
            left = self._away + AWAY_SECONDS - time.monotonic()
            if left <= 0 or (is_silent and tries > RETRIES):
                raise UserError(
                    f"the server at {self.server.base_url} does not answer any more ({failure}). Start it again "
                    f"and run the same command: {KEPT}"
                ) from None
            return min(wait, left)
        return wait

    def _give_up(self, prompt: str, failure: Failure, since: float) -> None:
        """Note that a request was asked in vain. Raises RunFailed if the server is to be given up."""
        self._failed.add(prompt)
        if self._usable_at is None:
            is_enough = len(self._failed) >= PROMPTS_NEVER
        else:
            is_enough = time.monotonic() - self._usable_at > SECONDS_SINCE
        if is_enough and not self._wire.is_at_work(since):
            raise RunFailed(
                f"the server at {self.server.base_url} sends nothing usable (the last: "
                f"{failure.words.rstrip('.')}). Fix that and run the same command again: {KEPT}"
            )

    async def _check(self) -> None:
        """Check that the server is the one that the run began with. After a lost connection or a pause, another may
        have taken its place. Raises UserError if it serves another model, and Lost if it does not answer."""
        self._doubted = self._doubted or time.monotonic() - self._asked > IDLE_SECONDS
        self._asked = time.monotonic()
        if not self._doubted:
            return
        async with self._checking:
            if not self._doubted:
                return  # another request has looked
            ours = self.server
            try:
                now = await asyncio.to_thread(ours.look, ours)
            except UserError as error:
                raise UserError(f"{error} ({KEPT}; this run began with {ours.origin})") from None
            if now is None:
                raise Lost("nothing answers")
            self._away = None  # it answers, though a reply may take minutes
            if now.kind != ours.kind or any(ours.weights.get(name) != value for name, value in now.weights.items()):
                raise UserError(
                    f"the server at {ours.base_url} is {now.origin} now, and this run began with {ours.origin}. Start "
                    f"that again and run the same command, or run it again with this one: {KEPT}, and each is given "
                    "its own"
                )
            self.server = replace(ours, version=now.version)
            self._doubted = False


def _pause_for(round: int, wait: float | None) -> float:
    """Seconds for which nothing is sent to a server that refuses us for the rate, and asks for a `wait`: longer where
    that was not enough."""
    return min(LONGEST_WAIT, max(wait or 0.0, _backoff(round)))


def _backoff(attempt: int) -> float:
    """Seconds to wait before asking again: doubling."""
    return float(min(LONGEST_WAIT, 0.5 * 2**attempt))
