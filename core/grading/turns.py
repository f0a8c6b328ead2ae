"""Find the places at which a reply continues with another problem or another turn.

Models without a stop token do this after their answer. So the answer is in the first part that has
one. A reply may also restate its problem, or have sections such as "Solution:", before its
answer."""

import re
from dataclasses import dataclass

from core.grading.final import LINE_ENDS

# Tokens that end a turn or begin one, as servers show them that do not stop there.
_TOKENS = (
    r"<[|｜][\w ▁]+[|｜]>",  # <|im_end|>, <|endoftext|>, <|eot_id|>, <|user|>, <｜end▁of▁sentence｜>
    r"</?s>|\[/?s\]",  # Llama 2, Mistral
    r"<(?:eos|bos|pad|(?:start|end)_of_turn|end_of_utterance|turn\|)>|<\|turn>",  # Gemma
    r"\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS)\]",  # Llama 2, Mistral
    r"\[\|(?:user|assistant|system|endofturn)\|\]",  # EXAONE
    r"<extra_id_\d+>|<reserved_\d+>",  # Nemotron, Baichuan
)
_LINE = rf"(?<=[{LINE_ENDS}])[ \t>#*_-]*"
_NUMBER = r"(?:[ \t]?(?:no\.|number|#)?[ \t]?\d{1,4})?"
_MARKS = r"[ \t*_]*"
# Words at the beginning of a line that begin another problem or turn.
_HEADINGS = (
    # Problem:  **Question 2:**  Q:  ### Instruction:  Next problem.  Exercise 3.
    r"(?:(?:next|new|another|similar|follow-up|additional|practice|related)[ \t])?"
    rf"(?:question|problem|example|exercise|q|task|prompt|instruction|input){_NUMBER}{_MARKS}[:：]",
    r"(?:(?:next|new|another)[ \t](?:question|problem)|(?:question|problem|exercise)[ \t]\d{1,4})\.",
    r"(?:user|human|student|teacher|customer|assistant|system|bot|ai)[*_]*[:：]",  # User:  **Human**:
    r"(?:问题|题目|例题|习题|用户|问)[ \t]*\d*[*_]*[:：]",
    r"now[ \t](?:try|solve|let['’]s (?:try|solve) (?:another|a new|the next))\b",
)
# A heading of Markdown that has only these words: ## Problem 2
_TITLES = (
    rf"(?:(?<=#)[ \t]*|(?<=\*\*))(?:(?:next|new|another)[ \t])?(?:question|problem|exercise"
    rf"|instruction|user|human)"
    rf"{_NUMBER}{_MARKS}(?=[{LINE_ENDS}])",
    rf"[\[<](?:question|problem|exercise|instruction|user|human|task){_NUMBER}[\]>]",  # [Question]  <problem>
)
_NEXT = re.compile(rf"(?i)(?P<token>(?:(?:{'|'.join(_TOKENS)})\s*)+)|{_LINE}(?:{'|'.join((*_HEADINGS, *_TITLES))})")

_BLANK = re.compile(r"\s*(?:(?:user|assistant|system|model)\s*)?")  # the name of a turn is no text


@dataclass(frozen=True)
class Part:
    """A part of a reply. `is_after_token` means that a token such as <|im_end|> precedes it, and no
    mere words."""

    text: str
    is_after_token: bool


def parts_of(text: str) -> list[Part]:
    """Return the parts of a reply that are not blank, in order and in linear time."""
    parts = list[Part]()
    start, is_after_token = 0, False
    for mark in _NEXT.finditer(text):
        if not _BLANK.fullmatch(text, start, mark.start()):
            parts.append(Part(text[start : mark.start()], is_after_token))
            is_after_token = False
        start, is_after_token = mark.end(), is_after_token or bool(mark["token"])
    if not _BLANK.fullmatch(text, start):
        parts.append(Part(text[start:], is_after_token))
    return parts
