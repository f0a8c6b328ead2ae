"""AIME 2024 and 2025, papers I and II: whole numbers from 0 to 999. The statements stay on the hub."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from core.base.files import DATA
from core.problems.published import TRAIN, Published
from core.types import Problem

# The ids and answers that AIME 2025 must agree with, and the revision that is fetched.
KEY = DATA / "aime_2025_key.json"
# MathArena's problem_idx: 1-15 is paper I, 16-30 paper II.
IDS = {str(n + 1): f"aime_2025_{'I' * (1 + n // 15)}_{n % 15 + 1}" for n in range(30)}


@dataclass(frozen=True)
class Keyed(Published):
    """A set that is checked against a committed key, "answers" by id."""

    key: Path = KEY

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        return tuple(replace(problem, id=IDS.get(problem.id, problem.id)) for problem in problems)

    def fault(self, problems: tuple[Problem, ...]) -> str:
        key = json.loads(self.key.read_text(encoding="utf-8"))["answers"]
        found = {problem.id: problem.answer for problem in problems}
        wanted = {id_: str(answer) for id_, answer in key.items()}
        wrong = sorted(id_ for id_ in found.keys() | wanted.keys() if found.get(id_) != wanted.get(id_))
        return f"disagrees with data/{self.key.name} at {', '.join(wrong[:3])}" if wrong else ""


AIME_2024 = Published(
    name="aime_2024",
    repo="HuggingFaceH4/aime_2024",
    rows=30,
    licence=None,  # its card names none; it says that it is from AI-MO/aimo-validation-aime, which is Apache 2.0
    files=TRAIN,
    # Read on the hub's page and in public code that pins it (2026-11), not looked up on the hub itself.
    revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
)
AIME_2025 = Keyed(
    name="aime_2025",
    repo="MathArena/aime_2025",
    rows=30,
    licence="CC BY-NC-SA 4.0",
    files=TRAIN,
    revision=json.loads(KEY.read_text(encoding="utf-8"))["revision"],
    # ProblemSet.sha256 of the copy that tests read where there is one; the hub's was not at hand to compare it with.
    versions={"0ee9b2d74e151dce85dce03f4dd02ca14b66631d573cac5a4cb2bdac1c2da840": "as tested"},
)
