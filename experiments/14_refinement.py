"""Self-refinement: improve one solution repeatedly.

This is RSA's control with K = 1.
Question: how much of RSA's gain needs several candidates, and how much is a second look?
Expected: a gain in the first rounds, then none; below the vote of as many independent samples (12).
Command: bash scripts/run.sh 14_refinement
"""

from core.scaffolds.refinement import REFINEMENT
from core.session.run import run

N = 1  # chains side by side, voted on; 1 spends all tokens in sequence
ROUNDS = 7  # refinements after the first solution
MAX_TOKENS = 16384  # cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(REFINEMENT, globals())
