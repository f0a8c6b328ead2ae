"""The format guard: decides by a solution's form alone whether a model may learn from it (docs/star.md#traces).
Its `text` is the answer after the thinking, and untrusted."""

import re
from dataclasses import dataclass

from core.grading.boxed import BOX, box_spans, stated
from core.grading.final import FinalLine, final_lines, says_nothing

# Why a solution is dropped: the first that applies.
REASONS = {
    "empty": "it holds nothing but blanks",
    "control characters": "it holds invisible characters, or some that steer a terminal or the direction of writing",
    "no final line": "its last line neither begins with Final: nor (with FEWSHOT=none) holds a box that closes",
    "text after it": "more text follows the line that states the answer",
    "several finals": "it states an answer more than once: another Final: line, or another box, closed or not",
    "placeholder": "its last line is empty, or holds a placeholder such as <answer>",
    "unreadable": "its last line states what is too long, wrapped too deeply or too broken to be an answer",
    "too few steps": "it has fewer lines before the last one than MIN_STEPS",
    "too many steps": "it has more lines before the last one than MAX_STEPS",
}

# "\n" or "\r\n" ends a line. For some readers (str.splitlines, terminals, JavaScript, TeX) so do "\r", form feeds,
# U+2028 and others. A line could hide after those from one reader and not from another. So a text with any of them is
# dropped, or with invisible or misleading ones: escapes, marks of direction, blanks without width, half characters.
_STEERING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]|\r(?!\n)"
)
_MARKS = " \t\u00a0$`*_#>-"  # a line of nothing else, or of \[ or \], is as good as empty
_DISPLAY = {"", r"\[", r"\]"}
# The text that may follow the box
_CLOSING = re.compile(r"\}?(?:[\s.$*_]|\\[\])])*")


@dataclass(frozen=True)
class Checked:
    """The `reason` to drop a solution (a key of REASONS, or "": keep it), and its `steps` before the last answer."""

    reason: str
    steps: int


def check(text: str, least: int, most: int, takes_box: bool = True) -> Checked:
    """Check the form of `text`: `least` to `most` steps, then the answer in a `Final:` line or, if `takes_box`, in a
    box. Never raises, and takes time linear in `text`."""
    lines, boxes = final_lines(text), box_spans(text)[0]
    starts = [line.start for line in lines[-1:]]
    starts += [text.rfind("\n", 0, start) + 1 for start, _ in boxes[-1:] if takes_box]
    start = max(starts, default=len(text))  # of the line that states the answer
    steps = sum(line.strip().strip(_MARKS) not in _DISPLAY for line in text[:start].split("\n"))
    count = "too few steps" if steps < least else "too many steps" if steps > most else ""
    return Checked(_reason(text, start, lines, boxes, takes_box) or count, steps)


def _reason(text: str, start: int, lines: list[FinalLine], boxes: list[tuple[int, int]], takes_box: bool) -> str:
    """Return the reason against the form, apart from the number of steps. The last answer's line begins at `start`."""
    if not text.strip():
        return "empty"
    if _STEERING.search(text):
        return "control characters"
    within = [box for box in boxes if box[0] > start]
    if lines and not text[lines[-1].end :].strip():
        others = lines[:-1]
    elif takes_box and boxes and _is_last(text, *boxes[-1]):
        others = [line for line in lines if line.value]  # a heading above the box states nothing
    else:
        return "text after it" if lines or (takes_box and boxes) else "no final line"
    if others or len(within) > 1 or BOX.search(text, 0, start):
        return "several finals"
    answers = stated(text[start:], "math") or [""]
    if answers[-1] is None:
        return "unreadable"
    return "placeholder" if says_nothing(answers[-1]) else ""


def _is_last(text: str, start: int, end: int) -> bool:
    """Return whether the box with text[start:end] is on one line, and nothing but marks follows it."""
    closing = _CLOSING.match(text, end)
    return "\n" not in text[start:end] and closing is not None and closing.end() == len(text)
