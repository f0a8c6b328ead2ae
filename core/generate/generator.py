"""Generator: messages and a seed in, a Completion out, through the journal and the server.

It decides what an experiment sees of a server's replies: thinking apart from the answer, budget forcing at the cap,
thinking that goes on behind a "Wait", and what a failed request is recorded as.
"""

import asyncio
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from core.base.errors import UserError, one_line
from core.engines.server import CANNOT, MARK, Server
from core.generate.budget import Budget, Hold, Spent, most_read
from core.generate.journal import Journal, content_key, from_record, to_record
from core.generate.queue import Slots
from core.generate.reply import Failure, Refused, Reply
from core.generate.retry import Asker, Over
from core.generate.waits import LEFT_OUT, NO_THINKING, is_left_out, may_wait, opened, whole
from core.types import CHARACTERS, Completion, Message, Sampling

STALL_SECONDS = 300.0  # patience with a silent request, where nothing else is said
TRY_TOKENS = 4096  # the cap of a question that shows whether a server's model thinks before it answers
KEY_VERSION = 3  # raise it when the meaning of a journaled completion changes, or a default of Sampling does
REASON = 100  # characters that are kept of why an answer was not forced: more would be the thinking, not the reason
NEW_TURN = "the server began a new turn instead of going on with the answer that was opened"
UNTOLD = "whether this server can go on with a message is not known (a card with continues = true says that it can)"

DEFAULTS = vars(Sampling())  # what keys leave out


def split_thinking(content: str, reasoning: str | None, cut_while_thinking: bool = False) -> tuple[str, str]:
    """(thinking, answer) of a message, whichever way the server keeps them apart.

    `reasoning` is the server's reasoning field. A server without a parser leaves tags in `content`, and one with a
    parser may still leak the end of thinking into it. `cut_while_thinking`: content without any tag is thinking
    (a thinking model, whose template opens the tag in the prompt, was stopped by the cap).
    """
    thinking = reasoning or ""
    if "</think>" in content:
        head, content = content.split("</think>", 1)
        said = head.replace("<think>", "", 1)
        if said.strip() != thinking.strip():  # some send it in both places
            thinking += said
        return thinking.strip(), content.strip()
    if content.lstrip().startswith("<think>"):
        return (thinking + content.replace("<think>", "", 1)).strip(), ""
    if reasoning:
        return thinking.strip(), content.strip()
    if cut_while_thinking:
        return content.strip(), ""
    return "", content.strip()


