"""RSA at a size for one GPU.

It aggregates K of N solutions, drawn uniformly, N times, for T steps.
Question: what do T rounds of aggregation add to a population of N solutions (arXiv 2509.26626)?
Expected: mean accuracy rises step by step, past the majority vote of step 0.
The loop is the paper's; its settings are in 16_rsa_paper.
Command: bash scripts/run.sh 02_rsa_basic
"""

from core.scaffolds.rsa import RSA
from core.session.run import run

N = 8  # population: solutions kept at every step
K = 3  # subset: solutions that one aggregation sees; 1 is self-refinement
T = 5  # aggregation steps after step 0
MAX_TOKENS = 16384  # cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(RSA, globals())
