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
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from core.base.errors import RunFailed, UserError, one_line
from core.client.budget import Reservation, RunExhausted
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
from core.client.refusals import PROMPTS_DENIED, PROMPTS_NEVER, Refusals
from core.client.reply import Reply, is_cut
from core.engines.protocol import Server

if TYPE_CHECKING:
    from core.client.http_client import HttpClient

# sends a body with the patience and the time limit of a try, in seconds
Post = Callable[[dict[str, Any], float, float], Awaitable[Reply]]
RETRIES = 8  # after pauses of about 0.5, 1, 2 … 64 s, or longer if the server asks for it
AWAY_SECONDS = 128.0  # a server that is unreachable for longer ends the run
LONGEST_WAIT = 600.0  # seconds. A longer Retry-After is shortened to this
THROTTLED_SECONDS = 3600.0  # a rate limit that refuses all requests for longer ends the run
# if no request began for longer, the next one first checks that the server is still the same
IDLE_SECONDS = 60.0
# A request that fails for good ends the run if no reply was usable for SECONDS_SINCE. Before the
# first usable reply, it ends the run if PROMPTS_NEVER different prompts have failed for good. A
# server that is at work gets more time.
SECONDS_SINCE = 600.0
REASON = 60  # the progress bar shows at most so many characters of a failure
KEPT = "finished work is kept"
SEED = "seed"


@dataclass(eq=False)
class _Tries:
    """The failed tries of one request. `began` is monotonic, and `began_in_loop` is in the event
    loop's time."""

    body: dict[str, Any]
    began: float = field(default_factory=lambda: time.monotonic())
    began_in_loop: float = field(default_factory=lambda: asyncio.get_running_loop().time())
    count: Counter[type[Failure]] = field(default_factory=Counter)

    @property
    def prompt(self) -> str:
        """The key of the request's messages."""
        return content_key(self.body["messages"])


