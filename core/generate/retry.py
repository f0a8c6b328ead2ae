"""Retry requests, and end the run if the server is lost.

A failed request is retried for about two minutes. The run ends if the server is away for as long, or if it sends
nothing usable: sooner if it never did. A prompt that fails while others succeed ends nothing. A rate limit pauses all
requests.
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
AWAY_SECONDS = 128.0  # the longest that a server may be away
LONGEST_WAIT = 600.0  # seconds; a longer Retry-After is shortened to this
THROTTLED_SECONDS = 3600.0  # the longest that a server may refuse all requests for the rate
IDLE_SECONDS = 60.0  # after a pause as long, another server may answer at the address
# If a request fails for good, the server is given up if no reply was usable for so many seconds. Before the first
# reply, it is given up if so many different prompts fail for good.
SECONDS_SINCE, PROMPTS_NEVER = 600.0, 2
REASON = 60  # characters of a failure that the bar shows
KEPT = "finished work is kept"


class Over(RunFailed):
    """Quota or credit is used up, or the rate limit refuses all requests without end: nothing more is sent."""


class Asker:
    """A client that retries, with at most `limit` requests in flight; use it as a context manager. A request may take
    `timeout` seconds and be silent for `stall` seconds. `say` shows a line to the user."""

    def __init__(self, server: Server, limit: int, timeout: float, stall: float, say: Callable[[str], None]) -> None:
        self.server = server
        self._limit, self._timeout, self._stall, self._say = limit, timeout, stall, say
        self._wire: Wire  # since it was entered
        self._rates = Rates(_pause_for)
        self._again: dict[object, str] = {}  # the requests that are retried, and why
        self._away: float | None = None  # since when no connection succeeds; monotonic, like all times here
        self._usable_at: float | None = None  # when the last usable reply came
        self._failed: set[str] = set()  # prompts that have failed for good since then
        self._asked = time.monotonic()  # when the last request was sent
        self._names: set[str] = set()  # of the model in its replies
        self._doubted = False  # whether another server may answer now
        self._checking = asyncio.Lock()
        self._has_warned = False

    async def __aenter__(self) -> "Asker":
        from core.generate.wire import Wire  # takes a while to load

        self._wire = await Wire(self.server, self._limit).__aenter__()
        return self

    async def __aexit__(self, *about: object) -> None:
        await self._wire.__aexit__(*about)

    @property
    def in_flight(self) -> int:
        return self._wire.in_flight

    @property
    def streamed(self) -> int:
        """An estimate of the tokens in unfinished replies; 0 if the server does not stream."""
        return self._wire.streamed

    @property
    def trouble(self) -> str:
        """The reason why requests are not answered now, in a few words; "" if they are."""
        if self._away is not None:
            return f"server away {time.monotonic() - self._away:.0f} of {AWAY_SECONDS:.0f} s"
        if self._rates.waiting:
            return f"rate limit: {self._rates.waiting} wait, next in {math.ceil(self._rates.seconds_left)} s"
        return f"retrying {len(self._again)}" if self._again else ""

    @property
    def reason(self) -> str:
        """The newest failure among the requests that are retried; "" without any."""
        return next(reversed(self._again.values())) if self._again else ""

    @property
    def is_answered(self) -> bool:
        """True once a reply was usable."""
        return self._usable_at is not None

    async def __call__(self, body: dict[str, Any], prompt: str, hold: Hold, most: float, later: float = 0.0) -> Reply:
        """Return the reply to a request, paid from `hold`. `prompt` identifies its messages.
        Raises Failure after the last try; Over, RunFailed or UserError if no request would succeed."""
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
                        continue  # it waits with all others, and this was no try
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
        """Note a usable reply. Raises as `_check` does if it names another model than earlier replies."""
        if reply.model not in self._names:
            if self._names:
                self._doubted = True
                await self._check()
            self._names.add(reply.model)
        self._away, self._usable_at = None, time.monotonic()
        self._failed.clear()
        if not self._has_warned and is_cut(reply, body["messages"]):
            self._has_warned = True
            self._say(
                f"warning: the server at {self.server.base_url} counts {reply.prompt_tokens} tokens in a prompt with "
                "more words: it cuts long prompts silently, or does not count cached tokens. Give it a longer context "
                "(Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx)"
            )

    def _heard(self, failure: Failure) -> None:
        """Note a failure. Raises Over if quota is used up, and UserError if a server started here has ended."""
        if isinstance(failure, Lost):
            self._doubted = True
            if why := self.server.failure():
                raise UserError(f"{why}. Run the same command again: {KEPT}") from None
            self._away = self._away or time.monotonic()
        elif not isinstance(failure, Stalled | Overtime):
            self._away = None
        if isinstance(failure, Refused) and failure.is_unpaid:
            raise Over(
                f"quota or credit at {self.server.base_url} is used up: {failure}. Add some, then run the same command "
                f"again: {KEPT}"
            ) from None

    def _is_throttled(self, failure: Failure) -> bool:
        """Return whether a rate limit refused the request. Raises Over if it has refused all for too long."""
        if not (isinstance(failure, Refused) and failure.status == THROTTLED):
            return False
        since = self._rates.refused_since
        if since is not None and asyncio.get_running_loop().time() - since > THROTTLED_SECONDS:
            raise Over(
                f"the rate limit of the server at {self.server.base_url} has refused every request for "
                f"{THROTTLED_SECONDS / 60:.0f} minutes: {failure}. Run the same command again later: {KEPT}"
            )
        return True

    def _wait(self, failure: Failure, tries: int, is_silent: bool) -> float:
        """Return the seconds before the next try. `is_silent`: no usable reply has come since the first try.
        Raises UserError if the server was away for too long."""
        wait = _backoff(tries - 1) * random.uniform(0.75, 1.25)  # a population should not return all at once
        if isinstance(failure, Refused):
            return max(wait, min(LONGEST_WAIT, failure.wait or 0.0))
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
        """Note that a request has failed for good. Raises RunFailed if the server is given up."""
        self._failed.add(prompt)
        if self._usable_at is None:
            is_enough = len(self._failed) >= PROMPTS_NEVER
        else:
            is_enough = time.monotonic() - self._usable_at > SECONDS_SINCE
        if is_enough and not self._wire.is_at_work(since):
            raise RunFailed(
                f"the server at {self.server.base_url} sends nothing usable (last failure: "
                f"{failure.words.rstrip('.')}). Fix that and run the same command again: {KEPT}"
            )

    async def _check(self) -> None:
        """Check, after a lost connection or a pause, that the server is still the one that the run began with.
        Raises UserError if it serves another model, and Lost if it does not answer."""
        self._doubted = self._doubted or time.monotonic() - self._asked > IDLE_SECONDS
        self._asked = time.monotonic()
        if not self._doubted:
            return
        async with self._checking:
            if not self._doubted:
                return  # another request has checked
            ours = self.server
            try:
                now = await asyncio.to_thread(ours.look, ours)
            except UserError as error:
                raise UserError(f"{error} ({KEPT}; this run began with {ours.origin})") from None
            if now is None:
                raise Lost("nothing answers")
            self._away = None
            if now.kind != ours.kind or any(ours.weights.get(name) != value for name, value in now.weights.items()):
                raise UserError(
                    f"the server at {ours.base_url} is now {now.origin}, but this run began with {ours.origin}. Start "
                    f"that one again, or run the same command to begin anew with this one: {KEPT}"
                )
            self.server = replace(ours, version=now.version)
            self._doubted = False


def _pause_for(round: int, wait: float | None) -> float:
    """Return the seconds to pause for a rate limit: at least `wait`, and longer in each round."""
    return min(LONGEST_WAIT, max(wait or 0.0, _backoff(round)))


def _backoff(attempt: int) -> float:
    return float(min(LONGEST_WAIT, 0.5 * 2**attempt))
