"""Expert iteration: all iterations and their table.

Each iteration trains the policy (the model that proposes tactics) on proofs that earlier searches
found.

Question: does the policy prove more theorems after each iteration, on a set that serves neither
training nor selection?
Expected: the last policy proves more theorems than the first one, and the confidence interval of
the gain is above 0. The last iterations add less than the first ones.
Command: bash scripts/run.sh 25_lean_all (for a trial of two minutes, add SMOKE=1)
"""

from labs.lean.experiments import ITERATION as ITERATIONS
from labs.lean.experiments import iterate

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
SKIP_BASELINE = 0  # 1: do not evaluate the first policy, so that iteration 0 reports no gain
GO = 0  # 1: continue even if the policy proves or gains too little
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    iterate(ITERATIONS, globals())
