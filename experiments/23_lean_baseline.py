"""Proof search in Lean: how many theorems does the policy prove, with Lean as the judge?

Question: what does best-first search with this policy solve, at how many nodes, and where does it fail?
Expected: the tiny policy of data/lean was taught proofs of up to three tactics, and finds some longer ones by search.
32 candidates in a state gave others 2 to 4 different tactics.
Command: bash scripts/run.sh 23_lean_baseline; with your own theorems: THEOREMS=FILE
"""

from labs.lean.experiments import BASELINE, baseline

THEOREMS = "auto"  # a file of {"theorems": [{"name", "statement"}]}, minif2f, or the held-out lemmas of data/lean
EVAL_THEOREMS = 500  # first of them only
MAX_NODES = 30  # tactics that Lean is sent in one search, at most; 100 with a real policy
CANDIDATES = 8  # tactics that the model is asked for in a state
BATCH = 1  # states that are expanded together: 1 is best-first to the letter
TEMPERATURE = 1.0  # of sampling tactics
INDEX = "auto"  # a control without a model: none, a pairs.jsonl, or (auto) the taught lemmas beside data/lean's
NUM_WORKERS = 2  # processes of Lean
MAX_TOKENS = 64  # cap of one tactic
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    baseline(BASELINE, globals())
