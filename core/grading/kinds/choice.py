r"""The kind "choice": one of several options, which a prompt shows with letters.

The answer is a letter. A reply may also name the text of an option (core/grading/letters.py). The
options are in `details`: {"options": ["12", "24", "42"]}. core/grading/option_rows.py reads them
from the columns of a row. Shuffled options also have the "order" of the published positions."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar

from core.base import seeds
from core.base.errors import RowError
from core.constants import BOXED, TEXT
from core.grading import letter_sentences, option_lines, option_rows
from core.grading.extraction import Extraction
from core.grading.kind import Cells, Kind
from core.grading.letters import LETTERS, Options, letter_of
from core.types import Problem

# Options that mention each other, such as "Both A and B" or "None of the above", stay in order.
_MENTIONS = re.compile(
    r"(?i:\b(?:above|below|both|neither|either|(?:all|none) of (?:these|the|them))\b)"
    r"|\b[A-J],? (?:and|or|&) [A-J]\b|(?i:\b(?:option|choice|answer)s? )[A-J]\b"
)


@lru_cache(64)
def _options(texts: tuple[str, ...]) -> Options:
    return Options(texts)


class Choice(Kind):
    name = "choice"
    joins_boxes = True
    forms: ClassVar[Mapping[str, str]] = {
        BOXED: "put the letter of the right option in \\boxed{}.",
        TEXT: 'end with a last line "The answer is …" that states the letter of the right option.',
    }

    def __init__(self, problem: Problem | None = None) -> None:
        super().__init__(problem)
        texts = problem.details.get("options", ()) if problem else ()
        self.options = _options(tuple(texts))

    def read(self, text: str, way: str = BOXED, truncated: bool = False) -> Extraction:
        extraction = super().read(text, way, truncated)
        if extraction.answer is None:
            return extraction
        return replace(extraction, answer=letter_of(extraction.answer))

    def value(self, text: str) -> str | None:
        return self.options.value(text)

    def announced(self, text: str, truncated: bool) -> list[str]:
        return letter_sentences.announced(text, self.options, truncated)

    def bare(self, text: str) -> str:
        return letter_sentences.own_line(text, self.options)

    def canonical(self, answer: str) -> str:
        return letter_of(super().canonical(answer))

    def fault(self, answer: str) -> str | None:
        return self.options.fault(answer)

    @classmethod
    def claims(cls, problem: Problem, cells: Cells) -> bool:
        has_options = option_rows.options_in(problem, cells) is not None
        return has_options or option_rows.unnamed(problem, cells) != ""

    @classmethod
    def complete(cls, problem: Problem, cells: Cells) -> Problem:
        """Return the problem whose statement shows the options, with the letter of the right one.
        If the data set always puts the right option first, the problem's id decides the order.
        Raises RowError."""
        row = option_rows.options_in(problem, cells)
        if row is None:
            raise _without_options(option_rows.unnamed(problem, cells))
        option_rows.check_options(row)
        answer = None if row.reference is None else option_rows.letter_of_reference(row)
        texts = list(row.options)
        if row.is_right_first:
            order = _order(len(texts), problem.id)
            texts = [texts[position] for position in order]
            answer = _moved(answer, order)
        statement = problem.statement
        if not row.spans:
            question = option_rows.question(problem, cells)
            lines = option_lines.lines_of(texts)
            is_shown = not question or question.endswith(lines)
            statement = question if is_shown else f"{question}\n\n{lines}"
        return replace(
            problem,
            statement=statement,
            answer=answer,
            answer_type=cls.name,
            details={"options": texts},
        )

    @classmethod
    def check_together(cls, rows: Sequence[tuple[Problem, Cells]]) -> None:
        """Raise RowError if numbers are indices in some rows, and texts of options in others."""
        options = (option_rows.options_in(problem, cells) for problem, cells in rows)
        option_rows.check_numbers(list(filter(None, options)))

    @classmethod
    def shuffled(cls, problem: Problem, seed: int) -> Problem:
        options = problem.details.get("options", ())
        if any(map(_MENTIONS.search, options)):
            return problem
        return _ordered(problem, _order(len(options), seed, problem.id))

    @classmethod
    def published(cls, problem: Problem) -> Problem:
        order = problem.details.get("order")
        if not order:
            return problem
        inverse = sorted(range(len(order)), key=order.__getitem__)
        restored = _ordered(problem, inverse)
        return replace(restored, details={"options": restored.details["options"]})


def _without_options(name: str) -> RowError:
    """Return the error of a row without options. The column `name` ("": none) may have them."""
    if not name:
        return RowError("no column has options", "Add the column choices, a list of texts")
    return RowError(
        f"the answer is a letter, and the column {name!r:.40} may be its options",
        'Rename this column to choices, or add the column answer_type with "math"',
    )


def _order(length: int, *names: str | int) -> list[int]:
    """Draw an order of the published positions, seeded with `names`."""
    order: list[int] = seeds.rng("options", *names).permutation(length).tolist()
    return order


def _ordered(problem: Problem, order: Sequence[int]) -> Problem:
    """Return the problem with its options in the given order."""
    texts = [problem.details["options"][position] for position in order]
    return replace(
        problem,
        statement=option_lines.statement_with(problem, texts),
        answer=_moved(problem.answer, order),
        details={"options": texts, "order": list(order)},
    )


def _moved(answer: str | None, order: Sequence[int]) -> str | None:
    """Return the letter of the right option after its move."""
    return None if answer is None else LETTERS[order.index(LETTERS.index(answer))]


def published_answer(answer: str | None, details: Mapping[str, Any]) -> str | None:
    """Return the reference answer before the options in `details` were shuffled."""
    order = details.get("order")
    return LETTERS[order[LETTERS.index(answer)]] if order and answer else answer
