"""The harness of Nomos.

It judges many solutions with 0 to 7 points, groups the best in one call, and knocks out.
Question: what do one judgement each, a grouping by answers and a knock-out add to N solutions?
Expected: above the majority vote of the same N solutions with a good judge, as the right group need not be the largest;
below it with a poor judge.
Command: bash scripts/run.sh 07_nomos
"""

from core.scaffolds.nomos import NOMOS
from core.session.run import run

N = 16  # solutions to begin with
K = 12  # subset: best solutions that are kept, and shown to the grouping
PERFECT = 8  # perfect scores that suffice: then only perfect solutions are kept
ROUNDS = 0  # time box: waves at most, each with as many new solutions as perfect scores are missing; 0 is off
MINUTES = 0.0  # time box: no wave begins later than this; 0 is no clock
VERIFY_TOKENS = 8192  # cap of one judgement, thinking included
SELECT_TOKENS = 8192  # cap of the grouping, and of one selection between two, thinking included
MAX_TOKENS = 16384  # cap of one solution, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(NOMOS, globals())
