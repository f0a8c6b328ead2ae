"""Expert iteration in Lean: does a policy get better by training on the proofs that its own searches found?

Question: how far does the rate on held-out theorems rise, iteration by iteration, at equal nodes, paired?
Expected: the tiny policy was taught proofs of up to three tactics. What it finds by search, and by EXPLORE, are longer
ones, and trained on them it proves more.
Command: bash scripts/run.sh 24_lean_iteration; the next: ITERATION=1; all of them: 25_lean_all
"""

from labs.lean.experiments import ITERATION as ITERATIONS
from labs.lean.experiments import iterate

ITERATION = 0  # the one to run; -1: all from 0 up to MAX_ITERATION
MAX_ITERATION = 2  # the last, counted from 0
TRAIN_THEOREMS = "auto"  # searched to learn from: a file, or the training lemmas of data/lean
THEOREMS = "auto"  # evaluated on: a file, minif2f, or the held-out lemmas
MAX_NODES = 30  # tactics that Lean is sent in one search of a held-out theorem, at most
TRAIN_NODES = 150  # the same of one to learn from
EXPLORE = "lemmas"  # tactics tried in every state of these, besides the model's: none, lemmas, or your own
CANDIDATES = 8  # tactics that the model is asked for in a state
BATCH = 1  # states that are expanded together
TEMPERATURE = 1.0  # of sampling tactics
GUISES = 8  # copies of each pair under other names, for lemmas such as those of data/lean; 0: as it is
EPOCHS = 2  # times that an iteration trains on each of these
RATE = 2e-3  # peak learning rate
NUM_WORKERS = 2  # processes of Lean
MAX_TOKENS = 64  # cap of one tactic
GO = 0  # 1: goes on where the figures say no go
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    iterate(ITERATIONS, globals())
