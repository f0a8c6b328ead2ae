"""Return the completion of a chat request from the journal, or else from the server.

The Generator splits a reply into thinking and answer. If thinking hits the token cap, the Generator
can close it and request the answer, as it can if a reply ends without one. A "Wait" can make a
model continue thinking. Only replies are finished work: the journal contains no failures, so the
next run requests them again.
"""

import asyncio
import importlib
import re
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from core.base import terminal
from core.base.errors import UserError, one_line
from core.base.thinking import TAGS, has_tag, split_thinking, written_tags
from core.client import continued
from core.client.budget import Budget, Hold, Over
from core.client.failures import UNKNOWN_MODEL, Denied, Failure, Refused
from core.client.journal import Journal, content_key
from core.client.queue import Slots
from core.client.reply import Reply
from core.client.retry import PROMPTS_DENIED, PROMPTS_NEVER, Asker
from core.constants import PENALTIES
from core.engines.cards import REFUSED, SAMPLING
from core.engines.protocol import CANNOT, Server, ending, untagged
from core.types import (
    CHARACTERS,
    CUT,
    ELICITED_ANSWER,
    TOOL_CALL,
    Completion,
    Messages,
    Sampling,
    end_of,
    opening_for,
)

POLL_SECONDS = 0.05
STALL_SECONDS = 300.0  # by default, a try that receives no data for this long fails
# raise it if the meaning of a journaled completion or a default of Sampling changes
KEY_VERSION = 3
# the journal keeps so many characters of the reason why an answer was not forced, or a wait failed
REASON = 100
# A reply with more tokens left than this and than a tenth of its cap was not truncated by the cap.
# A reply with fewer tokens did not fill a context.
FEW_LEFT = 16
CONTEXTS = 1024  # tokens, of which a server's context is a multiple
# The end of a reply that does not stop in mid-sentence: punctuation, a box, or the end of a code
# block or a tag
_ENDED = re.compile(r"""(?:[.!?…。！？．」』”]["'*`)\]}$]*|\\boxed\{.*[}\])$*]|```|\|>|</\w+>)$""")
NEW_TURN = "the server began a new message instead of continuing the opened answer"
UNKNOWN = (
    "it is unknown whether this server can continue a message (if it can, set continues = true in "
    "its card)"
)

DEFAULTS = vars(Sampling())  # a journal key omits the fields that have these values


class Unable(Failure):
    """A request that is not sent, because the completion or the server can't be continued. Its text
    is the reason."""


def load_client() -> None:
    """Import the openai client in a thread. It takes half a second, while the server loads."""
    module = "core.client.http_client"
    threading.Thread(target=importlib.import_module, args=(module,), daemon=True).start()


