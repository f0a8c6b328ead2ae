"""Retry failed requests, and end the run if the server no longer answers.

A temporary failure is retried, usually for about two minutes. The run ends if the server is
unreachable for that long. It also ends if a request fails for good after ten minutes without a
usable reply, or sooner if there never was one. If other prompts still succeed, a failed prompt does
not end the run. After a usable reply, a refused key or model is temporary too, unless several
prompts meet it. Before, it ends the run once no request in progress may still succeed. A rate limit
pauses all requests.
"""

import asyncio
import math
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from core.base.errors import RunFailed, UserError, one_line
from core.client.budget import Hold, Over
from core.client.failures import (
    THROTTLED,
    Denied,
    Failure,
    Lost,
    Overtime,
    Refused,
    Stalled,
)
from core.client.journal import content_key
from core.client.rates import Rates
from core.client.reply import Reply, is_cut
from core.engines.protocol import Server
from core.types import Messages

if TYPE_CHECKING:
    from core.client.http_client import HttpClient

RETRIES = 8  # after pauses of about 0.5, 1, 2 … 64 s, or longer if the server asks for it
AWAY_SECONDS = 128.0  # a server that is unreachable for longer ends the run
LONGEST_WAIT = 600.0  # seconds. A longer Retry-After is shortened to this
THROTTLED_SECONDS = 3600.0  # a rate limit that refuses all requests for longer ends the run
# if no request began for longer, the next one first checks that the server is still the same
IDLE_SECONDS = 60.0
# A request that fails for good ends the run if no reply was usable for SECONDS_SINCE. Before the
# first usable reply, it ends the run if PROMPTS_NEVER different prompts have failed for good. A
# server that is at work gets more time.
SECONDS_SINCE, PROMPTS_NEVER = 600.0, 2
# if so many prompts since the last usable reply are denied (Denied), the run ends
PROMPTS_DENIED = 3
REASON = 60  # the progress bar shows at most so many characters of a failure
KEPT = "finished work is kept"


