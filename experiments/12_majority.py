"""Majority voting: the vote of 1, 2, 4, 8 … N samples.

Compare every scaffold with this curve.
Question: what do the same tokens give if they are spent on more samples alone?
Expected: the majority rises with every doubling, more slowly each time, and ends below pass@N.
Command: bash scripts/run.sh 12_majority
"""

from core.scaffolds.majority import MAJORITY
from core.session.run import run

N = 64  # samples; a step of the results is the vote of the first 1, 2, 4, 8 … N
MAX_TOKENS = 16384  # cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(MAJORITY, globals())
