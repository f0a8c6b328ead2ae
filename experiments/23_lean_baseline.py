"""Baseline: best-first proof search in Lean.

The policy is the model that proposes tactics. A node is a tactic sent to Lean.

Question: how many theorems does best-first search prove with this policy, at how many nodes, and
where does it fail?
Expected: the tiny policy of data/lean has learnt proofs of up to three tactics. The search finds
some longer proofs. Other authors report 2 to 4 different tactics among 32 candidates for a state.
Command: bash scripts/run.sh 23_lean_baseline (for your own theorems, add THEOREMS=FILE)
"""

from labs.lean.experiments import BASELINE, baseline

# A file of {"theorems": [{"name", "statement"}]}, "minif2f", or "auto" (data/lean's held-out
# lemmas).
THEOREMS = "auto"
EVAL_THEOREMS = 500  # largest number of theorems, from the start of the file
MAX_NODES = 30  # largest number of tactics sent to Lean in one search (with a named MODEL: 100)
CANDIDATES = 8  # number of tactics requested from the model for each state
BATCH = 1  # largest number of states expanded together (1: exact best-first search)
TEMPERATURE = 1.0  # sampling temperature of tactics
# Pairs for a control without a model: "none", a pairs.jsonl, or "auto" (data/lean's if
# THEOREMS=auto).
INDEX = "auto"
NUM_WORKERS = 2  # number of Lean servers, and of parallel proof checks
MAX_TOKENS = 64  # token cap of one tactic
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    baseline(BASELINE, globals())
