"""RSA that draws candidates with high scores more often.

The model scores its own candidates.

Question: does accuracy rise faster if RSA draws candidates by the model's own scores?
Expected: accuracy is above 02_rsa_basic in the first steps if the model distinguishes right from
wrong solutions (AUC well above 0.5). Otherwise, both experiments have about the same accuracy.
Command: bash scripts/run.sh 03_rsa_verify
"""

from harness.run import run
from harness.scaffolds.rsa_verified import RSA_VERIFIED

N = 8  # population: number of solutions at every step
K = 3  # subset: number of solutions that one aggregation sees
T = 5  # number of aggregation steps after step 0
MAX_TOKENS = 16384  # token cap of one completion, thinking included
TEMPERATURE = 0.7
# "verdict", "p_true" (without thinking), "confidence" (of the solution's tokens), or "reward" (of a
# reward model at SCORER_URL).
SCORE = "verdict"
VERIFY_TOKENS = 8192  # token cap of one verdict, thinking included (p_true: 1 token)
VERIFY_SAMPLES = 1  # number of verdicts per candidate, whose mean is the score (p_true: 1 verdict)
VERIFIER = "model"  # "model": the run's model verifies, "scorer": the model at SCORER_URL
TAU = 0.2  # temperature of the weights exp(score / TAU): score 1 weighs 148 times score 0
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(RSA_VERIFIED, globals())
