"""Grade stored proofs by a model (`bash scripts/grade.sh`), and measure how reliable a grader is (20_grader)."""
