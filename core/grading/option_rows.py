"""Find the options, the question and the reference answer of a multiple-choice row, under the
columns that data sets use.

SHAPES lists functions that find options. Each example is in tests/core/grading/test_choice.py."""

import ast
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count, takewhile
from typing import Any

from core.base.errors import RowError
from core.base.files import storable
from core.grading.letters import LETTERS, Options
from core.grading.option_lines import spans_in
from core.types import Problem

Cells = Mapping[str, Any]

LISTS = (
    "choices",
    "options",
    "answer_choices",
    "answer_options",
    "possible_answers",
    "alternatives",
    "question.choices",
    "endings",
)
# A, B, C, … and Option A, Option B, …, also with numbers instead of letters
PREFIXES = ("", "option_", "option", "op", "opt_", "choice_", "choice", "answer_", "answer")
NUMBERED = (
    "option",
    "option_",
    "choice",
    "choice_",
    "ending",
    "ending_",
    "sol",
    "answer_",
    "answer",
    "",
)
RIGHT = "correct_answer"
WRONG = ("incorrect_answer_{}", "distractor{}", "distractor_{}")  # numbered from 1
WRONG_LIST = "incorrect_answers"
# The columns of the reference, besides the names of any answer. Numbers in INDICES count from 0.
REFERENCES = ("answerkey", "answer_key", "correct", "correct_option", "answer", RIGHT)
INDICES = ("label", "gold", "cop", "answer_index", "answer_idx", "correct_index")
QUESTIONS = ("question_stem", "question.stem", "goal", "premise")
CONTINUED = "Which option continues this text best?\n\n{}"
FILLED = "{}\n\nWhich option fills in the blank?"
TITLES = {"ctx": CONTINUED, "startphrase": CONTINUED, "sentence": FILLED}

_LABELLED = re.compile(r"\s*[(\[]?([A-Za-z])\s*[).:\]]\s*(.*)", re.DOTALL)
_LETTER = re.compile(r"\(?([A-Z])\)?\.?")


@dataclass(frozen=True)
class RowOptions:
    """The options of a row. `reference` is the right option: an index, a letter or a text, or None
    if it is missing. `labels` are the data set's names of the options, if they are not letters.
    `first` is the index of the first option.

    If `is_right_first`, the data set puts the right option first in each row. If `spans`, the
    statement shows the options at these positions."""

    options: tuple[str, ...]
    reference: Any
    labels: tuple[str, ...] = ()
    first: int = 0
    has_numbers: bool = False
    is_index: bool = False
    is_right_first: bool = False
    spans: tuple[tuple[int, int], ...] = ()


def options_in(problem: Problem, cells: Cells) -> RowOptions | None:
    """Return the options of a row, or None for another row."""
    for shape in SHAPES:
        options = shape(problem, cells)
        if options is not None:
            return options if options.is_right_first else _where_shown(options, problem.statement)
    return None


def unnamed(problem: Problem, cells: Cells) -> str:
    """Return the name of a column with several texts if the answer is a letter, or "". The texts
    may be options under an unknown name."""
    if not re.fullmatch("[A-J]", problem.answer or ""):
        return ""
    names = (name for name, cell in cells.items() if len(_texts(cell) or ()) > 1)
    return next(names, "")


def question(problem: Problem, cells: Cells) -> str:
    """Return the question of a row: its statement, or else a column of its own."""
    text = problem.statement or _first_text(cells, QUESTIONS)
    for name, title in TITLES.items():
        if not text and _text(cells.get(name)):
            text = title.format(_text(cells[name]))
    passage = _text(cells.get("text"))  # LogiQA 2.0
    is_known = passage in text or text in passage
    return text if is_known else f"{passage}\n\n{text}"


def letter_of_reference(options: RowOptions) -> str:
    """Return the letter of the right option. Raises RowError if the reference is no option, or
    could be two of them."""
    reference = options.reference
    if isinstance(reference, float) and reference.is_integer():
        reference = int(reference)
    text = _text(reference)
    letters = LETTERS[: len(options.options)]
    if text in options.labels:
        return letters[options.labels.index(text)]
    index = _index(text, options)
    is_index = options.is_index or (isinstance(reference, int) and not options.has_numbers)
    if index is not None and is_index:
        return letters[index]
    letter = _letter_in(text, options)
    candidates = set() if index is None else {letters[index]}
    candidates |= {letter} if letter else set()
    if len(candidates) > 1:
        raise RowError(
            "the answer is the index of one option, and the text of another",
            "Give the letter of the right option",
            f"{text:.40}",
        )
    if candidates:
        return candidates.pop()
    last = options.first + len(letters) - 1
    raise RowError(
        "the answer is no option",
        f"Give a letter, the text of an option, or an index from {options.first} to {last}",
        f"{text:.40}",
    )


