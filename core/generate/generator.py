"""Generator: messages and a seed in, a Completion out, through the journal and the wire.

Everything an experiment knows about a server's answers is decided here: thinking apart from the answer, what a
time-out or a refused request means, when to ask again, and budget forcing at the cap.
"""

import asyncio
import importlib
import math
import random
import sys
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from core.base.errors import RunFailed, UserError, one_line
from core.engines.server import CANNOT, MARK, Server
from core.generate.budget import Budget, Hold, Spent, most_read
from core.generate.journal import Journal, content_key, from_record, to_record
from core.generate.queue import Slots
from core.generate.rates import Rates
from core.generate.reply import (
    PASSING,
    Failure,
    Hung,
    Lost,
    Malformed,
    Oversized,
    Overtime,
    Refused,
    Reply,
    Stalled,
)
from core.generate.retry import FEW, Retry
from core.generate.waits import LEFT_OUT, NO_THINKING, is_left_out, may_wait, opened, whole
from core.types import CHARACTERS, FORCED_ANSWER, Completion, Late, Message, Sampling

if TYPE_CHECKING:
    from core.generate.wire import Wire

RETRIES = 8  # waits of 0.5, 1, 2 … 64 s: a server may be away for about two minutes
LEAST_WAIT = 4.0  # seconds; a longer wait for a server that is away ends when it answers another request
LONGEST_WAIT = 600.0  # seconds; bounds what a server may ask for with Retry-After
THROTTLED_SECONDS = 3600.0  # for which a server may refuse everything for the rate, and say when to come back
TIMEOUT_TRIES = 2  # a request that ran out of its (long) time is asked once more
STALL_TRIES = 3  # and one that fell silent twice more, with double the patience each time
STALL_SECONDS = 300.0  # patience with a silent request, where nothing else is said
REFUSED = (400, 413, 422)  # this very request can never succeed: recorded, never asked again
IDLE_SECONDS = 60.0  # after so long a pause, another server may have taken the place of ours
TRIES = 3  # questions that are to show whether a server's model thinks before it answers,
TRY_TOKENS = 4096  # their cap, and
CUT_TOKENS = 16  # that of one that is to be cut off
PROBE_TOKENS = 64  # the cap of an answer that is opened to see whether the server goes on with it
KEY_VERSION = 3  # raise it when the meaning of a journaled completion changes, or a default of Sampling does
REASON = 100  # characters that are kept of why an answer was not forced: more would be the thinking, not the reason
NEW_TURN = "the server began a new turn instead of going on with the answer that was opened"

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


@dataclass(frozen=True)
class _Again:
    """A request that is asked again: why, and when (monotonic seconds)."""

    why: str
    due: float


class _Over(RunFailed):
    """The server has no quota or credit left for us, or refuses us for its limits without end: nothing more is sent."""


@dataclass(frozen=True)
class _Payment:
    """The money of a request: the `most` dollars that it can cost, and those of a `later` one behind it."""

    hold: Hold
    most: float
    later: float = 0.0


