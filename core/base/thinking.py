"""Split a reply into thinking and answer, whichever tags its model writes around thinking.

`FORMS` has one row for each form. A tag in quotation marks or backticks is only mentioned, and
splits nothing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from core.base.turns import next_turn

# Names of thinking in tags, with a maker's prefix or without: think, seed:think, mm:think,
# thinking, begin_of_thought.
_NAME = (
    r"(?:[a-z]+[:_])?(?:(?:deep|re)?think(?:ing)?|thoughts?|reason(?:ing)?|reflection|scratch_?pad"
    r"|(?:inner_|internal_)?monologue|internal|chain_of_thought|cot|analysis|rationale"
    r"|working(?:_out)?|step_by_step|plan(?:ning)?|deliberation|brainstorm(?:ing)?"
    r"|draft)(?:[:_][a-z]+)?"
)
_OF_THOUGHT = r"[_▁]of[_▁](?:thoughts?|think(?:ing)?|reason(?:ing)?)[|｜]?>"
_CHANNEL = r"(?:<\|end\|>\s*)?(?:<\|start\|>assistant)?<\|channel\|>"
TAGS = ("<think>", "</think>")  # the usual tags


@dataclass(frozen=True)
class Form:
    """A form of thinking. `opening` and `closing` are patterns of the tags around the thinking.
    `around` is a pattern of tags around the answer. `written` has both tags for a request that
    closes thinking, if it is not <think>. Words instead of tags (`is_words`) close thinking only if
    the reply begins with their opening."""

    example: str
    opening: str
    closing: str
    around: str = ""
    written: tuple[str, str] | None = None
    is_words: bool = False


FORMS = (
    Form("<think>…</think>", r"<think>", r"</think>"),  # QED-Nano, Qwen3, DeepSeek-R1, Phi-4, Olmo
    # EXAONE Deep, Seed-OSS, MiniMax, prompts
    Form("<thinking>…</thinking>", rf"<{_NAME}>", rf"</{_NAME}>"),
    # Magistral
    Form("[THINK]…[/THINK]", rf"\[{_NAME}\]", rf"\[/{_NAME}\]", written=("[THINK]", "[/THINK]")),
    # Kimi
    Form("◁think▷…◁/think▷", rf"◁{_NAME}▷", rf"◁/{_NAME}▷", written=("◁think▷", "◁/think▷")),
    Form(  # Sky-T1, Bespoke-Stratos, OpenThinker
        "<|begin_of_thought|>…<|end_of_thought|>",
        rf"<[|｜]?(?:begin|start){_OF_THOUGHT}",
        rf"<[|｜]?end{_OF_THOUGHT}",
        around=r"<\|?(?:begin|start|end)_of_solution\|?>",
        written=("<|begin_of_thought|>", "<|end_of_thought|>"),
    ),
    Form(  # Cohere's Command A
        "<|START_THINKING|>…<|END_THINKING|>",
        r"<\|START_THINKING\|>",
        r"<\|END_THINKING\|>",
        around=r"<\|(?:START|END)_(?:RESPONSE|TEXT)\|>",
        written=("<|START_THINKING|>", "<|END_THINKING|>"),
    ),
    Form(  # gpt-oss
        "<|channel|>analysis<|message|>…<|channel|>final<|message|>",
        rf"{_CHANNEL}(?:analysis|commentary)[^<]{{0,80}}<\|message\|>",
        rf"{_CHANNEL}final[^<]{{0,80}}(?:<\|constrain\|>\w+)?<\|message\|>",
        around=r"<\|(?:return|end)\|>\s*\Z",
    ),
    # gpt-oss, if the server drops its special tokens
    Form(
        "analysisWe add…assistantfinal42",
        r"\A\s*analysis(?=[a-z])",
        r"assistantfinal",
        is_words=True,
    ),
    Form(  # Gemma
        "<|channel>thought…<channel|>",
        r"<\|channel>thought",
        r"<channel\|>",
        written=("<|channel>thought", "<channel|>"),
    ),
    Form(  # MedGemma
        "<unused94>thought…<unused95>",
        r"<unused94>(?:thought)?",
        r"<unused95>",
        written=("<unused94>thought", "<unused95>"),
    ),
    Form(  # Unsloth's prompts
        "<start_working_out>…<end_working_out>",
        r"<start_working_out>",
        r"<end_working_out>",
        written=("<start_working_out>", "<end_working_out>"),
    ),
    Form("<|think|>…<|/think|>", rf"<\|{_NAME}\|>", rf"<\|/{_NAME}\|>"),
    Form(  # Apriel
        "Here are my reasoning steps:…[BEGIN FINAL RESPONSE]",
        r"\A\s*Here are my reasoning steps:",
        r"\[BEGIN FINAL RESPONSE\]",
        around=r"\[END FINAL RESPONSE\]|<\|end\|>\s*\Z",
    ),
    Form(  # Granite
        "Here is my thought process:…Here is my response:",
        r"\A\s*Here(?: is|['’]s) my thought process:",
        r"Here(?: is|['’]s) my response:",
        is_words=True,
    ),
)
_OPENINGS = "|".join(form.opening for form in FORMS)
_CLOSINGS = "|".join(form.closing for form in FORMS if not form.is_words)
_BEGIN = r"(?=[<\[◁]|\A)"  # each form begins so. Checked first, this makes a search faster
_FIRST = re.compile(r"[<\[◁]")
_OPENING = re.compile(f"{_BEGIN}(?:{_OPENINGS})", re.IGNORECASE)
_CLOSING = re.compile(f"{_BEGIN}(?:{_CLOSINGS})", re.IGNORECASE)
TAG = re.compile(f"{_BEGIN}(?:{_OPENINGS}|{_CLOSINGS})", re.IGNORECASE)
_OF_ALL_FORMS = (TAG, _OPENING, _CLOSING)
_AROUND = re.compile("|".join(form.around for form in FORMS if form.around))
_QUOTES = "`\"'“”‘’"
_BLANK = re.compile(r"\s*")


def split_thinking(
    content: str, reasoning: str | None, cut_while_thinking: bool = False
) -> tuple[str, str]:
    """Return the thinking and the answer of a message, in linear time.

    `reasoning` is the server's reasoning field. A server that does not separate thinking leaves the
    tags in `content`. Other servers may leak the end of the thinking into `content`. If
    `cut_while_thinking` and there is no reasoning, content without tags is thinking: the chat
    template opened the tag, and the token cap stopped the model.

    The last closing tag before a text ends the thinking. Thinking that begins later is no part of
    the answer. If the model begins another turn after its answer, and thinks again (`_next_turn`),
    the answer contains both turns' answers, and the mark between them."""
    turn = _next_turn(content)
    if turn is None:
        return _split(content, reasoning, cut_while_thinking)
    thinking, answer = _split(content[: turn.start()], reasoning)
    more, later = _split(content[turn.end() :], None)
    return f"{thinking}\n\n{more}".strip(), f"{answer}\n\n{turn[0].strip()}\n\n{later}".strip()


