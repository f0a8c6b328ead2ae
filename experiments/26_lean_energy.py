"""Proof search in four orders at equal nodes: log probability alone, with the energy, the energy alone, at random.

Question: given one policy and its energy, does the energy order the frontier better than log probability does?
Expected: where few tactics are proposed the frontier empties and no order matters. With EXPLORE there is a choice to
make. Try LENGTH_NORMALISED=1 too: what an energy gains on summed log probabilities their mean may gain as well.
Command: bash scripts/run.sh 26_lean_energy ITERATION=2, after 25_lean_all
"""

from labs.lean.experiments import ABLATION, ablate

ITERATION = 0  # whose policy and energy
THEOREMS = "auto"  # a file of {"theorems": [{"name", "statement"}]}, or the held-out lemmas of data/lean
MAX_NODES = 60  # tactics that Lean is sent in one search, at most
EXPLORE = "lemmas"  # tactics tried in every state, besides the model's: none, lemmas, or your own
ALPHA = 0.5  # weight of log probability against energy in "both"
CANDIDATES = 8  # tactics that the model is asked for in a state
BATCH = 1  # states that are expanded together: 1 is best-first to the letter
TEMPERATURE = 1.0  # of sampling tactics
SEEDS = 3  # searches of each theorem in each order
NUM_WORKERS = 2  # processes of Lean
MAX_TOKENS = 64  # cap of one tactic
SEED = 0  # of the first

if __name__ == "__main__":
    ablate(ABLATION, globals())
