"""Expert iteration: all iterations and their table.

Question: does the rate rise over the iterations, on theorems used neither for training nor for selection?
Expected: by more than its interval against the first policy; the last iterations add less than the first.
Command: bash scripts/run.sh 25_lean_all; a trial of two minutes: SMOKE=1
"""

from labs.lean.experiments import ITERATION as ITERATIONS
from labs.lean.experiments import iterate

MAX_ITERATION = 2  # the last, counted from 0
TRAIN_THEOREMS = "auto"  # searched for training: a file, or the training lemmas of data/lean
THEOREMS = "auto"  # for evaluation: a file, or the held-out lemmas
MAX_NODES = 30  # tactics sent to Lean in one search of a held-out theorem, at most
TRAIN_NODES = 150  # the same for a training theorem
EXPLORE = "lemmas"  # tactics tried in every state of training theorems: none, lemmas, or your own
CANDIDATES = 8  # tactics requested from the model in a state
BATCH = 1  # states expanded together
TEMPERATURE = 1.0  # for sampling tactics
GUISES = 8  # copies of each pair under other names, for lemmas like data/lean's; 0: no renaming
EPOCHS = 2  # epochs of an iteration
RATE = 2e-3  # peak learning rate
NUM_WORKERS = 2  # processes of Lean
MAX_TOKENS = 64  # cap of one tactic
SKIP_BASELINE = 0  # 1: skip the search with the first policy
GO = 0  # 1: continue even if the last iteration did not improve
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    iterate(ITERATIONS, globals())
