"""Define AIME 2024 and 2025, papers I and II: answers are whole numbers from 0 to 999. The hub has the statements."""

import json
from dataclasses import replace

from core.base.files import DATA
from core.problems.published import TRAIN, Published
from core.types import Problem

# The ids and answers of AIME 2025 to check against, and the revision to fetch.
KEY = DATA / "aime_2025_key.json"
# MathArena's problem_idx: 1-15 is paper I, 16-30 paper II.
IDS = {str(n + 1): f"aime_2025_{'I' * (1 + n // 15)}_{n % 15 + 1}" for n in range(30)}


class Keyed(Published):
    """A set that is checked against the answers in KEY."""

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        return tuple(replace(problem, id=IDS.get(problem.id, problem.id)) for problem in problems)

    def fault(self, problems: tuple[Problem, ...]) -> str:
        key = json.loads(KEY.read_text(encoding="utf-8"))["answers"]
        answers = {problem.id: problem.answer for problem in problems}
        wanted = {id_: str(answer) for id_, answer in key.items()}
        wrong = sorted(id_ for id_ in answers.keys() | wanted.keys() if answers.get(id_) != wanted.get(id_))
        return f"disagrees with data/{KEY.name} at {', '.join(wrong[:3])}" if wrong else ""


AIME_2024 = Published(
    name="aime_2024",
    repo="HuggingFaceH4/aime_2024",
    rows=30,
    licence=None,  # the card names none, and AI-MO/aimo-validation-aime, its source, is Apache 2.0
    files=TRAIN,
    # From the hub's page and public code that pins it (2026-11), not checked on the hub itself.
    revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
)
AIME_2025 = Keyed(
    name="aime_2025",
    repo="MathArena/aime_2025",
    rows=30,
    licence="CC BY-NC-SA 4.0",
    files=TRAIN,
    revision=json.loads(KEY.read_text(encoding="utf-8"))["revision"],
    # The copy that tests read, if present; not compared with the hub's.
    versions={"0ee9b2d74e151dce85dce03f4dd02ca14b66631d573cac5a4cb2bdac1c2da840": "as tested"},
)
