"""Find the options that a statement shows, such as "A. 40" in a line of its own, and write such
lines."""

import re
from collections.abc import Iterable, Sequence

from core.grading.letters import LETTERS
from core.types import Problem

Spans = tuple[tuple[int, int], ...]  # start and end of each option in a statement

_OPTION_LINE = r"(?m)^[ \t]*(?:Option ([A-Z]) ?[:.)]|\(([A-Z])\)|([A-Z])[.):])[ \t]*"
_LINE = re.compile(_OPTION_LINE)
_WITHIN_LINE = re.compile(r"(?<=\s)\(?([A-Z])\)[ \t]*")
_PARAGRAPHS = re.compile(r"\n\s*\n")


def lines_of(texts: Sequence[str]) -> str:
    """Return a line for each option, such as "A. 40"."""
    pairs = zip(LETTERS, texts, strict=False)
    return "\n".join(f"{letter}. {text}" for letter, text in pairs)


def statement_with(problem: Problem, texts: Sequence[str]) -> str:
    """Return the statement of a problem with other `texts` at the places of its options."""
    statement = problem.statement
    lines = lines_of(problem.details["options"])
    if statement.endswith(lines):
        return statement.removesuffix(lines) + lines_of(texts)
    places = list(zip(spans_in(statement), texts, strict=True))
    for (start, end), text in reversed(places):
        statement = statement[:start] + text + statement[end:]
    return statement


def spans_in(statement: str) -> Spans:
    """Return the places of the options at the end of a statement. An option may have several
    lines."""
    spans = _spans_after(_last_list(_LINE.finditer(statement)), statement)
    if len(spans) > 1:
        return spans
    spans = _spans_after(_last_list(_WITHIN_LINE.finditer(statement)), statement)
    return spans if len(spans) > 2 and all(start < end for start, end in spans) else ()


def _spans_after(marks: Sequence[re.Match[str]], statement: str) -> Spans:
    """Return the places of the texts after `marks` such as "A)"."""
    ends = [mark.start() for mark in marks[1:]] + [len(statement)]
    spans: list[tuple[int, int]] = []
    for mark, end in zip(marks, ends, strict=False):
        text = statement[mark.end() : end]
        if end == len(statement):  # an instruction may follow the last option
            text = _without_instruction(text, [statement[a:b] for a, b in spans])
        spans.append((mark.end(), mark.end() + len(text.rstrip())))
    return tuple(spans)


def _last_list(lines: Iterable[re.Match[str]]) -> list[re.Match[str]]:
    """Return the last lines whose letters are A, B, C and so on."""
    listed: list[re.Match[str]] = []
    for line in lines:
        letter = next(filter(None, line.groups()))
        if letter == "A":
            listed = [line]
        elif listed and letter == LETTERS[len(listed) % len(LETTERS)]:
            listed.append(line)
    return listed


def _without_instruction(text: str, others: Sequence[str]) -> str:
    """Return the text of a last option without the paragraphs after it. It has as many paragraphs
    as the longest of the other options."""
    counts = [len(_PARAGRAPHS.split(other.strip())) for other in others]
    most = max(counts, default=1)
    gaps = list(_PARAGRAPHS.finditer(text))
    if len(gaps) < most:
        return text
    last_gap = gaps[most - 1]
    return text[: last_gap.start()]
