"""Define AIME 2024 and AIME 2025 (papers I and II), whose answers are whole numbers from 0 to 999."""

import json
from dataclasses import replace

from core.base.files import DATA
from core.problems.published import TRAIN, Published
from core.types import Problem

KEY = DATA / "aime_2025_key.json"  # the known ids and answers of AIME 2025, and the revision to fetch
# Our ids by MathArena's problem_idx: 1 to 15 belong to paper I, 16 to 30 to paper II.
IDS = {str(n + 1): f"aime_2025_{'I' * (1 + n // 15)}_{n % 15 + 1}" for n in range(30)}


class Keyed(Published):
    """A problem set whose ids and reference answers must be the ids and answers in KEY."""

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        return tuple(replace(problem, id=IDS.get(problem.id, problem.id)) for problem in problems)

    def fault(self, problems: tuple[Problem, ...]) -> str:
        key = json.loads(KEY.read_text(encoding="utf-8"))["answers"]
        answers = {problem.id: problem.answer for problem in problems}
        wanted = {id_: str(answer) for id_, answer in key.items()}
        wrong = sorted(id_ for id_ in answers.keys() | wanted.keys() if answers.get(id_) != wanted.get(id_))
        return f"differs from data/{KEY.name} in the answers of {', '.join(wrong[:3])}" if wrong else ""


AIME_2024 = Published(
    name="aime_2024",
    repo="HuggingFaceH4/aime_2024",
    rows=30,
    licence=None,  # the card names no licence (its source, AI-MO/aimo-validation-aime, is Apache 2.0)
    files=TRAIN,
    revision="2fe88a2f1091d5048c0f36abc874fb997b3dd99a",
)
AIME_2025 = Keyed(
    name="aime_2025",
    repo="MathArena/aime_2025",
    rows=30,
    licence="CC BY-NC-SA 4.0",
    files=TRAIN,
    revision=json.loads(KEY.read_text(encoding="utf-8"))["revision"],
    # The hash of the copy that the tests read. It was not compared with the hub's copy.
    versions={"0ee9b2d74e151dce85dce03f4dd02ca14b66631d573cac5a4cb2bdac1c2da840": "as tested"},
)
