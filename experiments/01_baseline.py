"""Baseline: independent samples and their majority vote.

Question: how good is the model alone, and how much can a majority vote or an ideal choice (pass@k)
add?
Expected: the majority vote is above pass@1, and pass@8 is above the majority vote.
Command: bash scripts/run.sh 01_baseline
"""

from core.rsa import BASELINE
from harness.run import run

N = 8  # number of samples per problem
MAX_TOKENS = 16384  # token cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(BASELINE, globals())
