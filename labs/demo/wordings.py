"""Read RSA's prompts in other words, to measure how the embedded model handles instructions that it
never saw.

An agent wrote the first eight wordings in the styles of eight authors. It saw neither the
training's grammar (labs/demo/grammar.py) nor the project's prompts. The grammar's author did not
use these wordings, with one exception. The wording "teacher" stopped an earlier model from
forgetting carries, so the grammar asks for care in many ways. The next three wordings are older
than the grammar, and the grammar's author knew them. The wording "exercise" avoids the usual words
on purpose. Another agent wrote the last ten wordings, as teachers, examiners and reviewers would.
This agent also saw neither the grammar nor the prompts."""

import tomllib
from pathlib import Path

from core import prompts

# name of a wording -> prompts of core/prompts.py, by their names there
REWORDED: dict[str, dict[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)


def use(wording: str) -> None:
    """Replace the prompts of core/prompts.py in this process."""
    for name, text in REWORDED[wording].items():
        setattr(prompts, name, text)
