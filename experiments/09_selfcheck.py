"""Self-check: review and correct until reviews pass.

It solves, improves, then reviews, classifies the review and corrects.
Question: does the model find its own mistakes when it reviews as an examiner (arXiv 2507.15855)?
Expected: above self-refinement (14) if reviews tell right from wrong; else equal, for more tokens.
Set CLASSIFY=0 for a model that can judge a solution but not a review.
Command: bash scripts/run.sh 09_selfcheck
"""

from core.scaffolds.selfcheck import SELFCHECK
from core.session.run import run

CLASSIFY = 1  # 1: a second request says whether a review accepts; 0: the review's own last line does
ROUNDS = 30  # reviews at most, each followed by a correction if it fails
PASSES = 5  # reviews passed in a row accept the solution
FAILURES = 10  # reviews failed in a row end the attempt; the newest solution is the answer
MAX_TOKENS = 16384  # cap of one completion, thinking included
VERIFY_TOKENS = 8192  # cap of one review, and of its classification, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(SELFCHECK, globals())
