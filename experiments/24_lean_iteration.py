"""Expert iteration: train the policy on found proofs.

Question: how far does the rate on held-out theorems rise, iteration by iteration, at equal nodes, paired?
Expected: the tiny policy has learnt proofs of up to three tactics. Search and EXPLORE find longer ones. Training on
those lets it prove more.
Command: bash scripts/run.sh 24_lean_iteration; the next: ITERATION=1; all of them: 25_lean_all
"""

from labs.lean.experiments import ITERATION as ITERATIONS
from labs.lean.experiments import iterate

ITERATION = 0  # the iteration to run; -1: all from 0 up to MAX_ITERATION
MAX_ITERATION = 2  # the last, counted from 0
TRAIN_THEOREMS = "auto"  # searched for training: a file, or the training lemmas of data/lean
THEOREMS = "auto"  # for evaluation: a file, minif2f, or the held-out lemmas
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
GO = 0  # 1: continue even if the last iteration did not improve
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    iterate(ITERATIONS, globals())
