"""Return the completion of a chat request from the journal, or else from the server.

The Generator sends requests through openai.AsyncOpenAI (core/client/http_client.py). It splits a
reply into thinking and answer. If thinking hits the token cap, the Generator can close it and
request the answer, as it can if a reply ends without one. A "Wait" can make a model continue
thinking. Only replies are finished work: the journal contains no failures, so the next run requests
them again.
"""

import importlib
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from core.base import terminal
from core.base.errors import UserError
from core.base.thinking import TAGS, split_thinking, written_tags
from core.client import continued, rewards, step_verdicts
from core.client.budget import Budget, Reservation, RunExhausted
from core.client.completed import NEW_TURN, completion_of, full_context, with_finish_reason
from core.client.continued import Unable, fitting_thinking, lacks_forcing, reason_of
from core.client.failures import Failure, Refused
from core.client.journal import Journal, content_key
from core.client.logprobs import ending
from core.client.queue import Slots
from core.client.refusals import Refusals, recorded_error
from core.client.reply import Reply
from core.client.request import Request, chat_body, closed_thinking
from core.client.retry import RetryingClient
from core.client.trials import Trials
from core.engines.protocol import CANNOT, Server, untagged
from core.types import CHARACTERS, Completion, Messages, Sampling

STALL_SECONDS = 300.0  # by default, a try that receives no data for this long fails
# raise it if the meaning of a journaled completion or a default of Sampling changes
KEY_VERSION = 3
DEFAULTS = vars(Sampling())  # a journal key omits the fields that have these values


def load_client() -> None:
    """Load the openai client in a thread. Its import takes half a second, while a server
    starts."""
    module = "core.client.http_client"
    # Not a daemon: if Python ended during the import of a C library, the process would crash.
    threading.Thread(target=importlib.import_module, args=(module,)).start()


