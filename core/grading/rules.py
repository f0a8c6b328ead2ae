"""Named rules that rewrite a text. Each rule has an example, which is its test
(tests/core/grading/test_rules.py)."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Rewrite = Callable[[str], str]


@dataclass(frozen=True)
class Rule:
    """A rule that rewrites a text, with an example: a text `before` and `after` it. A rule may
    apply only to answers that keep their units, or only to answers that lose them (None: both)."""

    name: str
    before: str
    after: str
    rewrite: Rewrite
    keeps_units: bool | None = None


def replacing(pattern: str, instead: str | Callable[[re.Match[str]], str]) -> Rewrite:
    """Return a function that replaces each match of a `pattern`, as re.sub does."""
    compiled = re.compile(pattern)
    return lambda text: compiled.sub(instead, text)


def rewritten(text: str, rules: Iterable[Rule]) -> str:
    """Return `text` after all `rules`, in their order."""
    for rule in rules:
        text = rule.rewrite(text)
    return text
