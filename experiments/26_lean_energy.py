"""Proof search in four orders at equal nodes.

The search orders the open states by log probability, by energy, by both, or at random. The energy
model has learnt to give states near a proof a low energy. All searches use the same policy, which
proposes the tactics.

Question: does the energy order the open states better than log probability does?
Expected: if the policy proposes few tactics, no open states are left and the order does not matter.
EXPLORE adds tactics. Also try LENGTH_NORMALISED=1: mean log probabilities may gain as much over
summed ones as the energy does.
Command: bash scripts/run.sh 26_lean_energy ITERATION=2 (after 25_lean_all)
"""

from labs.lean.experiments import ABLATION, ablate

ITERATION = 0  # iteration whose policy and energy are used
# A file of {"theorems": [{"name", "statement"}]}, "minif2f", or "auto" (data/lean's held-out
# lemmas).
THEOREMS = "auto"
MAX_NODES = 60  # largest number of tactics sent to Lean in one search
EXPLORE = "lemmas"  # more tactics for every state: "none", "lemmas", or your own joined by ";"
ALPHA = 0.5  # weight of log probability against energy in "both"
CANDIDATES = 8  # number of tactics requested from the model for each state
BATCH = 1  # largest number of states expanded together (1: exact best-first search)
TEMPERATURE = 1.0  # sampling temperature of tactics
SEEDS = 3  # number of searches of each theorem in each order
NUM_WORKERS = 2  # number of Lean servers, and of parallel proof checks
MAX_TOKENS = 64  # token cap of one tactic
SEED = 0  # seed of the first search of each theorem in each order

if __name__ == "__main__":
    ablate(ABLATION, globals())
