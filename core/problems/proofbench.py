"""Define ProofBench (Ma et al. 2025, wenjiema02/ProofBench): 145 olympiad proofs, each with a grading scheme."""

from core.problems.published import Published

PROOFBENCH = Published(
    name="proofbench",
    repo="lm-provers/ProofBench",
    rows=145,
    licence="MIT",  # the licence of wenjiema02/ProofBench, the source; the card of this copy was not checked
    files={split: f"data/{split}-00000-of-00001.parquet" for split in ("24_25", "other")},
    columns="problem_id, problem, solution, grading_scheme and split",
    # From public code that pins it (2026-11), as the names of the files; not checked on the hub itself.
    revision="c9ef8ca58c1711c4e3f1415755fc1a5286610c61",
)
