"""Define IMO-Bench (Luong et al. 2025, arXiv 2511.01846): 400 problems with short answers, and 60 with proofs."""

from dataclasses import replace

from core.problems.published import TRAIN, Published
from core.types import Problem

# QED-Nano's authors have a copy, whose commit and file name are unknown. Version 2 (February 2026) corrected answers.
# Results name the version by these hashes of answerbench_v2.csv (google-deepmind/superhuman, 275877a9…).
ANSWERBENCH = Published(
    name="imo_answerbench",
    repo="lm-provers/IMOBench-FinalAnswer",
    rows=400,
    licence="CC BY 4.0",
    versions={
        "3b6b61a6a804b23b997e567feb7112bc6f7d2b897071e62cd4d2370b55188cb3": "v2",
        # A quote is missing in the file (rows.py), so that lenient readers take "Algebra" for an answer.
        "0396e46f2cc484ffbac0a151672adc86cdacfa287d119bc36a0ff27e1fb7d4bd": "v2, imo-bench-algebra-036 broken",
    },
)


class ProofBench(Published):
    """A problem set whose ids name the part of a problem, such as PB-Basic-001 and PB-Advanced-001."""

    def settled(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        return tuple(replace(problem, split="".join(problem.id.split("-")[1:2])) for problem in problems)


PROOFBENCH = ProofBench(
    name="imo_proofbench",
    repo="lm-provers/IMOProofBench",
    rows=60,
    licence="CC BY 4.0",
    files=TRAIN,
    revision="4b02dfebc3a956682398ce5847d56d0e820a758d",
    columns="Problem ID, Problem, Solution and Grading guidelines",
    # From proofbench_v2.csv (google-deepmind/superhuman, sha256 aa8b813d…). It was not compared with the hub's copy.
    versions={"08d7521a4c3946a8dd5d956165cdd4cccb56952a661cb05647aaedc3a9a141b4": "v2"},
)
