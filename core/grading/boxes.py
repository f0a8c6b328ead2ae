r"""Find the \boxed{} and \fbox{} of a text, and lists of boxes that commas, "and" or "or" join."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from core.grading.final import is_echo

MAX_MEMBERS = 20  # most boxes that make a list
MAX_GAP = 60  # most characters between two boxes of a list

BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
# Braces, and tokens that open or escape a brace. A number without braces (\boxed 42) must be the
# whole answer, because TeX would box only the first digit of \boxed 1/2 and \boxed 2\pi.
_BRACES = re.compile(
    r"""\\(?:boxed|fbox)(?:\s*+(?P<open>\{) | \s*+(?P<bare>[-+−]?[0-9]++)
            (?=[ \t]*+(?:\s|\Z|[$`)\]]|\*\*|\\[)\]]|[.,;:](?![0-9])|[A-Za-z]{2})))
      | \\\\(?!boxed|fbox) | \\[{}]     # a line break, an escaped brace
      | (?P<left>\{+) | (?P<right>\}+)""",
    re.VERBOSE,
)
# The text between two boxes of a list, without delimiters: a comma, "and" or "or", and a name such
# as "x =".
_DELIMITERS = re.compile(r"\$|\\[()\[\],;:! ]|\\q?quad|\\text\w* ?\{|[{}*]|\s+")
_COMMA_OR_WORD = r"(?:[,;、]|(?:[,;] *)?(?:and|or|&)(?: also)?)"
_NAME_BEFORE = r"(?: *\\?[A-Za-z](?:_ *\w+)?'? *=)?"
_JOINS = re.compile(_COMMA_OR_WORD + _NAME_BEFORE)


@dataclass(frozen=True)
class Box:
    """The positions of a box: its command, and the start and end of its content."""

    command: int
    start: int
    end: int


def box_spans(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Return the span of each outermost complete box's content, and whether a later box is not
    closed."""
    depth = 0
    opened: list[tuple[int, int]] = []  # start of the content, depth outside
    complete: list[tuple[int, int]] = []
    for token in _BRACES.finditer(text):
        kind = token.lastgroup
        if kind == "open":
            opened.append((token.end(), depth))
            depth += 1
        elif kind == "bare":
            complete.append(token.span("bare"))
        elif kind == "left":
            depth += len(token[0])
        elif kind == "right":
            depth_after = max(0, depth - len(token[0]))
            while opened and opened[-1][1] >= depth_after:
                start, outside = opened.pop()
                end = token.start() + depth - outside - 1
                while complete and complete[-1][0] > start:  # boxes in this box
                    complete.pop()
                complete.append((start, end))
            depth = depth_after
    if not opened or not complete:
        return complete, bool(opened)
    last_start, _ = opened[-1]
    _, last_end = complete[-1]
    return complete, last_start > last_end


def box_contents(text: str) -> tuple[list[str], bool]:
    """Return the content of each outermost complete box, and whether a later box is not closed."""
    spans, is_unclosed = box_spans(text)
    return [text[start:end] for start, end in spans], is_unclosed


def answering_boxes(text: str) -> tuple[list[Box], bool]:
    """Return the boxes of `text` without those that only repeat the instruction, and whether a
    later box is not closed."""
    spans, is_unclosed = box_spans(text)
    boxes = []
    for start, end in spans:
        command = text.rindex("\\", 0, start)
        if not is_echo(text, command, text[start:end]):
            boxes.append(Box(command, start, end))
    return boxes, is_unclosed


def has_box(text: str) -> bool:
    """Return whether `text` has a box, complete or not, that does not only repeat the
    instruction."""
    boxes, is_unclosed = answering_boxes(text)
    return is_unclosed or bool(boxes)


def joined_boxes(text: str, boxes: Sequence[Box]) -> Sequence[Box]:
    """Return the boxes at the end of `boxes` that commas, "and" or "or" join."""
    first = len(boxes) - 1
    while first > 0 and len(boxes) - first < MAX_MEMBERS:
        box_before = boxes[first - 1]
        gap = text[box_before.end : boxes[first].command]
        if len(gap) > MAX_GAP:
            break
        between = _DELIMITERS.sub(" ", gap).strip()
        if not _JOINS.fullmatch(between):
            break
        first -= 1
    return boxes[max(0, first) :]


def is_point(text: str, first: Box, last: Box) -> bool:
    """Return whether parentheses enclose the boxes from `first` to `last`, and no formula's
    delimiters."""
    start = max(0, first.command - 3)
    before = text[start : first.command].rstrip(" $")
    behind = text[last.end : last.end + 4].lstrip("} $")
    if before.endswith(r"\("):
        return False
    return before.endswith("(") and behind.startswith(")")
