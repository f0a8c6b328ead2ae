"""RSA that ends a problem when its population agrees.

Question: how many tokens does 02_rsa_basic spend on problems that are already settled?
Expected: the accuracy of 02 for a fraction of its tokens, but less if members share an error (so does the embedded
model). Both experiments reuse each other's completions.
Command: bash scripts/run.sh 04_rsa_adaptive, then bash scripts/compare.sh 02_rsa_basic 04_rsa_adaptive
"""

from core.scaffolds.stopping import RSA_ADAPTIVE
from core.session.run import run

N = 8  # population: solutions kept at every step
K = 3  # subset: solutions that one aggregation sees; 1 is self-refinement
T = 5  # aggregation steps after step 0, at most
STOP_WHEN_UNANIMOUS = 1  # 1: a problem ends when all N members give the same answer; 0 is off
STOP_CONFIDENCE = 0.0  # a problem ends when its leading answer holds a majority this surely (0.95: 7 of 8); 0 is off
MAX_TOKENS = 16384  # cap of one completion, thinking included
TEMPERATURE = 0.7
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(RSA_ADAPTIVE, globals())