class Asker:
    """A client that retries requests. A try fails after `timeout` seconds, or `stall` seconds
    without data (doubled after each stall). `say` shows a line to the user."""

    def __init__(
        self, server: Server, timeout: float, stall: float, say: Callable[[str], None]
    ) -> None:
        self.server, self._timeout, self._stall, self._say = server, timeout, stall, say
        self.http: HttpClient  # the generator sets this attribute and the next one
        self.denies_all: Callable[[Messages], Awaitable[bool]]
        self._rates = Rates(_pause_for)
        # request that is being retried -> its last failure, newest last
        self._again: dict[object, str] = {}
        # the time (monotonic, like all times here) since which no connection succeeds
        self._away: float | None = None
        self.usable_at: float | None = None  # the time of the last usable reply
        # prompts that have failed for good since the last usable reply
        self._failed: set[str] = set()
        # prompts that were denied in all tries since the last usable reply
        self._denied: set[str] = set()
        self._asked = time.monotonic()  # the time of the last try of any request
        self._doubted = False  # whether a different server may be at the address now
        self._checking = asyncio.Lock()
        self._has_warned = False

    @property
    def trouble(self) -> str:
        """The present trouble in a few words (server unreachable, rate limit or retries), or "" if
        there is none."""
        if self._away is not None:
            return (
                f"server unreachable for {time.monotonic() - self._away:.0f} s (run ends at "
                f"{AWAY_SECONDS:.0f} s)"
            )
        if self._rates.waiting:
            return (
                f"rate limit: {self._rates.waiting} requests wait (pause of "
                f"{math.ceil(self._rates.seconds_left)} s)"
            )
        return f"retrying {len(self._again)} requests" if self._again else ""

    @property
    def is_denied(self) -> bool:
        """True if the server denies every request: there was no usable reply yet, or several
        prompts were denied."""
        return self.usable_at is None or len(self._denied) >= PROMPTS_DENIED

    @property
    def reason(self) -> str:
        """The newest failure of the requests that are being retried, or "" if no request is being
        retried."""
        return next(reversed(self._again.values())) if self._again else ""

    async def __call__(
        self, body: dict[str, Any], hold: Hold, most: float, later: float = 0.0
    ) -> Reply:
        """Send a request, retry it after temporary failures, and return the reply. `hold` pays for
        the request. Raises Failure if it fails for good, or UserError to end the run."""
        mine, tried, began = object(), Counter[type[Failure]](), time.monotonic()
        since = asyncio.get_running_loop().time()
        try:
            while True:
                patience = self._stall * 2 ** tried[Stalled]
                try:
                    await self._check()
                    reply = await hold.pay(partial(self._sent, body, patience), most, later)
                    self._answered(reply, body)
                    return reply
                except Failure as failure:
                    self._heard(failure)
                    is_odd = isinstance(failure, Denied) and not await self._is_denied_again(body)
                    if not (failure.may_pass or is_odd):
                        raise
                    if self._is_throttled(failure) and time.monotonic() - began < THROTTLED_SECONDS:
                        # it waits like all requests, and this refusal does not count as a try
                        continue
                    tried[type(failure)] += 1
                    self._again.pop(mine, None)
                    self._again[mine] = one_line(failure.words, REASON)
                    is_silent = (self.usable_at or -math.inf) < began
                    wait = self._wait(failure, tried.total(), is_silent)
                    if tried[type(failure)] >= failure.tries or tried.total() > RETRIES:
                        self._give_up(body, failure, since)
                        raise
                await asyncio.sleep(wait)
        finally:
            self._again.pop(mine, None)

    async def _is_denied_again(self, body: dict[str, Any]) -> bool:
        """Return whether another try of a denied request is in vain, because the server denies it
        or all requests. Before the first usable reply, this is known once the other requests in
        progress have ended."""
        if self.usable_at is None and await self.denies_all(body["messages"]):
            return True
        return len(self._denied) >= PROMPTS_DENIED or content_key(body["messages"]) in self._denied

    async def _sent(self, body: dict[str, Any], patience: float) -> Reply:
        """Wait until the rate limit allows a request, then send it. Raises Failure, and Elsewhere
        for a redirect."""
        entered = await self._rates.enter()
        try:
            reply = await self.http.send(body, patience, self._timeout)
        except Refused as refusal:
            if refusal.status == THROTTLED and refusal.may_pass and not refusal.is_unpaid:
                self._rates.refused(entered, refusal.wait)
            raise
        finally:
            self._rates.leave()
        self._rates.answered()
        return reply

    def _answered(self, reply: Reply, body: dict[str, Any]) -> None:
        """Note a usable reply. Warn once if the server cuts prompts."""
        self._away, self.usable_at = None, time.monotonic()
        self._failed.clear()
        self._denied.clear()
        if not self._has_warned and is_cut(reply, body["messages"]):
            self._has_warned = True
            self._say(
                f"warning: the server at {self.server.base_url} counts only {reply.prompt_tokens} "
                "tokens in a much longer prompt. The server cuts prompts or does not count cached "
                "tokens. If it cuts prompts, serve a longer context (Ollama: "
                "OLLAMA_CONTEXT_LENGTH or num_ctx)"
            )

    def _heard(self, failure: Failure) -> None:
        """Note a failure. Raises Over if quota or credit is used up, and UserError if our own
        server has ended."""
        if isinstance(failure, Lost):
            self._doubted = True
            if why := self.server.failure():
                raise UserError(f"{why}. Run the same command again: {KEPT}") from None
            self._away = self._away or time.monotonic()
        elif not isinstance(failure, Stalled | Overtime):
            self._away = None
        if isinstance(failure, Refused) and failure.is_unpaid:
            raise Over(
                f"quota or credit at {self.server.base_url} is used up: {failure}. Add credit, and "
                f"run the same command again: {KEPT}"
            ) from None

    def _is_throttled(self, failure: Failure) -> bool:
        """Return whether a rate limit refused the request. Raises Over if it has refused all
        requests for too long."""
        if not (isinstance(failure, Refused) and failure.status == THROTTLED):
            return False
        since = self._rates.refused_since
        if since is not None and asyncio.get_running_loop().time() - since > THROTTLED_SECONDS:
            raise Over(
                f"the rate limit of the server at {self.server.base_url} has refused every request "
                f"for {THROTTLED_SECONDS / 60:.0f} minutes: {failure}. Run the same command again "
                f"later: {KEPT}"
            )
        return True

    def _wait(self, failure: Failure, tries: int, is_silent: bool) -> float:
        """Return the seconds before the next try. `is_silent` is true if no usable reply has come
        since the first try. Raises UserError if the server was unreachable for too long, or was
        silent up to the last try."""
        # spreads the requests that failed at the same time
        wait = _backoff(tries - 1) * random.uniform(0.75, 1.25)
        if isinstance(failure, Refused):
            return max(wait, min(LONGEST_WAIT, failure.wait or 0.0))
        if isinstance(failure, Lost) and self._away is not None:
            left = self._away + AWAY_SECONDS - time.monotonic()
            if left <= 0 or (is_silent and tries > RETRIES):
                raise UserError(
                    f"the server at {self.server.base_url} no longer answers ({failure}). Make "
                    f"sure that it runs, and run the same command again: {KEPT}"
                ) from None
            return min(wait, left)
        return wait

    def _give_up(self, body: dict[str, Any], failure: Failure, since: float) -> None:
        """Note that the request begun at `since` failed for good. Raises RunFailed if the run ends
        (SECONDS_SINCE)."""
        prompt = content_key(body["messages"])
        if isinstance(failure, Denied):  # the generator decides whether the run ends
            self._denied.add(prompt)
            return
        self._failed.add(prompt)
        if self.usable_at is None:
            is_enough = len(self._failed) >= PROMPTS_NEVER
        else:
            is_enough = time.monotonic() - self.usable_at > SECONDS_SINCE
        if is_enough and not self.http.flights.is_at_work(since):
            raise RunFailed(
                f"the server at {self.server.base_url} sends no usable replies (last failure: "
                f"{failure.words.rstrip('.')}). Check the server, and run the same command again: "
                f"{KEPT}"
            )

    async def _check(self) -> None:
        """Check that the server has not changed, after a lost connection or a pause. Raises
        UserError for another engine, other weights or an unusable server, and Lost if nothing
        answers."""
        self._doubted = self._doubted or time.monotonic() - self._asked > IDLE_SECONDS
        self._asked = time.monotonic()
        if not self._doubted:
            return
        async with self._checking:
            if not self._doubted:
                return  # another request has checked the server meanwhile
            ours = self.server
            try:
                now = await asyncio.to_thread(ours.look, ours)
            except UserError as error:
                raise UserError(
                    f"{error} ({KEPT}, and this run began with {ours.origin})"
                ) from None
            if now is None:
                raise Lost("nothing answers")
            self._away = None
            if now.kind != ours.kind or any(
                ours.weights.get(name) != value for name, value in now.weights.items()
            ):
                raise UserError(
                    f"the server at {ours.base_url} is now {now.origin}, but this run began with "
                    f"{ours.origin}. Start the old server again, or run the same command again to "
                    f"use the new one: {KEPT}"
                )
            self.server = replace(ours, version=now.version)
            self._doubted = False


def _pause_for(round: int, wait: float | None) -> float:
    """Return the seconds to pause: `wait` or the backoff of this `round`, if longer, but at most
    LONGEST_WAIT."""
    return min(LONGEST_WAIT, max(wait or 0.0, _backoff(round)))


def _backoff(attempt: int) -> float:
    return float(min(LONGEST_WAIT, 0.5 * 2**attempt))
