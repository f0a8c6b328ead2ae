"""ProofBench (Ma et al. 2025, wenjiema02/ProofBench): 145 problems of olympiads that ask for proofs, each with a
grading scheme; those of 2024 and 2025 are a part of their own."""

from core.problems.published import Published

PROOFBENCH = Published(
    name="proofbench",
    repo="lm-provers/ProofBench",
    rows=145,
    licence="MIT",  # of wenjiema02/ProofBench, which its problems are from; the card of this copy was not at hand
    files={
        "24_25": "data/24_25-00000-of-00001.parquet",
        "other": "data/other-00000-of-00001.parquet",
    },
    columns="problem_id, problem, solution, grading_scheme and split",
    # Read in public code that pins it (2026-11), not looked up on the hub itself; so were the names of the files.
    revision="c9ef8ca58c1711c4e3f1415755fc1a5286610c61",
)
