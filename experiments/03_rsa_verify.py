"""RSA that draws better-scored candidates more often.

The model scores the candidates itself.
Question: does the model's own verdict make aggregation improve faster than uniform drawing?
Expected: ahead of 02 in the first steps if verification tells right from wrong (AUC well above 0.5), else equal.
Command: bash scripts/run.sh 03_rsa_verify
"""

from core.scaffolds.rsa_verified import RSA_VERIFIED
from core.session.run import run

N = 8  # population: solutions kept at every step
K = 3  # subset: solutions that one aggregation sees
T = 5  # aggregation steps after step 0
MAX_TOKENS = 16384  # cap of one completion, thinking included
TEMPERATURE = 0.7
VERIFY_MODE = "verdict"  # "verdict": after thinking; "p_true": P(True) of one token, with thinking closed
VERIFY_TOKENS = 8192  # cap of one verification, thinking included
VERIFY_SAMPLES = 1  # verdicts per candidate, averaged
TAU = 0.2  # Boltzmann: weights exp(score / TAU); score 1 is e^5 = 148 times as likely as score 0
PROBLEMS = "auto"  # the model's own set; or a name, hub:owner/name, or the path of a file
LIMIT = 0  # first problems only; 0 is all
SEED = 0  # run seed: all randomness follows from it

if __name__ == "__main__":
    run(RSA_VERIFIED, globals())
