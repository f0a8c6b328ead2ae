"""Decide whether a server refuses all requests, after it has refused one."""

import asyncio
from typing import TYPE_CHECKING

from core.base.errors import UserError
from core.client.budget import Budget
from core.client.failures import UNKNOWN_MODEL, Denied, Refused
from core.client.journal import content_key
from core.client.queue import Slots
from core.engines.cards import REFUSED
from core.engines.protocol import KWARGS
from core.types import Messages

if TYPE_CHECKING:
    from core.client.retry import RetryingClient

POLL_SECONDS = 0.05
# If the server has refused so many different prompts, and never sent a usable reply, it refuses
# all. A server may deny the key or the model (Denied) for a moment, so these need more prompts.
PROMPTS_NEVER = 2
PROMPTS_DENIED = 3
# fields of a request that only these constants or a card set
OPTIONAL = {"reasoning_effort": "EFFORT", KWARGS: "TEMPLATE"}


class Refusals:
    """The refused prompts of a server without a usable reply so far. `slots` and `budget` tell
    whether other requests are in progress."""

    def __init__(self, slots: Slots, budget: Budget | None) -> None:
        self.has_reply = False  # whether the server has ever sent a usable reply
        self.awaiting_trial = 0  # requests that wait for another's trial of the server
        self._slots = slots
        self._budget = budget
        self._prompts: set[str] = set()  # refused for a reason that may concern all requests
        self._undecided = 0  # requests that wait in `concern_all`

    async def concern_all(self, messages: Messages, is_denial: bool = False) -> bool:
        """Return whether the server seems to refuse all requests, now that it has refused
        `messages`. This is known after a usable reply, or the refusal of a second prompt (of
        PROMPTS_DENIED, if the key or the model is refused). Until then, wait for the requests in
        progress."""
        self._prompts.add(content_key(list(messages)))
        self._undecided += 1
        enough = PROMPTS_DENIED if is_denial else PROMPTS_NEVER
        try:
            while not self.has_reply and len(self._prompts) < enough:
                # these requests wait for the money of this one
                unpaid = self._budget.waiting if self._budget else 0
                waiting = unpaid + self.awaiting_trial
                if self._slots.held - waiting <= self._undecided:  # no other is in progress
                    is_shared = is_denial and self._undecided > 1
                    return is_shared or not (self._slots.waiting or waiting)
                await asyncio.sleep(POLL_SECONDS)
            return not self.has_reply
        finally:
            self._undecided -= 1


async def recorded_error(error: Refused, messages: Messages, client: "RetryingClient") -> str:
    """Return the error to record for a refused request. Raises UserError if all requests seem to be
    refused."""
    server = client.server
    address = server.base_url
    if isinstance(error, Denied) and client.is_denied:
        if error.status != UNKNOWN_MODEL:
            raise UserError(f"the server at {address} refuses the key. {server.key.remedy}")
        if "model" in str(error).lower():
            raise UserError(f"the server at {address} has no model {server.model!r}: {error}")
        raise UserError(
            f"the server at {address} answers chat requests with 404 ({error}). Check the address, "
            f"and whether it serves chat completions of {server.model!r}"
        )
    is_general = not (error.may_pass or error.is_of_its_prompt or isinstance(error, Denied))
    if is_general and await client.refusals.concern_all(messages):
        remedy = _remedy(error)
        raise UserError(f"the server at {address} refuses every request: {error}. {remedy}")
    if error.is_overflow:
        return f"context overflow: {error}"
    return f"filtered: {error}" if error.is_filtered else error.words


def _remedy(error: Refused) -> str:
    """Return the advice for a server that refuses every request with this `error`."""
    for field, constant in OPTIONAL.items():
        if error.names(field):
            return f"Set {constant}= to leave it out"
    return REFUSED
