"""Find the places at which a reply continues with another problem or another turn.

Models without a stop token do this after their answer. So the answer is in the first part that has
one. A reply may also restate its problem, or have sections such as "Solution:", before its
answer."""

import re
from dataclasses import dataclass

LINE_ENDS = "\n\v\f\r\x1c-\x1e\x85\u2028\u2029"  # for a character class

# Tokens that end a turn or begin one, as servers show them that do not stop there.
_TOKENS = (
    # <|im_end|>, <|endoftext|>, <|eot_id|>, <|user|>, <｜end▁of▁sentence｜>, but not <|end_of_box|>
    r"<[|｜](?!\w*(?:box|tool|reserved|special|_ref_|call|vision|image|python|file))[\w ▁]+[|｜]>",
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
    r"(?:(?:next|new|another|similar|follow-up|additional|practice|related|bonus|user)[ \t])?"
    rf"(?:question|problem|example|exercise|q|task|prompt|instruction|input){_NUMBER}{_MARKS}[:：]",
    (
        r"(?:(?:next|new|another)[ \t](?:question|problem)|(?:question|problem"
        r"|exercise)[ \t]\d{1,4})\."
    ),
    # User:  **Human**:
    r"(?:user|human|student|teacher|customer|assistant|system|bot|ai)[*_]*[:：]",
    r"(?:问题|题目|例题|习题|用户|问)[ \t]*\d*[*_]*[:：]",
    rf"(?:frage|aufgabe|problème|exercice|pregunta|problema|domanda|pergunta|вопрос"
    rf"|задача){_NUMBER}"
    r"[ \t*_]*[:：]",
    (
        r"here[ \t]is[ \t](?:another|a[ \t]new|the[ \t]next)[ \t](?:problem|question|example"
        r"|exercise)\b"
    ),
    r"q\d{1,3}[.:)]",  # Q2. What is 3+3?
    # Now solve this: …, but not: now solve for y
    r"now,?[ \t](?:let['’]s[ \t])?(?:try|solve)[ \t](?:(?:another|a[ \t](?:new|similar)"
    r"|the[ \t](?:next|following))\b"
    r"|(?:this|these)(?:[ \t](?:problem|question|one)s?)?[ \t]*[:：])",
)
# A heading of Markdown that has only these words: ## Problem 2
_TITLES = (
    rf"(?:(?<=#)[ \t]*|(?<=\*\*))(?:(?:next|new|another)[ \t])?(?:question|problem|exercise"
    rf"|instruction|user|human)"
    rf"{_NUMBER}{_MARKS}(?=[{LINE_ENDS}])",
    # [Question]  <problem>
    rf"[\[<](?:question|problem|exercise|instruction|user|human|task){_NUMBER}[\]>]",
    # **Problem 2.** Find x.  \textbf{Problem 2.}
    (
        r"(?:(?<=\*\*)|\\textbf ?\{)(?:problem|question|exercise"
        r"|example)[ \t]\d{1,4}[.:]?[ \t]*(?:\*\*|\})"
    ),
)
_NEXT = re.compile(
    rf"(?i)(?P<token>(?:(?:{'|'.join(_TOKENS)})\s*)+)|{_LINE}(?:{'|'.join((*_HEADINGS, *_TITLES))})"
)

_BLANK = re.compile(r"\s*(?:(?:user|assistant|system|model)\s*)?")  # the name of a turn is no text


@dataclass(frozen=True)
class Part:
    """A part of a reply. `is_after_token` means that a token such as <|im_end|> precedes it, and no
    mere words."""

    text: str
    is_after_token: bool


def next_turn(text: str, start: int, end: int) -> re.Match[str] | None:
    """Return the first mark of another turn between `start` and `end` that text precedes, or
    None."""
    for mark in _NEXT.finditer(text, start, end):
        if not _BLANK.fullmatch(text, start, mark.start()):
            return mark
        start = mark.end()
    return None


def parts_of(text: str) -> list[Part]:
    """Return the parts of a reply that are not blank, in order and in linear time."""
    parts = list[Part]()
    start = 0
    is_after_token = False
    for mark in _NEXT.finditer(text):
        if not _BLANK.fullmatch(text, start, mark.start()):
            parts.append(Part(text[start : mark.start()], is_after_token))
            is_after_token = False
        is_after_token = is_after_token or bool(mark["token"])
        start = mark.end()
    if not _BLANK.fullmatch(text, start):
        parts.append(Part(text[start:], is_after_token))
    return parts
