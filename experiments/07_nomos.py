"""The harness of Nomos.

The harness judges many solutions with 0 to 7 points and groups the best ones in one request. A
pairwise knock-out then selects one solution of the chosen group.

Question: how much do single judgements, a grouping by answers and a knock-out add to N solutions?
Expected: with a good judge, accuracy is above the majority vote of the same N solutions, because
the right group may be small. With a poor judge, accuracy is below that vote.
Command: bash scripts/run.sh 07_nomos
"""

from harness.run import run
from harness.scaffolds.nomos import NOMOS

N = 16  # number of solutions before the first wave
K = 12  # subset: largest number of best solutions that are kept and grouped
PERFECT = 8  # number of solutions with 7 points that ends the waves (only these are kept)
ROUNDS = 0  # largest number of waves, which add solutions until PERFECT of them have 7 points
MINUTES = 0.0  # minutes per problem after which no wave begins, or 0 for no limit
VERIFY_TOKENS = 8192  # token cap of one judgement, thinking included
SELECT_TOKENS = 8192  # token cap of the grouping or one selection, thinking included
MAX_TOKENS = 16384  # token cap of one solution, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(NOMOS, globals())