def check_numbers(rows: Sequence[RowOptions]) -> None:
    """Raise RowError if one row's number is the text of an option, but another row's number may be
    a text or an index."""
    texts: list[str] = []
    unclear: list[str] = []
    for options in rows:
        text = _text(options.reference)
        is_number = isinstance(options.reference, (int, float)) and text not in options.labels
        if is_number and not options.is_index and text in options.options:
            index = _index(text, options)
            if index is None:
                texts.append(text)
            elif options.options[index] != text:
                unclear.append(text)
    if texts and unclear:
        raise RowError(
            f"the answer {texts[0]:.40} is the text of an option, but {unclear[0]} may be an index",
            "Give letters",
        )


def check_options(options: RowOptions) -> None:
    """Raise RowError if the options of a row are too few, too many, empty or equal."""
    texts = options.options
    if len(texts) < 2:
        raise RowError("there are fewer than 2 options", "Add the others")
    if len(texts) > len(LETTERS):
        raise RowError(f"there are more than {len(LETTERS)} options", "Leave out some")
    if not all(texts):
        raise RowError("an option is empty", "Fill it in, or leave it out")
    for number, text in enumerate(texts):
        if text in texts[:number]:
            raise RowError("two options are equal", "Change or remove one", f"{text:.40}")


def _index(text: str, options: RowOptions) -> int | None:
    """Return the position that an index names, or None."""
    if not re.fullmatch("[0-9]{1,4}", text):
        return None
    index = int(text) - options.first
    return index if 0 <= index < len(options.options) else None


def _letter_in(text: str, options: RowOptions) -> str:
    """Return the letter of the option that a text names by its letter or text, or ""."""
    readable = Options(options.options)
    if _LETTER.fullmatch(text) or text not in options.options:
        answer = readable.value(text) or ""
    else:
        answer = readable.option_of(text)
    return "" if readable.fault(answer) else answer


# --- shapes ---


def _true_or_false(problem: Problem, cells: Cells) -> RowOptions | None:
    """Find TruthfulQA's mc1_targets: {"choices": [...], "labels": [1, 0, …]}. Raises RowError."""
    texts = _texts(cells.get("mc1_targets.choices"))
    labels = cells.get("mc1_targets.labels")
    if not texts or not isinstance(labels, Sequence):
        return None
    right = [index for index, label in enumerate(labels) if label]
    if len(right) != 1:
        raise RowError("mc1_targets has not exactly one right option", "Correct its labels")
    return RowOptions(texts, right[0], is_index=True, is_right_first=True)


def _right_and_wrong(problem: Problem, cells: Cells) -> RowOptions | None:
    """Find GPQA's Correct Answer and Incorrect Answer 1 to 3, or SciQ's distractors."""
    right = _text(cells.get(RIGHT))
    wrong = _texts(cells.get(WRONG_LIST)) or ()
    for name in WRONG:
        if not wrong:
            wrong = _numbered(cells, name, 1)
    if not right or not wrong:
        return None
    return RowOptions((right, *wrong), 0, is_index=True, is_right_first=True)


def _in_list(problem: Problem, cells: Cells) -> RowOptions | None:
    """Find a list of texts, of "A) 40" or of labelled objects, {"text": [...], "label": [...]}, or
    {"A": "40", …}."""
    for name in LISTS:
        texts, labels = _listed(_parsed(cells.get(name)))
        texts_of_options = _texts(texts)
        if texts_of_options:
            has_numbers = not any(isinstance(text, str) for text in texts)
            return _with_reference(
                problem,
                cells,
                _unlabelled(texts_of_options),
                labels=_texts(labels) or (),
                has_numbers=has_numbers,
            )
    return None


def _listed(cell: Any) -> tuple[Any, Any]:
    """Return the list of options in a cell, and the list of their labels (None: letters)."""
    if isinstance(cell, Mapping):
        if "text" in cell:
            return cell["text"], cell.get("label")
        return list(cell.values()), list(cell)
    is_list = isinstance(cell, Sequence) and bool(cell)
    if not is_list or not all(isinstance(item, Mapping) for item in cell):
        return cell, None
    texts = [item.get("text") for item in cell]
    labels = [item.get("label") for item in cell]
    return texts, labels


def _in_columns(problem: Problem, cells: Cells) -> RowOptions | None:
    """Find the columns A, B, C, …, opa, opb, … or option1, option2, and so on."""
    for prefix in PREFIXES:
        names = [f"{prefix}{letter}" for letter in LETTERS.lower()]
        texts = _in_cells(cells, names)
        if len(texts) >= 2:
            options = _with_reference(problem, cells, texts)
            # a, b and c may be numbers of a problem in words
            are_numbers = len(texts) < 4 and all(re.fullmatch(r"[-\d.,/]*", text) for text in texts)
            return options if prefix or not are_numbers or _is_letter(options) else None
    for prefix in NUMBERED:
        for first in (0, 1):
            texts = _numbered(cells, prefix + "{}", first)
            if len(texts) >= 2:
                return _with_reference(problem, cells, texts, first=first)
    return None


