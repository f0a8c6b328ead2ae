"""Best of N: the model scores its own solutions.

Question: does the model choose a right solution more often than the majority vote does?
Expected: accuracy is above the mean of the samples if the model distinguishes right from wrong
solutions (AUC above 0.5). Ties between scores reduce the gain.
Command: bash scripts/run.sh 13_best_of
"""

from harness.run import run
from harness.scaffolds.best_of import BEST_OF

N = 8  # number of solutions to choose from
MAX_TOKENS = 16384  # token cap of one completion, thinking included
# "verdict", "p_true" (without thinking), "confidence" (of the solution's tokens), or "reward" (of a
# reward model at SCORER_URL).
SCORE = "verdict"
VERIFY_TOKENS = 8192  # token cap of one verdict, thinking included (p_true: 1 token)
VERIFY_SAMPLES = 4  # verdicts per solution (p_true: 1). Their mean is the score (more: fewer ties)
CHOOSE = "best"  # "best" score, or "weighted_vote": the answer with the largest sum of scores
DROP = 0.0  # share of solutions, with the lowest scores, that has no weighted vote
VERIFIER = "model"  # "model": the run's model verifies, "scorer": the model at SCORER_URL
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(BEST_OF, globals())