class RetryingClient:
    """A client that retries requests. A try fails after `timeout` seconds, or `stall` seconds
    without data (doubled after each stall). `say` shows a line to the user, and `refusals` decides
    whether a refusal concerns all requests. Its user sets `http`."""

    http: "HttpClient"

    def __init__(
        self,
        server: Server,
        timeout: float,
        stall: float,
        say: Callable[[str], None],
        refusals: Refusals,
    ) -> None:
        self.server = server
        self.refusals = refusals
        self._timeout = timeout
        self._stall = stall
        self._say = say
        self._rates = Rates(_pause_for)
        # request that is being retried -> its last failure, newest last
        self._retrying: dict[_Tries, str] = {}
        # the time (monotonic, like all times here) since which no connection succeeds
        self._away_since: float | None = None
        self.usable_at: float | None = None  # the time of the last usable reply
        # prompts that have failed for good since the last usable reply
        self._failed: set[str] = set()
        # prompts that were denied in all tries since the last usable reply
        self._denied: set[str] = set()
        self._last_try = time.monotonic()  # of any request
        self._is_doubted = False  # whether a different server may be at the address now
        self._checking = asyncio.Lock()
        self._has_warned = False
        self._refuses_seeds = False

    @property
    def trouble(self) -> str:
        """The present trouble in a few words (server unreachable, rate limit or retries), or "" if
        there is none."""
        if self._away_since is not None:
            return (
                f"server unreachable for {time.monotonic() - self._away_since:.0f} s (run ends at "
                f"{AWAY_SECONDS:.0f} s)"
            )
        if self._rates.waiting:
            return (
                f"rate limit: {self._rates.waiting} requests wait (pause of "
                f"{math.ceil(self._rates.seconds_left)} s)"
            )
        return f"retrying {len(self._retrying)} requests" if self._retrying else ""

    @property
    def is_denied(self) -> bool:
        """True if the server denies every request: there was no usable reply yet, or several
        prompts were denied."""
        return self.usable_at is None or len(self._denied) >= PROMPTS_DENIED

    @property
    def reason(self) -> str:
        """The newest failure of the requests that are being retried, or "" if no request is being
        retried."""
        return next(reversed(self._retrying.values())) if self._retrying else ""

    async def send(
        self,
        body: dict[str, Any],
        reservation: Reservation,
        max_cost: float,
        max_followup_cost: float = 0.0,
        post: Post | None = None,
    ) -> Reply:
        """Send a request, retry it after temporary failures, and return the reply. The
        `reservation` pays for the request. `post` replaces HttpClient.send. Raises Failure if it
        fails for good, or UserError to end the run."""
        tries = _Tries(body)
        try:
            while True:
                patience = self._stall * 2 ** tries.count[Stalled]
                send_once = partial(self._send_accepted, body, patience, post)
                try:
                    await self._check_server()
                    reply = await reservation.pay(send_once, max_cost, max_followup_cost)
                    self._note_reply(reply, body)
                    return reply
                except Failure as failure:
                    wait = await self._seconds_to_wait(tries, failure)
                await asyncio.sleep(wait)
        finally:
            self._retrying.pop(tries, None)

    async def _send_accepted(
        self, body: dict[str, Any], patience: float, post: Post | None
    ) -> Reply:
        """Send a request, without its seed if the server refuses this field. Raises Failure, and
        RedirectRefused for a redirect."""
        if self._refuses_seeds:
            return await self._send_once(_without_seed(body), patience, post)
        try:
            return await self._send_once(body, patience, post)
        except Refused as refusal:
            if SEED not in body or not refusal.names(SEED):
                raise
            reply = await self._send_once(_without_seed(body), patience, post)
            self._note_no_seeds(refusal)
            return reply

    def _note_no_seeds(self, refusal: Refused) -> None:
        """Note that requests succeed without the seed that the server has refused."""
        if self._refuses_seeds:
            return
        self._refuses_seeds = True
        self.server = replace(self.server, seeds=False)
        self._say(
            f"note: the server at {self.server.base_url} refuses seeds ({refusal}), so requests "
            "lack them. SEED still decides random choices (candidates, ties and so on)"
        )

    async def _send_once(self, body: dict[str, Any], patience: float, post: Post | None) -> Reply:
        """Wait until the rate limit allows a request, then send it. Raises Failure, and
        RedirectRefused for a redirect."""
        entered = await self._rates.enter()
        try:
            reply = await (post or self.http.send)(body, patience, self._timeout)
        except Refused as refusal:
            if refusal.status == THROTTLED and refusal.may_pass and not refusal.is_unpaid:
                self._rates.refused(entered, refusal.wait)
            raise
        finally:
            self._rates.leave()
        self._rates.answered()
        return reply

    def _note_reply(self, reply: Reply, body: dict[str, Any]) -> None:
        """Note a usable reply. Warn once if the server cuts prompts."""
        self._away_since = None
        self.usable_at = time.monotonic()
        self.refusals.has_reply = True
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

    async def _seconds_to_wait(self, tries: _Tries, failure: Failure) -> float:
        """Note a failed try, and return the seconds before the next one. Raises the failure if the
        request fails for good, or UserError to end the run."""
        self._note_failure(failure)
        is_final = not failure.may_pass
        if isinstance(failure, Denied):
            is_final = await self._is_denied_again(tries)
        if is_final:
            raise failure
        if self._is_throttled(failure) and time.monotonic() - tries.began < THROTTLED_SECONDS:
            # it waits in Rates like all requests, and this refusal does not count as a try
            return 0.0
        tries.count[type(failure)] += 1
        self._retrying.pop(tries, None)
        self._retrying[tries] = one_line(failure.words, REASON)
        wait = self._pause_before_retry(tries, failure)
        if tries.count[type(failure)] >= failure.tries or tries.count.total() > RETRIES:
            self._give_up(tries, failure)
            raise failure
        return wait

    def _note_failure(self, failure: Failure) -> None:
        """Note a failure. Raises RunExhausted if quota or credit is used up, and UserError if our
        own server has ended."""
        if isinstance(failure, Lost):
            self._is_doubted = True
            if ending := self.server.failure():
                raise UserError(f"{ending}. Run the same command again: {KEPT}") from None
            self._away_since = self._away_since or time.monotonic()
        elif not isinstance(failure, Stalled | Overtime):
            self._away_since = None
        if isinstance(failure, Refused) and failure.is_unpaid:
            raise RunExhausted(
                f"quota or credit at {self.server.base_url} is used up: {failure}. Add credit, and "
                f"run the same command again: {KEPT}"
            ) from None

    async def _is_denied_again(self, tries: _Tries) -> bool:
        """Return whether another try of a denied request is in vain, because the server denies it
        or all requests. Before the first usable reply, this is known once the other requests in
        progress have ended."""
        if self.usable_at is None:
            is_general = await self.refusals.concern_all(tries.body["messages"], is_denial=True)
            if is_general:
                return True
        return len(self._denied) >= PROMPTS_DENIED or tries.prompt in self._denied

    def _is_throttled(self, failure: Failure) -> bool:
        """Return whether a rate limit refused the request. Raises RunExhausted if it has refused
        all requests for too long."""
        if not (isinstance(failure, Refused) and failure.status == THROTTLED):
            return False
        since = self._rates.refused_since
        if since is not None and asyncio.get_running_loop().time() - since > THROTTLED_SECONDS:
            raise RunExhausted(
                f"the rate limit of the server at {self.server.base_url} has refused every request "
                f"for {THROTTLED_SECONDS / 60:.0f} minutes: {failure}. Run the same command again "
                f"later: {KEPT}"
            )
        return True

    def _pause_before_retry(self, tries: _Tries, failure: Failure) -> float:
        """Return the seconds before the next try. Raises UserError if the server was unreachable
        for too long, or has sent no usable reply since the first try up to the last."""
        count = tries.count.total()
        # spreads the requests that failed at the same time
        wait = _backoff(count - 1) * random.uniform(0.75, 1.25)
        if isinstance(failure, Refused):
            return max(wait, min(LONGEST_WAIT, failure.wait or 0.0))
        if isinstance(failure, Lost) and self._away_since is not None:
            time_left = self._away_since + AWAY_SECONDS - time.monotonic()
            is_silent = self.usable_at is None or self.usable_at < tries.began
            if time_left <= 0 or (is_silent and count > RETRIES):
                raise UserError(
                    f"the server at {self.server.base_url} no longer answers ({failure}). Make "
                    f"sure that it runs, and run the same command again: {KEPT}"
                ) from None
            return min(wait, time_left)
        return wait

    def _give_up(self, tries: _Tries, failure: Failure) -> None:
        """Note that a request failed for good. Raises RunFailed if the run ends (SECONDS_SINCE)."""
        if isinstance(failure, Denied):  # the generator decides whether the run ends
            self._denied.add(tries.prompt)
            return
        self._failed.add(tries.prompt)
        if self.usable_at is None:
            is_enough = len(self._failed) >= PROMPTS_NEVER
        else:
            is_enough = time.monotonic() - self.usable_at > SECONDS_SINCE
        if is_enough and not self.http.flights.is_at_work(tries.began_in_loop):
            raise RunFailed(
                f"the server at {self.server.base_url} sends no usable replies (last failure: "
                f"{failure.words.rstrip('.')}). Check the server, and run the same command again: "
                f"{KEPT}"
            )

    async def _check_server(self) -> None:
        """Check that the server has not changed, after a lost connection or a pause. Raises
        UserError for another engine, other weights or an unusable server, and Lost if nothing
        answers."""
        if time.monotonic() - self._last_try > IDLE_SECONDS:
            self._is_doubted = True
        self._last_try = time.monotonic()
        if not self._is_doubted:
            return
        async with self._checking:
            # another request may have checked the server meanwhile
            if self._is_doubted:
                await self._look_again()

    async def _look_again(self) -> None:
        """Ask the server who it is now. Raises UserError and Lost as _check_server does."""
        ours = self.server
        try:
            current = await asyncio.to_thread(ours.probe_again, ours)
        except UserError as error:
            raise UserError(f"{error} ({KEPT}, and this run began with {ours.origin})") from None
        if current is None:
            raise Lost("nothing answers")
        self._away_since = None
        has_other_weights = any(
            ours.weights.get(name) != value for name, value in current.weights.items()
        )
        if current.kind != ours.kind or has_other_weights:
            raise UserError(
                f"the server at {ours.base_url} is now {current.origin}, but this run began with "
                f"{ours.origin}. Start the old server again, or run the same command again to "
                f"use the new one: {KEPT}"
            )
        self.server = replace(ours, version=current.version)
        self._is_doubted = False


def _pause_for(round: int, wait: float | None) -> float:
    """Return the seconds to pause: `wait` or the backoff of this `round`, if longer, but at most
    LONGEST_WAIT."""
    return min(LONGEST_WAIT, max(wait or 0.0, _backoff(round)))


def _backoff(attempt: int) -> float:
    return float(min(LONGEST_WAIT, 0.5 * 2**attempt))


def _without_seed(body: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name != SEED}