def _split(
    content: str, reasoning: str | None, cut_while_thinking: bool = False
) -> tuple[str, str]:
    """Split one turn, as `split_thinking` describes."""
    thinking = reasoning or ""
    start, end, stop = _ended(content)
    head = content[:start]
    answer = content[end:stop]
    opened = next(_real(_OPENING, head), None)
    if opened and not answer.strip():  # the answer precedes the thinking
        answer = head[: opened.start()]
        head = head[opened.start() :]
        opened = next(_real(_OPENING, head), None)
    if opened:
        head = head[: opened.start()] + head[opened.end() :]
    if head.strip() != thinking.strip():  # some servers send the thinking in both fields
        thinking += head
    reopened = _reopened(answer)
    if reopened and not (end or thinking) and answer[: reopened.start()].strip():
        reopened = None  # a quotation, because no thinking has begun: graders quote proofs
    if reopened:
        thinking += answer[reopened.end() :]
        answer = answer[: reopened.start()]
    elif not end and cut_while_thinking and not reasoning:
        return content.strip(), ""
    is_split = bool(end or reopened)
    if is_split:
        answer = _AROUND.sub("", answer)
    return thinking.strip(), answer.strip()


def has_tag(text: str) -> bool:
    """Return whether `text` has a tag of thinking that is not only mentioned."""
    return next(_real(TAG, text), None) is not None


