r"""The kind "choice": one of several options, which a prompt shows with letters.

The answer is a letter. A reply may also name the text of an option (core/grading/letters.py). The
options are in `details`: {"options": ["12", "24", "42"]}. core/grading/option_rows.py reads them
from the columns of a row."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import ClassVar

from core.constants import BOXED, LAST_NUMBER, TEXT
from core.grading import letter_sentences
from core.grading.extraction import Extraction
from core.grading.kind import Kind
from core.grading.letters import Options, letter_of
from core.types import Problem


@lru_cache(64)
def _options(texts: tuple[str, ...]) -> Options:
    return Options(texts)


class Choice(Kind):
    name = "choice"
    forms: ClassVar[Mapping[str, str]] = {
        BOXED: "put the letter of the right option in \\boxed{}.",
        TEXT: 'end with a last line "The answer is …" that states the letter of the right option.',
        LAST_NUMBER: "end with a last line that contains only the letter of the right option.",
    }

    def __init__(self, problem: Problem | None = None) -> None:
        super().__init__(problem)
        texts = problem.details.get("options", ()) if problem else ()
        self.options = _options(tuple(texts))

    def read(self, text: str, way: str = BOXED, truncated: bool = False) -> Extraction:
        """Read the letter of a reply. The form "number" is read like "text"."""
        way = TEXT if way == LAST_NUMBER else way
        extraction = super().read(text, way, truncated)
        if extraction.answer is None:
            return extraction
        return replace(extraction, answer=letter_of(extraction.answer))

    def value(self, text: str) -> str | None:
        return self.options.value(text)

    def announced(self, text: str, truncated: bool) -> list[str]:
        return letter_sentences.announced(text, self.options, truncated)

    def bare(self, text: str) -> str:
        return letter_sentences.last_line(text, self.options)

    def canonical(self, answer: str) -> str:
        return letter_of(answer)

    def fault(self, answer: str) -> str | None:
        return self.options.fault(answer)
