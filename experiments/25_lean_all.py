"""Expert iteration in Lean from the first policy to the last, and the table over all iterations.

Question: does the rate on theorems that nothing was trained on, and nothing was chosen by, rise over the iterations?
Expected: by more than its interval against the first policy; the last iterations add less than the first.
Command: bash scripts/run.sh 25_lean_all; a trial of two minutes: SMOKE=1
"""

from labs.lean.experiments import ITERATION as ITERATIONS
from labs.lean.experiments import iterate

MAX_ITERATION = 2  # the last, counted from 0
TRAIN_THEOREMS = "auto"  # searched to learn from: a file, or the training lemmas of data/lean
THEOREMS = "auto"  # evaluated on: a file, or the held-out lemmas
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
SKIP_BASELINE = 0  # 1: what the first policy solves is not looked at
GO = 0  # 1: goes on where the figures say no go
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    iterate(ITERATIONS, globals())
