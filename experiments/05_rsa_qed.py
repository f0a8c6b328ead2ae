"""RSA as in QED-Nano's evaluation.

Each round uses every solution in exactly K merges, if none is empty. A pairwise knock-out then
selects one solution. A problem takes at most 39 completions.

Question: how much do equal use of all solutions and a final selection add to RSA?
Expected: the last population is about as accurate as 02_rsa_basic with T=3. The selected solution
is at least as accurate as the population's mean. It is more accurate than the majority vote only if
the model distinguishes right from wrong solutions.
Command: bash scripts/run.sh 05_rsa_qed
"""

from harness.run import run
from harness.scaffolds.qed_rsa import QED_RSA

N = 8  # population: number of solutions in every round
K = 3  # block: number of solutions that one merge sees, and of merges that use each solution
ROUNDS = 3  # number of rounds that merge solutions
MAX_TOKENS = 16384  # token cap of one completion, thinking included
SELECT_TOKENS = 8192  # token cap of one selection between two candidates, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(QED_RSA, globals())
