"""The format guard: check the form of a solution before a model may learn from it
(docs/star.md#traces). The checked text is the reply without its thinking. This text is
untrusted."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from core.constants import AUTO, BOXED, TEXT
from core.grading.boxed import stated
from core.grading.boxes import BOX, box_spans
from core.grading.final import FinalLine, final_lines, says_nothing
from core.grading.kinds.math import Math

# Reasons to drop a solution, with explanations. The first reason that applies is reported.
REASONS = {
    "empty": "the solution contains only white space",
    "control characters": (
        "the text has invisible characters, unusual line ends, or codes for terminals or direction"
    ),
    "no final line": (
        "no line begins with Final: and, with FEWSHOT=none, no box is complete (ANSWER=text or "
        "number: and the last line states no answer. Tasks: no answer is between <answer> and "
        "</answer>)"
    ),
    "text after it": "more text follows the answer, or its box spans several lines",
    "several finals": (
        "several Final: lines or boxes state an answer (equal answers and incomplete boxes count "
        "too)"
    ),
    "placeholder": "the last line has no answer, or only a placeholder such as <answer>",
    "unreadable": "the answer in the last line is too long, nested too deeply or damaged",
    "too few steps": "fewer than MIN_STEPS lines precede the last line",
    "too many steps": "more than MAX_STEPS lines precede the last line",
}

# "\n" or "\r\n" ends a line here. Some programs (str.splitlines, terminals, JavaScript, TeX) also
# end a line at "\r", form feeds, U+2028 and others. Programs could see different lines, so a text
# with such characters is dropped. So is a text with invisible or misleading characters: escapes,
# direction marks, zero-width spaces, lone surrogates.
_STEERING = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e"
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]|\r(?!\n)"
)
# the beginning of a Final: line, with Markdown
_FINAL = re.compile(r"[\W_]*?final[\W_]*?[:：]", re.IGNORECASE)
# a line of only these characters counts as empty, like a line of \[ or \]
_MARKS = " \t\u00a0$`*_#>-"
_DISPLAY = {"", r"\[", r"\]"}
# Only this may follow the content of the last box: its closing brace, white space and closing
# marks.
_CLOSING = re.compile(r"\}?(?:[\s.$*_]|\\[\])])*")


@dataclass(frozen=True)
class Checked:
    """The `reason` to drop a solution (a key of REASONS, or "" to keep it), and its number of
    `steps`."""

    reason: str
    steps: int
    lines: tuple[str, ...] = field(default=(), compare=False)  # the steps


def check_places(text: str, least: int, most: int, places: Sequence[tuple[int, int]]) -> Checked:
    """Check a text as `check` does, but with an answer between tags. `places` has the start and end
    of each answer with its tags."""
    start, end = places[-1] if places else (len(text), len(text))
    steps = _steps(text[: text.rfind("\n", 0, start) + 1] if places else text)
    reason = _text_reason(text)
    if not reason and not places:
        reason = "no final line"
    elif not reason and text[end:].strip(_MARKS + "\n."):
        reason = "text after it"
    elif not reason and len(places) > 1:
        reason = "several finals"
    return _counted(reason, steps, least, most)


def check(text: str, least: int, most: int, takes_box: bool = True, way: str = BOXED) -> Checked:
    """Check for `least` to `most` non-empty lines, then the answer in a `Final:` line. If
    `takes_box`, a box or a line "Final answer:" also counts. If there is none of them, the last
    line may then state the answer in the `way` of the constant ANSWER. Never raises. The time is
    linear in the length of `text`."""
    lines = final_lines(text)
    boxes = box_spans(text)[0]
    is_spoken = takes_box and way != BOXED and not lines and not boxes
    starts = []
    if lines:
        starts.append(lines[-1].start)
    if boxes and takes_box:
        starts.append(text.rfind("\n", 0, boxes[-1][0]) + 1)
    if is_spoken:
        starts.append(text.rstrip().rfind("\n") + 1)
    start = max(starts, default=len(text))  # where the line with the answer begins
    steps = _steps(text[:start])
    reason = _text_reason(text)
    if not reason and is_spoken:
        reason = _unspoken(text, start, way)
    elif not reason:
        reason = _reason(text, start, lines, boxes, takes_box)
    return _counted(reason, steps, least, most)


def _steps(text: str) -> tuple[str, ...]:
    """Return the lines that are not empty."""
    lines = text.split("\n")
    return tuple(line for line in lines if line.strip().strip(_MARKS) not in _DISPLAY)


def _counted(reason: str, steps: tuple[str, ...], least: int, most: int) -> Checked:
    """Return the first reason: the given one, or else the number of steps."""
    if not reason and len(steps) < least:
        reason = "too few steps"
    elif not reason and len(steps) > most:
        reason = "too many steps"
    return Checked(reason, len(steps), steps)


def _text_reason(text: str) -> str:
    """Return the reason to drop a text without reading its answer, or ""."""
    if not text.strip():
        return "empty"
    return "control characters" if _STEERING.search(text) else ""


def required(text: str) -> list[FinalLine]:
    """Find the lines that begin with `Final:`, apart from Markdown. "Final answer:" is another
    beginning."""
    return [line for line in final_lines(text) if _FINAL.match(text, line.start)]


def _unspoken(text: str, start: int, way: str) -> str:
    """Return the reason to drop `text`, which has no box, or "". Its last line must state the
    answer."""
    way = TEXT if way == AUTO else way
    if _states(text[start:], way):
        states_another = way == TEXT and _states(text[:start], way)
        return "several finals" if states_another else ""
    states_earlier = way == TEXT and _states(text, way)
    return "text after it" if states_earlier else "no final line"


def _states(text: str, way: str) -> bool:
    """Return whether `text` states an answer."""
    return Math().read(text, way).answer is not None


def _reason(
    text: str, start: int, lines: list[FinalLine], boxes: list[tuple[int, int]], takes_box: bool
) -> str:
    """Return the reason to drop `text`, or "", without counting steps. The line with the answer
    begins at `start`."""
    if not takes_box and not required(text):
        return "no final line"
    within = [box for box in boxes if box[0] > start]
    if lines and not text[lines[-1].end :].strip():
        others = lines[:-1]
    elif takes_box and boxes and _is_last(text, *boxes[-1]):
        # an empty Final: line above the box is a heading
        others = [line for line in lines if line.value]
    else:
        return "text after it" if lines or (takes_box and boxes) else "no final line"
    if others or len(within) > 1 or BOX.search(text, 0, start):
        return "several finals"
    answers = stated(text[start:], Math()) or [""]
    if answers[-1] is None:
        return "unreadable"
    return "placeholder" if says_nothing(answers[-1]) else ""


def _is_last(text: str, start: int, end: int) -> bool:
    """Return whether the box with the content `text[start:end]` is on one line, and only _CLOSING
    follows."""
    closing = _CLOSING.match(text, end)
    return "\n" not in text[start:end] and closing is not None and closing.end() == len(text)