def _in_statement(problem: Problem, cells: Cells) -> RowOptions | None:
    """Find lines such as "Option A : 40" or "A. 40" at the end of the statement, or "(A) 40 (B) 41"
    within a line. The answer must be a letter or an option."""
    spans = spans_in(problem.statement)
    texts = tuple(problem.statement[start:end] for start, end in spans)
    options = _with_reference(problem, cells, texts, spans=spans)
    reference = _text(options.reference)
    if (
        len(texts) > 2
        and reference
        and (_LETTER.fullmatch(reference) or _letter_in(reference, options))
    ):
        return options
    return options if len(texts) == 2 and _is_letter(options) else None


def _where_shown(options: RowOptions, statement: str) -> RowOptions:
    """Return the options with their places in the statement, if it shows all of them."""
    spans = spans_in(statement)
    is_shown = tuple(statement[start:end] for start, end in spans) == options.options
    return replace(options, spans=spans) if is_shown else options


def _unreadable(problem: Problem, cells: Cells) -> None:
    """Raise RowError if a row without other options has a list that can't be read. Its prompt would
    not show the options."""
    for name in LISTS:
        texts, _ = _listed(_parsed(cells.get(name)))
        if isinstance(texts, (str, list, tuple, Mapping)) and texts:
            raise RowError(
                f"the column {name!r} is not a list of texts",
                "Write its options as a list, or state the answer_type of the row",
                f"{texts!r:.40}",
            )


SHAPES: tuple[Callable[[Problem, Cells], RowOptions | None], ...] = (
    _true_or_false,
    _right_and_wrong,
    _in_list,
    _in_columns,
    _in_statement,
    _unreadable,
)


def _with_reference(
    problem: Problem, cells: Cells, texts: tuple[str, ...], **more: Any
) -> RowOptions:
    """Return the options with the reference of their row. A number in the column "label" counts
    from 0, even if the columns of the options count from 1."""
    for name in (*REFERENCES, *INDICES):
        cell = cells.get(name)
        if isinstance(cell, (list, tuple)) and len(cell) == 1:
            cell = cell[0]
        is_given = isinstance(cell, (int, float, str)) and not isinstance(cell, bool)
        if is_given and _text(cell):
            if name in INDICES:
                more |= {"first": 0, "is_index": True}
            return RowOptions(texts, cell, **more)
    return RowOptions(texts, problem.answer, **more)


def _unlabelled(texts: tuple[str, ...]) -> tuple[str, ...]:
    """Return texts without the letters of "A) 40", "B) 42" and so on, if all have them."""
    plain: list[str] = []
    for letter, text in zip(LETTERS, texts, strict=False):
        match = _LABELLED.fullmatch(text)
        if match is None or match[1].upper() != letter:
            return texts
        plain.append(match[2].strip())
    return tuple(plain) if len(plain) == len(texts) else texts


def _is_letter(options: RowOptions) -> bool:
    letter = _LETTER.fullmatch(_text(options.reference).upper())
    return letter is not None and letter[1] in LETTERS[: len(options.options)]


def _numbered(cells: Cells, name: str, first: int) -> tuple[str, ...]:
    """Return the texts of the columns with this name and the numbers from `first` on."""
    return _in_cells(cells, map(name.format, count(first)))


def _in_cells(cells: Cells, names: Iterable[str]) -> tuple[str, ...]:
    """Return the texts of the columns with these names, up to the first that is missing. Empty
    texts at the end are left out."""
    texts = [_text(cells[name]) for name in takewhile(cells.__contains__, names)]
    while texts and not texts[-1]:
        texts.pop()
    return tuple(texts)


def _parsed(cell: Any) -> Any:
    """Return the list or object that a text contains, as in CSV files, or the cell itself. A text
    may also have a line for each option."""
    if not isinstance(cell, str):
        return cell
    for parse in (json.loads, ast.literal_eval):
        with suppress(ValueError, SyntaxError, RecursionError, MemoryError):
            return parse(cell.strip())
    lines = [line for line in cell.splitlines() if line.strip()]
    return lines if len(lines) > 1 else cell


def _texts(cell: Any) -> tuple[str, ...] | None:
    """Return the texts of a list with at least one item, or None for other cells."""
    if not isinstance(cell, (list, tuple)) or not cell:
        return None
    for item in cell:
        if item is not None and not isinstance(item, (str, int, float)):
            return None
    return tuple(map(_text, cell))


def _text(cell: Any) -> str:
    if cell is None or isinstance(cell, (Mapping, list, tuple)):
        return ""
    return storable(str(cell)).strip()


def _first_text(cells: Cells, names: Sequence[str]) -> str:
    texts = (_text(cells.get(name)) for name in names)
    return next(filter(None, texts), "")
