r"""Find lines such as `Final: 42`, which some models write instead of a box. Such a line begins with "Final:" or
"Final answer:", in capitals or not. Markdown and quotation marks may precede these words. Lines end as in
str.splitlines, so that an unusual line end does not hide a line."""

import re
from dataclasses import dataclass

LINE_ENDS = "\n\v\f\r\x1c-\x1e\x85\u2028\u2029"  # for a character class

_LINE = re.compile(
    rf"(?:\A|(?<=[{LINE_ENDS}]))(?P<before>[ \t\u00a0>#*_`\"'“‘]*+)(?ai:final(?:[ \t]++answer)?+)"
    rf"(?P<behind>[ \t*_`\"'”’]*+)[:：](?P<value>[^{LINE_ENDS}]*+)"
)
# Markdown around the value: **Final:** 42, **Final: 42**, "Final: 42", Final: `42`.
_MARKS = re.compile(r"\A[\s*_`]+|(?<![*_`\"”^])[*_`\"”]++\.?\Z")

# Placeholders instead of an answer: "...", "<answer>", "[your answer]", "ANSWER", "the final value here".
_DRESS = " \t\u00a0.,;:!?…*_`\"'$~|#-–—"
_BRACKETS = {"<>", "[]", "{}", "()"}
_SLOT = re.compile(
    r"(?:(?:the|your|my|an?|final|correct|numeric(?:al)?|integer|exact|short|single|actual|computed|insert|put|write|give"
    r"|state|enter|fill in)[ _-])*+(?:answer|result|value|number|solution)(?:[ _-](?:goes[ _-])?here)?"
    r"|(?:goes )?here|fill in|placeholder|blank|todo|tbd|\\[lc]?dots",
    re.IGNORECASE,
)
_WORDS = re.compile(r"[A-Za-z]{2,}(?:[ _-][A-Za-z]+)*")


@dataclass(frozen=True)
class FinalLine:
    """A `Final:` line. `start` and `end` are positions in the text. `value` follows the colon, without Markdown."""

    start: int
    end: int
    value: str


def final_lines(text: str) -> list[FinalLine]:
    """Find the `Final:` lines of `text` ("Final answer:" counts too), in order and in linear time."""
    return [FinalLine(*line.span(), _MARKS.sub("", line["value"].strip()).strip()) for line in _LINE.finditer(text)]


def says_nothing(value: str) -> bool:
    """Return whether `value` is empty or a placeholder."""
    inner = value.strip(_DRESS)
    if inner[:1] + inner[-1:] in _BRACKETS:
        is_slot = inner[0] == "<" and _WORDS.fullmatch(inner[1:-1].strip(_DRESS))
        inner = "" if is_slot else inner[1:-1].strip(_DRESS)
    return not inner.strip("<>=") or _SLOT.fullmatch(inner) is not None
