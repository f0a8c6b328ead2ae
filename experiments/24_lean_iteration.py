"""Expert iteration: train the policy on found proofs.

Each iteration searches for proofs. The policy (the model that proposes tactics) is trained on them,
and an energy model on the searches. The policy is then evaluated on held-out theorems.

Question: how many more held-out theorems does each iteration prove, with the same number of tactics
sent to Lean?
Expected: the tiny policy has learnt proofs of up to three tactics. With the tactics of EXPLORE, the
search finds longer proofs. After training on these proofs, the policy proves more theorems.
Command: bash scripts/run.sh 24_lean_iteration (next, add ITERATION=1, or run 25_lean_all for all
iterations)
"""

from labs.lean.experiments import ITERATION as ITERATIONS
from labs.lean.experiments import iterate

ITERATION = 0  # iteration to run, or -1 for all from 0 to MAX_ITERATION
MAX_ITERATION = 2  # number of the last iteration (the first is 0)
TRAIN_THEOREMS = "auto"  # theorems for training: a file, or "auto" (training lemmas of data/lean)
THEOREMS = "auto"  # theorems of the evaluation: a file, "minif2f", or "auto" (held-out lemmas)
MAX_NODES = 30  # largest number of tactics sent to Lean in the search of a held-out theorem
TRAIN_NODES = 150  # largest number of tactics sent to Lean in the search of a training theorem
# More tactics for every state of training theorems: "none", "lemmas", or your own joined by ";".
EXPLORE = "lemmas"
CANDIDATES = 8  # number of tactics requested from the model for each state
BATCH = 1  # largest number of states expanded together
TEMPERATURE = 1.0  # sampling temperature of tactics
GUISES = 8  # number of renamed copies of each training pair, or 0 for no renaming
EPOCHS = 2  # number of training epochs in an iteration
RATE = 2e-3  # peak learning rate
NUM_WORKERS = 2  # number of Lean servers, and of parallel proof checks
MAX_TOKENS = 64  # token cap of one tactic
GO = 0  # 1: continue even if the policy proves or gains too little
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    iterate(ITERATIONS, globals())
