"""RSA with settings for one GPU.

Each of T steps writes N new solutions. For each new solution, RSA draws K of the last N solutions
and aggregates them. This is the loop of the paper with smaller settings. 16_rsa_paper has the
paper's settings.

Question: how much does each step of aggregation add to a population of N solutions (arXiv
2509.26626)?
Expected: mean accuracy rises with every step and exceeds the majority vote of step 0.
Command: bash scripts/run.sh 02_rsa_basic
"""

from core.rsa import RSA
from harness.run import run

N = 8  # population: number of solutions at every step
K = 3  # subset: number of solutions that one aggregation sees (1: self-refinement)
T = 5  # number of aggregation steps after step 0
MAX_TOKENS = 16384  # token cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(RSA, globals())
