"""Let a model grade stored proofs (`bash scripts/grade.sh`), and measure how reliable a grader is
(20_grader)."""
