"""Define GSM8K (test split) and SVAMP: word problems from grade school, whose answers are numbers.

columns.py reads their references: "#### 1,234" is 1234, 35.0 is 35, and SVAMP's Body precedes its Question."""

import re
from dataclasses import replace

from core.problems.published import Published
from core.types import Problem


class WordProblems(Published):
    """A problem set whose ids may end with a number ("chal-12"), which orders the problems."""

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        ordered = sorted(problems, key=lambda problem: int((re.findall(r"[0-9]{1,9}\Z", problem.id) or [0])[0]))
        return tuple(replace(problem, split=str(problem.columns.get("split") or "")) for problem in ordered)


GSM8K = WordProblems(
    name="gsm8k",
    repo="openai/gsm8k",
    rows=1319,
    licence="MIT",
    files={"": "main/test-00000-of-00001.parquet"},
    revision="740312add88f781978c0658806c59bc2815b9866",
    versions={"35687a202d792cde3af46b7b06f73a5c95609ce66de720236d3fee6b41924c72": "as published"},  # of test.jsonl
    columns="question and answer",
)
SVAMP = WordProblems(
    name="svamp",
    repo="ChilleD/SVAMP",
    rows=1000,
    licence="MIT",
    # The project's own SVAMP.json has the same 1,000 problems in one file, without splits.
    files={"train": "train.json", "test": "test.json"},
    revision="5e0bf1e5e7c0e9c4bc39180d224f41f3f801b7ef",
    versions={"a38cb41ee1ecc830cb28a4fe4501790d7d7c67db2f0d66fe342669c8b0cadad6": "as published"},  # of SVAMP.json
    columns="ID, Body, Question and Answer",
)