class Generator:
    """Ask one server, at most `limit` requests at a time; finished completions come from the journal at once. Use it as
    a context manager.

    A request may take `timeout` seconds in all, and be silent for `stall` seconds. `on_completion(completion, is_new)`
    is called for every completion, in order of arrival, `say(line)` where the user should know of a trouble that
    goes on. What requests cost is paid from the `budget`, where the server's card has prices.
    """

    def __init__(
        self,
        server: Server,
        journal: Journal,
        limit: int,
        timeout: float,
        on_completion: Callable[[Completion, bool], None] = lambda completion, is_new: None,
        stall: float = STALL_SECONDS,
        say: Callable[[str], None] = lambda line: print(line, file=sys.stderr, flush=True),
        budget: Budget | None = None,
    ) -> None:
        self.journal, self.on_completion, self._say = journal, on_completion, say
        self._budget = budget if server.card.price else None
        self._slots = Slots(limit)
        self.asker = Asker(server, limit, timeout, stall, say)
        self._opens: bool | None = None  # whether thinking is open where the model's text begins; None: not asked yet
        self._finding_out = asyncio.Lock()

    async def __aenter__(self) -> "Generator":
        await self.asker.__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.asker.__aexit__(*exception)

    @property
    def server(self) -> Server:
        """The server as it was last seen: its version may change during a run."""
        return self.asker.server

    @property
    def trouble(self) -> str:
        """Return what keeps requests from being answered now, in a few words; "" if nothing does."""
        if self._budget and self._budget.waiting:
            return f"{self._budget.waiting} requests waiting for budget (MAX_DOLLARS)"
        return self.asker.trouble

    def key(self, messages: Sequence[Message], seed: int, sampling: Sampling) -> str:
        """The journal key: all that determines a completion, and nothing that doesn't (the server's address, say). Of
        the sampling it holds what differs from the defaults, so that a new field orphans no journal."""
        unsent = self.server.card.never
        asked = {n: value for n, value in vars(sampling).items() if value != DEFAULTS[n] and n not in unsent}
        told = [self.server.key_fields] if self.server.key_fields else []
        return content_key([KEY_VERSION, self.server.identity, list(messages), asked, seed, *told])

    def _kept(self, key: str) -> Completion | None:
        """Return the completion that the journal has under `key`."""
        record = self.journal.get(key)
        if record is None:
            return None
        try:
            return from_record(key, record)
        except ValueError as error:
            self.journal.doubt(key, str(error))
            return None

    async def __call__(
        self,
        messages: Sequence[Message],
        seed: int,
        sampling: Sampling,
        priority: float = 0.0,
    ) -> Completion:
        """The completion of `messages`. Of the requests that wait for the server, the highest `priority` goes first.
        Raises UserError if the server is lost, or refuses us altogether."""
        key = self.key(messages, seed, sampling)
        if found := self._kept(key):
            self.on_completion(found, False)
            return found
        if sampling.opening and (why := self.server.cannot_continue):
            where = " (continues = false)" if why == CANNOT else ""
            raise UserError(f"this request opens the answer for the model, and {why}{where}")
        try:
            async with self._slots.slot(priority):
                try:
                    with self._hold() as hold:
                        completion = await self._made(messages, seed, sampling, hold)
                except (Over, Spent):
                    self._close()
                    raise
        except (Over, Spent):
            await self._slots.empty()  # what is in flight is paid for
            raise
        self.on_completion(completion, not completion.reused)
        return completion

    def _close(self) -> None:
        """Begin no request any more."""
        if not self._slots.is_closed and (others := self._slots.held - 1):
            self._say(f"note: the run ends when {others} requests in flight are finished; Ctrl-C ends it now")
        self._slots.close()

    async def _made(self, messages: Sequence[Message], seed: int, sampling: Sampling, hold: Hold) -> Completion:
        """The completion, kept or asked for. One with waits is that with one wait less, gone on with: each is kept by
        itself, so that a run with more waits begins where one with fewer ended."""
        key = self.key(messages, seed, sampling)
        if found := self._kept(key):
            return found
        if sampling.waits:
            before = await self._made(messages, seed, sampling.with_one_wait_less, hold)
            completion, is_final = await self._wait(key, before, messages, sampling, hold)
        else:
            completion, is_final = await self._ask(key, messages, seed, sampling, hold)
        if is_final:
            self.journal.put(key, to_record(completion), messages, paid=-hold.settled())
        return completion

    def _hold(self, may_wait: bool = True) -> Hold:
        """Open the money for the requests of one completion."""
        return Hold(self._budget, self.server.card.price, may_wait)

    def _most(self, hold: Hold, messages: Sequence[Message], written: int, opening: str = "", more: int = 0) -> float:
        """Return the most dollars of a request with these messages, an answer that is opened and `more` tokens."""
        read = most_read([*messages, {"role": "assistant", "content": opening}], self.server.context, more)
        return hold.most(read, written)

    def _forced_most(self, hold: Hold, messages: Sequence[Message], sampling: Sampling) -> float:
        """Return the most dollars of forcing an answer behind a completion of these messages."""
        return self._most(hold, messages, sampling.answer_tokens, sampling.answer_opening, sampling.max_tokens)

    async def _ask(
        self, key: str, messages: Sequence[Message], seed: int, sampling: Sampling, hold: Hold
    ) -> tuple[Completion, bool]:
        """The completion, and whether it is final: a passing failure is not, and is owed again at the next run."""
        began = time.monotonic()
        error, is_final = None, True
        cannot = self.server.cannot_continue
        try:
            may_be_forced = sampling.answer_tokens and not (sampling.opening or cannot)
            reply = await self.asker(
                self._body(messages, seed, sampling),
                content_key(list(messages)),
                hold,
                self._most(hold, messages, sampling.max_tokens, sampling.opening),
                self._forced_most(hold, messages, sampling) if may_be_forced else 0.0,
            )
            completion = self._read(reply, key, seed, sampling, await self._is_cut_thinking(reply, sampling))
            is_cut = completion.truncated and not completion.answer and not sampling.opening
            if is_cut and sampling.answer_tokens and cannot:
                completion = replace(completion, not_forced=cannot)
            elif is_cut and sampling.answer_tokens and completion.thinking:
                completion = await self._force(completion, messages, sampling, hold)
        except Failure as failure:
            completion, is_final = Completion(key, seed), failure.is_final
            error = self._refusal(failure) if isinstance(failure, Refused) else failure.words
        seconds = round(time.monotonic() - began, 3)
        return replace(completion, seconds=seconds, error=error, origin=self.server.origin), is_final

    def _body(self, messages: Sequence[Message], seed: int, sampling: Sampling) -> dict[str, Any]:
        """The JSON object of one chat request."""
        body: dict[str, Any] = {
            "model": self.server.model,
            "messages": list(messages),
            "seed": seed,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        }
        if self.server.dialect.has_top_k or sampling.top_k or sampling.min_p:
            # Said even when off: llama.cpp's own defaults (top_k 40, min_p 0.05) would sharpen the distribution.
            # Off is -1: SGLang and its gateway refuse 0, llama.cpp and vLLM take either.
            body |= {"top_k": sampling.top_k or -1, "min_p": sampling.min_p}
        if sampling.opening:
            body |= self.server.dialect.closed(self.server, messages, "", sampling.opening)
        if sampling.stop:
            body["stop"] = [sampling.stop]
        if sampling.top_logprobs or sampling.sum_logprobs:
            # One alternative at least: for none, llama.cpp gives no probabilities at all.
            body |= {"logprobs": True, "top_logprobs": sampling.top_logprobs or 1}
        if self.server.card.streams:  # only a stream shows that a request is not lost
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return self.server.card.body(body)

    def _read(self, reply: Reply, key: str, seed: int, sampling: Sampling, is_cut: bool) -> Completion:
        is_new_turn = False
        if sampling.opening:  # thinking was closed by us: whatever came is answer
            rest = self.server.dialect.continuation(reply.content, reply.reasoning, sampling.opening)
            if is_new_turn := rest is None:
                thinking, answer = reply.reasoning or reply.content, ""
            else:
                thinking, answer = "", f"{sampling.opening}{rest}"
        else:
            thinking, answer = split_thinking(reply.content, reply.reasoning, is_cut)
        # Where one token was asked for, to read its probabilities, the cap has cut off nothing.
        finish_reason = "stop" if sampling.top_logprobs and sampling.max_tokens == 1 else reply.finish_reason
        return Completion(
            key,
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
            model=reply.model,
        )

    async def _is_cut_thinking(self, reply: Reply, sampling: Sampling) -> bool:
        """Whether a reply that the cap cut off, and that keeps nothing apart, is thinking (the chat template has opened
        it) or an answer. Decided once for a server and never by what other replies happened to come before: by its
        card or its chat template, where they tell, else by trying."""
        is_plain = reply.finish_reason == "length" and not reply.reasoning and "think>" not in reply.content
        if not is_plain or sampling.opening or self.server.card.thinking in ("field", "hidden", "none"):
            return False
        async with self._finding_out:
            if self._opens is None:
                self._opens = await asyncio.to_thread(lambda: self.server.thinking)
            if self._opens is None:
                self._opens = await self._is_seen_thinking()
        return self._opens

    async def _is_seen_thinking(self) -> bool:
        """Whether a server whose template is not told closes thinking that it did not open, in its reply to a question
        that takes little of it. The reply is journaled as it came, so that a run that goes on reads as it did
        before."""
        messages: list[Message] = [{"role": "user", "content": MARK}]
        sampling = Sampling(max_tokens=min(TRY_TOKENS, (self.server.context or 2 * TRY_TOKENS) // 2))
        key = content_key([self.key(messages, 0, sampling), "as it came"])
        made = self._kept(key)
        if made is None:
            body = self._body(messages, 0, sampling)
            with self._hold(may_wait=False) as hold:  # others may wait for what this finds out
                try:
                    reply = await self.asker(body, "", hold, self._most(hold, messages, sampling.max_tokens))
                except Failure:
                    return False
                made = Completion(key, 0, reply.reasoning, reply.content, origin=self.server.origin)
                self.journal.put(key, to_record(made), messages, paid=-hold.settled())
        thinking, closing, _ = made.answer.partition("</think>")
        return bool(closing) and "<think>" not in thinking

    async def _force(self, cut: Completion, messages: Sequence[Message], sampling: Sampling, hold: Hold) -> Completion:
        """Budget forcing (s1, arXiv 2501.19393): close the thinking that hit the cap and let the model state its
        answer. Where the server's context would overflow, the newest part of the thinking that fits is kept."""
        thinking = cut.thinking
        if self.server.context:
            characters = sum(len(message["content"]) for message in messages)
            room = self.server.context - (cut.prompt_tokens or characters // CHARACTERS) - sampling.answer_tokens - 32
            spent = cut.completion_tokens or sampling.max_tokens  # it hit the cap
            if spent > room:
                thinking = thinking[-max(1, len(thinking) * max(room, 0) // spent) :]
        body = self._body(messages, cut.seed, replace(sampling, max_tokens=sampling.answer_tokens))
        body |= self.server.dialect.closed(self.server, messages, thinking, sampling.answer_opening)
        try:
            reply = await self.asker(body, "", hold, self._forced_most(hold, messages, sampling))
        except Failure as failure:  # the unforced reading stands; "truncated" is its doubt
            return replace(cut, not_forced=_reason(failure))
        opening = sampling.answer_opening
        rest = self.server.dialect.continuation(reply.content, reply.reasoning, opening)
        return replace(
            _summed(cut, reply),
            forced=None if rest is None else opening + rest,
            not_forced=NEW_TURN if rest is None else None,
        )

    async def _wait(
        self, key: str, before: Completion, messages: Sequence[Message], sampling: Sampling, hold: Hold
    ) -> tuple[Completion, bool]:
        """`before` after one wait more, and whether that is to be kept under `key`; as it is where nothing can be gone
        on with, because it failed, hit the cap, or has no room left under it."""
        left = sampling.max_tokens - (before.completion_tokens or len(before.thinking + before.answer) // CHARACTERS)
        if sampling.opening or left < 1 or not may_wait(before):
            return before, False

        def noted(made: Completion, why: str, is_final: bool = True) -> tuple[Completion, bool]:
            kept = replace(made, key=key, reused=False) if is_final else made
            return replace(kept, not_waited=why), is_final

        began = time.monotonic()
        if not before.thinking:
            return noted(before, NO_THINKING)
        server = self.server
        if why := server.cannot_continue or ("" if server.card.continues or server.dialect.continues else UNTOLD):
            return noted(before, why, is_final=why != UNTOLD)
        thinking = opened(before.thinking, sampling.wait_word)
        body = self._body(messages, before.seed, replace(sampling, max_tokens=left))
        goes_on = self.server.dialect.left_open  # it asks for the server's template
        body |= await asyncio.to_thread(goes_on, self.server, messages, thinking)
        forced = self._forced_most(hold, messages, sampling) if sampling.answer_tokens else 0.0
        try:
            reply = await self.asker(body, "", hold, self._most(hold, messages, left, thinking), forced)
        except Failure as failure:
            return noted(before, _reason(failure), failure.is_final)
        made = replace(_summed(before, reply), origin=self.server.origin)
        if is_left_out(reply, before):
            return noted(made, LEFT_OUT)
        after, answer = split_thinking(*whole(reply, thinking), cut_while_thinking=True)
        completion = replace(
            made,
            key=key,
            reused=False,
            thinking=after,
            answer=answer,
            finish_reason=reply.finish_reason,
            before_waits=[*before.before_waits, before.answer],
            tokens_before_waits=[*before.tokens_before_waits, before.completion_tokens],
        )
        if completion.truncated and not answer and sampling.answer_tokens:
            completion = await self._force(completion, messages, sampling, hold)
        return replace(completion, seconds=round(before.seconds + time.monotonic() - began, 3)), True

    def _refusal(self, error: Refused) -> str:
        """What a refused request is recorded as. Raises UserError where every other request would fare the same."""
        if error.status in (401, 403):
            raise UserError(f"the server at {self.server.base_url} refuses the key. {self.server.key.remedy}")
        if error.status == 404:
            raise UserError(
                f"the server at {self.server.base_url} does not know the model {self.server.model!r}: {error}"
            )
        overflows = ("context", "too long", "too large", "maximum length")
        is_overflow = any(words in str(error).lower() for words in overflows)
        if not (error.may_pass or is_overflow or error.is_filtered or self.asker.is_answered):
            remedy = self.server.card.remedy(error.names)
            raise UserError(f"the server at {self.server.base_url} refuses our requests: {error}{remedy}")
        if is_overflow:
            return f"context overflow: {error}"
        return f"filtered: {error}" if error.is_filtered else error.words


def _reason(failure: Failure) -> str:
    return one_line(f"{type(failure).__name__.lower()} {failure}".strip(), REASON)


def _summed(made: Completion, reply: Reply) -> Completion:
    """`made` with the tokens of a `reply` that goes on with it."""
    is_told = bool(made.prompt_tokens and reply.prompt_tokens)  # else nobody knows the sum
    return replace(
        made,
        prompt_tokens=is_told * (made.prompt_tokens + reply.prompt_tokens),
        cached_tokens=is_told * (made.cached_tokens + reply.cached_tokens),
        completion_tokens=is_told * (made.completion_tokens + reply.completion_tokens),
        logprob=None,  # what was put between the two is not the model's
        model=reply.model or made.model,
    )
