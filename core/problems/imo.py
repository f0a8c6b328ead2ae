"""IMO-Bench (Luong et al. 2025, arXiv 2511.01846): AnswerBench, 400 problems with short answers, and ProofBench, 60
that ask for proofs, 30 basic and 30 advanced ones."""

from dataclasses import dataclass, replace

from core.problems.published import TRAIN, Published
from core.types import Problem

# The commit and the name of the file in QED-Nano's copy could not be looked up when this was written. There are two
# versions of the set: v2 of February 2026 corrected answers. Results say which it was, by these hashes of what
# PROBLEMS=answerbench_v2.csv reads (google-deepmind/superhuman, sha256 275877a9…): ids, statements and answers.
ANSWERBENCH = Published(
    name="imo_answerbench",
    repo="lm-provers/IMOBench-FinalAnswer",
    rows=400,
    licence="CC BY 4.0",
    versions={
        "3b6b61a6a804b23b997e567feb7112bc6f7d2b897071e62cd4d2370b55188cb3": "v2",
        # As readers take the file who do not mind its missing quote (tables.py): "Algebra" is no answer.
        "0396e46f2cc484ffbac0a151672adc86cdacfa287d119bc36a0ff27e1fb7d4bd": "v2, imo-bench-algebra-036 broken",
    },
)


@dataclass(frozen=True)
class ProofBench(Published):
    """A set whose ids say which part a problem is of: PB-Basic-001, PB-Advanced-001."""

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        return tuple(replace(problem, split="".join(problem.id.split("-")[1:2])) for problem in problems)

    def fault(self, problems: tuple[Problem, ...]) -> str:
        parts = {problem.split for problem in problems}
        if not parts <= {"Basic", "Advanced"}:
            return "has ids that are not like PB-Basic-001 and PB-Advanced-001"
        return super().fault(problems)


PROOFBENCH = ProofBench(
    name="imo_proofbench",
    repo="lm-provers/IMOProofBench",
    rows=60,
    licence="CC BY 4.0",
    files=TRAIN,
    # Read in public code that pins it (2026-11), not looked up on the hub itself; so was the name of the file.
    revision="4b02dfebc3a956682398ce5847d56d0e820a758d",
    columns="Problem ID, Problem, Solution and Grading guidelines",
    # What PROBLEMS=proofbench_v2.csv reads (google-deepmind/superhuman, sha256 aa8b813d…). The hub's copy was not at
    # hand to compare it with.
    versions={"08d7521a4c3946a8dd5d956165cdd4cccb56952a661cb05647aaedc3a9a141b4": "v2"},
)
