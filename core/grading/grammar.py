"""Define how the readers of replies understand a text, apart from the kind of answer.

boxed.py finds boxes and `Final:` lines, statements.py sentences, and text.py chooses among them. A
grammar tells them the meaning of the text in such a place."""

from typing import ClassVar

from core.grading import statements


class Grammar:
    """The meaning of texts in a reply. By default, every text in a box is an answer.

    If `joins_boxes`, several boxes joined by commas, "and" or "or" are one answer, a list."""

    joins_boxes: ClassVar[bool] = False

    def value(self, text: str) -> str | None:
        """Return the answer in the content of a box or `Final:` line, "" for a text without one,
        and None for an unreadable text."""
        return text.strip()

    def stated(self, text: str) -> str:
        """Return the answer in `text`, which follows "The answer is", or "" if it is unclear."""
        return self.value(text) or ""

    def announced(self, text: str, truncated: bool) -> list[str]:
        """Return the answers that sentences of a plain `text` announce, the last answer last."""
        return statements.announced(text, self.stated, truncated)

    def bare(self, text: str) -> str:
        """Return the answer of a reply that is nothing but its answer, or ""."""
        return ""

    def number(self, text: str) -> str:
        """Return the answer that a number in a reply is, or "" (only for ANSWER=number)."""
        return ""

    def canonical(self, answer: str) -> str:
        """Return the form by which votes for an answer are counted."""
        return self.value(answer) or answer

    def fault(self, answer: str) -> str | None:
        """Return the doubt about an answer that can't be right (a key of DOUBTS), or None."""
        return None

    def is_exact(self, answer: str) -> bool:
        """Return whether an announced answer is clear enough to contradict an earlier box."""
        return True

    def sentence(self, text: str) -> str:
        """Return the cleaned content of a box if its answer is the only number of a sentence, else
        ""."""
        return ""

    def dropped_name(self, text: str) -> str:
        """Return the name that `value` drops, such as "x" in x = 42, or ""."""
        return ""
