"""Proof search in Lean: which theorems are proved?

Question: what does best-first search with this policy solve, at how many nodes, and where does it fail?
Expected: the tiny policy of data/lean has learnt proofs of up to three tactics, and finds some longer ones by search.
Others report 2 to 4 different tactics among 32 candidates in a state.
Command: bash scripts/run.sh 23_lean_baseline; with your own theorems: THEOREMS=FILE
"""

from labs.lean.experiments import BASELINE, baseline

THEOREMS = "auto"  # a file of {"theorems": [{"name", "statement"}]}, minif2f, or the held-out lemmas of data/lean
EVAL_THEOREMS = 500  # first of them only
MAX_NODES = 30  # tactics sent to Lean in one search, at most; 100 with a real policy
CANDIDATES = 8  # tactics requested from the model in a state
BATCH = 1  # states expanded together; 1 is exact best-first search
TEMPERATURE = 1.0  # for sampling tactics
INDEX = "auto"  # a control without a model: none, a pairs.jsonl, or (auto) the lemmas that data/lean was trained on
NUM_WORKERS = 2  # processes of Lean
MAX_TOKENS = 64  # cap of one tactic
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    baseline(BASELINE, globals())
