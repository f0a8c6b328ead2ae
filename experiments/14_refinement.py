"""Self-refinement: improve one solution repeatedly.

With N = 1, this is RSA with N = K = 1. The RSA paper uses RSA with K = 1 as a control.

Question: how much of RSA's gain needs several candidates, and how much comes from a second look at
one solution?
Expected: accuracy rises in the first rounds only. Accuracy stays below the majority vote of as many
independent samples (12_majority).
Command: bash scripts/run.sh 14_refinement
"""

from harness.run import run
from harness.scaffolds.refinement import REFINEMENT

N = 1  # number of independent chains (the majority of their answers wins)
ROUNDS = 7  # number of refinements of the first solution
MAX_TOKENS = 16384  # token cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(REFINEMENT, globals())
