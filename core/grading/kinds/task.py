"""The kind "task": a problem whose answer a function scores, from 0 to 1, as Reasoning Gym does.

A reply states its answer between <answer> and </answer>. `details` has the "scorer" (a task of the
package) and the "entry", which the scorer compares with the answer. It has "parameters" of the
scorer if they are not the defaults."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from core.base.errors import RowError
from core.base.settings import similar
from core.base.thinking import has_tag, split_thinking
from core.base.turns import parts_of
from core.constants import BOXED, WHOLE
from core.grading.extraction import Extraction
from core.grading.kind import Cells, Kind
from core.grading.task_process import task_score, tasks
from core.types import BOX, Problem

_OPEN = "<answer>"
_CLOSE = "</answer>"
MAX_CHARS = 100_000  # a longer text is not an answer
_TAG = re.compile(r"<(/?)answer>")  # _OPEN or _CLOSE
# between tags in a copy of the instruction to write them
_ECHO = re.compile(
    r"[`'\"]? and [`'\"]?|\s*(?:\.{3}|…)?\s*"
    r"|\s*[<\[({]?(?:(?:the|your|my|final|insert)[ _-])+answer(?:[ _-]here)?[>\])}]?\s*",
    re.IGNORECASE,
)
_FINAL = "Final Answer:"
# fields of an entry's metadata with one of several right answers
_EXAMPLES = ("possible_answer", "example_correct_answer", "example_answer")
_DETAILS = ("scorer", "entry", "parameters")
_BLANK = re.compile(r"\s+")
_BESIDE_MARKS = re.compile(r"(?<!\w) | (?!\w)")


class Task(Kind):
    name = "task"

    @classmethod
    def form(cls, way: str) -> str:
        return "put the final answer between <answer> and </answer>."

    @classmethod
    def opening(cls, text: str, way: str) -> str:
        return f"{text.removesuffix(BOX)} {_OPEN}"

    def read(self, text: str, way: str = BOXED, truncated: bool = False) -> Extraction:
        """Read the last complete pair of tags after thinking. ANSWER=whole reads as RSA's code
        does."""
        if way == WHOLE:
            extraction = _as_in_rsa(text)
        else:
            answer_text = split_thinking(text, None)[1] if has_tag(text) else text
            extraction = self._stated(answer_text)
        if len(extraction.answer or "") > MAX_CHARS:
            return Extraction(None, "unreadable")
        return replace(extraction, doubt="truncated") if truncated else extraction

    def places(self, text: str) -> list[tuple[int, int]]:
        """Return the places from <answer> to </answer>."""
        spans, _ = _spans(text)
        return [(start - len(_OPEN), end + len(_CLOSE)) for start, end in spans]

    def _stated(self, text: str) -> Extraction:
        """Read the first part of a reply that has an answer. Later parts are other problems."""
        for part in parts_of(text):
            answers, is_closed = _answers(part.text)
            if answers and part.is_after_token:
                return Extraction(answers[-1], "next turn")
            if answers:
                return Extraction(answers[-1], self._doubt(answers, is_closed))
        # an answer with a line that looks like another problem
        answers, is_closed = _answers(text)
        if answers:
            return Extraction(answers[-1], self._doubt(answers, is_closed))
        return Extraction(None, "no answer" if is_closed else "unclosed")

    def _doubt(self, answers: Sequence[str], is_closed: bool) -> str | None:
        if not is_closed:
            return "unclosed"
        return "several" if len(set(map(self.canonical, answers))) > 1 else None

    def canonical(self, answer: str) -> str:
        """Return the text with white space only between letters, digits and underscores, because
        only there it separates items. RSA's code ignores all white space in votes, but 1 2 is not
        12."""
        return _BESIDE_MARKS.sub("", _BLANK.sub(" ", answer.strip()))

    def spelling(self, answers: Sequence[str]) -> str:
        """Return the most frequent spelling, because a scorer may accept only some."""
        return min(set(answers), key=lambda answer: (-answers.count(answer), len(answer), answer))

    def score(self, answer: str | None) -> float | None:
        """Score by the package's function. A missing answer scores 0, although some functions give
        0.01 for the empty text."""
        if answer is None or self.problem is None:
            return 0.0
        return task_score(self.problem.details, answer)

    @classmethod
    def claims(cls, problem: Problem, cells: Cells) -> bool:
        return _details(cells) is not None

    @classmethod
    def complete(cls, problem: Problem, cells: Cells) -> Problem:
        """Add the details. The reference answer, which only reports show, may be "": some tasks
        have several right answers."""
        details = _details(cells)
        if details is None:
            raise RowError("the row has no task", "Give question, answer and metadata of its entry")
        entry = details["entry"]
        if not isinstance(entry, Mapping) or not isinstance(entry.get("metadata"), Mapping):
            raise RowError("the entry is no object with metadata", "Correct it")
        scorer = str(details["scorer"])
        if scorer not in tasks():
            raise RowError("the task is unknown", f"{meant(scorer)}Correct it", f"{scorer!r:.40}")
        return replace(problem, answer=reference(entry), details={**details, "scorer": scorer})


def meant(name: str) -> str:
    """Return "Did you mean …? " for the name of an unknown task, or ""."""
    close = similar(name.lower(), tasks())
    return f"Did you mean {close}? " if close else ""


def reference(entry: Mapping[str, Any]) -> str:
    """Return a right answer of an entry as text, or "" if it lacks one."""
    answers = [entry.get("answer"), *map(entry["metadata"].get, _EXAMPLES)]
    answer = next((answer for answer in answers if answer is not None), "")
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _spans(text: str) -> tuple[list[tuple[int, int]], bool]:
    """Return the start and end of each answer between tags, and whether the last tag is closed.
    Copies of an instruction such as <answer>...</answer> are no answers."""
    spans: list[tuple[int, int]] = []
    start = -1
    for tag in _TAG.finditer(text):
        if not tag[1]:
            start = tag.end()
        elif start >= 0:
            if not _ECHO.fullmatch(text, start, tag.start()):
                spans.append((start, tag.start()))
            start = -1
    return spans, start < 0


def _answers(text: str) -> tuple[list[str], bool]:
    """Return the answers between tags in order, and whether the last tag is closed."""
    spans, is_closed = _spans(text)
    return [text[start:end].strip() for start, end in spans], is_closed


def _as_in_rsa(text: str) -> Extraction:
    """Read the first pair of tags of the whole output. Without one, read the text after the last
    "Final Answer:" that follows thinking."""
    _, opening, rest = text.partition(_OPEN)
    answer, closing, _ = rest.partition(_CLOSE)
    if opening and closing:
        return Extraction(answer.strip(), None)
    _, tag, after = text.partition("</think>")
    _, final, answer = after.rpartition(_FINAL)
    if tag and final:
        return Extraction(answer.strip(), None)
    return Extraction(None, "no answer")


def _details(cells: Cells) -> dict[str, Any] | None:
    """Return the details of a row: these details themselves, an entry of Reasoning Gym as the
    package exports it, or a row of the RSA repository with the entry as JSON. Return None for
    another row."""
    if "scorer" in cells and "entry" in cells:
        return {name: cells[name] for name in _DETAILS if name in cells}
    scorer = cells.get("metadata.source_dataset")
    if scorer is not None and "question" in cells:
        entry = {name: cells.get(name) for name in ("question", "answer", "metadata")}
        return {"scorer": scorer, "entry": entry}
    scorer = cells.get("extra_info.dataset_name")
    entry_text = cells.get("extra_info.entry")
    if scorer is None or entry_text is None:
        return None
    return {"scorer": scorer, "entry": _parsed(entry_text)}


def _parsed(entry: Any) -> Any:
    if not isinstance(entry, str):
        return entry
    try:
        return json.loads(entry)
    except (ValueError, RecursionError):
        return None
