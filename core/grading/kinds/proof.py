"""The kind "proof": an argument without an answer that could be read or voted on. A run leaves
proofs ungraded (core/grading/ungraded.py). A model may grade them later (scripts/grade.sh)."""

from core.constants import BOXED
from core.grading.extraction import Extraction
from core.grading.kind import Cells, Kind
from core.types import PROOF, Problem

# a row with one of these columns and without a type asks for a proof
GRADED_BY = ("guidelines", "grading_scheme")


class Proof(Kind):
    name = PROOF
    is_proof = True

    def read(self, text: str, way: str = BOXED, truncated: bool = False) -> Extraction:
        return Extraction(None, None)

    @classmethod
    def claims(cls, problem: Problem, cells: Cells) -> bool:
        return bool(problem.guidelines or problem.grading_scheme)

    @classmethod
    def complete(cls, problem: Problem, cells: Cells) -> Problem:
        return problem  # a reference answer is a text for graders, of any length
