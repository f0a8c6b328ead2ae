"""Define the questions that the readers of replies ask a kind of answer.

boxed.py finds boxes and `Final:` lines, statements.py sentences, and text.py chooses among them. A
grammar tells them what the text at such a place means."""

from typing import Protocol


class Grammar(Protocol):
    """The texts that are answers of one kind. core/grading/kind.py has a default for each method.

    If `joins_boxes`, several boxes joined by commas, "and" or "or" are one answer, a list."""

    joins_boxes: bool

    def value(self, text: str) -> str | None:
        """Return the answer in the content of a box or `Final:` line, "" for a text without one,
        and None for an unreadable text."""

    def stated(self, text: str) -> str:
        """Return the answer in `text`, which follows "The answer is", or "" if it is unclear."""

    def announced(self, text: str, truncated: bool) -> list[str]:
        """Return the answers that sentences of a plain `text` announce, the last answer last."""

    def bare(self, text: str) -> str:
        """Return the answer of a reply that is nothing but its answer, or ""."""

    def number(self, text: str) -> str:
        """Return the answer that a number in a reply is, or "" (only for ANSWER=number)."""

    def canonical(self, answer: str) -> str:
        """Return the form by which votes for an answer are counted."""

    def fault(self, answer: str) -> str | None:
        """Return the doubt about an answer that can't be right (a key of DOUBTS), or None."""

    def is_exact(self, answer: str) -> bool:
        """Return whether an announced answer is clear enough to contradict an earlier box."""

    def sentence(self, text: str) -> str:
        """Return the cleaned content of a box if its answer is the only number of a sentence, else
        ""."""

    def dropped_name(self, text: str) -> str:
        """Return the name that `value` drops, such as "x" in x = 42, or ""."""
