"""Step-wise best of N: sample N next steps, score each, and continue the best.

The model writes without thinking. A server that can't continue a begun answer is refused.

Question: does choosing each step gain more than choosing among whole solutions (13_best_of) at
equal tokens?
Expected: accuracy is above 13_best_of if the model sees a wrong step when it is written. A step is
cheaper than a solution, so one wrong step costs less. The embedded model sees wrong lines by
design.
Command: bash scripts/run.sh 28_stepwise
"""

from harness.run import run
from harness.scaffolds.stepwise import STEPWISE

N = 4  # number of next steps to choose from
BEAM = 1  # number of partial solutions that are continued. They share the N next steps
STEPS = 32  # largest number of steps of a solution
# Unit of a step: "line", or "paragraph" (up to a blank line) for models that write in paragraphs.
STEP = "line"
MAX_TOKENS = 512  # token cap of one step
# "points": 0 to 7 for the steps so far, "verdict": whether they are right, "p_true": P(True),
# "confidence": of the step's tokens, "reward": of a reward model at SCORER_URL.
SCORE = "points"
STEP_SCORES = "last"  # a solution's score: the "last", "min", "prod" or "mean" of its steps' scores
VERIFY_TOKENS = 8192  # token cap of one judgement, thinking included (p_true: 1 token)
VERIFY_SAMPLES = 1  # number of judgements of a step (p_true: 1). Their mean is the score
VERIFIER = "model"  # "model": the run's model verifies, "scorer": the model at SCORER_URL
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(STEPWISE, globals())
