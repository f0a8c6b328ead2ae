"""Self-check: review and correct until reviews pass.

The model solves the problem and improves the solution once. Each round then reviews the solution,
and corrects it if the review rejects it. Set CLASSIFY=0 for a model that can judge a solution but
not a review.

Question: does the model find its own mistakes if it reviews as a strict examiner (arXiv
2507.15855)?
Expected: accuracy is above 14_refinement if reviews distinguish right from wrong solutions.
Otherwise, accuracy is about the same, at a higher cost in tokens.
Command: bash scripts/run.sh 09_selfcheck
"""

from harness.run import run
from harness.scaffolds.selfcheck import SELFCHECK

CLASSIFY = 1  # 1: a second request decides whether a review accepts, 0: the review's verdict does
ROUNDS = 30  # largest number of reviews, each with a correction if it rejects the solution
PASSES = 5  # number of accepting reviews in a row that end the loop
FAILURES = 10  # number of rejecting reviews in a row that end the loop
MAX_TOKENS = 16384  # token cap of one completion, thinking included
VERIFY_TOKENS = 8192  # token cap of one review or classification, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # "auto" (the model's own set), a name, hub:owner/name, gym:task, or a path
LIMIT = 0  # number of problems, from the start of the set, or 0 for all
SEED = 0  # seed of the run's random draws and of its requests

if __name__ == "__main__":
    run(SELFCHECK, globals())