class Generator:
    """Ask one server, at most `limit` requests at a time; finished completions come from the journal at once.

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
        self.server = server
        self._budget = budget if server.card.price else None
        self._rates = Rates(_pause_for)
        self._is_told_of_pauses = self._doubted_counts = self._noted_cut = False
        self.journal = journal
        self.timeout, self.stall = timeout, stall
        self.on_completion = on_completion
        self._slots = Slots(limit)
        self._limit = limit
        self._opened: Wire | None = None
        self._say = say
        self._retry = Retry(server.base_url, say)
        self._names: set[str] = set()  # what its replies call the model
        self._again: dict[object, _Again] = {}  # the requests that have failed and are asked again
        self._away: float | None = None  # since when it has not been reached
        self._back = asyncio.Event()  # it has been reached again
        self._doubted = False  # whether another server may have taken its place
        self._checking = asyncio.Lock()
        self._asked = time.monotonic()  # when the last request was sent
        self._opens: bool | None = None  # whether thinking is open where the model's text begins; None: not asked yet
        self._finding_out = asyncio.Lock()
        self._stays: str | None = None  # why it goes on with no message that was begun; None: not tried yet

    async def __aenter__(self) -> "Generator":
        # In a thread, so that the bar goes on: the client takes a second to load, or six on a busy machine.
        wire = await asyncio.to_thread(importlib.import_module, "core.generate.wire")
        self._opened = await wire.Wire(self.server, self._limit, self._rates).__aenter__()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self._wire.__aexit__(*exception)

    @property
    def _wire(self) -> "Wire":
        assert self._opened, "use it as a context manager"
        return self._opened

    @property
    def in_flight(self) -> int:
        """Requests that wait for a reply."""
        return self._opened.in_flight if self._opened else 0

    @property
    def streamed(self) -> int:
        """Tokens of the replies that are coming, about; 0 where the server does not stream."""
        return self._opened.streamed if self._opened else 0

    @property
    def trouble(self) -> str:
        """What keeps requests from being answered now, in a few words; "" where nothing does."""
        if self._opened is None:
            return "loading the client"
        if self._away is not None:
            away = time.monotonic() - self._away
            return f"server away {away:.0f} of {max(away, _waits_from(0)):.0f} s"
        if self._rates.waiting:
            return f"rate limit: {self._rates.waiting} wait, next in {math.ceil(self._rates.seconds_left)} s"
        if self._budget and self._budget.waiting:
            return f"{self._budget.waiting} requests waiting for budget (MAX_DOLLARS)"
        if not self._again:
            return ""
        soon = min(again.due for again in self._again.values()) - time.monotonic()
        return f"retrying {len(self._again)}" + (f" in {soon:.0f} s" if soon >= 1 else "")

    @property
    def reason(self) -> str:
        """Why requests are asked again, in two or three words ("status 503"); "" where none are. What the server said
        is told once, in a note."""
        return next(reversed(self._again.values())).why.partition(": ")[0] if self._again else ""

    def key(self, messages: Sequence[Message], seed: int, sampling: Sampling, *more: Any) -> str:
        """The journal key: all that determines a completion, and nothing that doesn't (the server's address, say). Of
        the sampling it holds what differs from the defaults, so that a new field orphans no journal. `more`: what else
        is to distinguish this completion from others."""
        unsent = self.server.card.never
        asked = {n: value for n, value in vars(sampling).items() if value != DEFAULTS[n] and n not in unsent}
        told = [self.server.told] if self.server.told else []
        return content_key([KEY_VERSION, self.server.identity, list(messages), asked, seed, *told, *more])

    def _kept(self, key: str) -> Completion | None:
        """Return the completion that the journal has under `key`."""
        record = self.journal.get(key)
        if record is None:
            return None
        try:
            found = from_record(key, record)
        except ValueError as error:
            self.journal.doubt(key, str(error))
            return None
        rests_on = self.server.rests_on
        if rests_on and rests_on not in self.journal.cautions and self.journal.is_earlier(key):
            self.journal.cautions.add(rests_on)
            self._say(
                f"note: completions from the journal are matched by {rests_on} alone: whether the same weights "
                "made them is not known"
            )
        return found

    async def __call__(
        self,
        messages: Sequence[Message],
        seed: int,
        sampling: Sampling,
        priority: float = 0.0,
        until: float = math.inf,
    ) -> Completion:
        """The completion of `messages`. Of the requests that wait for the server, the highest `priority` goes first.
        Raises Late for one that would be sent after `until`, and UserError when the server is lost, or refuses us
        altogether."""
        key = self.key(messages, seed, sampling)
        if found := self._kept(key):
            self.on_completion(found, False)
            return found
        if sampling.opening and (why := self.server.cannot_continue):
            where = " (continues = false)" if why == CANNOT else ""
            raise UserError(f"this request opens the answer for the model, and {why}{where}")
        try:
            async with self._slots.slot(priority):
                if time.monotonic() > until:
                    raise Late
                with self._hold() as hold:
                    completion = await self._made(messages, seed, sampling, hold)
        except (_Over, Spent):
            self._slots.close()
            await self._slots.empty()  # what is in flight is paid for
            raise
        self.on_completion(completion, not completion.reused)
        return completion

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

    async def _send(self, body: dict[str, Any], patience: float, pay: _Payment) -> Reply:
        """One request over the wire: when the rates allow, and where there is money for it."""

        def send() -> Coroutine[Any, Any, Reply]:
            return self._wire.exchange(body, patience, self.timeout)

        return await pay.hold.pay(send, pay.most, pay.later)

    async def _ask(
        self, key: str, messages: Sequence[Message], seed: int, sampling: Sampling, hold: Hold
    ) -> tuple[Completion, bool]:
        """The completion, and whether it is final: a passing failure is not, and is owed again at the next run."""
        began = time.monotonic()
        since = asyncio.get_running_loop().time()
        error, is_final, prompt = None, True, content_key(list(messages))
        try:
            first = self._most(hold, messages, sampling.max_tokens, sampling.opening)
            may_be_forced = sampling.answer_tokens and not (sampling.opening or self.server.cannot_continue)
            forced = self._forced_most(hold, messages, sampling)
            paying = _Payment(hold, first, forced if may_be_forced else 0.0)
            reply = await self._patiently(self._body(messages, seed, sampling), paying, prompt)
            completion = self._read(reply, key, seed, sampling, await self._is_cut_thinking(reply, sampling))
            is_cut = completion.truncated and not completion.answer and not sampling.opening
            if is_cut and sampling.answer_tokens and self.server.cannot_continue:
                completion = replace(completion, not_forced=self.server.cannot_continue)
            elif is_cut and sampling.answer_tokens and completion.thinking:
                completion = await self._force(completion, messages, sampling, _Payment(hold, forced))
        except Overtime:
            completion, is_final = Completion(key, seed), False
            error = f"no answer within {self.timeout:.0f} s, asked {TIMEOUT_TRIES} times"
        except Stalled:
            completion, is_final = Completion(key, seed), False
            error = f"silent for {self.stall:.0f} s and longer, asked {STALL_TRIES} times"
        except Refused as refusal:
            completion, is_final = Completion(key, seed), refusal.status in REFUSED
            error = self._refusal(refusal)
        except Oversized:
            completion, is_final = Completion(key, seed), False
            error = f"the reply was ended: it is larger than {sampling.max_tokens} tokens can be"
        except Malformed as malformed:
            completion, is_final = Completion(key, seed), False
            error = f"the server's answer could not be read: {malformed}"
        if error and not is_final:
            self._retry.used_up(prompt, error, self._wire.is_at_work(since))
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
        return self.server.card.body(body)

    async def _patiently(self, body: dict[str, Any], pay: _Payment, prompt: str = "") -> Reply:
        """One request, of what `prompt` stands for; asked again after what may pass by itself: no connection, overload,
        a server error, silence."""
        mine = object()
        try:
            return await self._tries_of(mine, body, pay, prompt)
        finally:
            self._again.pop(mine, None)

    async def _tries_of(self, mine: object, body: dict[str, Any], pay: _Payment, prompt: str) -> Reply:
        attempt = overtimes = stalls = 0
        sent = time.monotonic()
        while True:
            is_last = attempt == RETRIES or self._retry.is_hopeless(prompt)
            wait = _backoff(attempt) * random.uniform(0.75, 1.25)  # a population should not return in step
            self._doubted = self._doubted or time.monotonic() - self._asked > IDLE_SECONDS
            self._asked = time.monotonic()
            try:
                if self._doubted:
                    await self._check()
                reply = await self._send(body, self.stall * 2**stalls, pay)
                if reply.model not in self._names:
                    if self._names:
                        self._doubted = True
                        await self._check()
                    self._names.add(reply.model)
                self._reached()
                self._retry.usable()
                self._note_counts(reply)
                return reply
            except Overtime:
                overtimes += 1
                left = self.timeout * (TIMEOUT_TRIES - overtimes)
                self._unusable(mine, f"no answer within {self.timeout:.0f} s", sent, attempt, left)
                if overtimes == TIMEOUT_TRIES or is_last:
                    raise
            except Stalled:
                stalls += 1
                left = self.stall * (2**STALL_TRIES - 2**stalls)
                self._unusable(mine, f"silent for {time.monotonic() - sent:.0f} s", sent, attempt, left)
                if stalls == STALL_TRIES or is_last:
                    raise
            except Lost as lost:
                self._doubted = True
                if why := self.server.failure():
                    raise UserError(f"{why}. Run the same command again: what is finished is kept") from None
                self._away = self._away or time.monotonic()
                self._back.clear()
                left = self._away + _waits_from(0) - time.monotonic()
                tries = FEW if isinstance(lost, Hung) else attempt + 1
                self._unusable(mine, f"no connection: {lost}", self._away, attempt, left, tries, is_away=True)
                if is_last or left <= 0:
                    raise UserError(
                        f"the server at {self.server.base_url} does not answer any more ({lost}). Start it again "
                        "and run the same command: what is finished is kept"
                    ) from None
                wait = min(_backoff(attempt), left)
            except Refused as refusal:
                self._reached()
                if refusal.is_unpaid:
                    self._no_more()
                    raise _Over(
                        f"the server at {self.server.base_url} has no quota or credit left for us: {refusal.said} "
                        "(run the same command again when it has: what is finished is kept)"
                    ) from None
                if (refusal.status not in PASSING and refusal.status < 500) or refusal.is_too_large:
                    raise
                if refusal.is_throttled and time.monotonic() - sent < THROTTLED_SECONDS:
                    self._throttled(refusal)
                    continue  # the rates let it wait with all others; it has not been tried
                self._unusable(mine, f"status {refusal.status}: {refusal.said}", sent, attempt)
                if is_last:
                    raise
                wait = max(wait, min(LONGEST_WAIT, refusal.wait or 0.0))  # asked back at once, we still wait
            except Malformed as malformed:
                self._reached()
                self._unusable(mine, str(malformed), sent, attempt)
                if is_last:
                    raise
            await self._pause(mine, wait)
            attempt += 1

    def _note_counts(self, reply: Reply) -> None:
        """Warn once of token counts that contradict the reply, and once of a prompt that the server has cut."""
        if reply.doubt and not self._doubted_counts:
            self._doubted_counts = True
            self._say(
                f"warning: the server at {self.server.base_url} reports tokens that contradict its reply "
                f"({reply.doubt}). Such counts are taken for not reported"
            )
        if reply.unread and not self._noted_cut:
            self._noted_cut = True
            self._say(
                f"warning: the server at {self.server.base_url} counts {reply.prompt_tokens} tokens of a prompt that "
                "has more words: it cuts long prompts silently, or leaves out what its cache held. Give it a longer "
                "context (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx)"
            )

    def _throttled(self, refusal: Refused) -> None:
        """A limit of our rate, which passes at a time that the server has said. Raises _Over where it never does."""
        since = self._rates.refused_since
        address, waits = self.server.base_url, math.ceil(self._rates.seconds_left)
        if not self._is_told_of_pauses:
            self._is_told_of_pauses = True
            self._say(
                f"note: the server at {address} limits our rate ({refusal.said.rstrip('.')}): all requests wait for "
                f"{waits} s now, and whenever it says so (a lower CONCURRENCY keeps "
                "below its limits)"
            )
        if since is not None and asyncio.get_running_loop().time() - since > THROTTLED_SECONDS:
            self._slots.close()
            raise _Over(
                f"the server at {address} has refused every request for {THROTTLED_SECONDS / 60:.0f} minutes, for the "
                f"limits of our rate: {refusal.said.rstrip('.')}. Run the same command again later: what is finished "
                "is kept"
            )

    async def _pause(self, mine: object, wait: float) -> None:
        """Before the next try: so many seconds, or until a server that was away has answered another request."""
        self._again[mine] = replace(self._again[mine], due=time.monotonic() + wait)
        if self._away is None:
            return await asyncio.sleep(wait)
        await asyncio.sleep(min(wait, LEAST_WAIT))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._back.wait(), max(0.0, wait - LEAST_WAIT))

    def _reached(self) -> None:
        """The server has answered, whatever it said."""
        self._away = None
        self._back.set()

    def _no_more(self) -> None:
        """Send nothing more; what is in flight is paid for, and waited for."""
        if not self._slots.is_closed and (others := self._slots.held - 1):
            self._say(
                f"note: the server at {self.server.base_url} has no quota or credit left for us. The run ends when the "
                f"{others} in flight {'is' if others == 1 else 'are'} finished; Ctrl-C ends it now"
            )
        self._slots.close()

    def _unusable(
        self,
        mine: object,
        words: str,
        sent: float,
        attempt: int,
        left: float | None = None,
        tries: int | None = None,
        is_away: bool = False,
    ) -> None:
        """A try came to nothing; others follow, for `left` seconds. Where they wait on purpose, a few failures may
        happen to any request; where a server was waited for in vain, it is said at once."""
        self._again[mine] = _Again(words := one_line(words, 200), time.monotonic())
        tries = tries or (attempt + 1 if left is None else FEW)
        self._retry.unusable(words, sent, tries, _waits_from(attempt) if left is None else left, is_away)

    async def _check(self) -> None:
        """Whether the server is still the one that the run began with: after a lost connection, another may have been
        started in its place. Raises UserError where it serves another model, and Lost where it does not answer."""
        async with self._checking:
            if not self._doubted:
                return  # another request has looked
            served = await self._wire.models()
            self._away = None  # it answers, though a reply may take minutes
            if served and self.server.is_listed and self.server.model not in served:
                raise UserError(
                    f"the server at {self.server.base_url} serves {one_line(', '.join(served), 200)} now, and this "
                    f"run began with {self.server.model}. Start that again and run the same command: what is finished "
                    "is kept"
                )
            ours = self.server
            try:
                now = await asyncio.to_thread(ours.look, ours)
            except UserError as error:  # a gateway whose servers are being started again, say
                raise Lost(str(error)) from None
            if now is None:
                raise Lost("it lists its models and falls silent")
            if now.kind != ours.kind or any(ours.weights.get(name) != value for name, value in now.weights.items()):
                raise UserError(
                    f"the server at {ours.base_url} is {now.origin} now, and this run began with {ours.origin}. Start "
                    "that again and run the same command, or run it again with this one: what is finished is kept, and "
                    "each is given its own"
                )
            if now.version != ours.version:
                self.server = replace(ours, version=now.version)
            self._doubted = False

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
        """The same, for a server whose template is not told: what it answers to a question that takes little thought. A
        closing tag without an opening one says that thinking was open. A server that keeps thinking apart is cut off
        once more: some do so only when thinking has ended. Without any of it, text is an answer."""
        for seed in range(TRIES):
            made = await self._tried(TRY_TOKENS, seed)
            if made.thinking:
                cut = await self._tried(CUT_TOKENS, 0)
                return cut.truncated and not cut.thinking and "think>" not in cut.answer
            if "</think>" in made.answer:
                return "<think>" not in made.answer.partition("</think>")[0]
            if not made.truncated or "<think>" in made.answer:
                break
        return False

    async def _tried(self, tokens: int, seed: int) -> Completion:
        """The answer to a trial question as it came, tags included. It is journaled, so that a run that goes on reads
        as it did before; where there is none (it is asked for with less patience than others), it is empty."""
        messages: list[Message] = [{"role": "user", "content": MARK}]
        sampling = Sampling(max_tokens=min(tokens, self.server.context // 2 if self.server.context else tokens))
        as_it_came = ["as it came"] if self.server.told else [{}, "as it came"]
        key = self.key(messages, seed, sampling, *as_it_came)
        if found := self._kept(key):
            return found
        for attempt in range(TRIES):
            try:
                # Others may wait for what this finds out: it waits for nobody's money.
                with self._hold(may_wait=False) as hold:
                    body = self._body(messages, seed, sampling)
                    most = self._most(hold, messages, sampling.max_tokens)
                    reply = await self._send(body, self.stall, _Payment(hold, most))
            except Failure:
                await asyncio.sleep(_backoff(attempt))
                continue
            made = Completion(
                key,
                seed,
                reply.reasoning,
                reply.content,
                finish_reason=reply.finish_reason,
                prompt_tokens=reply.prompt_tokens,
                completion_tokens=reply.completion_tokens,
                origin=self.server.origin,
                model=reply.model,
            )
            self.journal.put(key, to_record(made), messages)
            return made
        return Completion(key, seed)

    async def _force(
        self, cut: Completion, messages: Sequence[Message], sampling: Sampling, pay: _Payment
    ) -> Completion:
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
            reply = await self._patiently(body, pay)
        except (Refused, Overtime, Oversized, Stalled, Malformed) as error:
            # The unforced reading stands; "truncated" is its doubt.
            return replace(cut, not_forced=one_line(f"{type(error).__name__.lower()} {error}".strip(), REASON))
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
        if why := await self._cannot_go_on():
            return noted(before, why, is_final=why in (self.server.cannot_continue, NEW_TURN))
        thinking = opened(before.thinking, sampling.wait_word)
        body = self._body(messages, before.seed, replace(sampling, max_tokens=left))
        goes_on = self.server.dialect.left_open  # it asks for the server's template
        body |= await asyncio.to_thread(goes_on, self.server, messages, thinking)
        try:
            forced = self._forced_most(hold, messages, sampling)
            paying = _Payment(hold, self._most(hold, messages, left, thinking), forced if sampling.answer_tokens else 0)
            reply = await self._patiently(body, paying)
        except (Refused, Overtime, Oversized, Stalled, Malformed) as error:
            why = one_line(f"{type(error).__name__.lower()} {error}".strip(), REASON)
            return noted(before, why, is_final=isinstance(error, Refused) and error.status in REFUSED)
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
            completion = await self._force(completion, messages, sampling, _Payment(hold, forced))
        return replace(completion, seconds=round(before.seconds + time.monotonic() - began, 3)), True

    async def _cannot_go_on(self) -> str:
        """Return why the server can't continue a message that was begun, "" if it can. Of known engines that is known.
        An unknown one shows it once, with an answer that is opened for it, unless its card tells: thinking that is
        continued can't be distinguished from thinking that begins anew."""
        if (why := self.server.cannot_continue) or self.server.card.continues or self.server.dialect.continues:
            return why
        async with self._finding_out:
            if self._stays is None:
                question: list[Message] = [{"role": "user", "content": MARK}]
                probe = Sampling(max_tokens=PROBE_TOKENS, opening=FORCED_ANSWER)
                with self._hold(may_wait=False) as hold:  # those that wait for it hold what is theirs
                    made = await self._made(question, 0, probe, hold)
                self._stays = one_line(made.error, REASON) if made.error else made.not_forced or ""
        return self._stays

    def _refusal(self, error: Refused) -> str:
        """What a refused request is recorded as. Raises UserError where every other request would fare the same."""
        said = error.said
        if error.status in (401, 403):
            raise UserError(f"the server at {self.server.base_url} refuses the key. {self.server.key.remedy}")
        if error.status == 404:
            raise UserError(
                f"the server at {self.server.base_url} does not know the model {self.server.model!r}: {said}"
            )
        is_overflow = any(word in said.lower() for word in ("context", "too long", "maximum length"))
        is_its_own = is_overflow or error.is_filtered
        if error.status < 500 and error.status not in PASSING and not is_its_own and not self._retry.is_answered:
            remedy = self.server.card.remedy(error.names)
            raise UserError(f"the server at {self.server.base_url} refuses our requests: {said}{remedy}")
        kind = "context overflow" if is_overflow else "filtered" if error.is_filtered else f"status {error.status}"
        return f"{kind}: {said}"


def _pause_for(round: int, wait: float | None) -> float:
    """Seconds for which nothing is sent to a server that refuses us for the rate, and asks for a `wait`: longer where
    that was not enough."""
    return min(LONGEST_WAIT, max(wait or 0.0, _backoff(round)))


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


def _waits_from(attempt: int) -> float:
    """Seconds that a request is asked again for, from this attempt on, about."""
    return float(sum(min(LONGEST_WAIT, 0.5 * 2**each) for each in range(attempt, RETRIES)))


def _backoff(attempt: int) -> float:
    """Seconds to wait before asking again: doubling."""
    return float(min(LONGEST_WAIT, 0.5 * 2**attempt))