def is_closed(text: str) -> bool:
    """Return whether `text` has a closing tag that is not only mentioned."""
    return next(_real(_CLOSING, text), None) is not None


def is_open(prompt: str) -> bool:
    """Return whether the end of a `prompt` is inside thinking."""
    openings = [tag.start() for tag in _OPENING.finditer(prompt)]
    closings = [tag.start() for tag in _CLOSING.finditer(prompt)]
    return max(openings, default=-1) > max(closings, default=-1)


def written_tags(content: str) -> tuple[str, str]:
    """Return the tags by which a request closes the thinking of a reply with this `content`."""
    first = next(_real(_OPENING, content), None)
    if first is None:
        return TAGS
    if re.fullmatch(f"<{_NAME}>", first[0], re.IGNORECASE):
        return first[0], f"</{first[0][1:]}"
    for form in FORMS:
        is_opened = re.compile(form.opening, re.IGNORECASE).match(content, first.start())
        if form.written and is_opened:
            return form.written
    return TAGS


def _real(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the tags of a `pattern` in `text` that are not in quotation marks or backticks."""
    tags = pattern.finditer(text)
    if pattern in _OF_ALL_FORMS and not _FIRST.search(text):
        # most replies have no tag, and then only words at the beginning matter
        beginning = pattern.match(text)
        tags = iter([beginning] if beginning else [])
    for tag in tags:
        before = text[tag.start() - 1 : tag.start()]
        after = text[tag.end() : tag.end() + 1]
        is_mentioned = before and after and before in _QUOTES and after in _QUOTES
        if not is_mentioned:
            yield tag


def _next_turn(content: str) -> re.Match[str] | None:
    """Return the mark of another turn that follows an answer and precedes a tag of thinking, or
    None.

    The answer follows the beginning or a closing tag. If the mark is a word, or if the answer
    follows the beginning, the tag must be an opening tag. Otherwise the mark is in the thinking."""
    start = 0
    is_thinking = False
    for tag in _real(TAG, content):
        is_opening = _OPENING.match(content, tag.start()) is not None
        mark = None if is_thinking else next_turn(content, start, tag.start())
        if mark and (is_opening or (mark["token"] and start)):
            return mark
        is_thinking = is_opening
        start = tag.end()
    return None


def _ended(content: str) -> tuple[int, int, int]:
    """Return the span of the closing tag that ends the thinking, and the end of the answer.

    The tag is the last closing tag before a text, or else the first closing tag. Without tags, the
    span is empty."""
    start = end = 0
    stop = len(content)
    for tag in reversed([*_real(_closing_of(content), content)]):
        stop = start or stop
        start, end = tag.span()
        if not _BLANK.fullmatch(content, end, stop):
            break
    return start, end, stop


def _closing_of(content: str) -> re.Pattern[str]:
    """Return the pattern of the tags that may close the thinking of `content`."""
    for form in FORMS:
        if form.is_words and re.match(form.opening, content, re.IGNORECASE):
            return re.compile(form.closing, re.IGNORECASE)
    return _CLOSING


def _reopened(text: str) -> re.Match[str] | None:
    """Return the first opening tag at the beginning of a line of `text`, or None."""
    for tag in _real(_OPENING, text):
        line = text.rfind("\n", 0, tag.start()) + 1
        if _BLANK.fullmatch(text, line, tag.start()):
            return tag
    return None
