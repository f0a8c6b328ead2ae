"""One policy's searches in four orders at equal nodes.

The orders are log probability, the energy, both, and random.
Question: given one policy and its energy, does the energy order the frontier better than log probability does?
Expected: with few proposed tactics, the frontier empties and no order matters. EXPLORE adds more of them. Try
LENGTH_NORMALISED=1 too: mean log probabilities may gain as much over their sum as an energy does.
Command: bash scripts/run.sh 26_lean_energy ITERATION=2, after 25_lean_all
"""

from labs.lean.experiments import ABLATION, ablate

ITERATION = 0  # of the policy and the energy
THEOREMS = "auto"  # a file of {"theorems": [{"name", "statement"}]}, or the held-out lemmas of data/lean
MAX_NODES = 60  # tactics sent to Lean in one search, at most
EXPLORE = "lemmas"  # tactics tried in every state besides the model's: none, lemmas, or your own
ALPHA = 0.5  # weight of log probability against energy in "both"
CANDIDATES = 8  # tactics requested from the model in a state
BATCH = 1  # states expanded together; 1 is exact best-first search
TEMPERATURE = 1.0  # for sampling tactics
SEEDS = 3  # searches of each theorem in each order
NUM_WORKERS = 2  # processes of Lean
MAX_TOKENS = 64  # cap of one tactic
SEED = 0  # of the first search

if __name__ == "__main__":
    ablate(ABLATION, globals())
