"""Baseline: N independent samples, and their vote.

Question: how good is the model alone, and how much can choosing (pass@k) or voting (majority) add?
Expected: the majority is above pass@1, and pass@8 is above both.
Command: bash scripts/run.sh 01_baseline
"""

from core.scaffolds.rsa import BASELINE
from core.session.run import run

N = 8  # samples per problem
MAX_TOKENS = 16384  # cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(BASELINE, globals())