class Generator:
    """A client of one server, with a journal. Use it as a context manager.

    At most `limit` requests are in flight. A try fails after `timeout` seconds, or after `stall`
    seconds without data (see Asker). `on_completion(completion, is_new)` is called for each
    completion when it arrives, and `say(line)` for each warning or note. If the server's card has
    prices, the `budget` (if given) pays for the requests."""

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
        self.journal, self.on_completion = journal, on_completion
        self._budget = budget if server.card.price else None
        self._limit, self._slots = limit, Slots(limit)
        # prompts that were refused for a reason that may concern all requests
        self._refused: set[str] = set()
        # requests that wait until it is known whether the server refuses all (see _refuses_all)
        self._undecided = 0
        self.asker = Asker(server, timeout, stall, say)
        self.asker.denies_all = partial(self._refuses_all, is_denial=True)

    async def __aenter__(self) -> "Generator":
        from core.client.http_client import HttpClient  # slow to import

        self.asker.http = await HttpClient(self.server, self._limit).__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.asker.http.__aexit__(*exception)

    @property
    def server(self) -> Server:
        """The server, as of its last check. A restart during the run may change the server's
        version."""
        return self.asker.server

    @property
    def trouble(self) -> str:
        """The present trouble in a few words (the budget, or Asker.trouble), or "" if there is
        none."""
        if self._slots.is_closed:
            return f"the run ends after {self._slots.held} more completions"
        if self._budget and self._budget.waiting:
            return f"{self._budget.waiting} requests waiting for budget (MAX_DOLLARS)"
        return self.asker.trouble

    @property
    def reason(self) -> str:
        """The newest failure of the requests that are being retried, or "" if there is none."""
        return self.asker.reason

    @property
    def in_flight(self) -> int:
        """The number of requests in flight."""
        return len(self.asker.http.flights)

    @property
    def streamed(self) -> int:
        """An estimate of the tokens received in unfinished replies, or 0 if the server does not
        stream."""
        return self.asker.http.flights.events

    def reopen(self) -> None:
        """Send requests again after used-up quota or budget has ended the work of other
        requests."""
        self._slots.reopen()

    def key(self, messages: Messages, seed: int, sampling: Sampling) -> str:
        """Return a request's journal key. Unsent fields and default values are omitted, so new
        fields change no key."""
        unsent = self.server.card.never
        asked = {
            n: value
            for n, value in vars(sampling).items()
            if value != DEFAULTS[n] and n not in unsent
        }
        fields = [self.server.key_fields] if self.server.key_fields else []
        return content_key(
            [KEY_VERSION, self.server.identity, list(messages), asked, seed, *fields]
        )

    async def __call__(
        self, messages: Messages, seed: int, sampling: Sampling, priority: float = 0.0
    ) -> Completion:
        """Return the completion of `messages`. Of the waiting requests, the one with the highest
        `priority` is sent first. Raises UserError to end the run, for example if the server no
        longer answers or the budget is used up."""
        found = self._kept(self.key(messages, seed, sampling))
        if found and not self._lacks_forcing(found, sampling):
            self.on_completion(found, False)
            return found
        if sampling.opening and (why := self.server.cannot_continue):
            raise UserError(
                f"a request needs an answer that has begun, but {why} (continues = false)"
            )
        try:
            async with self._slots.slot(priority):
                with Hold(self._budget, self.server.card.price, self.server.context) as hold:
                    completion = await self._complete(messages, seed, sampling, hold)
        except Over:
            # the requests in flight are paid already, so keep their replies
            await self._slots.empty()
            raise
        self.on_completion(completion, not completion.reused)
        return completion

    def _kept(self, key: str) -> Completion | None:
        """Return the reply in the journal, or None. Journals of earlier versions also contain
        failures, which do not count."""
        found = self.journal.get(key)
        return None if found is None or found.error else found

    def _lacks_forcing(self, found: Completion, sampling: Sampling) -> bool:
        """Return whether the request that forces an answer failed in an earlier run, so that it is
        sent again."""
        is_cut = found.truncated and bool(found.thinking) and not found.answer
        is_forced = found.forced is not None or found.not_forced is not None
        return is_cut and not is_forced and bool(sampling.answer_tokens) and not sampling.opening

    async def _complete(
        self, messages: Messages, seed: int, sampling: Sampling, hold: Hold
    ) -> Completion:
        """Return the completion from the journal or the server.

        A completion with n waits continues the completion with n - 1 waits. The journal stores
        both, so a later run with more waits continues the completions of this run. So does an
        elicited answer. If nothing continues the earlier completion, it is returned, with the
        reason if it lacks a wait or an answer."""
        key = self.key(messages, seed, sampling)
        found = self._kept(key)
        if found and not self._lacks_forcing(found, sampling):
            return found
        earlier = sampling.earlier
        before = found or (await self._complete(messages, seed, earlier, hold) if earlier else None)
        began = time.monotonic()
        try:
            if found:
                completion = await self._forced(found, messages, sampling, hold)
            elif before is None:
                completion = await self._ask(messages, seed, sampling, hold)
            elif sampling.elicit:
                completion = await self._elicit(before, messages, sampling, hold)
            else:
                completion = await self._wait(before, messages, sampling, hold)
        except Failure as failure:
            return await self._failed(before or Completion(key, seed), messages, sampling, failure)
        if completion is before:
            return completion
        seconds = round(time.monotonic() - began + (before.seconds if before else 0.0), 3)
        completion = replace(
            completion, key=key, reused=False, seconds=seconds, origin=self.server.origin
        )
        # the request that forces the answer
        has_failed = completion.not_forced not in (None, NEW_TURN, CANNOT)
        if not (found and has_failed):  # the journal keeps the reply, but not the failure
            kept = replace(completion, not_forced=None) if has_failed else completion
            self.journal.put(kept, messages, paid=-hold.settled())
        return completion

    async def _failed(
        self, before: Completion, messages: Messages, sampling: Sampling, failure: Failure
    ) -> Completion:
        """Add a failure to the completion `before`, which it leaves unchanged or (without a reply)
        empty."""
        if sampling.elicit:
            return replace(before, not_forced=_reason(failure))
        if sampling.waits:
            return replace(before, not_waited=_reason(failure))
        if isinstance(failure, Refused):
            return replace(before, error=await self._refusal(failure, messages))
        return replace(before, error=failure.words)

    def _forced_most(self, hold: Hold, messages: Messages, sampling: Sampling) -> float:
        """Return the highest possible cost in dollars of the request that forces an answer, or 0 if
        none can follow."""
        if sampling.opening or not sampling.answer_tokens or self.server.cannot_continue:
            return 0.0
        return hold.most(
            messages, sampling.answer_tokens, sampling.answer_opening, sampling.max_tokens
        )

    async def _ask(
        self, messages: Messages, seed: int, sampling: Sampling, hold: Hold
    ) -> Completion:
        most = hold.most(messages, sampling.max_tokens, sampling.opening)
        later = self._forced_most(hold, messages, sampling)
        body = self._body(messages, seed, sampling)
        reply = _with_end(await self.asker(body, hold, most, later), sampling)
        completion = self._read(reply, seed, sampling, self._is_cut_thinking(reply, sampling))
        return await self._forced(completion, messages, sampling, hold, written_tags(reply.content))

    def _body(self, messages: Messages, seed: int, sampling: Sampling) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self.server.model,
            "messages": list(messages),
            "seed": seed,
            **_sampling_fields(self.server, sampling),
            "max_tokens": sampling.max_tokens,
        }
        if sampling.opening:
            body |= self._closed(messages, "", sampling.opening)
        if sampling.stop:
            body["stop"] = [sampling.stop]
        if sampling.top_logprobs or sampling.sum_logprobs:
            # Ask for at least one alternative. Otherwise llama.cpp returns no probabilities at all.
            body |= {"logprobs": True, "top_logprobs": sampling.top_logprobs or 1}
        if self.server.card.streams:  # only a stream shows that the server still works on a request
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return self.server.card.body(body)

    def _closed(self, messages: Messages, thinking: str, opening: str) -> dict[str, Any]:
        """Return the fields of a request that closes `thinking` and begins the answer with
        `opening`. Without thinking, tags would confuse a model that does not think, so there is
        only the opening."""
        fields = self.server.dialect.closed(self.server, messages, thinking, opening)
        return fields if thinking or self.server.thinking else fields | ending(messages, opening)

    def _read(self, reply: Reply, seed: int, sampling: Sampling, is_cut: bool) -> Completion:
        thinking, answer = split_thinking(reply.content, reply.reasoning, is_cut)
        is_new_turn = False
        if sampling.opening:  # the request closed the thinking, so all text belongs to the answer
            rest = self.server.dialect.continuation(
                reply.content, reply.reasoning, sampling.opening
            )
            thinking, answer = "", f"{sampling.opening}{rest}"
            if is_new_turn := rest is None:
                thinking, answer = reply.reasoning or reply.content, ""
        # A reply of one token for its probabilities is complete, although the token cap ended it.
        finish_reason = (
            "stop" if sampling.top_logprobs and sampling.max_tokens == 1 else reply.finish_reason
        )
        return Completion(
            "",  # _complete sets the key
            seed,
            thinking,
            answer,
            not_forced=NEW_TURN if is_new_turn else None,
            finish_reason=finish_reason,
            prompt_tokens=reply.prompt_tokens,
            cached_tokens=reply.cached_tokens,
            completion_tokens=reply.completion_tokens,
            logprobs=reply.logprobs if sampling.opening and not is_new_turn else {},
            logprob=reply.logprob if sampling.sum_logprobs and not is_new_turn else None,
            context=_context_of(reply, sampling),
            model=reply.model,
        )

    def _is_cut_thinking(self, reply: Reply, sampling: Sampling) -> bool:
        """Return whether a truncated reply is thinking without tags, because the chat template
        opened the tag. The server's card decides this, or else its chat template."""
        is_plain = (
            reply.finish_reason == "length" and not reply.reasoning and not has_tag(reply.content)
        )
        if not is_plain or sampling.opening:
            return False
        form = self.server.card.thinking
        return form == "tags" if form else self.server.thinking is True

    async def _forced(
        self,
        cut: Completion,
        messages: Messages,
        sampling: Sampling,
        hold: Hold,
        tags: tuple[str, str] = TAGS,
    ) -> Completion:
        """Close thinking that hit the token cap, and request the answer (budget forcing, s1, arXiv
        2501.19393). `tags` are the tags around the model's thinking. A failure leaves `cut`
        unforced, with the doubt "truncated". Return other completions unchanged."""
        if sampling.opening or not sampling.answer_tokens or cut.answer or not cut.truncated:
            return cut
        if why := self.server.cannot_continue:
            return replace(cut, not_forced=why)
        try:
            return (
                await self._answered(cut, messages, sampling, hold, tags) if cut.thinking else cut
            )
        except Failure as failure:
            return replace(cut, not_forced=_reason(failure))

    async def _elicit(
        self, before: Completion, messages: Messages, sampling: Sampling, hold: Hold
    ) -> Completion:
        """Continue `before` if it ended without an answer. Return `before` if it has one. Raises
        Failure."""
        if sampling.opening or not continued.lacks_answer(before, sampling.elicit):
            return before
        if why := self.server.cannot_continue:
            raise Unable(why)
        opening = f"{before.answer}\n\n{opening_for(ELICITED_ANSWER, sampling.elicit)}".lstrip()
        asked = replace(sampling, answer_opening=opening, answer_tokens=sampling.elicited_tokens)
        return await self._answered(before, messages, asked, hold)

    async def _answered(
        self,
        before: Completion,
        messages: Messages,
        sampling: Sampling,
        hold: Hold,
        tags: tuple[str, str] = TAGS,
    ) -> Completion:
        """Close the thinking of `before` with `tags`, and request at most `answer_tokens` tokens
        after `answer_opening`. If not all of the thinking fits the server's context, only its end
        is sent. Raises Failure."""
        thinking, opening = before.thinking, sampling.answer_opening
        if self.server.context:
            characters = sum(len(message["content"]) for message in messages)
            room = self.server.context - (before.prompt_tokens or characters // CHARACTERS)
            room -= sampling.answer_tokens + 32
            spent = before.completion_tokens or sampling.max_tokens
            if spent > room:
                kept = len(thinking + before.answer) * max(room, 0) // spent - len(before.answer)
                thinking = thinking[-max(1, kept) :]
        body = self._body(
            messages, before.seed, replace(sampling, max_tokens=sampling.answer_tokens)
        )
        body |= _retagged(self._closed(messages, thinking, opening), tags)
        reply = await self.asker(body, hold, self._forced_most(hold, messages, sampling))
        rest = self.server.dialect.continuation(reply.content, reply.reasoning, opening)
        return replace(
            continued.summed(before, reply),
            forced=None if rest is None else opening + rest,
            not_forced=NEW_TURN if rest is None else None,
        )

    async def _wait(
        self, before: Completion, messages: Messages, sampling: Sampling, hold: Hold
    ) -> Completion:
        """Continue the thinking of `before` with a "Wait". Return `before` if it is at its token
        cap or may not wait. Raises Failure."""
        left = sampling.max_tokens - (
            before.completion_tokens or len(before.thinking + before.answer) // CHARACTERS
        )
        if (
            sampling.opening
            or left < 1
            or before.not_waited is not None
            or not continued.is_ended(before)
        ):
            return before
        if not before.thinking:
            raise Unable(continued.NO_THINKING)
        server = self.server
        if why := server.cannot_continue or (
            "" if server.card.continues or server.dialect.continues else UNKNOWN
        ):
            raise Unable(why)
        # the model continues a new paragraph
        thinking = f"{untagged(before.thinking)}\n\n{sampling.wait_word}"
        asked = replace(sampling, max_tokens=left)
        body = self._body(messages, before.seed, asked)
        body |= server.dialect.left_open(server, messages, thinking)
        most, later = (
            hold.most(messages, left, thinking),
            self._forced_most(hold, messages, sampling),
        )
        reply = _with_end(await self.asker(body, hold, most, later), asked)
        both = continued.summed(before, reply)
        if continued.is_left_out(reply, before):
            return replace(both, not_waited=continued.LEFT_OUT)
        after, answer = split_thinking(*continued.whole(reply, thinking), cut_while_thinking=True)
        completion = replace(
            both,
            thinking=after,
            answer=answer,
            finish_reason=reply.finish_reason,
            context=_context_of(reply, asked),
            before_waits=[*before.before_waits, before.answer],
            tokens_before_waits=[*before.tokens_before_waits, before.completion_tokens],
        )
        return await self._forced(completion, messages, sampling, hold)

    async def _refusal(self, error: Refused, messages: Messages) -> str:
        """Return the error to record for a refused request. Raises UserError if all requests seem
        to be refused."""
        address = self.server.base_url
        if isinstance(error, Denied) and self.asker.is_denied:
            if error.status == UNKNOWN_MODEL and "model" in str(error).lower():
                raise UserError(
                    f"the server at {address} has no model {self.server.model!r}: {error}"
                )
            if error.status == UNKNOWN_MODEL:
                raise UserError(
                    f"the server at {address} answers chat requests with 404 ({error}). Check the "
                    f"address, and whether it serves chat completions of {self.server.model!r}"
                )
            raise UserError(f"the server at {address} refuses the key. {self.server.key.remedy}")
        is_general = not (error.may_pass or error.is_of_its_prompt or isinstance(error, Denied))
        if is_general and await self._refuses_all(messages):
            raise UserError(f"the server at {address} refuses every request: {error}. {REFUSED}")
        if error.is_overflow:
            return f"context overflow: {error}"
        return f"filtered: {error}" if error.is_filtered else error.words

    async def _refuses_all(self, messages: Messages, is_denial: bool = False) -> bool:
        """Return whether the server seems to refuse all requests, now that it has refused
        `messages`. This is known after a usable reply, or the refusal of a second prompt (of
        PROMPTS_DENIED, if the key or the model is refused). Until then, wait for the requests in
        progress."""
        self._refused.add(content_key(list(messages)))
        self._undecided += 1
        enough = PROMPTS_DENIED if is_denial else PROMPTS_NEVER
        try:
            while self.asker.usable_at is None and len(self._refused) < enough:
                # they wait for the money of this request
                unpaid = self._budget.waiting if self._budget else 0
                if self._slots.held - unpaid <= self._undecided:  # no other request is in progress
                    is_shared = is_denial and self._undecided > 1
                    return is_shared or not (self._slots.waiting or unpaid)
                await asyncio.sleep(POLL_SECONDS)
            return self.asker.usable_at is None
        finally:
            self._undecided -= 1


def _retagged(fields: dict[str, Any], tags: tuple[str, str]) -> dict[str, Any]:
    """Return the `fields` of a request (Dialect.closed) with a model's own `tags` around the
    thinking."""
    *before, last = fields["messages"]
    content = last["content"]
    for usual, own in zip(TAGS, tags, strict=True):
        content = content.replace(usual, own, 1)
    return fields | {"messages": [*before, last | {"content": content}]}


def _with_end(reply: Reply, sampling: Sampling) -> Reply:
    """Return `reply` with the finish reason "length" if it stops in mid-sentence at its token cap
    or its context. Some servers report "stop" in this case. A context of the usual size is full
    after a multiple of CONTEXTS tokens. A stop text or a tactic may end anywhere, so such replies
    are unchanged."""
    prompt, _, written = reply.counted
    is_at_cap = written is not None and written >= sampling.max_tokens > 1
    total = (prompt or 0) + (written or 0)
    is_at_context = bool(prompt) and (written or 0) > FEW_LEFT and total % CONTEXTS == 0
    has_ended = reply.finish_reason == TOOL_CALL or bool(end_of(reply.finish_reason))
    if has_ended or not (is_at_cap or is_at_context) or sampling.stop or sampling.sum_logprobs:
        return reply
    last_line = reply.content.rstrip().rpartition("\n")[2]
    is_open = last_line.count("{") > last_line.count("}")
    is_whole = not is_open and _ENDED.search(last_line) is not None
    return reply if is_whole else replace(reply, finish_reason=CUT)


def _context_of(reply: Reply, sampling: Sampling) -> int:
    """Return the tokens of prompt and reply if the server truncated the reply far below its token
    cap, else 0."""
    prompt, _, written = reply.counted
    if reply.finish_reason != CUT or prompt is None or written is None:
        return 0
    left = sampling.max_tokens - written
    return prompt + written if left > max(FEW_LEFT, sampling.max_tokens // 10) else 0


def _sampling_fields(server: Server, sampling: Sampling) -> dict[str, Any]:
    """Return the sampling fields of a request, before the server's card changes them."""
    fields: dict[str, Any] = {"temperature": sampling.temperature, "top_p": sampling.top_p}
    if server.dialect.has_top_k or sampling.top_k or sampling.min_p:
        # Both are sent even if off, because llama.cpp's defaults (top_k 40, min_p 0.05) sharpen the
        # distribution. For top_k, -1 means off. SGLang and its gateway refuse 0, and llama.cpp and
        # vLLM accept both.
        fields |= {"top_k": sampling.top_k or -1, "min_p": sampling.min_p}
    return {**fields, **server.dialect.neutral}


def sampling_sent(server: Server, sampling: Sampling) -> dict[str, Any]:
    """Return the sampling fields that requests to `server` contain, with the changes of its
    card."""
    fields = _sampling_fields(server, sampling)
    sent = server.card.body(fields | {"max_tokens": sampling.max_tokens})
    return {name: value for name, value in sent.items() if name in {*fields, *SAMPLING, *PENALTIES}}


def sampling_unsent(server: Server, sampling: Sampling) -> list[str]:
    """Return the names of the sampling parameters that requests lack, so that the server's defaults
    apply."""
    sent = {
        "repetition_penalty" if name == "repeat_penalty" else name
        for name in sampling_sent(server, sampling)
    }
    return [name for name in (*SAMPLING, *PENALTIES) if name not in sent]


def _reason(failure: Failure) -> str:
    if isinstance(failure, Unable):
        return str(failure)
    return one_line(f"{type(failure).__name__.lower()} {failure}".strip(), REASON)
