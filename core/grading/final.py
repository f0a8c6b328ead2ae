r"""Find lines such as `Final: 42`, which some models write instead of a box. Such a line begins
with "Final:" or "Final answer:", in capitals or not. Markdown and quotation marks may precede these
words. Lines end as in str.splitlines, so that an unusual line end does not hide a line.

Also recognise placeholders such as <answer>, in lines and in boxes. They repeat the instruction,
and are no answer."""

import re
from dataclasses import dataclass

from core.base.turns import LINE_ENDS

_LINE = re.compile(
    rf"(?:\A|(?<=[{LINE_ENDS}]))(?P<before>[ \t\u00a0>#*_`\"'“‘]*+)(?ai:final(?:[ \t]++answer)?+)"
    rf"(?P<behind>[ \t*_`\"'”’]*+)[:：](?P<value>[^{LINE_ENDS}]*+)"
)
# Markdown around the value: **Final:** 42, **Final: 42**, "Final: 42", Final: `42`.
_MARKS = re.compile(r"\A[\s*_`]+|(?<![*_`\"”^])[*_`\"”]++\.?\Z")

# Placeholders instead of an answer: "...", "<answer>", "[your answer]", "ANSWER", "the final value
# here".
_DRESS = " \t\u00a0.,;:!?…*_`\"'$~|#-–—"
_TEXT = re.compile(r"\\(?:text\w*|mathrm|mbox) ?\{([^{}]*)\}")
_BRACKETS = {"<>", "[]", "{}", "()"}
_SLOT = re.compile(
    r"(?:(?:the|your|my|an?|final|correct|numeric(?:al)?|integer|exact|short|single|actual"
    r"|computed|insert|put|write|give"
    r"|state|enter|fill in|simplified)[ _-])*+(?:answer|result|value|number"
    r"|solution)(?:[ _-](?:goes[ _-])?here)?"
    r"|(?:goes )?here|fill in|placeholder|blank|todo|tbd|\\[lc]?dots|\\(?:square|Box"
    r"|[hv]?phantom ?\{[^{}]*\})"
    r"|(?:你的|最终|最后|最後)?(?:的)?答案",
    re.IGNORECASE,
)
# Placeholders only if an instruction precedes their box, because they may be an answer: x, N, XXX,
# ABC.
_LETTERS = re.compile(r"[XxYyZzNn]|[XNxn]{2,4}|ABC|xyz|\\cdot")
_ASKS = re.compile(
    r"(?i)\b(?:must|should|shall|please|put|place|enclose|wrap|remember|formats?|formatted"
    r"|template|instruct\w+|asked"
    r"|needs?|required?|will (?:be|now)|of the form)\b[^.!?\n]*\Z"
)
# Words before a box that name the box itself, as in: write the answer in \\boxed{}.
_NAMES_BOX = re.compile(
    r"(?i)\b(?:in|inside|within|into|using|use|used|via|as|with|format|form|notation|template|like"
    r"|the|an?|command|of)"
    r"\b[^\w\n.!?]*\Z"
)
_NEAR = 120  # characters before a box that may hold its instruction
_WORDS = re.compile(r"[A-Za-z]{2,}(?:[ _-][A-Za-z]+)*")


@dataclass(frozen=True)
class FinalLine:
    """A `Final:` line. `start` and `end` are positions in the text. `value` follows the colon,
    without Markdown."""

    start: int
    end: int
    value: str


def final_lines(text: str) -> list[FinalLine]:
    """Find the `Final:` lines of `text` ("Final answer:" counts too), in order and in linear
    time."""
    return [
        FinalLine(*line.span(), _MARKS.sub("", line["value"].strip()).strip())
        for line in _LINE.finditer(text)
    ]


def without_lines(text: str) -> str:
    """Return `text` without its `Final:` lines."""
    return _LINE.sub("", text)


def says_nothing(value: str) -> bool:
    """Return whether `value` is empty or a placeholder. A relation sign alone is an answer."""
    inner = _TEXT.sub(r"\1", value).replace(r"\_", "_").replace("\\ ", " ").strip(_DRESS)
    if inner[:1] + inner[-1:] in _BRACKETS:
        is_slot = inner[0] == "<" and _WORDS.fullmatch(inner[1:-1].strip(_DRESS))
        inner = "" if is_slot else inner[1:-1].strip(_DRESS)
    if len(inner) == 1 and inner in "<>=":
        return False
    return not inner.strip("<>=") or _SLOT.fullmatch(inner) is not None


def is_echo(text: str, start: int, value: str) -> bool:
    r"""Return whether a box at `start` of `text` with this `value` only repeats the instruction to
    write a box.

    Such a box is empty or a placeholder, or one letter, and words such as "in" or "format" precede
    it."""
    before = text[max(0, start - _NEAR) : start]
    if says_nothing(value):
        return _NAMES_BOX.search(before) is not None
    is_letter = _LETTERS.fullmatch(value.strip(_DRESS)) is not None
    return is_letter and _NAMES_BOX.search(before) is not None and _ASKS.search(before) is not None
