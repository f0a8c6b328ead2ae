"""Best of N: the model scores its own solutions.

Question: does the model judge its solutions better than their majority does?
Expected: above mean accuracy as far as verification tells right from wrong (AUC); ties cost the rest.
Command: bash scripts/run.sh 13_best_of
"""

from core.scaffolds.best_of import BEST_OF
from core.session.run import run

N = 8  # solutions to choose from
MAX_TOKENS = 16384  # cap of one completion, thinking included
VERIFY_MODE = "verdict"  # "verdict": after thinking; "p_true": P(True) of one token, with thinking closed
VERIFY_TOKENS = 8192  # cap of one verification, thinking included
VERIFY_SAMPLES = 4  # verdicts per solution, averaged: the more, the fewer ties
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(BEST_OF, globals())
