"""RSA that ends a problem when its population agrees.

The experiment differs from 02_rsa_basic only in this rule. With equal constants, the two share
completions.

Question: how many tokens does 02_rsa_basic spend on problems whose answer no longer changes?
Expected: accuracy is the same as in 02_rsa_basic, with fewer tokens. Accuracy is lower if members
share an error that later steps would correct, as with the embedded model.
Command: bash scripts/run.sh 04_rsa_adaptive (after 02_rsa_basic: bash scripts/compare.sh
02_rsa_basic 04_rsa_adaptive)
"""

from harness.run import run
from harness.scaffolds.stopping import RSA_ADAPTIVE

N = 8  # population: number of solutions at every step
K = 3  # subset: number of solutions that one aggregation sees (1: self-refinement)
T = 5  # largest number of aggregation steps after step 0
STOP_WHEN_UNANIMOUS = 1  # 1: stop a problem when all N members give the same answer, 0: off
STOP_CONFIDENCE = 0.0  # least probability of a majority that stops (0.95: 7 votes of 8), or 0: off
MAX_TOKENS = 16384  # token cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(RSA_ADAPTIVE, globals())
