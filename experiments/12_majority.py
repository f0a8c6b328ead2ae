"""Majority voting: the vote of 1, 2, 4, 8 … N samples.

Compare every scaffold with this curve.

Question: how accurate is a majority vote that spends as many tokens as a scaffold?
Expected: the accuracy of the vote rises with every doubling, each time by less. The vote of all N
samples is below pass@N.
Command: bash scripts/run.sh 12_majority
"""

from harness.run import run
from harness.scaffolds.majority import MAJORITY

N = 64  # number of samples
MAX_TOKENS = 16384  # token cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(MAJORITY, globals())