class Generator:
    """A client of one server, with an open journal. Use it as a context manager.

    At most `limit` requests are in flight (Server.limit is the server's own). A try fails after
    `timeout` seconds, or after `stall` seconds without data (see RetryingClient).
    `on_completion(completion, is_new)` is called for each completion when it arrives, and
    `say(line)` for each warning or note. If the server's card has prices, the `budget` (if given)
    pays for the requests.

    Example:
        >>> import asyncio
        >>> from pathlib import Path
        >>> from core.client.journal import Journal
        >>> from core.generate import Generator
        >>> from core.server import serving
        >>> from core.types import Sampling
        >>> async def answer(question: str) -> str:
        ...     messages = [{"role": "user", "content": question}]
        ...     with serving() as server, Journal(Path("example.jsonl")) as journal:
        ...         async with Generator(server, journal, server.limit, timeout=600) as generate:
        ...             completion = await generate(messages, 0, Sampling(max_tokens=100))
        ...     return completion.answer
        >>> asyncio.run(answer("What is 6 times 7?"))
        '42'
    """

    def __init__(
        self,
        server: Server,
        journal: Journal,
        limit: int,
        timeout: float,
        on_completion: Callable[[Completion, bool], None] = lambda completion, is_new: None,
        stall: float = STALL_SECONDS,
        say: Callable[[str], None] = lambda line: terminal.say(line, sys.stderr),
        budget: Budget | None = None,
    ) -> None:
        self.journal = journal
        self.on_completion = on_completion
        self._limit = limit
        self._slots = Slots(limit)
        self._budget = budget if server.card.price else None
        refusals = Refusals(self._slots, self._budget)
        self.client = RetryingClient(server, timeout, stall, say, refusals)
        self.trials = Trials(self.client, journal, self.key, say)

    async def __aenter__(self) -> "Generator":
        from core.client.http_client import HttpClient  # imports openai

        if not self.journal.is_open:
            raise RuntimeError("open the journal first: with Journal(path) as journal: …")
        self.trials.recall_seeds()
        self.client.http = await HttpClient(self.server, self._limit).__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.client.http.__aexit__(*exception)

    @property
    def server(self) -> Server:
        """The server, as of its last check. A restart during the run may change the server's
        version."""
        return self.client.server

    @property
    def trouble(self) -> str:
        """The present trouble in a few words (the budget, or RetryingClient.trouble), or "" if
        there is none."""
        if self._slots.is_closed:
            return f"the run ends after {self._slots.held} more completions"
        if self._budget and self._budget.waiting:
            return f"{self._budget.waiting} requests waiting for budget (MAX_DOLLARS)"
        return self.client.trouble

    @property
    def reason(self) -> str:
        """The newest failure of the requests that are being retried, or "" if there is none."""
        return self.client.reason

    @property
    def in_flight(self) -> int:
        """The number of requests in flight."""
        return len(self.client.http.flights)

    @property
    def ages(self) -> list[float]:
        """The seconds since each request in flight was sent."""
        return self.client.http.flights.ages

    @property
    def streamed(self) -> int:
        """An estimate of the tokens received in unfinished replies, or 0 if the server does not
        stream."""
        return self.client.http.flights.events

    def reopen(self) -> None:
        """Send requests again after used-up quota or budget has ended the work of other
        requests."""
        self._slots.reopen()

    def key(self, messages: Messages, seed: int, sampling: Sampling) -> str:
        """Return a request's journal key. Unsent fields and default values are omitted, so new
        fields change no key."""
        unsent = self.server.card.never
        changed = {
            name: value
            for name, value in vars(sampling).items()
            if value != DEFAULTS[name] and name not in unsent
        }
        content = [KEY_VERSION, self.server.identity, list(messages), changed, seed]
        if self.server.key_fields:
            content.append(self.server.key_fields)
        return content_key(content)

    async def __call__(
        self, messages: Messages, seed: int, sampling: Sampling, priority: float = 0.0
    ) -> Completion:
        """Return the completion of `messages`. Of the waiting requests, the one with the highest
        `priority` is sent first. Raises UserError to end the run, for example if the server no
        longer answers or the budget is used up."""
        stored = self._stored(self.key(messages, seed, sampling))
        if stored and not lacks_forcing(stored, sampling):
            self.on_completion(stored, False)
            return stored
        cannot = self.server.cannot_continue
        if sampling.opening and cannot:
            raise UserError(
                f"a request needs an answer that has begun, but {cannot} (continues = false)"
            )
        try:
            async with self._slots.slot(priority):
                card = self.server.card
                with Reservation(self._budget, card.price, self.server.context) as reservation:
                    request = Request(messages, seed, sampling, reservation)
                    completion = await self._complete(request)
        except RunExhausted:
            # the requests in flight are paid already, so keep their replies
            await self._slots.empty()
            raise
        self.on_completion(completion, not completion.reused)
        return completion

    def _stored(self, key: str) -> Completion | None:
        """Return the reply in the journal, or None. Journals of earlier versions also contain
        failures, which do not count."""
        completion = self.journal.get(key)
        return None if completion is None or completion.error else completion

    async def _complete(self, request: Request) -> Completion:
        """Return the completion from the journal or the server.

        A completion with n waits continues the completion with n - 1 waits. The journal stores
        both, so a later run with more waits continues the completions of this run. So does an
        elicited answer. If nothing continues the earlier completion, it is returned, with the
        reason if it lacks a wait or an answer."""
        sampling = request.sampling
        key = self.key(request.messages, request.seed, sampling)
        stored = self._stored(key)
        if stored and not lacks_forcing(stored, sampling):
            return stored
        before = stored
        if before is None and sampling.continued:
            before = await self._complete(replace(request, sampling=sampling.continued))
        began = time.monotonic()
        try:
            if before is None:
                completion = await self._ask(request)
            elif stored:
                completion = await self._force(stored, request)
            elif sampling.elicit:
                completion = await self._elicit(before, request)
            else:
                completion = await self._wait(before, request)
        except Failure as failure:
            before = before or Completion(key, request.seed)
            return await self._with_failure(before, request, failure)
        if completion is before:
            return completion
        seconds = time.monotonic() - began + (before.seconds if before else 0.0)
        completion = replace(
            completion,
            key=key,
            reused=False,
            seconds=round(seconds, 3),
            origin=self.server.origin,
        )
        self._store(completion, request, is_new=stored is None)
        return completion

    def _store(self, completion: Completion, request: Request, is_new: bool) -> None:
        """Add the completion to the journal, without the failure of the request that forces its
        answer. If only that request was sent and failed, there is nothing to add."""
        has_failed = completion.not_forced not in (None, NEW_TURN, CANNOT)
        if has_failed and not is_new:
            return
        if has_failed:
            completion = replace(completion, not_forced=None)
        self.journal.put(completion, request.messages, paid=-request.reservation.settled())

    async def _with_failure(
        self, before: Completion, request: Request, failure: Failure
    ) -> Completion:
        """Add a failure to the completion `before`, which it leaves unchanged or (without a reply)
        empty."""
        if request.sampling.elicit:
            return replace(before, not_forced=reason_of(failure))
        if request.sampling.waits:
            return replace(before, not_waited=reason_of(failure))
        if isinstance(failure, Refused):
            error = await recorded_error(failure, request.messages, self.client)
            return replace(before, error=error)
        return replace(before, error=failure.words)

    # Ask

    async def _ask(self, request: Request) -> Completion:
        """Request a new completion. Raises Failure."""
        if request.sampling.reward:
            if self.server.card.step_verdicts:
                return await step_verdicts.score(self.client, request)
            return await rewards.score(self.client, request)
        await self.trials.check_probabilities(request)
        await self.trials.check_confidences(request)
        await self.trials.compare_seeds(request)
        sampling = request.sampling
        body = chat_body(self.server, request)
        max_cost = request.reservation.max_cost(
            request.messages, sampling.max_tokens, sampling.opening
        )
        ends = ending(sampling)
        post = partial(self.client.http.send, ends=ends) if ends else None
        reply = await self.client.send(
            body, request.reservation, max_cost, self._max_forcing_cost(request), post
        )
        reply = with_finish_reason(reply, sampling)
        completion = completion_of(reply, self.server, request.seed, sampling)
        return await self._force(completion, request, reply)

    # Force

    async def _force(
        self, cut: Completion, request: Request, reply: Reply | None = None
    ) -> Completion:
        """Close thinking that hit the token cap, and request the answer (budget forcing, s1, arXiv
        2501.19393). `reply` contains the model's own tags around its thinking. A failure leaves
        `cut` unforced, with the doubt "truncated". Return other completions unchanged."""
        sampling = request.sampling
        if sampling.opening or not sampling.answer_tokens or cut.answer or not cut.truncated:
            return cut
        cannot = self.server.cannot_continue
        if cannot:
            return replace(cut, not_forced=cannot)
        if not cut.thinking:
            return cut
        tags = written_tags(reply.content) if reply else TAGS
        try:
            return await self._request_answer(cut, request, tags)
        except Failure as failure:
            return replace(cut, not_forced=reason_of(failure))

    async def _elicit(self, before: Completion, request: Request) -> Completion:
        """Continue `before` if it ended without an answer. Return `before` if it has one. Raises
        Failure."""
        sampling = request.sampling
        if sampling.opening or not continued.lacks_answer(before, sampling.elicit):
            return before
        if cannot := self.server.cannot_continue:
            raise Unable(cannot)
        answer_opening = continued.elicited_opening(sampling.elicit)
        opening = f"{before.answer}\n\n{answer_opening}".lstrip()
        request = request.with_sampling(
            answer_opening=opening, answer_tokens=sampling.elicited_tokens
        )
        return await self._request_answer(before, request)

    async def _request_answer(
        self, before: Completion, request: Request, tags: tuple[str, str] = TAGS
    ) -> Completion:
        """Close the thinking of `before` with `tags`, and request at most `answer_tokens` tokens
        after `answer_opening`. Raises Failure."""
        sampling = request.sampling
        opening = sampling.answer_opening
        thinking = fitting_thinking(before, request, self.server.context)
        body = chat_body(self.server, request.with_sampling(max_tokens=sampling.answer_tokens))
        body |= closed_thinking(self.server, request.messages, thinking, opening, tags)
        max_cost = self._max_forcing_cost(request)
        reply = await self.client.send(body, request.reservation, max_cost)
        rest = self.server.dialect.continuation(reply.content, reply.reasoning, opening)
        completion = continued.summed(before, reply)
        if rest is None:
            return replace(completion, forced=None, not_forced=NEW_TURN)
        return replace(completion, forced=opening + rest, not_forced=None)

    def _max_forcing_cost(self, request: Request) -> float:
        """Return the highest possible cost in dollars of the request that forces an answer, or 0 if
        none can follow."""
        sampling = request.sampling
        if sampling.opening or not sampling.answer_tokens or self.server.cannot_continue:
            return 0.0
        return request.reservation.max_cost(
            request.messages, sampling.answer_tokens, sampling.answer_opening, sampling.max_tokens
        )

    # Wait

    async def _wait(self, before: Completion, request: Request) -> Completion:
        """Continue the thinking of `before` with a "Wait". Return `before` if it is at its token
        cap or may not wait. Raises Failure."""
        sampling = request.sampling
        written = len(before.thinking + before.answer) // CHARACTERS
        unused = sampling.max_tokens - (before.completion_tokens or written)
        if sampling.opening or unused < 1:
            return before
        if before.not_waited is not None or not continued.is_ended(before):
            return before
        if not before.thinking:
            raise Unable(continued.NO_THINKING)
        server = self.server
        if cannot := server.cannot_continue:
            raise Unable(cannot)
        if not await self.trials.continues(request):
            raise Unable(continued.NOT_CONTINUED)
        # the model continues a new paragraph
        thinking = f"{untagged(before.thinking)}\n\n{sampling.wait_word}"
        waiting = request.with_sampling(max_tokens=unused)
        body = chat_body(server, waiting)
        body |= server.dialect.left_open(server, request.messages, thinking)
        max_cost = request.reservation.max_cost(request.messages, unused, thinking)
        reply = await self.client.send(
            body, request.reservation, max_cost, self._max_forcing_cost(request)
        )
        reply = with_finish_reason(reply, waiting.sampling)
        completion = continued.summed(before, reply)
        if continued.is_left_out(reply, before):
            return replace(completion, not_waited=continued.LEFT_OUT)
        content, reasoning = continued.whole(reply, thinking)
        thinking, answer = split_thinking(content, reasoning, cut_while_thinking=True)
        completion = replace(
            completion,
            thinking=thinking,
            answer=answer,
            finish_reason=reply.finish_reason,
            context=full_context(reply, waiting.sampling),
            before_waits=[*before.before_waits, before.answer],
            tokens_before_waits=[*before.tokens_before_waits, before.completion_tokens],
        )
        return await self._force(completion, request)
