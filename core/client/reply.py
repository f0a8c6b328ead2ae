"""Parse a server's response into a Reply, or raise a Failure if the response is an error or
unusable."""

import re
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from core.base.files import storable
from core.base.prices import Counted
from core.client.failures import Malformed, parsed_json, refusal
from core.client.logprobs import Ends, Listed
from core.engines import queries
from core.types import BROKEN, CUT, TOOL_CALL, UNSURE, Message, end_of

_CALLS = ("tool_calls", "function_call")  # fields of a message that calls a tool
_DEEPEST = 5  # nested levels of a message's parts that are searched
# Tokens that a prompt has at least: for each word, and for each character of a script that joins
# words without spaces or has short words. These are Chinese, Japanese and Korean, and Thai, Lao,
# Burmese and Khmer.
A_WORD = 0.8
A_CHARACTER = 1 / 3
A_LETTER = 1 / 5
_CHARACTERS = (
    r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
_LETTERS = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
# no letters for \w, but parts of a word
_MARKS = r"\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff"
_WORD = re.compile(rf"(?:[^\W\d_{_CHARACTERS}{_LETTERS}]|[{_MARKS}])+|\d+")
_ASCII_WORD = re.compile(r"[A-Za-z]+|\d+")  # the words of ASCII text, found six times faster
_CHARACTER = re.compile(f"[{_CHARACTERS}]")
_LETTER = re.compile(f"[{_LETTERS}]")
LEAST_CUT = 200  # prompts that need fewer tokens are not checked, because servers rarely cut them
# a part's type -> field of its text
_KINDS = {"thinking": "reasoning", "reasoning": "reasoning", "refusal": "refusal"}


@dataclass(frozen=True)
class Reply:
    """A server's reply. Token counts are 0 if the server does not report them. Texts contain no
    lone surrogates."""

    model: str
    content: str
    reasoning: str
    finish_reason: str
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    logprobs: dict[str, float]  # alternative for the first token -> natural log-probability
    # the sum of the tokens' natural log-probabilities, or None if unknown (see Listed.sum)
    logprob: float | None = None
    confidences: list[float] = field(default_factory=list)  # see core/client/logprobs.py
    scores: list[float] = field(default_factory=list)  # of a reward model

    @property
    def counted(self) -> Counted:
        """The prompt, cached and completion tokens. A 0 becomes None, except for cached tokens and
        an empty reply."""
        is_silent = bool(self.prompt_tokens) and not (self.content or self.reasoning)
        is_counted = self.completion_tokens > 0 or is_silent
        completion = self.completion_tokens if is_counted else None
        return self.prompt_tokens or None, self.cached_tokens, completion


class _Draft:
    """A reply, as far as it has arrived."""

    def __init__(self) -> None:
        self.model: Any = None
        self.usage: Any = None
        self.finish: Any = None
        self.pieces: defaultdict[str, list[str]] = defaultdict(list)
        self.listed = Listed()
        self.has_deltas = False
        self.has_messages = False
        self.calls_tool = False

    def add(self, completion: dict[str, Any], is_chunk: bool) -> None:
        """Add a whole chat completion or a chunk of a stream. Raises Malformed."""
        self.model = self.model or completion.get("model")
        self.usage = completion.get("usage") or self.usage
        try:
            choices = completion.get("choices") or [{}]
            self._add_choice(choices[0], is_chunk)
        except (AttributeError, KeyError, TypeError):
            raise Malformed(f"no message in {completion!r:.120}") from None

    def _add_choice(self, choice: dict[str, Any], is_chunk: bool) -> None:
        message = self._message(choice) if is_chunk else choice["message"]
        self.finish = choice.get("finish_reason") or self.finish
        if any(message.get(field) for field in _CALLS):
            self.calls_tool = True
        self.listed.add(queries.objects(choice.get("logprobs"), "content"))
        for part in ("content", "reasoning_content", "reasoning", "refusal"):
            for name, text in _parts(part, message.get(part)):
                self.pieces[name].append(text)

    def _message(self, choice: Mapping[str, Any]) -> Any:
        """Return the part of the message in a chunk's `choice`. Some servers call it `message`
        instead of `delta`. A `message` after deltas repeats the whole message, so it is ignored."""
        if choice.get("delta"):
            self.has_deltas = True
        self.has_messages = not self.has_deltas
        name = "delta" if self.has_deltas else "message"
        return choice.get(name) or {}

    def _joined(self, pieces: Sequence[str]) -> str:
        """Return the text in the `pieces` of a field. Some servers repeat the text so far in the
        next `message`."""
        repeats = all(after.startswith(before) for before, after in pairwise(pieces))
        is_whole = self.has_messages and repeats and len(pieces[-1]) > len(pieces[0])
        return pieces[-1] if is_whole else "".join(pieces)

    def ended(self) -> Reply:
        """Return the reply so far, which we end. The server has not counted its prompt."""
        self.finish = UNSURE
        self.usage = {"completion_tokens": self.listed.count}
        return self.reply()

    def reply(self) -> Reply:
        """Return the whole reply. Raises Malformed if it is incomplete."""
        finish = _text(self.finish)
        # the beginning of a reply must not count as a whole reply
        if not finish or end_of(finish) == BROKEN:
            raise Malformed(f"the reply is incomplete (finish_reason {finish or None})")
        texts = {name: storable(self._joined(pieces)) for name, pieces in self.pieces.items()}
        content = texts.get("content", "")
        reasoning = texts.get("reasoning_content") or texts.get("reasoning", "")
        refused = texts.get("refusal", "")
        if refused:
            content = f"{content}\n\n{refused}" if content else refused
            finish = "refusal"
        elif self.calls_tool and not (content.strip() or end_of(finish)):
            finish = TOOL_CALL  # some servers report "stop"
        prompt, cached, completion = _usage(self.usage)
        return Reply(
            model=queries.line(self.model) or "",
            content=content,
            reasoning=reasoning,
            finish_reason=CUT if end_of(finish) == CUT else finish,
            prompt_tokens=prompt,
            cached_tokens=cached,
            completion_tokens=completion,
            logprobs=self.listed.first,
            logprob=self.listed.sum(completion, finish, content or reasoning),
            confidences=self.listed.confidences,
        )


async def read(parts: AsyncIterator[bytes], ends: Ends | None = None) -> Reply:
    """Read a chat completion from a stream of server-sent events or a JSON object, whatever the
    content type. After each event of a stream, `ends` returns whether the reply ends there, which
    its finish reason UNSURE tells. Raises Refused for an error. Raises Malformed if the stream was
    cut off or there is no chat completion."""
    draft = _Draft()
    other_lines: list[bytes] = []  # JSON, or a stream's comments, event names and blank lines
    is_stream = False
    is_done = False
    async for line in _lines(parts):
        if not line.startswith(b"data:"):
            other_lines.append(line)
            continue
        is_stream = True
        data = line.removeprefix(b"data:").strip()
        if data == b"[DONE]":
            is_done = True
        # some servers and proxies append lines that do not belong to the reply
        elif data and not is_done:
            draft.add(_object(data), is_chunk=True)
            if ends and not draft.finish and ends(draft.listed.confidences):
                return draft.ended()
    if not is_stream:
        draft.add(_object(b"\n".join(other_lines)), is_chunk=False)
    elif not is_done and not (draft.finish and draft.usage):
        raise Malformed("the stream ended before the reply was complete")
    return draft.reply()


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    # pieces of the unfinished line. Joining them only once keeps long lines cheap
    open_line: list[bytes] = []
    async for part in parts:
        *ended, last = part.split(b"\n")
        for piece in ended:
            yield b"".join([*open_line, piece])
            open_line = []
        open_line.append(last)
    yield b"".join(open_line)


def _object(data: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises Refused if it contains an error, and Malformed if the data is no
    JSON object."""
    value = parsed_json(data.decode("utf-8", "replace"))
    if not isinstance(value, dict):
        raise Malformed(f"no JSON object: {data[:80]!r}")
    error = value.get("error")
    if not error and value.get("object") == "error":
        error = value
    if not error:
        return value
    status = error.get("code") if isinstance(error, dict) else None
    if type(status) is not int or not 400 <= status < 600:
        status = 500
    raise refusal(status, error, {}, is_within=True)


def is_cut(reply: Reply, messages: Sequence[Message]) -> bool:
    """Return whether the server seems to have cut these `messages`: it counts fewer prompt tokens
    than their words and characters need at least, or than one per 256 characters. Prompts up to
    LEAST_CUT tokens are not checked."""
    text = " ".join(message["content"] for message in messages)
    fewest = max(_fewest_tokens(text), len(text) / 256)
    return fewest > LEAST_CUT and 0 < reply.prompt_tokens < fewest


def _fewest_tokens(text: str) -> float:
    """Return the tokens that the words and characters of `text` need at least."""
    if text.isascii():
        return A_WORD * len(_ASCII_WORD.findall(text))
    words = A_WORD * len(_WORD.findall(text))
    characters = A_CHARACTER * len(_CHARACTER.findall(text))
    letters = A_LETTER * len(_LETTER.findall(text))
    return words + characters + letters


def _parts(name: str, value: Any, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the kind and text of each part of a message's field `name`, which is a text or a list
    of typed parts."""
    if not isinstance(value, list) or depth >= _DEEPEST:
        if value:
            yield name, _string(value)
        return
    for part in value:
        if not isinstance(part, dict):
            yield from _parts(name, part, depth + 1)
            continue
        kind = _KINDS.get(str(part.get("type")), name)
        texts = [part[field] for field in ("text", *_KINDS) if field in part]
        yield from _parts(kind, texts[0] if texts else None, depth + 1)


def _usage(usage: Any) -> tuple[int, int, int]:
    """Return the prompt, cached and completion tokens, each 0 if not reported. Some servers (such
    as Google's) count thinking only in the total, which then determines the completion tokens."""
    if not isinstance(usage, dict):
        return 0, 0, 0
    prompt = _count(usage.get("prompt_tokens"))
    completion = _count(usage.get("completion_tokens"))
    total = _count(usage.get("total_tokens"))
    details = usage.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    if prompt:
        completion = max(completion, total - prompt)
    return prompt, cached, completion


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise Malformed(f"a field is not a text: {value!r:.80}")
    return value


def _text(value: Any) -> str:
    """Return a text field without lone surrogates, which requests can't contain. Raises Malformed
    for other types."""
    return "" if value is None else storable(_string(value))


def _count(value: Any) -> int:
    """Return the value if it can be a number of tokens, else 0."""
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 < value <= queries.LARGEST else 0
