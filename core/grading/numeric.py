"""Read answers that are numbers or formulas. The kinds integer and math share this."""

import re
from collections.abc import Mapping
from typing import ClassVar

from core.constants import LAST_NUMBER
from core.grading import sentence
from core.grading.kind import Kind
from core.grading.statements import bare_quantity, read_text, stated_formula


class Numeric(Kind):
    """A kind whose answers are numbers or formulas. `clean` is the only method that differs."""

    forms: ClassVar[Mapping[str, str]] = {
        **Kind.forms,
        LAST_NUMBER: "end with a last line that contains only the final answer, as a number.",
    }

    def clean(self, text: str) -> str | None:
        """Return a number or formula without its dress, or None if it is unreadable."""
        raise NotImplementedError

    def value(self, text: str) -> str | None:
        cleaned = self.clean(text)
        if not cleaned:
            return cleaned
        number = sentence.value_in(cleaned)
        return cleaned if number is None else self.clean(number) or cleaned

    def stated(self, text: str) -> str:
        return stated_formula(text, self.clean)

    def bare(self, text: str) -> str:
        return bare_quantity(text, self.clean)

    def number(self, text: str) -> str:
        return read_text(text, self.clean)

    def is_exact(self, answer: str) -> bool:
        return re.search(r"\d", answer) is not None and not sentence.is_prose(answer)

    def sentence(self, text: str) -> str:
        cleaned = self.clean(text)
        return cleaned if cleaned and sentence.value_in(cleaned) else ""
