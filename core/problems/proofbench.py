"""Define ProofBench (Ma et al. 2025, wenjiema02/ProofBench): 145 olympiad problems with grading schemes for proofs."""

from core.problems.published import Published

PROOFBENCH = Published(
    name="proofbench",
    repo="lm-provers/ProofBench",
    rows=145,
    licence="MIT",  # the licence of wenjiema02/ProofBench, the source (this copy's card was not checked)
    files={split: f"data/{split}-00000-of-00001.parquet" for split in ("24_25", "other")},
    columns="problem_id, problem, solution, grading_scheme and split",
    # The revision and the file names are from public code (2026-11). The hub itself was not checked.
    revision="c9ef8ca58c1711c4e3f1415755fc1a5286610c61",
)
